"""The standard's reductions on tangents. Sums and means are linear; all others merge repeats first and count implicit zeros."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from math import inf, prod
from typing import Any

from ..backend import Backend, backend_of, device_of
from ..dtypes import as_dtype, facts
from ..kernels.base import Array, DType
from ..registry import implements
from ..types import Fill, Frame, Tangent, Zero
from ..types.axes import as_axes
from .dense import implicit
from .folds import MAX, MIN, PROD, Reduction, reduce_frame, sum_frame
from .frames import distinct, promote
from .wrap import settle

__all__ = ["count_nonzero", "magnitude_scale", "mean", "sum_", "vector_norm"]

Axis = int | tuple[int, ...] | None


def _dense_dtype(name: str, frame: Frame) -> DType:
    """The dtype that the library's reduction gives for the dense array; raises where it raises."""
    backend = frame.backend
    # The widest index dtype stands in the key for JAX's switch of 64-bit types, which changes the answer.
    return _asked_dtype(name, backend, frame.values.dtype, backend.kernels.index_dtype(frame.values))


@lru_cache(maxsize=1024)
def _asked_dtype(name: str, backend: Backend, dtype: DType, widest: DType) -> DType:
    return getattr(backend.xp, name)(backend.xp.zeros((1,), dtype=dtype), axis=0).dtype


def _accumulates_in(x: Tangent, name: str, dtype: DType | None) -> DType:
    """The result dtype of ``sum`` or ``prod``: the caller's, or the one that the library upcasts to."""
    backend = x._frame().backend
    if dtype is None:
        return _dense_dtype(name, x._frame())
    dtype = as_dtype(backend, dtype)
    if facts(backend, x.dtype).kind in ("real", "complex") and facts(backend, dtype).kind not in ("real", "complex"):
        raise TypeError(f"a {x.dtype} tangent is not accumulated in {dtype}: cast first or after, the two differ")
    return dtype


