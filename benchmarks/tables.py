"""The questions about arrays of growing size, a function each: its contenders."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparsetangent as st

from . import optimizers, overhead
from .c_loops import c_loops
from .inputs import Grid, bound, cells, coo, jax_of, kernels_of, on_both, onto, pydata, tensorflow, torch_of
from .length import length
from .measure import Case, Run

__all__ = ["TABLES", "Grid"]


def densify(grid: Grid) -> Iterator[Case]:
    """Zeros with rows added: the dense gradient from the compact one."""
    for on, ids, rows, size, d in cells(grid):
        ours: dict[str, Run] = {name: bound(k.densify, ids, rows, size) for name, k in kernels_of().items()}
        peers: dict[str, Run] = {
            "np.add.at": bound(_scattered, ids, rows, (size, d)),
            "SciPy product": bound(_product, ids, rows, size),
        }
        if torch := torch_of():
            i, x = torch.from_numpy(ids), onto(torch, rows)
            ours["torch"] = bound(st.IndexedSlices(i, x, (size, d)).densify)
            peers["index_add_"] = bound(_index_add, x, i, size)
            peers["embedding_dense_backward"] = bound(torch.ops.aten.embedding_dense_backward, x, i, size, -1, False)
        if jax := jax_of(on["dtype"]):
            i, x = jax.numpy.asarray(ids), jax.numpy.asarray(rows)
            ours["jax"] = bound(st.IndexedSlices(i, x, (size, d)).densify)
            peers["jitted .at.add"] = bound(jax.jit(_at_add, static_argnums=2), i, x, size)
        if tf := tensorflow():
            peers["tf.IndexedSlices"] = bound(tf.convert_to_tensor, tf.IndexedSlices(rows, ids, (size, d)))
        peers |= _in_c(on, lambda c: bound(c.densify, ids, rows, size))  # noqa: B023 (called at once)
        yield Case("densify", on, ours, peers, rows.nbytes + size * d * rows.itemsize)


def add_into(grid: Grid) -> Iterator[Case]:
    """Rows added in place into a table that exists."""
    for on, ids, rows, size, d in cells(grid):
        table = _full(size, d, rows.dtype)
        touched = len(np.unique(ids)) * d * rows.itemsize
        ours: dict[str, Run] = {name: bound(k.scatter_add, table, ids, rows) for name, k in kernels_of().items()}
        peers: dict[str, Run] = {"np.add.at": bound(np.add.at, table, ids, rows)}
        if torch := torch_of():
            i, x, target = torch.from_numpy(ids), onto(torch, rows), onto(torch, table)
            ours["torch"] = bound(st.add_into, target, st.IndexedSlices(i, x, (size, d)))
            peers["index_add_"] = bound(target.index_add_, 0, i, x)
            peers["torch sparse add"] = bound(target.add_, coo(torch, ids, rows, (size, d)))
        if jax := jax_of(on["dtype"]):
            i, x = jax.numpy.asarray(ids), jax.numpy.asarray(rows)
            ours["jax"] = bound(st.add_into, jax.numpy.asarray(table), st.IndexedSlices(i, x, (size, d)))
            peers["jitted .at.add"] = _in_turn(jax.jit(_at_add_into, donate_argnums=0), jax.numpy.array(table), i, x)
        peers |= _in_c(on, lambda c: bound(c.add_into, table, ids, rows))  # noqa: B023
        yield Case("add_into", on, ours, peers, rows.nbytes + 2 * touched)


def coalesce(grid: Grid) -> Iterator[Case]:
    """Repeats merged, ids ascending."""
    for on, ids, rows, size, d in cells(grid):
        ours: dict[str, Run] = {name: bound(k.coalesce, ids, rows, size) for name, k in kernels_of().items()}
        peers: dict[str, Run] = {"np.unique and add.at": bound(_unique_add_at, ids, rows)}
        if torch := torch_of():
            i, x = torch.from_numpy(ids), onto(torch, rows)
            ours["torch"] = bound(st.IndexedSlices(i, x, (size, d)).coalesce)
            peers["torch coalesce()"] = bound(coo(torch, ids, rows, (size, d)).coalesce)
        if jax := jax_of(on["dtype"]):
            i, x = jax.numpy.asarray(ids), jax.numpy.asarray(rows)
            ours["jax"] = bound(st.IndexedSlices(i, x, (size, d)).coalesce)
            peers["jitted unique and .at.add"] = bound(jax.jit(_unique_at_add), i, x)
        if rows.size <= 10**6 and (sparse := pydata()):
            entries = np.stack([np.repeat(ids, d), np.tile(np.arange(d), len(ids))])
            peers["pydata/sparse"] = bound(sparse.COO, entries, rows.reshape(-1), (size, d))
        peers |= _in_c(on, lambda c: bound(c.coalesce, ids, rows, size))  # noqa: B023
        merged = len(np.unique(ids)) * d * rows.itemsize
        yield Case("coalesce", on, ours, peers, rows.nbytes + merged + 2 * ids.nbytes)


def accumulate(grid: Grid) -> Iterator[Case]:
    """The sum of 100 gradients of one table."""
    for on, ids, rows, size, d in cells(grid):
        parts = [(part, rows[: len(part)]) for part in np.array_split(ids, 100)]
        tangents = [st.IndexedSlices(i, r, (size, d)) for i, r in parts]
        ours = on_both(bound(_sum_compact, tangents))
        peers: dict[str, Run] = {"dense": bound(_sum_dense, parts, size, d)}
        if torch := torch_of():
            tensors = [(torch.from_numpy(i), onto(torch, r)) for i, r in parts]
            ours["torch"] = bound(_sum_compact, [st.IndexedSlices(i, r, (size, d)) for i, r in tensors])
            peers["torch sparse +"] = bound(_sum_sparse, [coo(torch, i, r, (size, d)) for i, r in parts])
        yield Case("accumulate", on, ours, peers, 2 * rows.nbytes)


def gather(grid: Grid) -> Iterator[Case]:
    """The read itself, with its check of the ids."""
    for on, ids, rows, size, d in cells(grid):
        table = _full(size, d, rows.dtype)
        peers: dict[str, Run] = {"table[ids]": bound(table.__getitem__, ids), "np.take": bound(table.take, ids, 0)}
        ours = {name: bound(k.gather, table, ids) for name, k in kernels_of().items()}
        if torch := torch_of():
            i, x = torch.from_numpy(ids), onto(torch, table)
            ours["torch"], peers["index_select"] = bound(st.rules.take, x, i), bound(torch.index_select, x, 0, i)
        if jax := jax_of(on["dtype"]):
            i, x = jax.numpy.asarray(ids), jax.numpy.asarray(table)
            ours["jax"], peers["jitted take"] = bound(st.rules.take, x, i), bound(jax.jit(_take), x, i)
        peers |= _in_c(on, lambda c: bound(c.gather, table, ids))  # noqa: B023
        yield Case("gather", on, ours, peers, 2 * rows.nbytes + ids.nbytes)


def multiply(grid: Grid) -> Iterator[Case]:
    """A compact gradient times a dense array of the table's shape."""
    for on, ids, rows, size, d in cells(grid):
        x = _full(size, d, rows.dtype)
        ours = on_both(bound(operator.mul, st.IndexedSlices(ids, rows, (size, d)), x))
        peers: dict[str, Run] = {"dense": bound(_scattered_times, ids, rows, x)}
        if torch := torch_of():
            y = onto(torch, x)
            ours["torch"] = bound(operator.mul, st.IndexedSlices(torch.from_numpy(ids), onto(torch, rows), (size, d)), y)
            peers["torch sparse *"] = bound(operator.mul, coo(torch, ids, rows, (size, d)), y)
        yield Case("multiply", on, ours, peers, 3 * rows.nbytes)


