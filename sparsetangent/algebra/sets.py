"""What elements there are and where: distinct values, membership, and the places that are not zero."""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..registry import implements
from ..types import Fill, Frame, Tangent
from .dense import implicit
from .fallback import call_dense
from .frames import coalesce, distinct, expand, keep, store
from .wrap import like

__all__ = ["isin", "nonzero", "nonzero_coordinates", "unique_counts", "unique_values"]


@implements("nonzero", Tangent)
def nonzero(x: Tangent, /) -> tuple[Array, ...]:
    """The coordinates of the elements that are not zero, in their order."""
    if not x.ndim:
        raise ValueError("nonzero of a tangent without axes")
    if isinstance(x, Fill):
        return call_dense("nonzero", x)  # type: ignore[no-any-return]
    return nonzero_coordinates(x._frame())


def nonzero_coordinates(frame: Frame) -> tuple[Array, ...]:
    """The coordinates along each axis of what is not zero once repeats are merged, in lexicographic order."""
    xp = frame.backend.xp
    frame = expand(distinct(frame))
    # Rows of zeros go before their elements become entries.
    filled = frame.values != 0 if frame.values.dtype != xp.bool else frame.values
    rows = xp.any(xp.reshape(filled, (frame.n, -1)), axis=1) if prod(filled.shape) else xp.zeros((frame.n,), dtype=xp.bool)
    frame = store(keep(frame, rows) if frame.axes else frame, frame.dense_axes)
    frame = coalesce(frame)
    frame = keep(frame, frame.values != 0 if frame.values.dtype != xp.bool else frame.values)
    dtype = xp.nonzero(xp.zeros((1,), dtype=xp.bool, device=device_of(frame.values)))[0].dtype
    return tuple(xp.astype(ids, dtype, copy=False) for ids in frame.ids)


def _stored_values(x: Tangent) -> tuple[Frame, Array, int, int]:
    """The frame without repeats and padding, its values as a vector, for how many elements each stands, and how many are not stored."""
    frame = distinct(x._frame())
    if frame.padded and frame.axes:
        frame = keep(frame, frame.ids[0] < frame.stored_sizes[0])
    each = prod(n for n, held in zip(frame.dense_sizes, frame.values.shape[1:], strict=True) if held != n)
    missing = x.size - frame.n * prod(frame.dense_sizes)
    return frame, frame.backend.xp.reshape(frame.values, (-1,)), each, missing


def _with_zero(values: Array) -> Array:
    xp = backend_of(values).xp
    return xp.concat([values, xp.zeros((1,), dtype=values.dtype, device=device_of(values))])


@implements("unique_values", Tangent)
def unique_values(x: Tangent, /) -> Array:
    """The distinct elements, the implicit 0 among them."""
    frame, values, _, missing = _stored_values(x)
    if x.size == 0:
        values = values[:0]
    return frame.backend.xp.unique_values(_with_zero(values) if missing else values)


@implements("unique_counts", Tangent)
def unique_counts(x: Tangent, /) -> Any:
    """The distinct elements and how often each occurs."""
    frame, values, each, missing = _stored_values(x)
    xp = frame.backend.xp
    if x.size == 0:
        return xp.unique_counts(values[:0])
    found = xp.unique_counts(_with_zero(values) if missing else values)
    counts = found.counts
    if missing:
        # One zero was put in for all that are not stored.
        is_zero = xp.logical_not(found.values) if values.dtype == xp.bool else found.values == 0
        zero = xp.astype(is_zero, counts.dtype)
        counts = (counts - zero) * each + zero * missing
    else:
        counts = counts * each
    return found._replace(counts=counts)


@implements("isin")
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of `x1` is one of `x2`: compact if 0 is not (or is, for `invert`) and values can be seen."""
    if isinstance(x2, Tangent):
        x2 = unique_values(x2)
    if not isinstance(x1, Tangent):
        return _is_in(x1, x2, invert, backend_of(x2 if not hasattr(x1, "dtype") else x1).xp)
    frame = x1._frame()
    xp = frame.backend.xp
    if isinstance(x1, Fill):
        return like(x1, frame.with_values(_is_in(frame.values, x2, invert, xp)))
    is_number = isinstance(x2, (bool, int, float, complex))
    if not is_number and not frame.backend.kernels.concrete(x2):
        return _is_in(implicit(x1, "isin"), x2, invert, xp)
    if (x2 == 0 if is_number else bool(xp.any(x2 == 0))) != invert:
        return _is_in(implicit(x1, "isin"), x2, invert, xp)
    frame = distinct(frame)
    return like(x1, frame.with_values(_is_in(frame.values, x2, invert, xp)))


def _is_in(x1: Any, x2: Any, invert: bool, xp: Any) -> Array:
    found = xp.isin(x1, x2)  # array_api_strict 2.6 ignores `invert`
    return xp.logical_not(found) if invert else found
