"""The adjoint of indexing: put what a key read back at its places, as a frame of the array that was read."""

from __future__ import annotations

from ..kernels.base import Array
from ..types import Frame
from .frames import blank_padding, constant_ids, store
from .index_key import Key
from .shapes import permute_frame, squeeze_frame

__all__ = ["place_frame"]


def place_frame(frame: Frame, shape: tuple[int, ...], key: Key) -> Frame:
    """The frame of `shape` whose reading by `key` has `frame` as its cotangent; the inverse steps of ``indexing.index_frame``.

    Axes that the key reads whole stay as they are in `frame`; every other axis is stored.
    """
    lead = len(key.entries)
    if lead and key.position:
        block = range(key.position, key.position + lead)
        before, after = range(key.position), range(key.position + lead, len(frame.shape))
        frame = permute_frame(frame, (*block, *before, *after))
    frame = squeeze_frame(frame, tuple(lead + i for i, a in enumerate(key.rest) if a is None))
    sliced = [a for a in key.rest if a is not None]
    partial = [i for i, a in enumerate(sliced) if key.slices[a] != range(shape[a])]
    frame = store(frame, (*range(lead), *(lead + i for i in partial)))
    columns = dict(zip(frame.axes, frame.ids, strict=True))
    ids: dict[int, Array] = {}
    for i, a in enumerate(sliced):
        if lead + i in columns:
            positions = key.slices[a]
            column = columns[lead + i]
            whole = positions == range(shape[a])
            ids[a] = column if whole else positions.start + column * positions.step
    if key.arrays:
        ids |= _array_coordinates(frame, columns, key)
    for a, position in key.integers.items():
        ids[a] = constant_ids(frame, position)
    axes = tuple(sorted(ids))
    placed = Frame(axes, tuple(ids[a] for a in axes), frame.values, shape, padded=frame.padded or key.padded)
    return blank_padding(_with_one_dtype(placed)) if placed.padded else _with_one_dtype(placed)


def _array_coordinates(frame: Frame, columns: dict[int, Array], key: Key) -> dict[int, Array]:
    """Where the index arrays point for the entries of a frame whose first axes are those of the arrays, all stored."""
    xp = frame.backend.xp
    flat = constant_ids(frame, 0)
    for axis, size in enumerate(key.entries):
        flat = flat * size + columns[axis]
    coordinates = {}
    for a, ids in key.arrays.items():
        every = xp.reshape(xp.broadcast_to(ids, key.entries), (-1,))
        coordinates[a] = xp.take(every, flat, axis=0) if every.shape[0] else flat
    return coordinates


def _with_one_dtype(frame: Frame) -> Frame:
    """Index arrays of the caller's may be narrower than the positions beside them."""
    if len({ids.dtype for ids in frame.ids}) < 2:
        return frame
    widest = frame.backend.xp.result_type(*frame.ids)
    return frame._replace(ids=tuple(frame.backend.xp.astype(ids, widest, copy=False) for ids in frame.ids))
