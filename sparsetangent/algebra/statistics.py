"""Variance and standard deviation, implicit zeros counted."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from ..backend import Backend, device_of
from ..dtypes import facts
from ..kernels.base import Array, DType
from ..registry import implements
from ..types import Frame, Tangent
from ..types.axes import as_axes
from .fallback import call_dense
from .folds import sum_frame
from .frames import blank_padding, coalesce, distinct, promote
from .join import quotient
from .wrap import settle

__all__ = ["std", "var"]

Axis = int | tuple[int, ...] | None


@implements("var", Tangent)
def var(x: Tangent, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean squared distance from the mean, over the count less `correction`."""
    return _spread("var", x, axis, correction, keepdims)


@implements("std", Tangent)
def std(x: Tangent, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The root of `var`."""
    return _spread("std", x, axis, correction, keepdims)


def _spread(name: str, x: Tangent, axis: Axis, correction: float, keepdims: bool) -> Any:
    axes = as_axes(axis, x.ndim)
    count = prod([x.shape[a] for a in axes])
    if count == 0 or count <= correction:  # 0 / 0 also where nothing is stored
        return call_dense(name, x, axis=axis, correction=correction, keepdims=keepdims)
    frame = x._frame()
    backend = frame.backend
    dtype = _asked_dtype(name, backend, frame.values.dtype, backend.kernels.index_dtype(frame.values))
    complex_ = facts(backend, frame.values.dtype).kind == "complex"
    frame = distinct(frame if complex_ else promote(frame, backend.kernels.accumulator(dtype)))
    squares = _squares(frame, axes, count)
    values = squares.values / (count - correction)
    values = backend.xp.sqrt(values) if name == "std" else values
    result = squares.with_values(backend.xp.astype(values, dtype, copy=False))
    if not keepdims:
        result = sum_frame(result, axes, keepdims=False)
    return settle(x, result)


@lru_cache(maxsize=256)
def _asked_dtype(name: str, backend: Backend, dtype: DType, widest: DType) -> DType:
    # `widest` stands in the key for JAX's switch of 64-bit types, which changes the answer.
    return getattr(backend.xp, name)(backend.xp.zeros((2,), dtype=dtype), axis=0).dtype


def _squares(frame: Frame, axes: tuple[int, ...], count: int) -> Frame:
    """The sum of squared distances from the mean, the axes kept as size 1.

    What is stored adds its own distances; each place of `axes` that is not, the square of the mean.
    """
    xp = frame.backend.xp
    means = coalesce(sum_frame(frame, axes, keepdims=True))
    means = means.with_values(means.values / count)
    apart = quotient(frame, means, lambda v, m: _squared(v - m, frame.backend))
    apart = blank_padding(apart) if apart.padded else apart
    squares = coalesce(sum_frame(apart, axes, keepdims=True))
    stored = prod([frame.shape[a] for a in axes if a in frame.axes])
    if stored == 1 or not means.n:
        return squares
    ones = xp.ones((frame.n, *(1,) * (frame.values.ndim - 1)), dtype=squares.values.dtype, device=device_of(frame.values))
    counted = Frame(frame.axes, frame.ids, ones, frame.shape, frame.unique, frame.ordered, frame.padded)
    counted = blank_padding(counted) if counted.padded else counted
    held = coalesce(sum_frame(counted, tuple(a for a in axes if a in frame.axes), keepdims=True))
    missing = (stored - held.values) * (count // stored)
    implicit = xp.where(missing > 0, missing * _squared(means.values, frame.backend), xp.zeros_like(missing))
    return squares.with_values(squares.values + implicit)


def _squared(x: Array, backend: Backend) -> Array:
    if facts(backend, x.dtype).kind != "complex":
        return x * x
    return backend.xp.square(backend.xp.real(x)) + backend.xp.square(backend.xp.imag(x))
