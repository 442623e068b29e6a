"""Shape functions: the values move or are viewed, the coordinates are mapped."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..backend import common_backend
from ..kernels.base import Array
from ..registry import implements
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from ..types.axes import as_axes, as_axis, as_shape
from ..types.indices import check_size
from .dense import implicit
from .folds import squeeze as squeeze_dense
from .folds import sum_frame
from .frames import align, broadcast_shapes, drop_axes, expand, pad_outside, promote, store
from .reshape import reshape
from .wrap import as_tangent, like, operand_frames, reshaped, settle

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "permute_dims",
    "roll",
    "squeeze",
    "stack",
    "sum_to_shape",
]


@implements("permute_dims", Tangent)
def permute_dims(x: Tangent, /, axes: Sequence[int]) -> Any:
    """The axes in another order."""
    order = as_axes(tuple(axes), x.ndim, "axes")
    if len(order) != x.ndim:
        raise ValueError(f"axes must name each of the {x.ndim} axes once, not {tuple(axes)}")
    return like(x, permute_frame(x._frame(), order))


def permute_frame(frame: Frame, order: tuple[int, ...]) -> Frame:
    """The axes in another order, which names each once."""
    stored = sorted((order.index(a), i) for i, a in enumerate(frame.axes))
    dense = [frame.dense_axes.index(a) for a in order if a not in frame.axes]
    values = frame.values
    if dense != sorted(dense):
        values = frame.backend.xp.permute_dims(values, (0, *(d + 1 for d in dense)))
    return frame._replace(
        axes=tuple(a for a, _ in stored),
        ids=tuple(frame.ids[i] for _, i in stored),
        values=values,
        shape=tuple(frame.shape[a] for a in order),
        ordered=frame.ordered and [i for _, i in stored] == list(range(len(stored))),
    )


@implements("matrix_transpose", Tangent)
def matrix_transpose(x: Tangent, /) -> Any:
    """The last two axes swapped."""
    return x.mT


@implements("expand_dims", Tangent)
def expand_dims(x: Tangent, /, axis: int | tuple[int, ...] = 0) -> Any:
    """New dense axes of size 1, at `axis` of the result."""
    count = len(axis) if isinstance(axis, tuple) else 1
    new = as_axes(axis, x.ndim + count)
    return like(x, insert_axes(x._frame(), new))


def insert_axes(frame: Frame, new: tuple[int, ...]) -> Frame:
    """Insert dense axes of size 1 at the positions `new` of the result."""
    ndim = len(frame.shape) + len(new)
    old = [a for a in range(ndim) if a not in new]
    axes = tuple(old[a] for a in frame.axes)
    sizes = dict(zip((old[a] for a in frame.dense_axes), frame.values.shape[1:], strict=True))
    inner = tuple(sizes.get(a, 1) for a in range(ndim) if a not in axes)
    full = dict(zip(old, frame.shape, strict=True))
    return frame._replace(
        axes=axes,
        values=frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *inner)),
        shape=tuple(full.get(a, 1) for a in range(ndim)),
    )


@implements("squeeze", Tangent)
def squeeze(x: Tangent, /, axis: int | tuple[int, ...]) -> Any:
    """Remove axes of size 1."""
    axes = as_axes(axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"only axes of size 1 can be squeezed, not {axis} of shape {x.shape}")
    return reshaped(x, squeeze_frame(x._frame(), axes))


def squeeze_frame(frame: Frame, axes: tuple[int, ...]) -> Frame:
    """Remove axes of size 1, stored or dense."""
    stored = tuple(a for a in frame.axes if a in axes)
    if stored:
        frame = drop_axes(frame, stored)
    return squeeze_dense(frame, axes)


@implements("broadcast_to", Tangent)
def broadcast_to(x: Tangent, /, shape: Sequence[int]) -> Any:
    """Stretch axes of size 1 and add leading axes, both dense."""
    target = as_shape(shape)
    if broadcast_shapes(x.shape, target) != target:
        raise ValueError(f"a tangent of shape {x.shape} does not broadcast to {target}")
    return like(x, align(x._frame(), target))


@implements("sum_to_shape", Tangent)
def sum_to_shape(x: Tangent | Array, shape: Sequence[int]) -> Any:
    """Un-broadcast: sum over the axes along which `shape` was stretched to that of `x`; the adjoint of broadcasting.

    Parameters
    ----------
    x : Tangent or Array
        Of any shape and dtype.
    shape : tuple of int
        Must broadcast to the shape of `x`.

    Returns
    -------
    Tangent or Array
        Of shape `shape` and the dtype of `x`; compact where a stored axis is left.

    Raises
    ------
    ValueError
        If `shape` does not broadcast to the shape of `x`.

    Notes
    -----
    ``<sum_to_shape(x, s), y> == <x, broadcast_to(y, x.shape)>`` for all y of shape s.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([[1.0, 2.0], [3.0, 4.0]]), (3, 2))
    >>> st.sum_to_shape(t, (3, 1)).densify().tolist()
    [[0.0], [10.0], [0.0]]
    >>> st.sum_to_shape(t, (2,)).tolist()
    [4.0, 6.0]
    """
    target = as_shape(shape)
    lead = len(x.shape) - len(target)
    if lead < 0 or broadcast_shapes(tuple(x.shape), target) != tuple(x.shape):
        raise ValueError(f"shape {target} does not broadcast to {tuple(x.shape)}")
    axes = (*range(lead), *(a + lead for a, n in enumerate(target) if n == 1 and x.shape[a + lead] != 1))
    if not axes:
        return x
    (frame,) = operand_frames(x)
    frame = sum_frame(frame, axes, keepdims=True)
    frame = squeeze_dense(frame, tuple(range(lead)))
    if isinstance(x, (Fill, Zero)):
        return like(x, frame)
    return settle(None, frame)


@implements("flip", Tangent)
def flip(x: Tangent, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """Reverse axes."""
    axes = as_axes(axis, x.ndim)
    frame = x._frame()
    dense = tuple(1 + i for i, a in enumerate(frame.dense_axes) if a in axes and frame.values.shape[1 + i] != 1)
    if dense:
        frame = frame.with_values(frame.backend.xp.flip(frame.values, axis=dense))
    return like(x, _map_ids(frame, {a: _reversed(frame.shape[a]) for a in axes if a in frame.axes}))


def _reversed(size: int) -> Any:
    return lambda ids: size - 1 - ids


def _map_ids(frame: Frame, maps: dict[int, Any]) -> Frame:
    """Map the coordinates of stored axes one to one; padding stays padding."""
    if not maps:
        return frame
    ids = tuple(maps[a](i) if a in maps else i for a, i in zip(frame.axes, frame.ids, strict=True))
    if frame.padded:
        xp = frame.backend.xp
        inside = frame.ids[0] < frame.stored_sizes[0]
        ids = tuple(xp.where(inside, new, old) for new, old in zip(ids, frame.ids, strict=True))
    return frame._replace(ids=ids, ordered=False)


@implements("roll", Tangent)
def roll(x: Tangent, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Any:
    """Shift along axes, what leaves at the end comes in at the start; with no axis, along the flattened tangent."""
    if axis is None:
        return reshape(roll(as_tangent(reshape(x, (-1,))), shift, axis=0), x.shape) if x.size else x
    shifts = shift if isinstance(shift, tuple) else (shift,)
    given = axis if isinstance(axis, tuple) else (axis,)
    if len(shifts) == 1:
        shifts = shifts * len(given)
    if len(shifts) != len(given):
        raise ValueError(f"shift and axis must be equally many, not {shift} and {axis}")
    by: dict[int, int] = {}
    for a, n in zip((as_axis(a, x.ndim) for a in given), shifts, strict=True):
        by[a] = by.get(a, 0) + operator.index(n)
    frame = x._frame()
    for i, a in enumerate(frame.dense_axes):
        if a in by and frame.values.shape[1 + i] > 1:
            frame = frame.with_values(frame.backend.xp.roll(frame.values, by[a], axis=1 + i))
    return like(x, _map_ids(frame, {a: _shifted(n, frame.shape[a]) for a, n in by.items() if a in frame.axes}))


def _shifted(shift: int, size: int) -> Any:
    return lambda ids: (ids + shift % max(size, 1)) % max(size, 1)


@implements("concat")
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Join along an axis, which becomes stored; dense arrays among the tangents make the result dense."""
    arrays = list(arrays)
    if not arrays:
        raise ValueError("concat needs at least one array")
    if axis is None:
        arrays = [_flattened(x) for x in arrays]
        axis = 0
    number = as_axis(axis, len(arrays[0].shape))
    _check_concat([tuple(x.shape) for x in arrays], number)
    if not all(isinstance(x, Tangent) for x in arrays):
        return _concat_dense(arrays, number)
    frames = operand_frames(*arrays)
    backend = common_backend(*(f.values for f in frames))
    dtype = backend.xp.concat([backend.xp.zeros((1,), dtype=f.values.dtype) for f in frames]).dtype
    total = sum(f.shape[number] for f in frames)
    shape = tuple(total if a == number else n for a, n in enumerate(frames[0].shape))
    if all(isinstance(x, Zero) for x in arrays):
        return Zero(shape, like=frames[0].values, dtype=dtype)
    check_size(total, number, backend, frames[0].values)
    axes = tuple(sorted({number, *(a for f in frames for a in f.axes)}))
    placed, start = [], 0
    for f in frames:
        placed.append(_moved(expand(store(promote(f, dtype), axes)), axes.index(number), start, shape))
        start += f.shape[number]
    return IndexedSlices._of(_joined(placed, axes, shape))


