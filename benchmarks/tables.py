"""The questions, a function each: its contenders on inputs of growing size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparsetangent as st
from sparsetangent.kernels.base import Kernels
from sparsetangent.kernels.host import host_kernels
from sparsetangent.kernels.numpy import NumpyKernels

from .measure import Case, Run

__all__ = ["TABLES", "Grid"]

Grid = list[tuple[int, int, int, str, str]]
"""Rows of the table, entries, width, dtype, and how ids are distributed."""


def _ids(size: int, n: int, skew: str) -> Any:
    rng = np.random.default_rng(size + n)
    if skew == "uniform":
        return rng.integers(0, size, n)
    ranks = np.arange(1, size + 1, dtype=np.float64) ** -1.1  # a truncated Zipf law
    drawn = np.searchsorted(np.cumsum(ranks) / ranks.sum(), rng.random(n))
    return rng.permutation(size)[np.minimum(drawn, size - 1)]


def _rows(n: int, d: int, dtype: str) -> Any:
    return np.random.default_rng(n).standard_normal((n, d), dtype=np.float32).astype(dtype)


def _numpy_kernels() -> dict[str, Kernels]:
    """Ours on NumPy arrays, without and with compiled loops."""
    fastest = host_kernels()
    kernels: dict[str, Kernels] = {"numpy": NumpyKernels()}
    return kernels if type(fastest) is NumpyKernels else {**kernels, "numpy+numba": fastest}


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _jax() -> Any:
    try:
        import jax
    except ImportError:
        return None
    return jax


def _cells(table: str, grid: Grid) -> Iterator[tuple[dict[str, Any], Any, Any, int, int]]:
    for size, n, d, dtype, skew in grid:
        on = {"V": size, "n": n, "d": d, "dtype": dtype, "ids": skew}
        yield on, _ids(size, n, skew), _rows(n, d, dtype), size, d


def densify(grid: Grid) -> Iterator[Case]:
    """Zeros with rows added: the dense gradient from the compact one."""
    torch, jax = _torch(), _jax()
    for on, ids, rows, size, d in _cells("densify", grid):
        ours: dict[str, Run] = {name: _bound(k.densify, ids, rows, size) for name, k in _numpy_kernels().items()}
        peers: dict[str, Run] = {
            "np.add.at": _bound(_add_at, size, d, ids, rows),
            "SciPy product": _bound(_product, ids, rows, size),
        }
        if torch:
            i, x = torch.from_numpy(ids), torch.from_numpy(rows)
            ours["torch"] = _bound(st.IndexedSlices(i, x, (size, d)).densify)
            peers["index_add_"] = _bound(_index_add, x, i, size)
            peers["embedding_dense_backward"] = _bound(torch.ops.aten.embedding_dense_backward, x, i, size, -1, False)
        if jax:
            i, x = jax.numpy.asarray(ids), jax.numpy.asarray(rows)
            ours["jax"] = _bound(st.IndexedSlices(i, x, (size, d)).densify)
            peers["jitted .at.add"] = _bound(jax.jit(_at_add, static_argnums=2), i, x, size)
        yield Case("densify", on, ours, peers, rows.nbytes + size * d * rows.itemsize)


def add_into(grid: Grid) -> Iterator[Case]:
    """Rows added in place into a table that exists."""
    for on, ids, rows, size, d in _cells("add_into", grid):
        table = np.zeros((size, d), rows.dtype)
        table[...] = 1  # real pages
        touched = min(len(ids), size) * d * rows.itemsize
        ours: dict[str, Run] = {name: _bound(k.scatter_add, table, ids, rows) for name, k in _numpy_kernels().items()}
        peers: dict[str, Run] = {"np.add.at": _bound(np.add.at, table, ids, rows)}
        if torch := _torch():
            i, x, target = torch.from_numpy(ids), torch.from_numpy(rows), torch.from_numpy(table)
            ours["torch"] = _bound(st.add_into, target, st.IndexedSlices(i, x, (size, d)))
            peers["index_add_"] = _bound(target.index_add_, 0, i, x)
        yield Case("add_into", on, ours, peers, rows.nbytes + 2 * touched)


def coalesce(grid: Grid) -> Iterator[Case]:
    """Repeats merged, ids ascending."""
    for on, ids, rows, size, d in _cells("coalesce", grid):
        ours: dict[str, Run] = {name: _bound(k.coalesce, ids, rows, size) for name, k in _numpy_kernels().items()}
        peers: dict[str, Run] = {"np.unique and add.at": _bound(_unique_add_at, ids, rows)}
        if torch := _torch():
            i, x = torch.from_numpy(ids), torch.from_numpy(rows)
            ours["torch"] = _bound(st.IndexedSlices(i, x, (size, d)).coalesce)
            peers["torch coalesce()"] = _bound(_coo(torch, ids, rows, (size, d)).coalesce)
        if rows.size <= 10**6 and (sparse := _pydata()):
            entries = np.stack([np.repeat(ids, d), np.tile(np.arange(d), len(ids))])
            peers["pydata/sparse"] = _bound(sparse.COO, entries, rows.reshape(-1), (size, d))
        merged = len(np.unique(ids)) * d * rows.itemsize
        yield Case("coalesce", on, ours, peers, rows.nbytes + merged + 2 * ids.nbytes)


def accumulate(grid: Grid) -> Iterator[Case]:
    """The sum of 100 gradients of one table."""
    for on, ids, rows, size, d in _cells("accumulate", grid):
        parts = [(part, rows[: len(part)]) for part in np.array_split(ids, 100)]
        tangents = [st.IndexedSlices(i, r, (size, d)) for i, r in parts]
        peers: dict[str, Run] = {"dense": _bound(_sum_dense, parts, size, d)}
        if torch := _torch():
            coo = [_coo(torch, i, r, (size, d)) for i, r in parts]
            peers["torch sparse +"] = _bound(_sum_sparse, coo)
        yield Case("accumulate", on, {"numpy": _bound(_sum_compact, tangents)}, peers, 2 * rows.nbytes)


def gather(grid: Grid) -> Iterator[Case]:
    """The read itself, with its check of the ids."""
    for on, ids, rows, size, d in _cells("gather", grid):
        table = np.ones((size, d), rows.dtype)
        peers: dict[str, Run] = {"table[ids]": _bound(table.__getitem__, ids), "np.take": _bound(table.take, ids, 0)}
        ours: dict[str, Run] = {"numpy": _bound(st.rules.take, table, ids)}
        if torch := _torch():
            i, x = torch.from_numpy(ids), torch.from_numpy(table)
            ours["torch"], peers["index_select"] = _bound(st.rules.take, x, i), _bound(torch.index_select, x, 0, i)
        yield Case("gather", on, ours, peers, 2 * rows.nbytes + ids.nbytes)


def multiply(grid: Grid) -> Iterator[Case]:
    """A compact gradient times a dense array of the table's shape."""
    for on, ids, rows, size, d in _cells("multiply", grid):
        t, x = st.IndexedSlices(ids, rows, (size, d)), np.ones((size, d), rows.dtype)
        peers: dict[str, Run] = {"dense": _bound(_scattered_times, ids, rows, x)}
        yield Case("multiply", on, {"numpy": _bound(operator.mul, t, x)}, peers, 3 * rows.nbytes)


