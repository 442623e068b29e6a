"""Addition and subtraction: entries are joined, never merged, so shapes stay static and nothing synchronises."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..backend import backend_of, device_of
from ..dtypes import facts
from ..kernels.base import Array as AnyArray
from ..kernels.base import DType
from ..registry import Array, Scalar, implements
from ..types import Frame, IndexedSlices, Tangent, Zero
from ..types.one_hot import is_weak
from .binary import with_number
from .dense import add_frame_into, dense_of, note_operation
from .frames import align, broadcast_shapes, expand, promote, store
from .wrap import like, operand_frames
from .zeros import common_dtype, result_dtype

__all__ = ["concat_entries", "join_entries"]


def join_entries(frames: Sequence[Frame], dtype: DType) -> Frame:
    """The sum of frames: all entries on the union of the stored axes, or the full form where that takes fewer bytes."""
    shape = broadcast_shapes(*(f.shape for f in frames))
    frames = [promote(align(f, shape), dtype) for f in frames]
    axes = tuple(sorted({a for f in frames for a in f.axes}))
    if _joined_nbytes(frames, axes) > prod(shape) * facts(frames[0].backend, dtype).itemsize:
        return _full_form(frames)
    return concat_entries([store(f, axes) for f in frames])


def concat_entries(frames: Sequence[Frame]) -> Frame:
    """The sum of frames of one shape, dtype and choice of stored axes: all their entries, none merged."""
    filled = [f for f in frames if f.n] or list(frames[:1])
    if len(filled) == 1:
        return filled[0]
    axes, shape, xp = filled[0].axes, filled[0].shape, filled[0].backend.xp
    inner = broadcast_shapes(*(tuple(f.values.shape[1:]) for f in filled))
    dense_axes = filled[0].dense_axes
    wide = tuple(a for a, n in zip(dense_axes, inner, strict=True) if n != 1)
    return Frame(
        axes,
        tuple(xp.concat(columns) for columns in zip(*(f.ids for f in filled), strict=True)),
        xp.concat([expand(f, wide).values for f in filled]),
        shape,
        padded=any(f.padded for f in filled),
    )


def _joined_nbytes(frames: Sequence[Frame], axes: tuple[int, ...]) -> int:
    """Bytes of ids and values that joined entries would take, known without making them."""
    shape = frames[0].shape
    entries = sum(f.n * prod([shape[a] for a in axes if a not in f.axes]) for f in frames)
    held = [max(_held(f, a) for f in frames) for a in range(len(shape)) if a not in axes]
    itemsize = facts(frames[0].backend, frames[0].values.dtype).itemsize
    return entries * (prod(held) * itemsize + 8 * len(axes))


def _held(frame: Frame, axis: int) -> int:
    return int(frame.values.shape[1 + frame.dense_axes.index(axis)])


def _full_form(frames: Sequence[Frame]) -> Frame:
    """The first axis stored, every position once, the values the dense sum: what bounds the storage of long sums."""
    dense = dense_of(frames[0])
    for frame in frames[1:]:
        dense = add_frame_into(dense, frame)
    shape = frames[0].shape
    if not shape:
        return Frame((), (), dense[None, ...], shape, True, True)
    kernels, xp = frames[0].backend.kernels, frames[0].backend.xp
    ids = xp.arange(shape[0], dtype=kernels.index_dtype(dense), device=device_of(dense))
    return Frame((0,), (ids,), dense, shape, unique=True, ordered=True)


def _negated(frame: Frame) -> Frame:
    return frame.with_values(frame.backend.xp.negative(frame.values))


def _register(name: str, signed: Any) -> None:
    """Register ``add`` or ``subtract``; `signed` gives the right operand its sign."""

    @implements(name, Tangent, Tangent)
    def tangents(a: Tangent, b: Tangent) -> Tangent:
        left, right = operand_frames(a, b)
        dtype = common_dtype(name, left, right)
        return IndexedSlices._of(join_entries([left, signed(promote(right, dtype))], dtype))

    @implements(name, IndexedSlices, IndexedSlices)
    def slices(a: IndexedSlices, b: IndexedSlices) -> Tangent:
        # Entries that can be joined as they are: the common case, seen in a microsecond.
        axes, left_ids, x, shape, _, _, left_padded = a._frame()
        right_axes, right_ids, y, right_shape, _, _, right_padded = right = b._frame()
        dtype, held, right_held = x.dtype, x.shape, y.shape
        alike = shape == right_shape and axes == right_axes and held[1:] == right_held[1:]
        if not alike or not axes or type(x) is not type(y) or dtype != y.dtype:
            return tangents(a, b)
        backend = backend_of(x)
        kind, itemsize = facts(backend, dtype)
        if kind == "bool" or (held[0] + right_held[0]) * (prod(held[1:]) * itemsize + 8 * len(axes)) > prod(shape) * itemsize:
            return tangents(a, b)
        concat = backend.xp.concat
        if len(axes) == 1:
            ids = (concat((left_ids[0], right_ids[0])),)
        else:
            ids = tuple(map(concat, zip(left_ids, right_ids, strict=True)))
        values = concat((x, signed(right).values))
        return IndexedSlices._of(Frame(axes, ids, values, shape, False, False, left_padded or right_padded))

    @implements(name, Zero, Tangent)
    def zero_and_tangent(a: Zero, b: Tangent) -> Tangent:
        zero, frame = operand_frames(a, b)
        dtype = common_dtype(name, zero, frame)
        return like(b, signed(promote(align(frame, broadcast_shapes(a.shape, b.shape)), dtype)))

    @implements(name, Tangent, Zero)
    def tangent_and_zero(a: Tangent, b: Zero) -> Tangent:
        frame, zero = operand_frames(a, b)
        dtype = common_dtype(name, frame, zero)
        return like(a, promote(align(frame, broadcast_shapes(a.shape, b.shape)), dtype))

    @implements(name, Tangent, Array)
    def tangent_and_array(a: Tangent, b: AnyArray) -> AnyArray:
        frame, array = operand_frames(a, b)
        dtype = common_dtype(name, frame, array)
        return _into_copy(name, signed(promote(array, dtype)), promote(frame, dtype))

    @implements(name, Array, Tangent)
    def array_and_tangent(a: AnyArray, b: Tangent) -> AnyArray:
        array, frame = operand_frames(a, b)
        dtype = common_dtype(name, array, frame)
        return _into_copy(name, promote(array, dtype), signed(promote(frame, dtype)))

    @implements(name, Tangent, Scalar)
    def tangent_and_number(a: Tangent, b: complex) -> Any:
        return _neutral(name, a, a.dtype, b) if _is_literal_zero(b) else with_number(name, a, b)

    @implements(name, Scalar, Tangent)
    def number_and_tangent(a: complex, b: Tangent) -> Any:
        if not _is_literal_zero(a):
            return with_number(name, a, b)
        result = _neutral(name, b, a, b.dtype)
        return result if name == "add" else like(result, signed(result._frame()))


def _is_literal_zero(number: Any) -> bool:
    """The int 0, with which the builtin ``sum`` starts; 0.0 and False are numbers like any other."""
    return type(number) is int and number == 0


def _neutral(name: str, t: Tangent, *operands: Any) -> Tangent:
    """``t + 0``: t itself, unless the dense sum has another dtype (bools)."""
    if is_weak(t):
        return t
    dtype = result_dtype(name, t._frame(), *operands)
    return t if dtype == t.dtype else t.astype(dtype)


def _into_copy(name: str, array: Frame, frame: Frame) -> AnyArray:
    """A new dense array: one copy of the array, one scatter-add of the tangent."""
    shape = broadcast_shapes(frame.shape, array.shape)
    if shape != array.shape and (frame.axes or frame.n):
        note_operation(name, frame, shape)
    base = expand(align(array, shape)).values[0, ...]
    base = frame.backend.xp.astype(base, base.dtype, copy=True)
    return add_frame_into(base, align(frame, shape))


_register("add", lambda frame: frame)
_register("subtract", _negated)