def _flattened(x: Any) -> Any:
    if isinstance(x, Tangent):
        return reshape(x, (-1,))
    return common_backend(x).xp.reshape(x, (-1,))


def _moved(frame: Frame, position: int, start: int, shape: tuple[int, ...]) -> Frame:
    """The frame inside a larger shape, `start` further along one stored axis; ids wide enough for it."""
    kernels, xp = frame.backend.kernels, frame.backend.xp
    wide = kernels.index_dtype(frame.values)
    ids = [xp.astype(i, wide, copy=False) for i in frame.ids]
    inside = frame.ids[0] < frame.stored_sizes[0] if frame.padded else None
    if start:
        ids[position] = ids[position] + start
    moved = frame._replace(ids=tuple(ids), shape=shape)
    return moved if inside is None else pad_outside(moved, inside)


def _joined(frames: Sequence[Frame], axes: tuple[int, ...], shape: tuple[int, ...]) -> Frame:
    xp = frames[0].backend.xp
    return Frame(
        axes,
        tuple(xp.concat([f.ids[i] for f in frames]) for i in range(len(axes))),
        xp.concat([f.values for f in frames]),
        shape,
        unique=all(f.unique for f in frames),
        padded=any(f.padded for f in frames),
    )


def _check_concat(shapes: Sequence[tuple[int, ...]], axis: int) -> None:
    first = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(first) or any(n != m for a, (n, m) in enumerate(zip(shape, first, strict=True)) if a != axis):
            raise ValueError(f"shapes {first} and {shape} differ outside axis {axis}")


def _concat_dense(arrays: Sequence[Any], axis: int) -> Array:
    dense = [implicit(x, "concat") if isinstance(x, Tangent) else x for x in arrays]
    return common_backend(*dense).xp.concat(dense, axis=axis)


@implements("stack")
def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    """Join along a new axis, which is stored."""
    arrays = list(arrays)
    if not arrays:
        raise ValueError("stack needs at least one array")
    number = as_axis(axis, len(arrays[0].shape) + 1)
    shapes = {tuple(x.shape) for x in arrays}
    if len(shapes) > 1:
        raise ValueError(f"stack needs arrays of one shape, not {sorted(shapes)}")
    return concat([_with_axis(x, number) for x in arrays], axis=number)


def _with_axis(x: Any, axis: int) -> Any:
    if isinstance(x, Tangent):
        return expand_dims(x, axis=axis)
    return common_backend(x).xp.expand_dims(x, axis=axis)
