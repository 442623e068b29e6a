"""Indexing: filters and maps of coordinates where an axis is stored, plain reads where it is dense."""

from __future__ import annotations

import operator
from functools import reduce
from math import prod
from typing import Any

from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..registry import implements
from ..types import Fill, Frame, IndexedSlices, Tangent
from ..types.axes import as_axis
from ..types.indices import as_index_array, check_ids
from .dense import densify
from .frames import broadcast_shapes, coalesce, keep, mask_rows
from .index_key import Key, parse_key
from .join import match, pad_invalid, read
from .keys import make_keys, split_key
from .shapes import insert_axes, permute_frame
from .wrap import like, settle

__all__ = ["getitem", "index_frame", "positions_along", "retain", "take", "take_along_axis"]


@implements("getitem", Tangent)
def getitem(x: Tangent, key: Any) -> Any:
    """``x[key]`` for every key that NumPy accepts; compact where a stored axis is left."""
    frame = x._frame()
    return _settled(x, index_frame(frame, parse_key(key, x.shape, frame.values)))


def _settled(x: Tangent, frame: Frame) -> Any:
    """What a read gives: a number everywhere is none any more where an id that nobody sees may be out of range."""
    if isinstance(x, Fill) and prod(frame.values.shape) != 1:
        return IndexedSlices._of(frame)
    return settle(x, frame)


def index_frame(frame: Frame, key: Key) -> Frame:
    """Read a frame by a normalised key."""
    for axis, positions in key.slices.items():
        if positions != range(frame.shape[axis]):
            frame = _slice(frame, axis, positions)
    for axis in sorted(key.integers, reverse=True):
        frame = _pick(frame, axis, key.integers[axis])
    lead = 0
    if key.has_arrays:
        frame = _read_arrays(frame, key)
        lead = len(key.entries)
    frame = insert_axes(frame, tuple(lead + i for i, a in enumerate(key.rest) if a is None))
    if lead and key.position:
        front = range(lead, lead + key.position)
        frame = permute_frame(frame, (*front, *range(lead), *range(lead + key.position, len(frame.shape))))
    return frame


def _slice(frame: Frame, axis: int, positions: range) -> Frame:
    xp = frame.backend.xp
    shape = tuple(len(positions) if a == axis else n for a, n in enumerate(frame.shape))
    if axis not in frame.axes:
        place = 1 + frame.dense_axes.index(axis)
        if frame.values.shape[place] != 1:
            frame = frame.with_values(_sliced(frame.values, place, positions, xp))
        return frame._replace(shape=shape)
    i = frame.axes.index(axis)
    ids, (start, step) = frame.ids[i], (positions.start, positions.step)
    inside = (ids >= start) & (ids < positions.stop) if step > 0 else (ids <= start) & (ids > positions.stop)
    new = ids - start if step > 0 else start - ids
    if abs(step) != 1:
        inside = inside & (new % abs(step) == 0)
        new = new // abs(step)
    moved = frame._replace(ids=(*frame.ids[:i], new, *frame.ids[i + 1 :]), shape=shape, ordered=frame.ordered and step > 0)
    return keep(moved, inside)


def _sliced(values: Array, place: int, positions: range, xp: Any) -> Array:
    """Slice one axis; a negative step by a flip, which is all that torch has."""
    backwards = positions.step < 0
    ascending = positions[::-1] if backwards else positions
    # A range may stop past the end, which the standard leaves open.
    index = slice(ascending[0], ascending[-1] + 1, ascending.step) if len(ascending) else slice(0, 0)
    values = values[(*(slice(None),) * place, index, ...)]
    return xp.flip(values, axis=place) if backwards else values


def _pick(frame: Frame, axis: int, position: int) -> Frame:
    """Read one position of an axis, which vanishes."""
    shape = frame.shape[:axis] + frame.shape[axis + 1 :]
    axes = tuple(a - (a > axis) for a in frame.axes if a != axis)
    if axis not in frame.axes:
        place = 1 + frame.dense_axes.index(axis)
        at = position if frame.values.shape[place] != 1 else 0
        return frame._replace(axes=axes, shape=shape, values=frame.values[(*(slice(None),) * place, at, ...)])
    i = frame.axes.index(axis)
    here = frame.ids[i] == position
    rest = frame._replace(axes=axes, ids=frame.ids[:i] + frame.ids[i + 1 :], shape=shape)
    return keep(rest, here)


