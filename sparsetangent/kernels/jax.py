"""Kernels for JAX arrays: functional updates, jitted with static sizes; padding ids are dropped by the scatter itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from .base import Array, DType, ReduceOp
from .generic import GenericKernels, sum_blocks
from .host import host_kernels

__all__ = ["JaxKernels"]

# The methods of `x.at[ids]`. Bools have no sum or product there.
_UPDATE: dict[ReduceOp, str] = {"add": "add", "mean": "add", "mul": "multiply", "min": "min", "max": "max"}
_UPDATE_BOOL: dict[ReduceOp, str] = {"add": "max", "mul": "min", "min": "min", "max": "max"}


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

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1) -> Array:
        ids, _ = self._checked(ids, dst.shape[0])
        held = self.accumulator(dst.dtype)
        return _scatter_add(dst, ids, self._scaled(rows.astype(held), alpha), held)

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
    n, ids, rows_held = rows.shape[0], _dropping(ids, size), rows.astype(held)
    blocks = sum_blocks(n, size) if jnp.issubdtype(held, jnp.inexact) else 1
    if blocks > 1:
        block = jnp.arange(n, dtype=ids.dtype) // -(-n // blocks)
        ids = jnp.where(ids < size, ids + block * size, blocks * size)
    zeros = jnp.zeros((blocks * size, *rows.shape[1:]), held)
    sums = _update("add", zeros, ids, rows_held).reshape(blocks, size, *rows.shape[1:])
    return (sums.sum(0) if blocks > 1 else sums[0]).astype(rows.dtype)


@partial(jax.jit, static_argnames=("size",))
def _placed(ids: Array, rows: Array, size: int) -> Array:
    return _put(jnp.zeros((size, *rows.shape[1:]), rows.dtype), ids, rows)


@partial(jax.jit, static_argnames=("held",))
def _scatter_add(dst: Array, ids: Array, rows: Array, held: DType) -> Array:
    size, n = dst.shape[0], ids.shape[0]
    if held == dst.dtype:
        return _update("add", dst, _dropping(ids, size), rows)
    # Half types: the sums are merged in float32, so that `dst` as a whole is not converted.
    distinct, inverse = _static_unique(_dropping(ids, size), size, n)
    sums = _densify(inverse, rows, n, held)
    return _put(dst, distinct, (_gather(dst, distinct).astype(held) + sums).astype(dst.dtype))


@partial(jax.jit)
def _put(dst: Array, ids: Array, rows: Array) -> Array:
    return dst.at[_dropping(ids, dst.shape[0])].set(rows, mode="drop")


@partial(jax.jit, static_argnames=("size", "length"))
def _static_unique(ids: Array, size: int, length: int) -> tuple[Array, Array]:
    """Distinct ids and inverse in a static length; `ids` hold nothing above `size`, which sorts last."""
    if ids.shape[0] == 0 or length == 0:
        return jnp.full((length,), size, ids.dtype), jnp.full(ids.shape, length, ids.dtype)
    distinct, inverse = jnp.unique(ids, return_inverse=True, size=length, fill_value=size)
    inverse = inverse.reshape(ids.shape).astype(ids.dtype)
    return distinct, jnp.where((ids >= size) | (inverse >= length), length, inverse)


@partial(jax.jit, static_argnames=("op", "include_self", "identity", "held"))
def _scatter_reduce(op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool, identity: Any, held: DType) -> Array:
    ids = _dropping(ids, dst.shape[0])
    base, rows = dst.astype(held), rows.astype(held)
    count = jnp.zeros(dst.shape[:1], jnp.int32).at[ids].add(1, mode="drop").reshape(-1, *(1,) * (dst.ndim - 1))
    start = base if include_self else jnp.where(count > 0, jnp.asarray(identity, held), base)
    result = _update(op, start, ids, rows)
    if op == "mean":
        result = jnp.where(count > 0, result / jnp.maximum(count + include_self, 1).astype(held), base)
    return result.astype(dst.dtype)


def _update(op: ReduceOp, dst: Array, ids: Array, rows: Array) -> Array:
    method = (_UPDATE_BOOL if dst.dtype == jnp.bool else _UPDATE)[op]
    return getattr(dst.at[ids], method)(rows, mode="drop")
