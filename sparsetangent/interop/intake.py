"""Slices that come from outside, from a file or another library: nothing that they claim is believed unseen."""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra.keys import frame_key
from ..kernels.base import Array
from ..registry import apply
from ..types import Frame, IndexedSlices
from ..types.axes import as_shape
from ..types.indices import as_index_array, check_ids

__all__ = ["slices_from_outside"]


def slices_from_outside(
    ids: Sequence[Array],
    values: Array,
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    unique: bool = False,
    ordered: bool = False,
    padded: bool = False,
) -> IndexedSlices:
    """`IndexedSlices` on these arrays, after every id and both claims were checked; waits for a device.

    Raises
    ------
    IndexError
        An id out of range: negative ones do not count from the end here, and only `padded` allows the axis size.
    ValueError
        Shapes that do not fit together, or a claim of `unique` or `ordered` that is not true.
    """
    full = as_shape(shape)
    room = tuple(n + (padded and a in axes) for a, n in enumerate(full))
    for axis, column in zip(axes, ids, strict=True):
        if not 0 <= axis < len(full):
            raise ValueError(f"axis {axis} is out of range for {len(full)} axes")
        check_ids(as_index_array(column, values), room[axis], axis, validate="now", negatives=False)
    frame = IndexedSlices(tuple(ids), values, room, axis=tuple(axes), validate=False)._frame()
    frame = frame._replace(shape=full, padded=padded)
    if padded:
        frame = apply("blank_padding", frame)  # a row of padding is zero, whatever it was given as
    _verify(frame, unique, ordered)
    return IndexedSlices._of(frame._replace(unique=unique, ordered=ordered))


def _verify(frame: Frame, unique: bool, ordered: bool) -> None:
    """A `ValueError` unless the coordinates are what is claimed of them; padding may repeat, at the end."""
    if not (unique or ordered) or frame.n < 2 or not frame.concrete:
        return
    if not frame.axes:
        if unique:
            raise ValueError(f"unique=True, but {frame.n} whole arrays are stored")
        return
    xp = frame.backend.xp
    (keys,), bound, _ = frame_key(frame)
    if not ordered:
        distinct, _ = frame.backend.kernels.unique_inverse(keys, bound)
        wanted = int(xp.sum(xp.astype(keys < bound, keys.dtype)))
        if distinct.shape[0] != wanted:
            raise ValueError(f"unique=True, but {wanted} coordinates hold only {distinct.shape[0]} distinct ones")
        return
    rises = keys[1:] > keys[:-1] if unique else keys[1:] >= keys[:-1]
    if not bool(xp.all(rises | (keys[1:] == bound))):
        raise ValueError(f"the coordinates are not in ascending order{' without repeats' if unique else ''}, as was claimed")
