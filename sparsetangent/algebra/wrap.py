"""From a frame to what the caller gets back, and from an operand to its frame."""

from __future__ import annotations

from typing import Any

from ..backend import backend_of, common_backend
from ..kernels.base import Array
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from ..types.one_hot import is_weak
from .dense import dense_of
from .frames import frame_of_array

__all__ = ["as_tangent", "held_array", "like", "operand_frames", "reshaped", "settle"]


def like(t: Tangent | None, frame: Frame) -> Tangent:
    """The result of an operation that keeps the storage of `t`: a `Fill` or `Zero` stays one, all else is slices."""
    if isinstance(t, Fill):
        return Fill._of(frame.backend.xp.reshape(frame.values, ()), frame.shape)
    if isinstance(t, Zero):
        return Zero._of(frame.backend.xp.reshape(frame.values, (0,)), frame.shape)
    return IndexedSlices._of(frame)


def settle(t: Tangent | None, frame: Frame) -> Tangent | Array:
    """The result of an operation that removes axes: dense when no stored axis is left, an array when no axis is left.

    A `Fill` or `Zero` stays one if the operation had it (`t`) as its only operand.
    """
    if frame.shape and (frame.axes or isinstance(t, (Fill, Zero))):
        return like(t, frame)
    return dense_of(frame)


def reshaped(t: Tangent, frame: Frame) -> Tangent | Array:
    """The result of a change of shape: a sum of whole arrays stays one, and an array takes the place of the last stored axis."""
    return like(t, frame) if frame.axes or not t._frame().axes else dense_of(frame)


def as_tangent(x: Tangent | Array) -> Tangent:
    """A tangent as it is, an array as a sum of one: what is left of a tangent whose last stored axis a reshape removed."""
    return x if isinstance(x, Tangent) else IndexedSlices._of(frame_of_array(x))


def held_array(x: Any) -> Array:
    """An array of the library, dtype and device of a tangent or an array: the values, or the array itself."""
    if isinstance(x, Tangent):
        return x._frame().values
    backend_of(x)
    return x


def operand_frames(*operands: Any) -> tuple[Frame, ...]:
    """The frames of tangents and arrays of one backend; a weak one-hot takes the dtype of the first operand that has one."""
    for x in operands:
        if not isinstance(x, Tangent):
            backend_of(x)  # a TypeError that names the type of what is no array
    dtypes = [x.dtype for x in operands if not is_weak(x)]
    frames = tuple(
        x._with_dtype(dtypes[0])._frame()
        if dtypes and is_weak(x)
        else x._frame()
        if isinstance(x, Tangent)
        else frame_of_array(x)
        for x in operands
    )
    common_backend(*(f.values for f in frames))
    return frames
