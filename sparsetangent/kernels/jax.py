"""Kernels for JAX arrays: functional updates, jitted with static sizes; padding ids are dropped by the scatter itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax import lax

from .base import Array, DType, ReduceOp
from .generic import GenericKernels
from .host import host_kernels
from .numpy import RUN

__all__ = ["JaxKernels"]

# The methods of `x.at[ids]`. Bools have no sum or product there.
_UPDATE: dict[ReduceOp, str] = {"add": "add", "mean": "add", "mul": "multiply", "min": "min", "max": "max"}
_UPDATE_BOOL: dict[ReduceOp, str] = {"add": "max", "mul": "min", "min": "min", "max": "max"}

# A table of marks, one integer for each row of the array, costs less than a sort up to this many rows for each entry.
_MARKS = 32


def _is_staging_by_example() -> bool:
    return isinstance(jnp.zeros(()), jax.core.Tracer)


# The named query takes 0.3 us, the example 20 us; the name may go.
_is_staging: Callable[[], bool] = getattr(jax.extend.core, "unsafe_am_i_under_a_jit_DO_NOT_USE", _is_staging_by_example)


class JaxKernels(GenericKernels):
    """XLA's gathers and scatters. Under a trace shapes stay static and ids that cannot be seen are dropped if out of range."""

    def __init__(self) -> None:
        super().__init__(jnp, "jax")
        self._numpy = host_kernels()

    def concrete(self, x: Array) -> bool:
        # Under jit every operation is staged, also one on arrays that are known now.
        return not isinstance(x, jax.core.Tracer) and not _is_staging()

    def synchronous(self, x: Array) -> bool:
        return isinstance(x, jax.core.Tracer) or all(d.platform == "cpu" for d in x.devices())

    def index_dtype(self, x: Array) -> DType:
        return jnp.int64 if jax.config.jax_enable_x64 else jnp.int32

    def bounds(self, ids: Array) -> tuple[int, int]:
        if self.synchronous(ids):  # the same memory to NumPy, which compiles nothing for each new shape
            return self._numpy.bounds(np.asarray(ids))
        least, greatest = _bounds(ids)
        return int(least), int(greatest)

    def device_for(self, x: Array) -> Any:
        device = None if isinstance(x, jax.core.Tracer) else x.device
        return (
            device if isinstance(device, jax.Device) else None
        )  # arrays follow those they are computed with, sharded ones too

    def gather(self, src: Array, ids: Array) -> Array:
        ids, _ = self._checked(ids, src.shape[0])
        return _gather(src, ids)

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        ids, _ = self._checked(ids, size)
        return _placed(ids, rows, size) if unique else _densify(ids, rows, size, self.accumulator(rows.dtype))

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1, *, in_order: bool = False) -> Array:
        ids, _ = self._checked(ids, dst.shape[0])
        held = dst.dtype if in_order else self.accumulator(dst.dtype)
        return _scatter_add(dst, ids, self._scaled(rows.astype(held), alpha), in_order)

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        ids, _ = self._checked(unique_ids, dst.shape[0])
        return _put(dst, ids, rows)

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if self.concrete(ids) and self.synchronous(ids):
            distinct, inverse = self._numpy.unique_inverse(np.asarray(ids), size, length)
            return jnp.asarray(distinct), jnp.asarray(inverse)
        return super().unique_inverse(ids, size, length)

    def _static_unique(self, ids: Array, size: int, length: int) -> tuple[Array, Array]:
        distinct, inverse = _static_unique(ids, size, length)
        return distinct, inverse

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        self._check_op(op, dst.dtype)
        ids, _ = self._checked(ids, dst.shape[0])
        return _scatter_reduce(op, dst, ids, rows, include_self, self._identity(op, dst.dtype), self.accumulator(dst.dtype))


def _dropping(ids: Array, size: int) -> Array:
    """Ids with what is out of range moved past the end: JAX wraps negative ids even where it drops."""
    return jnp.where((ids < 0) | (ids >= size), jnp.asarray(size, ids.dtype), ids)