def _read_arrays(frame: Frame, key: Key) -> Frame:
    """Read the axes of index arrays at once: the axes of ``key.entries`` come first, then the axes left, in order."""
    xp = frame.backend.xp
    ids = {a: xp.reshape(xp.broadcast_to(i, key.entries), (-1,)) for a, i in key.arrays.items()}
    left = tuple(a for a in range(len(frame.shape)) if a not in ids)
    shape = (*key.entries, *(frame.shape[a] for a in left))
    if not any(a in frame.axes for a in ids):
        return _read_dense(frame, ids, key, left, shape)
    return _read_stored(frame, ids, key, left, shape)


def _read_dense(frame: Frame, ids: dict[int, Array], key: Key, left: tuple[int, ...], shape: tuple[int, ...]) -> Frame:
    """No stored axis is read: a gather inside the values, which leaves the entries alone."""
    xp, kernels, entries = frame.backend.xp, frame.backend.kernels, key.entries
    values, dense = frame.values, frame.dense_axes
    rest = [1 + dense.index(a) for a in left if a in dense]
    looked_up = [a for a in ids if values.shape[1 + dense.index(a)] != 1]
    inner = tuple(values.shape[i] for i in rest)
    if looked_up:
        sizes = tuple(frame.shape[a] for a in looked_up)
        (places,), bound, _ = make_keys([tuple(ids[a] for a in looked_up)], sizes, padded=key.padded)
        others = [1 + dense.index(a) for a in ids if a not in looked_up]
        values = xp.permute_dims(values, (*(1 + dense.index(a) for a in looked_up), 0, *others, *rest))
        values = kernels.gather(xp.reshape(values, (bound, frame.n, *inner)), places)
        values = xp.permute_dims(values, (1, 0, *range(2, values.ndim))) if frame.n != 1 else values
        values = xp.reshape(values, (frame.n, *entries, *inner))
    else:
        values = xp.reshape(values, (frame.n, *(1,) * len(entries), *inner))
    if key.padded and len(looked_up) < len(ids):
        inside = [(ids[a] >= 0) & (ids[a] < frame.shape[a]) for a in ids if a not in looked_up]
        mask = xp.reshape(reduce(operator.and_, inside), (1, *entries, *(1,) * len(inner)))
        values = xp.where(mask, values, xp.zeros((1,) * values.ndim, dtype=values.dtype, device=device_of(values)))
    axes = tuple(len(entries) + left.index(a) for a in frame.axes)
    return frame._replace(axes=axes, values=values, shape=shape)


def _read_stored(frame: Frame, ids: dict[int, Array], key: Key, left: tuple[int, ...], shape: tuple[int, ...]) -> Frame:
    """Match the coordinates asked for with those stored; the axes of the result that the arrays bring are stored."""
    xp = frame.backend.xp
    frame = coalesce(frame)
    shared = tuple(a for a in frame.axes if a in ids)
    sizes = tuple(frame.shape[a] for a in shared)
    groups = [tuple(ids[a] for a in shared), tuple(frame.ids[frame.axes.index(a)] for a in shared)]
    (asked, stored), _, _ = make_keys(groups, sizes, padded=frame.padded or key.padded)
    concrete = frame.concrete and frame.backend.kernels.concrete(asked)
    pairs = match(asked, stored, concrete=concrete, right_distinct=shared == frame.axes)
    dense_reads = {a: xp.take(i, pairs.left, axis=0) for a, i in ids.items() if a not in frame.axes}
    values = read(frame, dense_reads, pairs.right)
    if key.padded:
        for a, i in dense_reads.items():
            if frame.values.shape[1 + frame.dense_axes.index(a)] == 1:  # not looked up
                values = mask_rows(values, (i >= 0) & (i < frame.shape[a]))
    kept = tuple(a for a in frame.axes if a not in shared)
    coords = split_key(pairs.left, key.entries, padded=False) if key.entries else ()
    coords += tuple(xp.take(frame.ids[frame.axes.index(a)], pairs.right, axis=0) for a in kept)
    axes = (*range(len(key.entries)), *(len(key.entries) + left.index(a) for a in kept))
    result = Frame(axes, coords, values, shape, unique=bool(axes), padded=frame.padded and bool(kept))
    return pad_invalid(result, pairs)


