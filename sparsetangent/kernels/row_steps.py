"""Steps of optimizers on named rows, compiled by Numba: one pass over parameter, states and gradient. Raw memory, as in `loops`.

Group i of the gradient's rows (those at ``places[starts[i]:starts[i + 1]]``) is summed, in `total`, for the row ``ids[i]`` of the
states, which is row ``at[i]`` of `p`; `at` is `ids` itself, or counts where `p` is a copy of the named rows in a wider dtype. Numbers are
of the dtype of `p`, and taken in the order of `sparsetangent.steps`, so that the bits are those of NumPy. What lies in no table is skipped.

A row that is alone in its group is read where it lies: to copy it takes as long as the step. That is why each loop stands here
twice, and why only scalars are handed to functions: Numba counts references to arrays at every call, which a row of 64 does not pay for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .loops import compiled, fold_rows
from .numpy import RUN

__all__ = ["adagrad", "adam", "momentum", "rowwise_adagrad", "sgd"]


def _inlined(function: Any) -> Any:
    return njit(inline="always", error_model="numpy")(function)


@compiled
def _alone(start: int, stop: int, place: int, n: int, decay: Any) -> bool:
    """Whether a group of entries is one row that is the gradient as it stands."""
    return stop - start == 1 and 0 <= place < n and decay == 0


@_inlined
def _sum(total: Any, rows: Any, places: Any, start: int, stop: int, p: Any, r: int, decay: Any) -> None:
    if stop - start > RUN:
        fold_rows(total, rows, places, start, stop)
    else:
        for j in range(rows.shape[1]):
            total[j] = 0
        for e in range(max(start, 0), min(stop, rows.shape[0])):
            place = places[e]
            if 0 <= place < rows.shape[0]:
                for j in range(rows.shape[1]):
                    total[j] += rows[place, j]
    if decay != 0:  # an infinite weight times no decay is nan
        for j in range(rows.shape[1]):
            total[j] += decay * p[r, j]


@compiled
def sgd(p: Any, at: Any, ids: Any, starts: Any, places: Any, rows: Any, total: Any, rate: Any, decay: Any) -> None:
    n, d = rows.shape
    for i in range(ids.shape[0]):
        r, start, stop = at[i], starts[i], starts[i + 1]
        if 0 <= r < p.shape[0] and 0 <= start < n:
            place = places[start]
            if _alone(start, stop, place, n, decay):
                for j in range(d):
                    p[r, j] -= rate * rows[place, j]
            else:
                _sum(total, rows, places, start, stop, p, r, decay)
                for j in range(d):
                    p[r, j] -= rate * total[j]


@compiled
def _momentum(p: Any, v: Any, g: Any, rate: Any, beta: Any) -> Any:
    v = beta * v + g
    return p - rate * v, v


@compiled
def momentum(
    p: Any, at: Any, v: Any, ids: Any, starts: Any, places: Any, rows: Any, total: Any, rate: Any, decay: Any, beta: Any
) -> None:
    n, d = rows.shape
    for i in range(ids.shape[0]):
        k, r, start, stop = ids[i], at[i], starts[i], starts[i + 1]
        if 0 <= k < v.shape[0] and 0 <= r < p.shape[0] and 0 <= start < n:
            place = places[start]
            if _alone(start, stop, place, n, decay):
                for j in range(d):
                    p[r, j], v[k, j] = _momentum(p[r, j], v[k, j], rows[place, j], rate, beta)
            else:
                _sum(total, rows, places, start, stop, p, r, decay)
                for j in range(d):
                    p[r, j], v[k, j] = _momentum(p[r, j], v[k, j], total[j], rate, beta)


@compiled
def _adagrad(p: Any, s: Any, g: Any, rate: Any, epsilon: Any) -> Any:
    s = s + g * g
    return p - rate * g / (np.sqrt(s) + epsilon), s


@compiled
def adagrad(
    p: Any, at: Any, s: Any, ids: Any, starts: Any, places: Any, rows: Any, total: Any, rate: Any, decay: Any, epsilon: Any
) -> None:
    n, d = rows.shape
    for i in range(ids.shape[0]):
        k, r, start, stop = ids[i], at[i], starts[i], starts[i + 1]
        if 0 <= k < s.shape[0] and 0 <= r < p.shape[0] and 0 <= start < n:
            place = places[start]
            if _alone(start, stop, place, n, decay):
                for j in range(d):
                    p[r, j], s[k, j] = _adagrad(p[r, j], s[k, j], rows[place, j], rate, epsilon)
            else:
                _sum(total, rows, places, start, stop, p, r, decay)
                for j in range(d):
                    p[r, j], s[k, j] = _adagrad(p[r, j], s[k, j], total[j], rate, epsilon)


@njit(error_model="numpy", fastmath={"reassoc"})  # type: ignore[untyped-decorator]  # a sum in lanes
def _sum_of_squares(g: Any) -> Any:
    total = g[0] * g[0]
    for j in range(1, g.shape[0]):
        total += g[j] * g[j]
    return total


@compiled
def rowwise_adagrad(
    p: Any, at: Any, s: Any, ids: Any, starts: Any, places: Any, rows: Any, total: Any, rate: Any, decay: Any, epsilon: Any,
    width: Any,
) -> None:  # fmt: skip
    n, d = rows.shape
    for i in range(ids.shape[0]):
        k, r, start, stop = ids[i], at[i], starts[i], starts[i + 1]
        if 0 <= k < s.shape[0] and 0 <= r < p.shape[0] and 0 <= start < n:
            _sum(total, rows, places, start, stop, p, r, decay)
            s[k] += _sum_of_squares(total) / width
            root = np.sqrt(s[k]) + epsilon
            for j in range(d):
                p[r, j] -= rate * total[j] / root


@compiled
def _adam(
    p: Any, m: Any, v: Any, g: Any, rate: Any, epsilon: Any, b1: Any, new1: Any, fair1: Any, b2: Any, new2: Any, fair2: Any
) -> Any:
    m = b1 * m + new1 * g
    v = b2 * v + new2 * (g * g)
    return p - rate * (m / fair1) / (np.sqrt(v / fair2) + epsilon), m, v


@compiled
def adam(
    p: Any, at: Any, m: Any, v: Any, ids: Any, starts: Any, places: Any, rows: Any, total: Any, rate: Any, decay: Any, epsilon: Any,
    b1: Any, new1: Any, fair1: Any, b2: Any, new2: Any, fair2: Any,
) -> None:  # fmt: skip
    n, d = rows.shape
    for i in range(ids.shape[0]):
        k, r, start, stop = ids[i], at[i], starts[i], starts[i + 1]
        if 0 <= k < m.shape[0] and k < v.shape[0] and 0 <= r < p.shape[0] and 0 <= start < n:
            place = places[start]
            if _alone(start, stop, place, n, decay):
                for j in range(d):
                    p[r, j], m[k, j], v[k, j] = _adam(
                        p[r, j], m[k, j], v[k, j], rows[place, j], rate, epsilon, b1, new1, fair1, b2, new2, fair2
                    )
            else:
                _sum(total, rows, places, start, stop, p, r, decay)
                for j in range(d):
                    p[r, j], m[k, j], v[k, j] = _adam(
                        p[r, j], m[k, j], v[k, j], total[j], rate, epsilon, b1, new1, fair1, b2, new2, fair2
                    )
