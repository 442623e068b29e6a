"""What calls cost beside the work: on tiny inputs, on ever longer tables, and for ever more gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparsetangent as st

from .inputs import Grid, bound, coo, ids_of, on_both, rows_of, torch_of
from .measure import Case, Run

__all__ = ["growth", "structure", "tiny"]


def tiny(grid: Grid) -> Iterator[Case]:
    """What a call costs before any work is done: three rows of four."""
    ids, rows, shape = np.array([1, 3, 1]), rows_of(3, 4, "float32"), (100, 4)
    for name, call in _tiny_calls(ids, rows, shape).items():
        yield Case("tiny inputs", {"call": name}, {"numpy": call}, {"an empty call": lambda: None}, 1)
    if torch := torch_of():
        peer = coo(torch, ids, rows, shape)
        peers: dict[str, dict[str, Run]] = {
            "a + b": {"torch sparse +": lambda: peer + peer},
            "t * 2.0": {"torch sparse *": lambda: peer * 2.0},
            "densify": {"to_dense": peer.to_dense},
            "coalesce": {"torch coalesce()": peer.coalesce},
        }
        for name, call in _tiny_calls(torch.from_numpy(ids), torch.from_numpy(rows), shape).items():
            yield Case("tiny inputs", {"call": name}, {"torch": call}, peers.get(name, {}), 1)


def _tiny_calls(ids: Any, rows: Any, shape: tuple[int, int]) -> dict[str, Run]:
    a, b = (st.IndexedSlices(ids, rows, shape, validate=False) for _ in range(2))
    return {
        "construct": lambda: st.IndexedSlices(ids, rows, shape, validate=False),
        "construct, validated": lambda: st.IndexedSlices(ids, rows, shape),
        "a + b": lambda: a + b,
        "t * 2.0": lambda: a * 2.0,
        "densify": a.densify,
        "coalesce": a.coalesce,
    }


_STRUCTURE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "t + t": lambda nx, t, w: t + t,
    "t - t": lambda nx, t, w: t - t,
    "t * 2.0": lambda nx, t, w: t * 2.0,
    "t * t": lambda nx, t, w: t * t,
    "t * row": lambda nx, t, w: t * w[:, 0],
    "t / 2.0": lambda nx, t, w: t / 2.0,
    "maximum": lambda nx, t, w: nx.maximum(t, t),
    "t != t": lambda nx, t, w: t != t,
    "coalesce": lambda nx, t, w: t.coalesce(),
    "t @ w": lambda nx, t, w: t @ w,
    "t.T @ t": lambda nx, t, w: t.T @ t,
    "abs": lambda nx, t, w: abs(t),
    "sin": lambda nx, t, w: nx.sin(t),
    "astype": lambda nx, t, w: t.astype(np.float64),
    "sum": lambda nx, t, w: nx.sum(t),
    "sum, axis 0": lambda nx, t, w: nx.sum(t, axis=0),
    "mean, axis 1": lambda nx, t, w: nx.mean(t, axis=1),
    "max, axis 1": lambda nx, t, w: nx.max(t, axis=1),
    "vector_norm": lambda nx, t, w: nx.linalg.vector_norm(t),
    "t[:, :8]": lambda nx, t, w: t[:, :8],
    "t[10:-10]": lambda nx, t, w: t[10:-10],
    "take": lambda nx, t, w: nx.take(t, np.arange(100), axis=0),
    "retain": lambda nx, t, w: t.retain(np.arange(100)),
    "permute_dims": lambda nx, t, w: nx.permute_dims(t, (1, 0)),
    "reshape": lambda nx, t, w: nx.reshape(t, (-1,)),
    "concat": lambda nx, t, w: nx.concat([t, t], axis=0),
    "stack": lambda nx, t, w: nx.stack([t, t]),
    "flip": lambda nx, t, w: nx.flip(t, axis=0),
    "roll": lambda nx, t, w: nx.roll(t, 3, axis=0),
    "add_n": lambda nx, t, w: st.add_n([t, t, t]),
    "sum_to_shape": lambda nx, t, w: st.sum_to_shape(t, (t.shape[0], 1)),
}


def structure(grid: Grid) -> Iterator[Case]:
    """Operations that keep structure, on tables of growing length: the cost must be flat. Ids lie all over the table."""
    nx, w = st.namespace(np), rows_of(64, 8, "float32")
    for size in (10**4, 10**6, 10**9, 2**40, 2**50):
        rows = rows_of(1000, 64, "float32")
        t = st.IndexedSlices(ids_of(size, 1000, "uniform"), rows, (size, 64))
        for name, call in _STRUCTURE.items():
            yield Case("flat in V", {"call": name, "V": size}, on_both(bound(call, nx, t, w)), {}, 2 * rows.nbytes)


def growth(grid: Grid) -> Iterator[Case]:
    """The sum of k gradients of 100 narrow rows each: the cost must be linear in k. (All of them fit into the cache.)"""
    for k in (100, 300, 1000):
        rows = rows_of(100, 4, "float32")
        parts = [st.IndexedSlices(np.random.default_rng(i).integers(0, 10**6, 100), rows, (10**6, 4)) for i in range(k)]
        for name, call in (("add_n", st.add_n), ("Accumulator", _accumulated)):
            yield Case("linear in k", {"call": name, "k": k}, on_both(bound(call, parts)), {}, 2 * k * rows.nbytes)


def _accumulated(parts: list[Any]) -> Any:
    total = st.Accumulator()
    for part in parts:
        total.add(part)
    return total.value()
