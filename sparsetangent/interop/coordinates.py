"""Frames as the coordinate formats of other libraries want them, and back with what those libraries claim of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra.frames import expand, keep, store
from ..algebra.keys import frame_key
from ..kernels.base import Array
from ..registry import apply
from ..types import Frame, IndexedSlices, Tangent
from ..types.axes import as_axes, as_shape
from ..types.indices import as_index_array, check_ids

__all__ = [
    "everything_stored",
    "from_coordinates",
    "stored_in_front",
    "with_claims",
    "without_padding",
]


def stored_in_front(t: Tangent) -> Frame:
    """The frame with every axis up to the last stored one stored, so that all stored axes come before the dense ones."""
    frame = t._frame()
    return expand(store(frame, range(max(frame.axes, default=-1) + 1)))


def everything_stored(t: Tangent) -> Frame:
    """The frame with every axis stored and no padding: plain coordinates."""
    return without_padding(store(t._frame(), range(len(t.shape))))


def without_padding(frame: Frame) -> Frame:
    """The frame without entries that are padding, which other libraries take for coordinates out of range."""
    if not frame.padded:
        return frame
    return keep(frame, frame.ids[0] < frame.stored_sizes[0])._replace(padded=False, ordered=frame.ordered)


def with_claims(frame: Frame, *, unique: bool, ordered: bool) -> Frame:
    """The frame with the facts that another library claims of it, after a look; under a trace they are taken on trust.

    Raises
    ------
    ValueError
        If a claim is not true.
    """
    if frame.axes and frame.concrete and frame.n > 1 and (unique or ordered):
        xp, kernels = frame.backend.xp, frame.backend.kernels
        (key,), bound, _ = frame_key(frame)
        if ordered:
            if not bool(xp.all(key[1:] >= key[:-1])):
                raise ValueError("the coordinates are claimed to be sorted, and are not")
            repeats = bool(xp.any((key[1:] == key[:-1]) & (key[1:] != bound)))
        else:
            repeats = int(kernels.unique_inverse(key, bound)[0].shape[0]) != int(xp.count_nonzero(key < bound))
        if unique and repeats:
            raise ValueError("the coordinates are claimed to be unique, and repeat")
    return frame._replace(unique=unique and (bool(frame.axes) or frame.n <= 1), ordered=ordered)


def from_coordinates(
    coords: Sequence[Array],
    values: Array,
    shape: Sequence[int],
    axes: Sequence[int] | None = None,
    *,
    unique: bool = False,
    ordered: bool = False,
    padded: bool = False,
) -> IndexedSlices:
    """The entries of a coordinate format (None: every axis stored), after a look at the coordinates and at what is claimed of them.

    Raises
    ------
    IndexError
        A coordinate out of range. Negative ones are, and only `padded` allows the axis size.
    ValueError
        Shapes that do not fit together, or a claim that is not true.
    """
    full = as_shape(shape)
    stored = as_axes(None if axes is None else tuple(axes), len(full))
    room = tuple(n + (padded and a in stored) for a, n in enumerate(full))
    for axis, ids in zip(stored, coords, strict=True):
        check_ids(as_index_array(ids, values), room[axis], axis, negatives=False)
    frame = IndexedSlices(tuple(coords), values, room, axis=stored)._frame()
    if padded:
        # A row of padding is zero, whatever it was given as.
        frame = apply("blank_padding", frame._replace(shape=full, padded=True))
    return IndexedSlices._of(with_claims(frame, unique=unique, ordered=ordered))
