"""Products of tensors and vectors: each names the axes that meet, and `contract` does the rest."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..backend import backend_of
from ..dtypes import facts
from ..registry import Array, apply, implements
from ..types import Frame, Tangent, Zero
from ..types.axes import as_axes, as_axis
from .contractions import Labels, batch_labels, contract
from .frames import promote
from .wrap import operand_frames, settle
from .zeros import common_dtype

__all__ = ["cross", "outer", "tensordot", "vecdot"]

_PAIRS = ((Tangent, Tangent), (Tangent, Array), (Array, Tangent))


def _promoted(a: Any, b: Any) -> tuple[Frame, Frame]:
    left, right = operand_frames(a, b)
    dtype = common_dtype("multiply", left, right)
    return promote(left, dtype), promote(right, dtype)


def _contracted(a: Any, b: Any, left: Frame, right: Frame, a_labels: Labels, b_labels: Labels, out: Labels) -> Any:
    frame = contract(left, right, a_labels, b_labels, out)
    if frame.shape and (isinstance(a, Zero) or isinstance(b, Zero)):
        return Zero(frame.shape, like=frame.values)
    return settle(None, frame)


def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """The sum of products over pairs of axes: the last of `x1` with the first of `x2`, or those named."""
    left, right = _promoted(x1, x2)
    n, m = len(left.shape), len(right.shape)
    if isinstance(axes, (tuple, list)):
        a_axes, b_axes = as_axes(tuple(axes[0]), n, "axes"), as_axes(tuple(axes[1]), m, "axes")
    else:
        count = operator.index(axes)
        if not 0 <= count <= min(n, m):
            raise ValueError(f"axes must be between 0 and {min(n, m)}, not {count}")
        a_axes, b_axes = tuple(range(n - count, n)), tuple(range(count))
    sizes = [left.shape[a] for a in a_axes], [right.shape[b] for b in b_axes]
    if sizes[0] != sizes[1]:
        raise ValueError(f"tensordot contracts axes of sizes {sizes[0]} and {sizes[1]} (shapes {left.shape} and {right.shape})")
    a_labels = tuple(range(n))
    b_labels = tuple(a_axes[b_axes.index(b)] if b in b_axes else n + b for b in range(m))
    out = (*(a for a in a_labels if a not in a_axes), *(n + b for b in range(m) if b not in b_axes))
    return _contracted(x1, x2, left, right, a_labels, b_labels, out)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of products of conj(x1) and x2 along an axis, broadcast over the others."""
    left, right = _promoted(x1, x2)
    if not left.shape or not right.shape:
        raise ValueError(f"vecdot needs at least one axis on either side, not shapes {left.shape} and {right.shape}")
    if not -min(len(left.shape), len(right.shape)) <= axis < 0 and len(left.shape) != len(right.shape):
        raise ValueError(f"axis {axis} is out of range for shapes {left.shape} and {right.shape}")
    a_axis, b_axis = as_axis(axis, len(left.shape)), as_axis(axis, len(right.shape))
    if left.shape[a_axis] != right.shape[b_axis]:
        raise ValueError(f"vecdot contracts axes of sizes {left.shape[a_axis]} and {right.shape[b_axis]}")
    if facts(left.backend, left.values.dtype).kind == "complex":
        left = left.with_values(left.backend.xp.conj(left.values))
    a_rest = left.shape[:a_axis] + left.shape[a_axis + 1 :]
    b_rest = right.shape[:b_axis] + right.shape[b_axis + 1 :]
    a_labels, b_labels, out = batch_labels(a_rest, b_rest, range(1, 1 + max(len(a_rest), len(b_rest))))
    a_labels, b_labels = (*a_labels[:a_axis], 0, *a_labels[a_axis:]), (*b_labels[:b_axis], 0, *b_labels[b_axis:])
    return _contracted(x1, x2, left, right, a_labels, b_labels, out)


def outer(x1: Any, x2: Any, /) -> Any:
    """Every product of an element of one vector with one of another."""
    left, right = _promoted(x1, x2)
    if len(left.shape) != 1 or len(right.shape) != 1:
        raise ValueError(f"outer takes vectors, not shapes {left.shape} and {right.shape}")
    return _contracted(x1, x2, left, right, (0,), (1,), (0, 1))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product along an axis of size 3, of reads and products."""
    for x in (x1, x2):
        if len(x.shape) == 0 or x.shape[as_axis(axis, len(x.shape))] != 3:
            raise ValueError(f"cross needs size 3 along axis {axis}, not shape {tuple(x.shape)}")

    def read(x: Any, order: list[int]) -> Any:
        backend = backend_of(x._frame().values if isinstance(x, Tangent) else x)
        number = as_axis(axis, len(x.shape))
        if isinstance(x, Tangent):
            return apply("take", x, order, axis=number)
        return backend.xp.take(x, backend.xp.asarray(order, device=x.device), axis=number)

    first = apply("multiply", read(x1, [1, 2, 0]), read(x2, [2, 0, 1]))
    return apply("subtract", first, apply("multiply", read(x1, [2, 0, 1]), read(x2, [1, 2, 0])))


for _function in (tensordot, vecdot, outer, cross):
    for _pair in _PAIRS:
        implements(_function.__name__, *_pair)(_function)