@implements("sum", Tangent)
def sum_(x: Tangent, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Any:
    """The sum over axes, compact where a stored axis is left."""
    axes = as_axes(axis, x.ndim)
    dtype = _accumulates_in(x, "sum", dtype)
    return settle(x, _cast(_held_sum(promote(x._frame(), dtype), axes, keepdims), dtype))


def _held_sum(frame: Frame, axes: tuple[int, ...], keepdims: bool) -> Frame:
    """A sum in the accumulator's dtype, entries merged where they would be merged at once anyway, so that it is rounded once."""
    held = frame.backend.kernels.accumulator(frame.values.dtype)
    frame = sum_frame(promote(frame, held), axes, keepdims)
    return frame if frame.axes else distinct(frame)


def _cast(frame: Frame, dtype: DType) -> Frame:
    return frame.with_values(frame.backend.xp.astype(frame.values, dtype, copy=False))


@implements("mean", Tangent)
def mean(x: Tangent, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The mean over axes; nan over an empty one, as for arrays."""
    axes = as_axes(axis, x.ndim)
    dtype = _dense_dtype("mean", x._frame())
    count = prod([x.shape[a] for a in axes])
    if count == 0:
        return _of_empty(x, "mean", axes, keepdims)
    frame = _held_sum(promote(x._frame(), dtype), axes, keepdims)
    return settle(x, _cast(frame.with_values(frame.values / count), dtype))


def _of_empty(x: Tangent, name: str, axes: tuple[int, ...], keepdims: bool, **kwargs: Any) -> Any:
    """The fold of nothing, the same number everywhere; where the dense operation raises, so does this."""
    xp = x._frame().backend.xp
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        value = getattr(xp, name)(xp.zeros((0,), dtype=x.dtype, device=device_of(x._frame().values)), axis=0, **kwargs)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    return Fill._of(value, shape) if shape else value


def _folding(name: str, fold: Reduction, *, prepare: Callable[[Frame], Frame] | None = None) -> None:
    """Register a reduction that merges repeats and counts implicit zeros."""

    @implements(name, Tangent)
    def reduction(x: Tangent, /, *, axis: Axis = None, keepdims: bool = False, **kwargs: Any) -> Any:
        axes = as_axes(axis, x.ndim)
        if prod([x.shape[a] for a in axes]) == 0:
            return _of_empty(x, name, axes, keepdims, **kwargs)
        frame = x._frame()
        _dense_dtype(name, frame)
        if name in ("max", "min") and facts(frame.backend, frame.values.dtype).kind == "complex":
            # The standard orders no complex numbers; a library that does (NumPy, lexicographically) decides by itself.
            return getattr(frame.backend.xp, name)(implicit(x, name), axis=axis, keepdims=keepdims)
        if name == "prod":
            frame = promote(frame, _accumulates_in(x, "prod", kwargs.get("dtype")))
        frame = distinct(frame)
        if prepare is not None:
            frame = prepare(frame)
        if not axes:
            return settle(x, frame)
        if isinstance(x, Zero):
            return settle(x, sum_frame(frame, axes, keepdims))
        return settle(x, reduce_frame(frame, axes, fold, keepdims))


def _as_bool(frame: Frame) -> Frame:
    return frame.with_values(frame.values != 0) if frame.values.dtype != frame.backend.xp.bool else frame


_folding("max", MAX)
_folding("min", MIN)
_folding("prod", PROD)
_folding("any", MAX, prepare=_as_bool)
_folding("all", MIN, prepare=_as_bool)


@implements("count_nonzero", Tangent)
def count_nonzero(x: Tangent, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements are not zero, repeats merged first."""
    dtype = _dense_dtype("count_nonzero", x._frame())
    frame = _cast(_as_bool(distinct(x._frame())), dtype)
    return settle(x, sum_frame(frame, as_axes(axis, x.ndim), keepdims))


@implements("vector_norm", Tangent)
def vector_norm(x: Tangent, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The `ord` norm over axes of the vector of all elements; repeats are merged first, half types are held in float32.

    The Euclidean norm over all axes is scaled by the greatest magnitude, so that no square overflows or vanishes.
    """
    axes = as_axes(axis, x.ndim)
    frame = distinct(x._frame())
    xp = frame.backend.xp
    dtype = xp.linalg.vector_norm(xp.zeros((1,), dtype=x.dtype)).dtype
    if prod([x.shape[a] for a in axes]) == 0 or (ord < 0 and ord != -inf):
        # One implicit zero makes a negative order 0; an empty vector is a case of its own for each order.
        return xp.linalg.vector_norm(implicit(x, "vector_norm"), axis=axis, keepdims=keepdims, ord=ord)
    held = frame.backend.kernels.accumulator(dtype)
    frame = _cast(frame.with_values(xp.abs(frame.values)), held)
    if abs(ord) == inf:
        folded = reduce_frame(frame, axes, MAX if ord > 0 else MIN, keepdims) if axes else frame
    elif ord == 0:
        counted = frame.with_values(xp.astype(frame.values != 0, held))
        folded = distinct(sum_frame(counted, axes, keepdims))
    else:
        scale = magnitude_scale(frame.values) if ord == 2 and len(axes) == x.ndim else 1
        powers = frame.with_values((frame.values / scale) ** ord)
        folded = distinct(sum_frame(powers, axes, keepdims))
        folded = folded.with_values(folded.values ** (1 / ord) * scale)
    return settle(x, _cast(folded, dtype))


def magnitude_scale(magnitudes: Array) -> Array:
    """What to divide magnitudes by before they are squared, of shape (): the greatest, or 1 where that is 0, inf or nan."""
    backend = backend_of(magnitudes)
    xp, dtype = backend.xp, magnitudes.dtype
    one = xp.ones((), dtype=dtype, device=device_of(magnitudes))
    if 0 in magnitudes.shape:
        return one
    greatest = xp.max(magnitudes)
    # A compiler may multiply by the inverse, and flush it to 0 if it is no normal number.
    least = float(xp.finfo(dtype).smallest_normal)
    usable = (greatest > 0) & xp.isfinite(greatest)
    return xp.where(usable, xp.clip(greatest, least, 1 / least), one)