@partial(jax.jit)
def _bounds(ids: Array) -> tuple[Array, Array]:
    return jnp.min(ids), jnp.max(ids)


@partial(jax.jit)
def _gather(src: Array, ids: Array) -> Array:
    if src.shape[0] == 0:  # XLA refuses a slice of nothing
        return jnp.zeros((ids.shape[0], *src.shape[1:]), src.dtype)
    return src.at[_dropping(ids, src.shape[0])].get(mode="fill", fill_value=0)


@partial(jax.jit, static_argnames=("size", "held"))
def _densify(ids: Array, rows: Array, size: int, held: DType) -> Array:
    zeros = jnp.zeros((size, *rows.shape[1:]), held)
    return _sum_into(zeros, _dropping(ids, size), rows.astype(held)).astype(rows.dtype)


@partial(jax.jit, static_argnames=("size",))
def _placed(ids: Array, rows: Array, size: int) -> Array:
    return _put(jnp.zeros((size, *rows.shape[1:]), rows.dtype), ids, rows)


@partial(jax.jit, static_argnames=("in_order",))
def _scatter_add(dst: Array, ids: Array, rows: Array, in_order: bool) -> Array:
    ids = _dropping(ids, dst.shape[0])
    return _update("add", dst, ids, rows) if in_order else _add_merged(dst, ids, rows)


@partial(jax.jit)
def _put(dst: Array, ids: Array, rows: Array) -> Array:
    return dst.at[_dropping(ids, dst.shape[0])].set(rows, mode="drop")


@partial(jax.jit, static_argnames=("size", "length"))
def _static_unique(ids: Array, size: int, length: int) -> tuple[Array, Array]:
    """Distinct ids and inverse in a static length; `ids` hold nothing above `size`, which sorts last."""
    n = ids.shape[0]
    if n == 0 or length == 0:
        return jnp.full((length,), size, ids.dtype), jnp.full(ids.shape, length, ids.dtype)
    ascending, order = _sorted(ids, size)
    rank = jnp.cumsum(_run_starts(ascending), dtype=ids.dtype) - 1
    rank = jnp.where((ascending >= size) | (rank >= length), length, rank)
    distinct = jnp.full((length,), size, ids.dtype).at[rank].set(ascending, mode="drop")
    return distinct, jnp.zeros_like(rank).at[order].set(rank, unique_indices=True)


def _sorted(ids: Array, size: int) -> tuple[Array, Array]:
    """Ids from 0 to `size` ascending, and the position of each."""
    n = ids.shape[0]
    bits = max(n - 1, 1).bit_length()
    if size.bit_length() + bits > 63:
        ascending, order = lax.sort((ids, lax.iota(ids.dtype, n)), num_keys=1)
        return ascending, order
    with jax.enable_x64(True):  # both in one integer, which XLA sorts several times faster than a pair
        packed = lax.sort((ids.astype(jnp.int64) << bits) | lax.iota(jnp.int64, n), is_stable=False)
        return (packed >> bits).astype(ids.dtype), (packed & ((1 << bits) - 1)).astype(ids.dtype)


def _run_starts(ids: Array) -> Array:
    """Where an id differs from the one before it."""
    return jnp.concatenate([jnp.ones((1,), bool), ids[1:] != ids[:-1]])


@partial(jax.jit, static_argnames=("op", "include_self", "identity", "held"))
def _scatter_reduce(op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool, identity: Any, held: DType) -> Array:
    ids = _dropping(ids, dst.shape[0])
    base, rows = dst.astype(held), rows.astype(held)
    count = jnp.zeros(dst.shape[:1], jnp.int32).at[ids].add(1, mode="drop").reshape(-1, *(1,) * (dst.ndim - 1))
    start = base if include_self else jnp.where(count > 0, jnp.asarray(identity, held), base)
    result = _add_merged(start, ids, rows) if op in ("add", "mean") else _update(op, start, ids, rows)
    if op == "mean":
        result = jnp.where(count > 0, result / jnp.maximum(count + include_self, 1).astype(held), base)
    return result.astype(dst.dtype)