def norm(grid: Grid) -> Iterator[Case]:
    """The norm, repeats merged, and the gradient scaled by it."""
    for on, ids, rows, size, d in cells(grid):
        ours = on_both(bound(_clipped, st.IndexedSlices(ids, rows, (size, d)), st.namespace(np)))
        peers: dict[str, Run] = {"dense": bound(_clipped_dense, ids, rows, (size, d))}
        if torch := torch_of():
            t = st.IndexedSlices(torch.from_numpy(ids), onto(torch, rows), (size, d))
            ours["torch"] = bound(_clipped, t, st.namespace(torch))
            peers["torch coalesce() and norm"] = bound(_clipped_coo, coo(torch, ids, rows, (size, d)))
        yield Case("norm", on, ours, peers, 3 * rows.nbytes)


def crossover(grid: Grid) -> Iterator[Case]:
    """A step of training by density: the gradient of two reads, their sum, and the update of the table."""
    for on, ids, rows, size, d in cells(grid):
        table = _full(size, d, rows.dtype)
        ours: dict[str, Run] = {"compact": bound(_compact_step, table, ids, rows)}
        yield Case("crossover", on, ours, {"dense": bound(_dense_step, table, ids, rows)}, 6 * rows.nbytes)


def _in_c(on: dict[str, Any], call: Callable[[Any], Run]) -> dict[str, Run]:
    """The column of the C loops, which there are for float32."""
    loops = c_loops() if on["dtype"] == "float32" else None
    return {} if loops is None else {"c loop": call(loops)}