def norm(grid: Grid) -> Iterator[Case]:
    """The norm, repeats merged, and the gradient scaled by it."""
    for on, ids, rows, size, d in _cells("norm", grid):
        t = st.IndexedSlices(ids, rows, (size, d))
        ours: dict[str, Run] = {"numpy": _bound(_clipped, t, st.namespace(np))}
        peers: dict[str, Run] = {"dense": _bound(_clipped_dense, ids, rows, (size, d))}
        yield Case("norm", on, ours, peers, 3 * rows.nbytes)


def crossover(grid: Grid) -> Iterator[Case]:
    """A step of training by density: the gradient of two reads, their sum, and the update of the table."""
    for on, ids, rows, size, d in _cells("crossover", grid):
        table = np.ones((size, d), rows.dtype)
        ours: dict[str, Run] = {"compact": _bound(_compact_step, table, ids, rows)}
        yield Case("crossover", on, ours, {"dense": _bound(_dense_step, table, ids, rows)}, 6 * rows.nbytes)


def _compact_step(table: Any, ids: Any, rows: Any) -> Any:
    gradient = st.rules.take_vjp(rows, table.shape, ids)
    return st.add_into(table, gradient + gradient, -1e-3)


def _dense_step(table: Any, ids: Any, rows: Any) -> Any:
    gradient = _product(ids, rows, table.shape[0])  # the fastest dense way that SciPy and NumPy have
    table -= 1e-3 * (gradient + gradient)
    return table


def tiny(grid: Grid) -> Iterator[Case]:
    """What a call costs before any work is done: three rows of four."""
    ids, rows, shape = np.array([1, 3, 1]), _rows(3, 4, "float32"), (100, 4)
    a, b = (st.IndexedSlices(ids, rows, shape, validate=False) for _ in range(2))
    calls: dict[str, Run] = {
        "construct": lambda: st.IndexedSlices(ids, rows, shape, validate=False),
        "construct, validated": lambda: st.IndexedSlices(ids, rows, shape),
        "a + b": lambda: a + b,
        "t * 2.0": lambda: a * 2.0,
        "densify": a.densify,
        "coalesce": a.coalesce,
    }
    for name, call in calls.items():
        yield Case("tiny inputs", {"call": name}, {"numpy": call}, {"an empty call": lambda: None}, 1)
    if torch := _torch():
        i, x = torch.from_numpy(ids), torch.from_numpy(rows)
        u = st.IndexedSlices(i, x, shape, validate=False)
        coo = _coo(torch, ids, rows, shape)
        yield Case("tiny inputs", {"call": "a + b"}, {"torch": lambda: u + u}, {"torch sparse +": lambda: coo + coo}, 1)


