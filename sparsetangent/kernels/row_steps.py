"""Steps of optimizers on named rows, compiled by Numba: one pass over parameter, states and gradient. Raw memory, as in `loops`.

Group i of the gradient's rows (those at ``places[starts[i]:starts[i + 1]]``) is summed for the row ``ids[i]`` of the states, which is
row ``at[i]`` of `p`; `at` is `ids` itself, or counts where `p` is a copy of the named rows in a wider dtype. Numbers are of the dtype of
`p`, and taken in the order of `sparsetangent.steps`, so that the bits are those of NumPy. What lies in no table is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .loops import compiled

__all__ = ["adagrad", "adam", "momentum", "rowwise_adagrad", "sgd"]


@compiled
def _gradient(g: Any, rows: Any, places: Any, start: int, stop: int, p: Any, r: int, decay: Any) -> None:
    n, d = rows.shape
    g[:] = 0
    for e in range(max(start, 0), min(stop, n)):
        i = places[e]
        if 0 <= i < n:
            for j in range(d):
                g[j] += rows[i, j]
    if decay != 0:  # an infinite weight times no decay is nan
        for j in range(d):
            g[j] += decay * p[r, j]


@compiled
def sgd(p: Any, at: Any, ids: Any, starts: Any, places: Any, rows: Any, rate: Any, decay: Any) -> None:
    g = np.empty(rows.shape[1], p.dtype)
    for i in range(ids.shape[0]):
        r = at[i]
        if 0 <= r < p.shape[0]:
            _gradient(g, rows, places, starts[i], starts[i + 1], p, r, decay)
            for j in range(g.shape[0]):
                p[r, j] -= rate * g[j]


@compiled
def momentum(p: Any, at: Any, v: Any, ids: Any, starts: Any, places: Any, rows: Any, rate: Any, decay: Any, beta: Any) -> None:
    g = np.empty(rows.shape[1], p.dtype)
    for i in range(ids.shape[0]):
        k, r = ids[i], at[i]
        if 0 <= k < v.shape[0] and 0 <= r < p.shape[0]:
            _gradient(g, rows, places, starts[i], starts[i + 1], p, r, decay)
            for j in range(g.shape[0]):
                x = beta * v[k, j] + g[j]
                v[k, j] = x
                p[r, j] -= rate * x


@compiled
def adagrad(
    p: Any, at: Any, s: Any, ids: Any, starts: Any, places: Any, rows: Any, rate: Any, decay: Any, epsilon: Any
) -> None:
    g = np.empty(rows.shape[1], p.dtype)
    for i in range(ids.shape[0]):
        k, r = ids[i], at[i]
        if 0 <= k < s.shape[0] and 0 <= r < p.shape[0]:
            _gradient(g, rows, places, starts[i], starts[i + 1], p, r, decay)
            for j in range(g.shape[0]):
                x = s[k, j] + g[j] * g[j]
                s[k, j] = x
                p[r, j] -= rate * g[j] / (np.sqrt(x) + epsilon)


@njit(error_model="numpy", fastmath={"reassoc"})  # type: ignore[untyped-decorator]  # a sum in lanes
def _sum_of_squares(g: Any) -> Any:
    total = g[0] * g[0]
    for j in range(1, g.shape[0]):
        total += g[j] * g[j]
    return total


@compiled
def rowwise_adagrad(
    p: Any, at: Any, s: Any, ids: Any, starts: Any, places: Any, rows: Any, rate: Any, decay: Any, epsilon: Any, width: Any
) -> None:
    g = np.empty(rows.shape[1], p.dtype)
    for i in range(ids.shape[0]):
        k, r = ids[i], at[i]
        if 0 <= k < s.shape[0] and 0 <= r < p.shape[0]:
            _gradient(g, rows, places, starts[i], starts[i + 1], p, r, decay)
            x = s[k] + _sum_of_squares(g) / width
            s[k] = x
            root = np.sqrt(x) + epsilon
            for j in range(g.shape[0]):
                p[r, j] -= rate * g[j] / root


@compiled
def adam(
    p: Any, at: Any, m: Any, v: Any, ids: Any, starts: Any, places: Any, rows: Any, rate: Any, decay: Any, epsilon: Any,
    b1: Any, new1: Any, fair1: Any, b2: Any, new2: Any, fair2: Any,
) -> None:  # fmt: skip
    g = np.empty(rows.shape[1], p.dtype)
    for i in range(ids.shape[0]):
        k, r = ids[i], at[i]
        if 0 <= k < m.shape[0] and k < v.shape[0] and 0 <= r < p.shape[0]:
            _gradient(g, rows, places, starts[i], starts[i + 1], p, r, decay)
            for j in range(g.shape[0]):
                x = b1 * m[k, j] + new1 * g[j]
                y = b2 * v[k, j] + new2 * (g[j] * g[j])
                m[k, j] = x
                v[k, j] = y
                p[r, j] -= rate * (x / fair1) / (np.sqrt(y / fair2) + epsilon)
