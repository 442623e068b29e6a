"""Primitives on frames: broadcast, store an axis, merge equal coordinates, drop entries, cast.

Each takes a frame and gives a frame that stands for the dense array that its name says. With `join.py` (match coordinates,
read dense axes at coordinates) they carry the whole algebra.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..backend import backend_of, device_of
from ..dtypes import cast_is_linear
from ..kernels.base import Array, DType
from ..registry import implements
from ..types.frame import Frame
from .keys import coordinates_of, frame_key

__all__ = [
    "align",
    "blank_padding",
    "broadcast_shapes",
    "coalesce",
    "constant_ids",
    "distinct",
    "drop_axes",
    "expand",
    "fold_entries",
    "frame_of_array",
    "keep",
    "mask_rows",
    "pad_outside",
    "promote",
    "store",
    "take_entries",
]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape, on Python ints alone (a library's own function may refuse 2**50 or make arrays)."""
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                if result[i] not in (1, n):
                    raise ValueError(f"shapes {' and '.join(str(tuple(s)) for s in shapes)} do not broadcast")
                result[i] = n
    return tuple(result)


def frame_of_array(x: Array) -> Frame:
    """A dense array as a frame of one entry."""
    return Frame((), (), x[None, ...], tuple(x.shape), unique=True, ordered=True)


def align(frame: Frame, shape: tuple[int, ...]) -> Frame:
    """Broadcast to `shape`: new leading axes are dense, and so is a stored axis of size 1 that is stretched."""
    if frame.shape == shape:
        return frame
    lead = len(shape) - len(frame.shape)
    stretched = tuple(a for a in frame.axes if frame.shape[a] == 1 and shape[a + lead] != 1)
    if stretched:
        frame = drop_axes(frame, stretched)
    values = frame.values
    if lead:
        values = frame.backend.xp.reshape(values, (values.shape[0], *(1,) * lead, *values.shape[1:]))
    return frame._replace(axes=tuple(a + lead for a in frame.axes), values=values, shape=shape)


def drop_axes(frame: Frame, axes: tuple[int, ...]) -> Frame:
    """Stored axes of size 1 become dense axes of size 1."""
    kept = [i for i, a in enumerate(frame.axes) if a not in axes]
    new_axes = tuple(frame.axes[i] for i in kept)
    inner = list(frame.values.shape[1:])
    for position in sorted(sum(1 for b in range(a) if b not in new_axes) for a in axes):
        inner.insert(position, 1)
    values = frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *inner))
    # The ids of a size-1 axis are all 0, so what is left repeats or ascends exactly as before.
    return frame._replace(axes=new_axes, ids=tuple(frame.ids[i] for i in kept), values=values)


def expand(frame: Frame, axes: tuple[int, ...] | None = None) -> Frame:
    """Give dense axes (all of them by default) their full size in `values`, as a view where the library has one."""
    held = tuple(frame.values.shape[1:])
    if 1 not in held:  # what is not 1 is the full size
        return frame
    wanted = frame.dense_axes if axes is None else axes
    full = tuple(frame.shape[a] if a in wanted else n for a, n in zip(frame.dense_axes, held, strict=True))
    if full == held:
        return frame
    return frame.with_values(frame.backend.xp.broadcast_to(frame.values, (frame.n, *full)))


def store(frame: Frame, axes: Sequence[int]) -> Frame:
    """Make dense axes stored: each entry becomes one entry for every position along them."""
    new = tuple(a for a in axes if a not in frame.axes)
    if not new:
        return frame
    xp = frame.backend.xp
    frame = expand(frame, new)
    dense = frame.dense_axes
    front = [1 + dense.index(a) for a in new]
    rest = [i for i in range(1, len(dense) + 1) if i not in front]
    sizes = tuple(frame.shape[a] for a in new)
    n = frame.n
    values = xp.permute_dims(frame.values, (0, *front, *rest))
    values = xp.reshape(values, (n * prod(sizes), *values.shape[1 + len(new) :]))
    dtype = frame.ids[0].dtype if frame.ids else frame.backend.kernels.index_dtype(frame.values)
    old_ids = [_spread(ids, (n, *sizes), 0) for ids in frame.ids]
    device = device_of(frame.values)
    lines = (xp.arange(size if n else 0, dtype=dtype, device=device) for size in sizes)  # a Zero may have 2**50 rows
    new_ids = [_spread(line, (n, *sizes), i + 1) for i, line in enumerate(lines)]
    columns = dict(zip((*frame.axes, *new), (*old_ids, *new_ids), strict=True))
    merged = tuple(sorted(columns))
    result = frame._replace(
        axes=merged,
        ids=tuple(columns[a] for a in merged),
        values=values,
        ordered=frame.ordered and merged == (*frame.axes, *new) and not frame.padded,
    )
    return blank_padding(result) if frame.padded else result


def _spread(line: Array, shape: tuple[int, ...], position: int) -> Array:
    """A line repeated over a grid of `shape`, along which it varies at `position`; flattened."""
    xp = backend_of(line).xp
    if not prod(shape):
        return line[:0]
    line = xp.reshape(line, tuple(n if i == position else 1 for i, n in enumerate(shape)))
    return xp.reshape(xp.broadcast_to(line, shape), (-1,))


