"""An indexing key as data: what NumPy's rules make of it, before anything is read."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of, device_of, is_array
from ..dtypes import facts
from ..kernels.base import Array
from ..types import Fill, Tangent
from ..types.indices import Validate, as_index_array, check_ids
from .dense import implicit
from .frames import broadcast_shapes
from .sets import nonzero_coordinates

__all__ = ["Key", "parse_key"]


class Key(NamedTuple):
    """A normalised key. Axes are those of the array that is indexed.

    The result of indexing has the axes of `rest` in order, with the axes of `entries` put in at `position`.
    """

    slices: dict[int, range]
    """The positions read along each sliced axis."""

    integers: dict[int, int]
    """The position read along each axis that vanishes; empty if there are index arrays, which integers then join."""

    arrays: dict[int, Array]
    """The index array of each other axis, normalised, of any shape that broadcasts to `entries`."""

    entries: tuple[int, ...]
    """The axes that the index arrays bring."""

    rest: tuple[int | None, ...]
    """The sliced axes in order, and None for each new axis."""

    position: int
    padded: bool
    """Whether ids may be padding (out of range under a tracer)."""

    @property
    def has_arrays(self) -> bool:
        return bool(self.arrays) or self.entries != ()


class _Mask0(NamedTuple):
    """A mask without axes: an index array that reads no axis, of shape (1,) or (0,)."""

    entries: int


def parse_key(key: Any, shape: tuple[int, ...], like: Array, *, validate: Validate = True) -> Key:
    """Normalise a key for an array of `shape` of the library of `like`.

    Raises
    ------
    IndexError
        Too many indices, one out of range, a mask of another shape, a second ellipsis, or an item that is no index.
    TypeError
        An index array of a floating dtype, or of another library.
    """
    tokens = [t for item in (key if isinstance(key, tuple) else (key,)) for t in _tokens(item, like)]
    used = sum(_consumes(t) for t in tokens)
    if used > len(shape):
        raise IndexError(f"too many indices: {used} for {len(shape)} axes")
    ellipses = [i for i, t in enumerate(tokens) if t is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("a key holds at most one ellipsis")
    spot = ellipses[0] if ellipses else len(tokens)
    filling: list[Any] = [slice(None)] * (len(shape) - used)
    # An ellipsis separates index arrays even where it stands for no axis.
    tokens[spot : spot + 1] = filling or ([_NOTHING] if ellipses else [])
    _check_masks(tokens, shape)
    return _normalised(tokens, shape, like, validate)


_NOTHING = object()


def _tokens(item: Any, like: Array) -> list[Any]:
    """One item of a key as slices, integers, index arrays, None and Ellipsis; a mask becomes an array for each of its axes."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return [item]
    if isinstance(item, (bool, np.bool)):
        return [_Mask0(int(item))]
    if isinstance(item, (int, np.integer)):
        return [operator.index(item)]
    if isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
        # As NumPy does, a list of bools is a mask.
        item = backend_of(like).xp.asarray(item, device=device_of(like)) if len(item) else as_index_array(item, like)
    if isinstance(item, Tangent):
        return _from_tangent(item, like)
    if not is_array(item):
        raise IndexError(f"an index is an integer, a slice, an ellipsis, None or an integer or bool array, not {item!r}")
    backend = backend_of(item)
    if facts(backend, item.dtype).kind != "bool":
        return [as_index_array(item, like, name="the index")]
    if item.ndim == 0:
        return [_Mask0(int(bool(item)))]
    if backend is not backend_of(like):
        raise TypeError(f"a mask of {backend.name} does not index an array of {backend_of(like).name}")
    return [_FromMask(ids, tuple(item.shape), axis) for axis, ids in enumerate(backend.xp.nonzero(item))]


def _from_tangent(item: Tangent, like: Array) -> list[Any]:
    """A compact mask as the coordinates that it holds, compact indices as the dense array."""
    frame = item._frame()
    if frame.backend is not backend_of(like):
        raise TypeError(f"an index of {frame.backend.name} does not index an array of {backend_of(like).name}")
    if facts(frame.backend, frame.values.dtype).kind != "bool" or isinstance(item, Fill) or not item.ndim:
        return _tokens(implicit(item, "getitem"), frame.values)
    return [_FromMask(ids, item.shape, axis) for axis, ids in enumerate(nonzero_coordinates(frame))]


class _FromMask(NamedTuple):
    """The coordinates of a mask along one of its axes, and its shape, to be compared with the array's."""

    ids: Array
    shape: tuple[int, ...]
    axis: int


def _consumes(token: Any) -> bool:
    """Whether a token reads an axis."""
    return token is not None and token is not Ellipsis and token is not _NOTHING and not isinstance(token, _Mask0)


def _check_masks(tokens: list[Any], shape: tuple[int, ...]) -> None:
    axis = 0
    for token in tokens:
        # By the standard (and NumPy) an axis of size 0 of a mask goes with any axis.
        if isinstance(token, _FromMask) and token.shape[token.axis] not in (0, shape[axis]):
            raise IndexError(
                f"a mask of shape {token.shape} does not fit axis {axis} of size {shape[axis]} (its own axis {token.axis})"
            )
        axis += _consumes(token)


def _normalised(tokens: list[Any], shape: tuple[int, ...], like: Array, validate: Validate) -> Key:
    advanced = any(not isinstance(t, (slice, int)) and t is not None and t is not _NOTHING for t in tokens)
    slices: dict[int, range] = {}
    integers: dict[int, int] = {}
    arrays: dict[int, Array] = {}
    rest: list[int | None] = []
    shapes: list[tuple[int, ...]] = []
    blocks: list[int] = []  # for each token that is an index array, how many of the others precede it
    axis, separators, padded = 0, 0, False
    for token in tokens:
        if token is None or token is _NOTHING or isinstance(token, slice):
            separators += 1
            if isinstance(token, slice):
                slices[axis] = range(*token.indices(shape[axis]))
                rest.append(axis)
            elif token is None:
                rest.append(None)
        elif isinstance(token, int) and not advanced:
            integers[axis] = _in_range(token, shape[axis], axis)
        else:
            blocks.append(separators)
            if isinstance(token, _Mask0):
                shapes.append((token.entries,))
            else:
                ids = token.ids if isinstance(token, _FromMask) else as_index_array(token, like, name="the index")
                arrays[axis], some = check_ids(ids, shape[axis], axis, validate=validate, name="the index")
                padded |= some
                shapes.append(tuple(ids.shape))
        axis += _consumes(token)
    together = len(set(blocks)) == 1
    position = sum(1 for t in tokens[: _first_array(tokens)] if t is None or isinstance(t, slice)) if together else 0
    try:
        entries = broadcast_shapes(*shapes) if shapes else ()
    except ValueError as error:
        raise IndexError(f"the index arrays do not fit together: {error}") from None
    return Key(slices, integers, arrays, entries, tuple(rest), position, padded)


def _first_array(tokens: list[Any]) -> int:
    return next(i for i, t in enumerate(tokens) if t is not None and t is not _NOTHING and not isinstance(t, slice))


def _in_range(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for axis {axis} of size {size}")
    return index % size
