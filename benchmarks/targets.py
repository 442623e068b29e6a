"""What the tables must show, as data, and whether a run shows it: one line a target, over the cells that it speaks of.

A target holds ours of one column against something: a peer by name, the best of all peers (but some), the floor, a limit in
microseconds, or the same call on the smallest table. ``at most`` is of our time over theirs, ``at least`` of theirs over ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from .measure import Result

__all__ = ["TARGETS", "Target", "Verdict", "verdicts"]

Where = dict[str, Any]
"""What a cell must be: a value, or ``("<=", number)`` or ``(">=", number)``, of what it was measured on."""


class Target(NamedTuple):
    table: str
    column: str
    against: str
    sense: str
    bound: float
    statistic: str = "median"
    where: Where = {}  # noqa: RUF012 (never written)
    but: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """A target with what was measured: None where a run has no such cell."""

    table: str
    column: str
    against: str
    statistic: str
    where: str
    sense: str
    bound: float
    cells: int
    measured: float | None
    hit: bool | None


WIDE: Where = {"d": (">=", 64), "dtype": "float32"}
NARROW: Where = {"d": ("<=", 16), "dtype": "float32"}
SINGLE: Where = {"dtype": "float32"}
_FEW: Where = {**WIDE, "n": ("<=", 10**5)}
_MANY: Where = {**WIDE, "n": 10**6, "V": 10**6}
_JITTED = ("jitted .at.add", "jitted unique and .at.add")
_SUMS = ("densify", "add_into", "coalesce")

TARGETS: tuple[Target, ...] = (
    # NumPy alone, wide rows
    Target("densify", "numpy", "SciPy product", "at most", 1.2, "median", WIDE),
    Target("densify", "numpy", "floor", "at most", 3.5, "median", WIDE),
    Target("densify", "numpy", "floor", "at most", 6.5, "worst", WIDE),
    Target("add_into", "numpy", "np.add.at", "at least", 10, "median", WIDE),
    Target("coalesce", "numpy", "torch coalesce()", "at least", 3, "median", WIDE),
    Target("coalesce", "numpy", "np.unique and add.at", "at least", 10, "median", WIDE),
    # With compiled loops
    *(Target(t, "numpy+numba", "c loop", "at most", 1.25, "median", SINGLE) for t in (*_SUMS, "gather", "optimizer rows")),
    *(Target(t, "numpy+numba", "floor", "at most", 3, "median", _FEW) for t in _SUMS),
    *(Target(t, "numpy+numba", "floor", "at most", 4.5, "median", _MANY) for t in _SUMS),
    *(Target(t, "numpy+numba", "best peer", "at least", 1, "worst", NARROW, (*_JITTED, "c loop")) for t in _SUMS),
    *(Target(t, "numpy+numba", "jitted JAX", "at most", 2.5, "worst", NARROW) for t in _SUMS),
    # torch tensors on the CPU, without grad
    Target("densify", "torch", "index_add_", "at least", 2, "median", SINGLE),
    Target("densify", "torch", "index_add_", "at least", 0.95, "worst", SINGLE),
    Target("coalesce", "torch", "torch coalesce()", "at least", 1.2, "worst", {**SINGLE, "n": (">=", 10**5)}),
    Target("coalesce", "torch", "torch coalesce()", "at least", 2.5, "median", SINGLE),
    Target("coalesce", "torch", "torch coalesce()", "at least", 0.95, "worst", SINGLE),
    # Optimizer rows
    Target("optimizer rows", "numpy+numba", "torch sparse", "at least", 5, "median", {"step": "adagrad", "ids": "uniform"}),
    Target("optimizer rows", "numpy+numba", "floor", "at most", 2.5, "median", {"step": "adagrad", "ids": "uniform"}),
    Target("optimizer rows", "numpy", "torch sparse", "at least", 1.8, "median", {"step": "adagrad", "ids": "uniform"}),
    Target("optimizer rows", "numpy+numba", "torch sparse", "at least", 3, "median", {"step": "sgd", "ids": "uniform"}),
    # Tiny inputs
    *(
        Target("tiny inputs", column, "microseconds", "at most", bound, "median", {"call": call})
        for call, column, bound in (
            ("a + b", "numpy", 3),
            ("a + b", "torch", 7),
            ("t * 2.0", "numpy", 2),
            ("construct", "numpy", 2),
            ("construct, validated", "numpy", 6),
        )
    ),
    # Growth
    Target("flat in V", "numpy", "the smallest V", "at most", 1.5, "worst"),
    Target("linear in k", "numpy", "the smallest k, for each", "at most", 1.5, "worst"),
)


def verdicts(results: Sequence[Result], targets: Sequence[Target] = TARGETS) -> list[Verdict]:
    """Each target with the median or the worst of its cells."""
    return [_verdict(target, _measured(target, results)) for target in targets]


def _verdict(target: Target, found: list[float]) -> Verdict:
    worst = max if target.sense == "at most" else min
    figure = (worst(found) if target.statistic == "worst" else median(found)) if found else None
    hit = None if figure is None else (figure <= target.bound if target.sense == "at most" else figure >= target.bound)
    against = target.against if not target.but else f"{target.against} but {', '.join(target.but)}"
    return Verdict(
        target.table,
        target.column,
        against,
        target.statistic,
        _said(target.where),
        target.sense,
        target.bound,
        len(found),
        figure,
        hit,
    )


def _measured(target: Target, results: Sequence[Result]) -> list[float]:
    cells = [r for r in results if r.table == target.table and target.column in r.ours and _within(r.on, target.where)]
    if target.against.startswith("the smallest "):
        name, _, each = target.against.removeprefix("the smallest ").partition(", ")
        return _growth(cells, target.column, name, each == "for each")
    found = []
    for r in cells:
        other = _OTHER.get(target.against, _peer)(target, r)
        if other is not None:
            ours = r.ours[target.column]
            found.append(ours / other if target.sense == "at most" else other / ours)
    return found


def _peer(target: Target, r: Result) -> float | None:
    return r.peers.get(target.against)


def _best_peer(target: Target, r: Result) -> float | None:
    return min((ms for name, ms in r.peers.items() if name not in target.but), default=None)


def _jax(target: Target, r: Result) -> float | None:
    return min((ms for name, ms in r.peers.items() if name in _JITTED), default=None)


_OTHER: dict[str, Callable[[Target, Result], float | None]] = {
    "floor": lambda target, r: r.floor,
    "microseconds": lambda target, r: 1e-3,
    "best peer": _best_peer,
    "jitted JAX": _jax,
}


def _growth(cells: Sequence[Result], column: str, key: str, each: bool) -> list[float]:
    """The time of the largest cell over that of the smallest of each call; with `each`, both a unit of what grows."""

    def call(r: Result) -> str:
        return str({name: value for name, value in r.on.items() if name != key})

    found = []
    for _, group in groupby(sorted(cells, key=call), key=call):
        first, *rest = sorted(group, key=lambda r: r.on[key])
        for r in rest[-1:]:
            scale = r.on[key] / first.on[key] if each else 1
            found.append(r.ours[column] / first.ours[column] / scale)
    return found


def _within(on: dict[str, Any], where: Where) -> bool:
    return all(name in on and _holds(on[name], wanted) for name, wanted in where.items())


def _holds(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, tuple):
        return bool(value == wanted)
    relation, number = wanted
    return bool(value <= number if relation == "<=" else value >= number)


def _said(where: Where) -> str:
    return (
        ", ".join(f"{name} {' '.join(map(str, w if isinstance(w, tuple) else ('=', w)))}" for name, w in where.items()) or "all"
    )