@implements("take", Tangent)
def take(x: Tangent, indices: Any, /, *, axis: int | None = None) -> Any:
    """The slices at `indices` along an axis, in their order; for indices of any shape, as ``x[..., indices, ...]``."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take needs an axis for a tangent of {x.ndim} axes")
        axis = 0
    indices = densify(indices) if isinstance(indices, Tangent) else indices  # as large as what is read
    return getitem(x, (slice(None),) * as_axis(axis, x.ndim) + (as_index_array(indices, x._frame().values),))


@implements("take_along_axis", Tangent)
def take_along_axis(x: Tangent, indices: Any, /, *, axis: int = -1) -> Any:
    """One element along `axis` for each index; axes along which the indices have size 1 are read whole, and keep their storage."""
    indices = densify(indices) if isinstance(indices, Tangent) else indices  # as large as what is read
    frame = x._frame()
    xp = frame.backend.xp
    ids = as_index_array(indices, frame.values)
    if ids.ndim != x.ndim:
        raise ValueError(f"indices must have {x.ndim} axes, as many as what they index, not {ids.ndim}")
    number = as_axis(axis, x.ndim)
    each = [a for a in range(x.ndim) if a == number or ids.shape[a] != 1]
    whole = [a for a in range(x.ndim) if a not in each]
    # The axes read at positions first, where the key puts what it reads.
    frame = permute_frame(frame, (*each, *whole))
    grid = xp.reshape(ids, tuple(ids.shape[a] for a in each))
    grid = _broadcast_to_axes(grid, [x.shape[a] for a in each], each.index(number))
    key = tuple(grid if a == number else positions_along(i, x.shape[a], tuple(grid.shape), grid) for i, a in enumerate(each))
    read_ = index_frame(frame, parse_key(key, frame.shape, frame.values))
    order = [*each, *whole]
    return _settled(x, permute_frame(read_, tuple(order.index(a) for a in range(x.ndim))))


def _broadcast_to_axes(grid: Array, sizes: list[int], axis: int) -> Array:
    """Indices in the shape that they and the axes beside `axis` broadcast to."""
    shape = tuple(n if i == axis else m for i, (n, m) in enumerate(zip(grid.shape, sizes, strict=True)))
    return backend_of(grid).xp.broadcast_to(grid, broadcast_shapes(shape, tuple(grid.shape)))


def positions_along(axis: int, size: int, shape: tuple[int, ...], ids: Array) -> Array:
    """Positions along one axis, shaped to broadcast to `shape`; an axis of size 1 is read at 0 everywhere."""
    xp, ndim, device = backend_of(ids).xp, len(shape), device_of(ids)
    if size == 1:
        return xp.zeros((1,) * ndim, dtype=ids.dtype, device=device)
    line = xp.arange(shape[axis], dtype=ids.dtype, device=device)
    return xp.reshape(line, tuple(n if a == axis else 1 for a, n in enumerate(shape)))


@implements("retain", Tangent)
def retain(x: Tangent, ids: Any) -> Tangent:
    """Only the rows in `ids`, everything else zero."""
    frame = x._frame()
    if len(frame.axes) != 1:
        raise ValueError(f"retain needs exactly one stored axis, not {frame.axes}")
    xp, kernels, axis = frame.backend.xp, frame.backend.kernels, frame.axes[0]
    wanted = check_ids(as_index_array(ids, frame.values, name="ids"), frame.shape[axis], axis, name="ids")[0]
    (asked, stored), bound, _ = make_keys([(xp.reshape(wanted, (-1,)),), frame.ids], (frame.shape[axis],), padded=True)
    if asked.shape[0] == 0:
        return like(x, keep(frame, xp.zeros((frame.n,), dtype=xp.bool, device=device_of(frame.values))))
    distinct, _ = kernels.unique_inverse(asked, bound)
    found = match(stored, distinct, concrete=False, right_distinct=True)
    return like(x, keep(frame, found.valid) if found.valid is not None else frame)