def structure(grid: Grid) -> Iterator[Case]:
    """Operations that keep structure, on tables of growing length: the cost must be flat."""
    ids, rows, other = _ids(10**4, 1000, "uniform"), _rows(1000, 64, "float32"), _rows(64, 8, "float32")
    for size in (10**4, 10**6, 10**9, 2**40, 2**50):
        t = st.IndexedSlices(ids, rows, (size, 64))
        calls: dict[str, Callable[[Any], Any]] = {
            "t + t": lambda t: t + t,
            "t * 2.0": lambda t: t * 2.0,
            "coalesce": lambda t: t.coalesce(),
            "t @ w": lambda t: t @ other,
            "abs": abs,
            "sum": lambda t: st.namespace(np).sum(t),
            "t[:, :8]": lambda t: t[:, :8],
        }
        for name, call in calls.items():
            yield Case("flat in V", {"call": name, "V": size}, {"numpy": _bound(call, t)}, {}, 2 * rows.nbytes)


def growth(grid: Grid) -> Iterator[Case]:
    """The gradient of a table that is read twice, summed and clipped, on tables of growing length: compact beside dense."""
    ids, rows, xp = _ids(10**4, 1000, "uniform"), _rows(1000, 64, "float32"), st.namespace(np)
    moved = 6 * rows.nbytes
    for size in (10**4, 10**5, 10**6, 10**9, 2**40, 2**50):
        # Apart, since a dense gradient leaves nothing of the other's in the caches.
        yield Case("growth", {"V": size}, {"compact": _bound(_clipped_sum, _compact_gradient, ids, rows, size, xp)}, {}, moved)
        if size <= 10**6:
            yield Case("growth", {"V": size}, {}, {"dense": _bound(_clipped_sum, _product, ids, rows, size, np)}, moved)


def _clipped_sum(gradient: Callable[..., Any], ids: Any, rows: Any, size: int, xp: Any) -> Any:
    return _clipped(gradient(ids, rows, size) + gradient(ids[::-1], rows, size), xp)


def _compact_gradient(ids: Any, rows: Any, size: int) -> Any:
    return st.rules.take_vjp(rows, (size, rows.shape[1]), ids)


def _bound(call: Callable[..., Any], *arguments: Any) -> Run:
    return lambda: call(*arguments)


def _scattered(ids: Any, rows: Any, shape: tuple[int, int]) -> Any:
    out = np.zeros(shape, rows.dtype)
    np.add.at(out, ids, rows)
    return out


def _add_at(size: int, d: int, ids: Any, rows: Any) -> Any:
    return _scattered(ids, rows, (size, d))


def _product(ids: Any, rows: Any, size: int) -> Any:
    from scipy.sparse import csc_array

    n = len(ids)
    return csc_array((np.ones(n, rows.dtype), ids, np.arange(n + 1)), shape=(size, n)) @ rows


def _unique_add_at(ids: Any, rows: Any) -> Any:
    distinct, inverse = np.unique(ids, return_inverse=True)
    return distinct, _scattered(inverse, rows, (len(distinct), rows.shape[1]))


def _sum_dense(parts: list[tuple[Any, Any]], size: int, d: int) -> Any:
    total = np.zeros((size, d), parts[0][1].dtype)
    for ids, rows in parts:
        total += _scattered(ids, rows, (size, d))
    return total


def _scattered_times(ids: Any, rows: Any, x: Any) -> Any:
    return _scattered(ids, rows, x.shape) * x


def _clipped(t: Any, xp: Any) -> Any:
    return t * min(1.0, 1.0 / float(xp.linalg.vector_norm(t)))


def _clipped_dense(ids: Any, rows: Any, shape: tuple[int, int]) -> Any:
    return _clipped(_scattered(ids, rows, shape), np)


def _sum_compact(tangents: list[Any]) -> Any:
    return st.add_n(tangents).coalesce()


def _coo(torch: Any, ids: Any, rows: Any, shape: tuple[int, int]) -> Any:
    return torch.sparse_coo_tensor(torch.from_numpy(ids)[None], torch.from_numpy(rows), shape, check_invariants=False)


def _sum_sparse(parts: list[Any]) -> Any:
    return sum(parts[1:], parts[0]).coalesce()


def _index_add(x: Any, i: Any, size: int) -> Any:
    return x.new_zeros((size, x.shape[1])).index_add_(0, i, x)


def _at_add(i: Any, x: Any, size: int) -> Any:
    import jax.numpy as jnp

    return jnp.zeros((size, x.shape[1]), x.dtype).at[i].add(x)


def _pydata() -> Any:
    try:
        import sparse
    except ImportError:
        return None
    return sparse


TABLES: dict[str, Callable[[Grid], Iterator[Case]]] = {
    "densify": densify,
    "add_into": add_into,
    "coalesce": coalesce,
    "accumulate": accumulate,
    "gather": gather,
    "multiply": multiply,
    "norm": norm,
    "crossover": crossover,
    "tiny": tiny,
    "structure": structure,
    "growth": growth,
}
