"""Where the greatest and the least elements stand: the first occurrence along the whole axis, implicit zeros included."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..backend import Backend, device_of
from ..dtypes import facts
from ..kernels.base import Array, DType
from ..registry import implements
from ..types import Frame, Tangent
from ..types.axes import as_axis
from .fallback import call_dense
from .folds import MAX, MIN, Reduction, group_entries, reduce_frame, squeeze
from .frames import coalesce, distinct
from .reshape import reshape
from .shapes import permute_frame
from .wrap import as_tangent, settle

__all__ = ["argmax", "argmin"]


@implements("argmax", Tangent)
def argmax(x: Tangent, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The position of the greatest element; of nan, if there is one."""
    return _position("argmax", MAX, x, axis, keepdims)


@implements("argmin", Tangent)
def argmin(x: Tangent, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The position of the least element; of nan, if there is one."""
    return _position("argmin", MIN, x, axis, keepdims)


def _position(name: str, fold: Reduction, x: Tangent, axis: int | None, keepdims: bool) -> Any:
    frame = x._frame()
    backend = frame.backend
    dtype = _asked_dtype(name, backend, frame.values.dtype, backend.kernels.index_dtype(frame.values))
    if x.size == 0 or facts(backend, frame.values.dtype).kind == "complex":
        return call_dense(name, x, axis=axis, keepdims=keepdims)
    if axis is None:
        flat = _position(name, fold, as_tangent(reshape(x, (-1,))), 0, False)
        return backend.xp.reshape(flat, (1,) * x.ndim) if keepdims else flat
    number = as_axis(axis, x.ndim)
    frame = distinct(frame)
    found = _along_stored(frame, number, fold) if number in frame.axes else _along_dense(name, frame, number)
    found = found.with_values(backend.xp.astype(found.values, dtype, copy=False))
    return settle(x, found if keepdims else squeeze(found, (number,)))


@lru_cache(maxsize=256)
def _asked_dtype(name: str, backend: Backend, dtype: DType, widest: DType) -> DType:
    # `widest` stands in the key for JAX's switch of 64-bit types, which changes the answer.
    return getattr(backend.xp, name)(backend.xp.zeros((1,), dtype=dtype)).dtype


def _along_dense(name: str, frame: Frame, axis: int) -> Frame:
    """Lines of zeros have their first element first, so what is not stored stays zero."""
    place = 1 + frame.dense_axes.index(axis)
    if frame.n:
        values = getattr(frame.backend.xp, name)(frame.values, axis=place, keepdims=True)
    else:
        inner = tuple(1 if i == place else n for i, n in enumerate(frame.values.shape))
        values = frame.backend.xp.zeros(inner, dtype=frame.values.dtype, device=device_of(frame.values))
    return frame._replace(values=values, shape=tuple(1 if a == axis else n for a, n in enumerate(frame.shape)))


def _along_stored(frame: Frame, axis: int, fold: Reduction) -> Frame:
    """The least of the stored positions that hold the extreme, and of those not stored if it is 0."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    size = frame.shape[axis]
    # With the axis last, coalesced entries ascend along it inside each group.
    order = (*(a for a in range(len(frame.shape)) if a != axis), axis)
    frame = coalesce(permute_frame(frame, order))
    best = reduce_frame(frame, (len(order) - 1,), fold, keepdims=False)
    groups, _, group = group_entries(frame, frame.axes[:-1])
    inner = best.values.shape[1:]
    hit = _equal(frame.values, kernels.gather(best.values, group), frame)
    ids = frame.ids[-1]
    last = xp.full((1,), size, dtype=ids.dtype, device=device_of(ids))
    here = xp.where(hit, xp.reshape(ids, (-1, *(1,) * len(inner))), last)
    start = xp.full((groups, *inner), size, dtype=ids.dtype, device=device_of(ids))
    stored = kernels.scatter_reduce("min", start, group, here, True)
    missing = xp.reshape(_first_missing(ids, group, groups, frame), (-1, *(1,) * len(inner)))
    zero = xp.where(best.values == 0, missing, last) if not _is_bool(frame) else xp.where(best.values, last, missing)
    found = best.with_values(xp.where(zero < stored, zero, stored))
    found = found._replace(values=xp.reshape(found.values, (*found.values.shape, 1)), shape=(*found.shape, 1))
    return permute_frame(found, tuple(order.index(a) for a in range(len(order))))


def _is_bool(frame: Frame) -> bool:
    return facts(frame.backend, frame.values.dtype).kind == "bool"


def _equal(values: Array, best: Array, frame: Frame) -> Array:
    xp = frame.backend.xp
    same = values == best
    if facts(frame.backend, values.dtype).kind == "real":
        same = same | (xp.isnan(values) & xp.isnan(best))
    return same


def _first_missing(ids: Array, group: Array, groups: int, frame: Frame) -> Array:
    """The least position of each group that no entry has; the entries of a group ascend."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    dtype, device = kernels.index_dtype(ids), device_of(ids)
    n = int(ids.shape[0])
    line = xp.arange(n, dtype=dtype, device=device)
    first = kernels.scatter_reduce("min", xp.full((groups,), n, dtype=dtype, device=device), group, line, True)
    rank = line - kernels.gather(first, group)
    counts = kernels.densify(group, xp.ones((n,), dtype=dtype, device=device), groups)
    gap = xp.where(xp.astype(ids, dtype, copy=False) != rank, rank, xp.full((1,), n, dtype=dtype, device=device))
    gap = kernels.scatter_reduce("min", xp.full((groups,), n, dtype=dtype, device=device), group, gap, True)
    return xp.astype(xp.where(gap < counts, gap, counts), ids.dtype, copy=False)