def _full(size: int, d: int, dtype: Any) -> Any:
    table = np.empty((size, d), dtype)
    table[...] = 1  # real pages
    return table


def _in_turn(call: Callable[..., Any], first: Any, *others: Any) -> Run:
    """A function that takes the place of its first argument: what it gives goes in the next time."""
    held = [first]

    def run() -> Any:
        held[0] = call(held[0], *others)
        return held[0]

    return run


def _compact_step(table: Any, ids: Any, rows: Any) -> Any:
    gradient = st.rules.take_vjp(rows, table.shape, ids)
    return st.add_into(table, gradient + gradient, -1e-3)


def _dense_step(table: Any, ids: Any, rows: Any) -> Any:
    gradient = _product(ids, rows, table.shape[0])  # the fastest dense way that SciPy and NumPy have
    table -= 1e-3 * (gradient + gradient)
    return table


def _scattered(ids: Any, rows: Any, shape: tuple[int, int]) -> Any:
    out = np.zeros(shape, rows.dtype)
    np.add.at(out, ids, rows)
    return out


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


def _sum_sparse(parts: list[Any]) -> Any:
    return sum(parts[1:], parts[0]).coalesce()


def _index_add(x: Any, i: Any, size: int) -> Any:
    return x.new_zeros((size, x.shape[1])).index_add_(0, i, x)


def _at_add(i: Any, x: Any, size: int) -> Any:
    import jax.numpy as jnp

    return jnp.zeros((size, x.shape[1]), x.dtype).at[i].add(x)


def _at_add_into(table: Any, i: Any, x: Any) -> Any:
    return table.at[i].add(x)


def _unique_at_add(i: Any, x: Any) -> Any:
    import jax.numpy as jnp

    distinct, inverse = jnp.unique(i, return_inverse=True, size=i.shape[0], fill_value=-1)
    return distinct, jnp.zeros_like(x).at[inverse].add(x)


def _take(table: Any, i: Any) -> Any:
    import jax.numpy as jnp

    return jnp.take(table, i, axis=0)


def _clipped_coo(t: Any) -> Any:
    merged = t.coalesce()
    return merged * min(1.0, 1.0 / float(merged.values().norm()))


# Those of which something is demanded come first.
TABLES: dict[str, Callable[[Grid], Iterator[Case]]] = {
    "densify": densify,
    "add_into": add_into,
    "coalesce": coalesce,
    "gather": gather,
    "optimizer": optimizers.optimizer,
    "tiny": overhead.tiny,
    "structure": overhead.structure,
    "growth": overhead.growth,
    "length": length,
    "accumulate": accumulate,
    "multiply": multiply,
    "norm": norm,
    "crossover": crossover,
}
