"""Kernels for JAX arrays: functional updates, jitted with static sizes; padding ids are dropped by the scatter itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp

from .base import Array, DType, ReduceOp
from .generic import GenericKernels

__all__ = ["JaxKernels"]


def _is_staging_by_example() -> bool:
    return isinstance(jnp.zeros(()), jax.core.Tracer)


# The named query takes 0.3 us, the example 20 us; the name may go.
_is_staging: Callable[[], bool] = getattr(jax.extend.core, "unsafe_am_i_under_a_jit_DO_NOT_USE", _is_staging_by_example)


class JaxKernels(GenericKernels):
    """XLA's gathers and scatters. Under a trace shapes stay static and ids that cannot be seen are dropped if out of range."""

    def __init__(self) -> None:
        super().__init__(jnp, "jax")

    def concrete(self, x: Array) -> bool:
        # Under jit every operation is staged, also one on arrays that are known now.
        return not isinstance(x, jax.core.Tracer) and not _is_staging()

    def synchronous(self, x: Array) -> bool:
        return isinstance(x, jax.core.Tracer) or all(d.platform == "cpu" for d in x.devices())

    def index_dtype(self, x: Array) -> DType:
        return jnp.int64 if jax.config.jax_enable_x64 else jnp.int32

    def bounds(self, ids: Array) -> tuple[int, int]:
        least, greatest = _bounds(ids)
        return int(least), int(greatest)

    def gather(self, src: Array, ids: Array) -> Array:
        self._checked(ids, src.shape[0])
        return _gather(src, ids)

    def densify(self, ids: Array, rows: Array, size: int) -> Array:
        self._checked(ids, size)
        return _densify(ids, rows, size, self.accumulator(rows.dtype))

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1) -> Array:
        self._checked(ids, dst.shape[0])
        return _scatter_add(dst, ids, rows if alpha == 1 else rows * alpha, self.accumulator(dst.dtype))

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        self._checked(unique_ids, dst.shape[0])
        return _put(dst, unique_ids, rows)

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if self.concrete(ids):
            self._checked(ids, size)
            distinct, inverse = jnp.unique(ids, return_inverse=True)
            inverse = inverse.astype(ids.dtype)
            if distinct.shape[0] and int(distinct[-1]) == size:
                distinct = distinct[:-1]
            return self._sized(distinct, inverse, size, length)
        return super().unique_inverse(ids, size, length)

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        self._checked(ids, dst.shape[0])
        return _scatter_reduce(op, dst, ids, rows, include_self, self._identity(op, dst.dtype), self.accumulator(dst.dtype))


def _dropping(ids: Array, size: int) -> Array:
    """Ids with what is out of range moved past the end: JAX wraps negative ids even where it drops."""
    return jnp.where((ids < 0) | (ids >= size), jnp.asarray(size, ids.dtype), ids)


def _sum_at(dst: Array, ids: Array, rows: Array) -> Array:
    """Add rows at ids; XLA has no sum of bools, whose *or* is a maximum."""
    at = dst.at[ids]
    return at.max(rows, mode="drop") if dst.dtype == jnp.bool_ else at.add(rows, mode="drop")


@jax.jit
def _bounds(ids: Array) -> tuple[Array, Array]:
    return jnp.min(ids), jnp.max(ids)


@jax.jit
def _gather(src: Array, ids: Array) -> Array:
    return src.at[_dropping(ids, src.shape[0])].get(mode="fill", fill_value=0)


@partial(jax.jit, static_argnames=("size", "held"))
def _densify(ids: Array, rows: Array, size: int, held: DType) -> Array:
    zeros = jnp.zeros((size, *rows.shape[1:]), held)
    return _sum_at(zeros, _dropping(ids, size), rows.astype(held)).astype(rows.dtype)


@partial(jax.jit, static_argnames=("held",))
def _scatter_add(dst: Array, ids: Array, rows: Array, held: DType) -> Array:
    ids = _dropping(ids, dst.shape[0])
    return _sum_at(dst.astype(held), ids, rows.astype(held)).astype(dst.dtype)


@jax.jit
def _put(dst: Array, ids: Array, rows: Array) -> Array:
    return dst.at[_dropping(ids, dst.shape[0])].set(rows, mode="drop")


@partial(jax.jit, static_argnames=("op", "include_self", "identity", "held"))
def _scatter_reduce(
    op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool, identity: Any, held: DType
) -> Array:
    ids = _dropping(ids, dst.shape[0])
    base, rows = dst.astype(held), rows.astype(held)
    named = jnp.zeros(dst.shape[:1], jnp.int32).at[ids].add(1, mode="drop")
    count = named.reshape(-1, *(1,) * (dst.ndim - 1))
    start = base if include_self else jnp.where(count > 0, jnp.asarray(identity, held), base)
    folds = {"add": "add", "mean": "add", "mul": "multiply", "min": "min", "max": "max"}
    fold = {**folds, "add": "max", "mul": "min"}[op] if dst.dtype == jnp.bool_ else folds[op]
    result = getattr(start.at[ids], fold)(rows, mode="drop")
    if op == "mean":
        many = (count + include_self).astype(held)
        result = jnp.where(count > 0, result / jnp.where(count > 0, many, 1), base)
    return result.astype(dst.dtype)
