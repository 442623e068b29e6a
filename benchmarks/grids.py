"""Which sizes each table is measured on."""

from __future__ import annotations

from itertools import product

from .tables import Grid

__all__ = ["FULL", "QUICK"]

_COMMON: Grid = [
    (10**4, 10**5, 64, "float32", "uniform"),
    (10**6, 10**5, 64, "float32", "uniform"),
    (10**6, 10**5, 1, "float32", "uniform"),
]
_SKEWED: Grid = [(10**6, 10**5, 64, "float32", "Zipf 1.1")]
_SPOT: Grid = [(10**6, 10**5, 64, dtype, "uniform") for dtype in ("float64", "float16")]


def _all(sizes: tuple[int, ...], entries: tuple[int, ...], widths: tuple[int, ...]) -> Grid:
    """Every combination that stays below 1 GiB."""
    every = product(sizes, entries, widths, ("float32",), ("uniform", "Zipf 1.1"))
    return [cell for cell in every if max(cell[0], cell[1]) * cell[2] * 4 <= 2**30]


_ENTRIES, _WIDTHS = (10**3, 10**4, 10**5, 10**6), (1, 16, 64, 256)

QUICK: dict[str, Grid] = {
    "densify": _COMMON + _SKEWED,
    "add_into": [*_COMMON, (10**6, 10**3, 64, "float32", "uniform")],
    "coalesce": _COMMON + _SKEWED,
    "accumulate": _COMMON[1:2],
    "gather": _COMMON[1:],
    "multiply": _COMMON[1:2],
    "norm": _COMMON[1:2],
    "crossover": [(10**5, n, 64, "float32", "uniform") for n in (10**2, 10**4, 10**5)],
}
FULL: dict[str, Grid] = {
    "densify": _all((10**4, 10**6), _ENTRIES, _WIDTHS) + _SPOT,
    "add_into": _all((10**4, 10**6, 10**7), _ENTRIES, _WIDTHS) + _SPOT,
    "coalesce": _all((10**4, 10**6), _ENTRIES, _WIDTHS) + _SPOT,
    "accumulate": _all((10**4, 10**6), (10**4, 10**5), (1, 64)),
    "gather": _all((10**4, 10**6), _ENTRIES[1:], _WIDTHS),
    "multiply": _all((10**4, 10**6), _ENTRIES[1:], (16, 64)),
    "norm": _all((10**4, 10**6), _ENTRIES[1:], (16, 64)),
    "crossover": [(10**5, n, 64, "float32", "uniform") for n in (10**2, 10**3, 10**4, 3 * 10**4, 10**5, 3 * 10**5)],
}