def constant_ids(frame: Frame, value: int) -> Array:
    """An index array with `value` for every entry."""
    dtype = frame.ids[0].dtype if frame.ids else frame.backend.kernels.index_dtype(frame.values)
    return frame.backend.xp.full((frame.n,), value, dtype=dtype, device=device_of(frame.values))


def distinct(frame: Frame) -> Frame:
    """The frame with no repeated coordinates: what a non-linear operation needs."""
    return frame if frame.unique else coalesce(frame)


def coalesce(frame: Frame, length: int | None = None) -> Frame:
    """The frame with sorted, unique coordinates; exactly `length` entries if given, filled up with padding."""
    if length is None and frame.unique and frame.ordered:
        return frame
    if not frame.axes:
        return _fold_to(frame, length)
    kernels = frame.backend.kernels
    (key,), bound, flat = frame_key(frame)
    padded = length is not None or not frame.concrete
    if flat and not frame.unique:
        keys, values = kernels.coalesce(key, frame.values, bound, length)
        inverse = None  # flat keys hold their coordinates
    else:
        keys, inverse = kernels.unique_inverse(key, bound, length)
        values = kernels.densify(inverse, frame.values, int(keys.shape[0]), unique=frame.unique)
    ids = coordinates_of(keys, inverse, frame.ids, frame.stored_sizes, flat=flat, padded=padded)
    return frame._replace(ids=ids, values=values, unique=True, ordered=True, padded=padded)


def _fold_to(frame: Frame, length: int | None) -> Frame:
    xp = frame.backend.xp
    values = frame.values if frame.n == 1 else fold_entries(frame.values)[None, ...]
    if length is not None:
        if length < 1:
            raise ValueError(f"size must be at least 1 for a sum of whole arrays, not {length}")
        zeros = xp.zeros((length - 1, *values.shape[1:]), dtype=values.dtype, device=device_of(values))
        values = xp.concat([values, zeros])
    return frame._replace(values=values, unique=True, ordered=True, padded=length is not None)


def fold_entries(values: Array) -> Array:
    """The sum over the entry axis, always a new array."""
    xp, kernels = backend_of(values).xp, backend_of(values).kernels
    n = int(values.shape[0])
    if n == 1:
        return xp.astype(values[0, ...], values.dtype, copy=True)  # torch's asarray may leave the tape
    first = xp.zeros((n,), dtype=kernels.index_dtype(values), device=device_of(values))
    return kernels.densify(first, values, 1)[0, ...]


def take_entries(frame: Frame, positions: Array) -> Frame:
    """The entries at `positions`, in that order; the caller states what is known of the result."""
    xp = frame.backend.xp
    return frame._replace(
        ids=tuple(xp.take(ids, positions, axis=0) for ids in frame.ids),
        values=frame.backend.kernels.gather(frame.values, positions),  # torch's own take knows no wide unsigned integers
    )


def keep(frame: Frame, mask: Array) -> Frame:
    """Only the entries where `mask` holds. Where shapes must stay static the others become padding."""
    xp = frame.backend.xp
    if frame.backend.kernels.concrete(mask):
        return take_entries(frame, xp.nonzero(mask)[0])
    return pad_outside(frame, mask)._replace(ordered=False)


def pad_outside(frame: Frame, inside: Array) -> Frame:
    """Make padding of the entries outside a mask: all their ids the axis sizes, their rows zero."""
    xp = frame.backend.xp
    ids = tuple(
        xp.where(inside, i, xp.asarray(n, dtype=i.dtype, device=device_of(i)))
        for i, n in zip(frame.ids, frame.stored_sizes, strict=True)
    )
    return frame._replace(ids=ids, values=mask_rows(frame.values, inside), padded=bool(frame.axes))


def mask_rows(values: Array, mask: Array) -> Array:
    """`values` with the rows outside `mask` set to zero (also where they hold nan)."""
    xp = backend_of(values).xp
    mask = xp.reshape(mask, (-1, *(1,) * (values.ndim - 1)))
    return xp.where(mask, values, xp.zeros((1,) * values.ndim, dtype=values.dtype, device=device_of(values)))


@implements("blank_padding")
def blank_padding(frame: Frame) -> Frame:
    """Make every entry with a coordinate out of range proper padding: all its ids the axis sizes, its row zero."""
    if not frame.axes:
        return frame
    inside = (frame.ids[0] >= 0) & (frame.ids[0] < frame.shape[frame.axes[0]])
    for ids, size in zip(frame.ids[1:], frame.stored_sizes[1:], strict=True):
        inside = inside & (ids >= 0) & (ids < size)
    return pad_outside(frame, inside)


def promote(frame: Frame, dtype: DType) -> Frame:
    """Cast the values; repeated entries are merged first where casting the summands isn't casting the sum."""
    backend = frame.backend
    if frame.values.dtype == dtype:
        return frame
    if not cast_is_linear(backend, frame.values.dtype, dtype):
        frame = distinct(frame)
    return frame.with_values(backend.xp.astype(frame.values, dtype))