def _update(op: ReduceOp, dst: Array, ids: Array, rows: Array) -> Array:
    method = (_UPDATE_BOOL if dst.dtype == jnp.bool else _UPDATE)[op]
    return getattr(dst.at[ids], method)(rows, mode="drop")


# Sums. Entries that are added one after the other lose what is below the last digit of the sum so far, so an array takes up the
# sum of each id at once, and long runs of one id are summed in a tree. Integers and bools are exact in any order.


def _add_merged(dst: Array, ids: Array, rows: Array) -> Array:
    """`dst` plus, once for each distinct id, the sum of its rows; `rows` in the accumulator's dtype, ids up to the size of `dst`."""
    size, n = dst.shape[0], ids.shape[0]
    if n == 0 or not jnp.issubdtype(dst.dtype, jnp.inexact):
        return _update("add", dst, ids, rows)
    first = _first_of_equals(ids, size)
    leads = first == lax.iota(ids.dtype, n)
    sums = _sum_into(rows, jnp.where(leads, n, first), rows)
    ids = jnp.where(leads, ids, size)
    if rows.dtype == dst.dtype:
        return _update("add", dst, ids, sums)
    return _put(dst, ids, (_gather(dst, ids).astype(rows.dtype) + sums).astype(dst.dtype))


def _first_of_equals(ids: Array, size: int) -> Array:
    """For each entry the position of the first one with the same id."""
    n = ids.shape[0]
    position = lax.iota(ids.dtype, n)
    if size <= _MARKS * n:
        return jnp.full((size + 1,), n, ids.dtype).at[ids].min(position)[ids]
    ascending, order = _sorted(ids, size)
    start = lax.cummax(jnp.where(_run_starts(ascending), position, 0))
    return jnp.zeros_like(ids).at[order].set(order[start], unique_indices=True)


def _sum_into(base: Array, slots: Array, rows: Array) -> Array:
    """``base[slots[i]] += rows[i]``, for slots from 0 to the length of `base`, which is dropped.

    At most `RUN` rows are added to a slot in sequence. Where more name one slot, which the counts tell, the others go to further
    slots, one for each block, and these are summed in the same way: m rows of one slot have an error of at most ``15 log16(m) + 16`` units.
    """
    n, size = rows.shape[0], base.shape[0]
    if n <= RUN or size == 0 or not jnp.issubdtype(rows.dtype, jnp.inexact):
        return _update("add", base, slots, rows)
    counts = jnp.zeros((size,), jnp.int32).at[slots].add(1, mode="drop")
    return lax.cond(jnp.max(counts) > RUN, _sum_in_blocks, partial(_update, "add"), base, slots, rows)


def _sum_in_blocks(base: Array, slots: Array, rows: Array) -> Array:
    size, n = base.shape[0], rows.shape[0]
    lengths = [n]
    while lengths[-1] > RUN:
        lengths.append(lengths[-1] // RUN)
    slots, order = _sorted(slots, size)
    extra = jnp.zeros((sum(lengths[1:]), *rows.shape[1:]), rows.dtype)
    sums, free = jnp.concatenate([base, extra]), size
    for length, further in zip(lengths, [*lengths[1:], 0], strict=True):
        position = lax.iota(slots.dtype, length)
        place = position - lax.cummax(jnp.where(_run_starts(slots), position, 0))
        opens = (place > 0) & (place % RUN == 0) & (slots < size)
        block = jnp.cumsum(opens, dtype=slots.dtype) - 1
        to = jnp.where(slots >= size, sums.shape[0], jnp.where(place < RUN, slots, free + block))
        if length == n:
            to = jnp.zeros_like(to).at[order].set(to, unique_indices=True)
        sums = sums.at[to].add(rows, mode="drop")
        slots = jnp.full((further,), size, slots.dtype).at[jnp.where(opens, block, further)].set(slots, mode="drop")
        rows = sums[free : free + further]
        free += further
    return sums[:size]
