"""Which sizes each table is measured on. The full set is cut so that one core is done in about 25 minutes."""

from __future__ import annotations

from itertools import product

from .inputs import Grid

__all__ = ["FULL", "GUARD", "QUICK"]

_COMMON: Grid = [
    (10**4, 10**5, 64, "float32", "uniform"),
    (10**6, 10**5, 64, "float32", "uniform"),
    (10**6, 10**5, 1, "float32", "uniform"),
]
_SKEWED: Grid = [(10**6, 10**5, 64, "float32", "Zipf 1.1")]
_SPOT: Grid = [(10**6, 10**5, 16, dtype, "uniform") for dtype in ("float64", "float16", "bfloat16")]
_LARGEST = 2**28
"""Elements of a table of which several must fit into memory: 1 GiB of float32."""


def _all(sizes: tuple[int, ...], entries: tuple[int, ...], widths: tuple[int, ...], skew: str = "uniform") -> Grid:
    every = product(sizes, entries, widths, ("float32",), (skew,))
    return [cell for cell in every if max(cell[0], cell[1]) * cell[2] < _LARGEST]


_SIZES, _ENTRIES, _WIDTHS = (10**4, 10**6), (10**3, 10**4, 10**5, 10**6), (1, 16, 64)
_SUMS: Grid = [
    *_all(_SIZES, _ENTRIES, _WIDTHS),
    *_all(_SIZES[:1], _ENTRIES[:3], (256,)),
    (10**6, 10**5, 256, "float32", "uniform"),
    *_all(_SIZES, _ENTRIES[2:], _WIDTHS, "Zipf 1.1"),
    *_SPOT,
]

QUICK: dict[str, Grid] = {
    "densify": _COMMON + _SKEWED,
    "add_into": [*_COMMON, (10**6, 10**3, 64, "float32", "uniform")],
    "coalesce": _COMMON + _SKEWED,
    "accumulate": _COMMON[1:2],
    "gather": _COMMON[1:],
    "multiply": _COMMON[1:2],
    "norm": _COMMON[1:2],
    "crossover": [(10**5, n, 64, "float32", "uniform") for n in (10**2, 10**4, 10**5)],
    "optimizer": _COMMON[1:2],
}
# Small enough for the cache, so that ratios hold from machine to machine, and large enough to be no matter of calls.
_GUARD: Grid = [
    (10**5, 10**4, 16, "float32", "uniform"),
    (10**4, 10**4, 64, "float32", "Zipf 1.1"),
    (10**4, 10**5, 1, "float32", "uniform"),
]
GUARD: dict[str, Grid] = {
    **dict.fromkeys(("densify", "add_into", "coalesce", "multiply", "norm"), _GUARD),
    "optimizer": _GUARD[:1],
}
FULL: dict[str, Grid] = {
    "densify": _SUMS,
    "add_into": [*_SUMS, *_all((10**7,), _ENTRIES, (1, 16))],
    "coalesce": _SUMS,
    "accumulate": [
        *_all(_SIZES, (10**4, 10**5), (1, 16)),
        (10**6, 10**5, 64, "float32", "uniform"),
        (10**4, 10**5, 64, "float32", "Zipf 1.1"),
    ],
    "gather": [*_all(_SIZES, _ENTRIES[1:], _WIDTHS), *_SPOT],
    "multiply": _all(_SIZES, _ENTRIES[1:3], (16, 64)),
    "norm": _all(_SIZES, _ENTRIES[1:3], (16, 64)),
    "crossover": [(10**5, n, 64, "float32", "uniform") for n in (10**2, 10**3, 10**4, 3 * 10**4, 10**5, 3 * 10**5)],
    "optimizer": [(10**6, 10**5, 64, "float32", "uniform"), (10**6, 10**5, 64, "float32", "Zipf 1.1")],
}
