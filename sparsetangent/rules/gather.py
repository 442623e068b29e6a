"""Reads and their adjoints: take, indexing by any key, and take along an axis."""

from __future__ import annotations

from math import prod
from typing import Any

from ..algebra.dense import dense_of
from ..algebra.frames import blank_padding, broadcast_shapes
from ..algebra.index_key import Key, parse_key
from ..algebra.indexing import index_frame, positions_along
from ..algebra.place import place_frame
from ..algebra.wrap import held_array, operand_frames, settle
from ..backend import backend_of
from ..kernels.base import Array
from ..types import Frame, IndexedSlices, Tangent
from ..types.axes import as_axis, as_shape
from ..types.indices import Validate, as_index_array, check_ids

__all__ = ["getitem", "getitem_vjp", "take", "take_along_axis", "take_along_axis_vjp", "take_vjp"]


def getitem(x: Any, key: Any, *, validate: Validate = True) -> Any:
    """``x[key]`` for every key that NumPy accepts: integers, slices, Ellipsis, None, masks and integer arrays.

    Parameters
    ----------
    x : Array or Tangent
        Any shape and dtype.
    key : index
        Integers, slices (also of negative step), Ellipsis, None, masks of any rank and integer arrays, mixed as in NumPy.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array or Tangent
        A new array; of a tangent, compact where a stored axis is left.

    Raises
    ------
    IndexError
        An index out of range, too many of them, or a mask of another shape.
    TypeError
        A floating index array.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x = np.arange(6.0).reshape(3, 2)
    >>> st.rules.getitem(x, ([0, 2], slice(None, None, -1))).tolist()
    [[1.0, 0.0], [5.0, 4.0]]
    >>> st.rules.getitem(x, x > 3).tolist()
    [4.0, 5.0]
    """
    (frame,) = operand_frames(x)
    result = index_frame(frame, parse_key(key, tuple(x.shape), frame.values, validate=validate))
    return settle(x, result) if isinstance(x, Tangent) else dense_of(result)


def getitem_vjp(dy: Any, shape: tuple[int, ...], key: Any, *, validate: Validate = True) -> IndexedSlices:
    """The cotangent of `x` in ``x[key]``: the cotangent put back at the places read, repeats summed.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of ``x[key]``.
    shape : tuple of int
        The shape of `x`.
    key : index
        As in the forward.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    IndexedSlices
        Axes that the key reads whole are dense, the others stored.

    Raises
    ------
    ValueError
        If `dy` does not have the shape of ``x[key]``.
    IndexError, TypeError
        As the forward.

    Notes
    -----
    ``<getitem_vjp(dy, shape, key), x> == <dy, x[key]>`` for all x.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.getitem_vjp(np.array([5.0, 7.0]), (4,), [1, 1]).densify().tolist()
    [0.0, 12.0, 0.0, 0.0]
    >>> st.rules.getitem_vjp(np.array([5.0, 7.0]), (2, 3), (slice(None), 2)).densify().tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 7.0]]
    """
    (frame,) = operand_frames(dy)
    shape = as_shape(shape)
    parsed = parse_key(key, shape, frame.values, validate=validate)
    read = _shape_read(shape, parsed)
    if frame.shape != read:
        raise ValueError(f"dy must have the shape {read} of what the key reads of {shape}, not {frame.shape}")
    return IndexedSlices._of(place_frame(frame, shape, parsed))


def _shape_read(shape: tuple[int, ...], key: Key) -> tuple[int, ...]:
    rest = [1 if a is None else len(key.slices[a]) for a in key.rest]
    return (*rest[: key.position], *key.entries, *rest[key.position :])


def take(x: Any, ids: Any, axis: int = 0, *, validate: Validate = True) -> Any:
    """The slices of `x` at `ids` along an axis: ``x[..., ids, ...]``, for ids of any shape.

    Parameters
    ----------
    x : Array or Tangent
        Any shape and dtype, with at least one axis.
    ids : Array of integers
        ``-size <= i < size``; any shape, which takes the place of `axis` in the result.
    axis : int
        Along which to read; negative ones count from the end.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array or Tangent
        Shape ``(*x.shape[:axis], *ids.shape, *x.shape[axis + 1:])``, dtype of `x`.

    Raises
    ------
    TypeError
        Ids not of an integer dtype, or of another library.
    IndexError
        An id out of range.
    ValueError
        An axis out of range.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> st.rules.take(x, np.array([[2], [-1]])).tolist()
    [[[5.0, 6.0]], [[5.0, 6.0]]]
    >>> st.rules.take(x, [0], axis=1).tolist()
    [[1.0], [3.0], [5.0]]
    """
    axis = as_axis(axis, len(x.shape))
    if axis == 0 and not isinstance(x, Tangent):
        return _rows(x, ids, validate)
    return getitem(x, _along(x, ids, axis), validate=validate)


def _rows(x: Array, ids: Any, validate: Validate) -> Array:
    """The read of a table, without the frame of all of it, which libraries that have no views (JAX) would copy."""
    backend = backend_of(x)
    given = as_index_array(ids, x, name="ids")
    checked = check_ids(given, x.shape[0], 0, validate=validate, name="ids")[0]
    rows = backend.kernels.gather(x, backend.xp.reshape(checked, (-1,)))
    return backend.xp.reshape(rows, (*given.shape, *x.shape[1:]))


def take_vjp(dy: Any, shape: tuple[int, ...], ids: Any, axis: int = 0, *, validate: Validate = True) -> IndexedSlices:
    """The cotangent of `x` in ``take(x, ids, axis)``: the slices of the cotangent at `ids`, not merged.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, shape ``(*shape[:axis], *ids.shape, *shape[axis + 1:])``, of the dtype of the result.
    shape : tuple of int
        The shape of `x`.
    ids, axis, validate
        As in the forward.

    Returns
    -------
    IndexedSlices
        With `axis` stored; the values are a view of `dy` where it has the entries first.

    Raises
    ------
    ValueError
        If the shape of `dy` does not fit.
    TypeError, IndexError
        As the forward.

    Notes
    -----
    ``<take_vjp(dy, x.shape, ids), x> == <dy, take(x, ids)>``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> g = st.rules.take_vjp(np.array([[1.0, 2.0], [3.0, 4.0]]), (2**50, 2), np.array([7, 7]))
    >>> g
    IndexedSlices(shape=(1125899906842624, 2), dtype=float64, axis=0, stored=2, density=1.78e-15, numpy)
    >>> g[7].tolist()
    [4.0, 6.0]
    """
    shape = as_shape(shape)
    axis = as_axis(axis, len(shape))
    if isinstance(dy, Tangent):
        return getitem_vjp(dy, shape, _along(dy, ids, axis), validate=validate)
    given = as_index_array(ids, dy, name="ids")
    read = (*shape[:axis], *given.shape, *shape[axis + 1 :])
    if tuple(dy.shape) != read:
        raise ValueError(f"dy must have the shape {read} of what the ids read of {shape}, not {tuple(dy.shape)}")
    checked, padded = check_ids(given, shape[axis], axis, validate=validate, name="ids")
    xp = backend_of(dy).xp
    if axis:
        entries = range(axis, axis + given.ndim)
        dy = xp.permute_dims(dy, (*entries, *range(axis), *range(axis + given.ndim, dy.ndim)))
    if given.ndim != 1:
        checked, dy = xp.reshape(checked, (-1,)), xp.reshape(dy, (prod(given.shape), *shape[:axis], *shape[axis + 1 :]))
    frame = Frame((axis,), (checked,), dy, shape, padded=padded)
    return IndexedSlices._of(blank_padding(frame) if padded else frame)


def _along(like: Any, ids: Any, axis: int) -> tuple[Any, ...]:
    """The key that reads along one axis."""
    return (*(slice(None),) * axis, as_index_array(ids, held_array(like), name="ids"), ...)


def take_along_axis(x: Any, ids: Any, axis: int = -1, *, validate: Validate = True) -> Any:
    """One element along `axis` for each place of `ids`, which broadcast with `x` on the other axes.

    Parameters
    ----------
    x : Array or Tangent
        Any shape and dtype, with at least one axis.
    ids : Array of integers
        As many axes as `x`; ``-size <= i < size``.
    axis : int
        Along which to read; negative ones count from the end.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array or Tangent
        ``y[..., j, ...] = x[..., ids[..., j, ...], ...]``.

    Raises
    ------
    ValueError
        If the number of axes differs, or the other axes do not broadcast.
    TypeError, IndexError
        As for `take`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> st.rules.take_along_axis(x, np.array([[-1], [0]]), axis=1).tolist()
    [[3.0], [4.0]]
    >>> st.rules.take_along_axis(x, np.array([[1, 1]]), axis=1).tolist()
    [[2.0, 2.0], [5.0, 5.0]]
    """
    return getitem(x, _along_each(held_array(x), tuple(x.shape), ids, axis, validate), validate=False)


def take_along_axis_vjp(
    dy: Any, shape: tuple[int, ...], ids: Any, axis: int = -1, *, validate: Validate = True
) -> IndexedSlices:
    """The cotangent of `x` in ``take_along_axis(x, ids, axis)``.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    shape : tuple of int
        The shape of `x`.
    ids, axis, validate
        As in the forward.

    Returns
    -------
    IndexedSlices
        With every axis stored.

    Raises
    ------
    ValueError, TypeError, IndexError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``<take_along_axis_vjp(dy, x.shape, ids, axis), x> == <dy, take_along_axis(x, ids, axis)>``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> ids = np.array([[-1], [0]])
    >>> st.rules.take_along_axis_vjp(np.array([[1.0], [2.0]]), (2, 3), ids, axis=1).densify().tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    >>> st.rules.take_along_axis_vjp(np.ones((0, 1)), (0, 3), np.zeros((0, 1), int)).shape
    (0, 3)
    """
    (frame,) = operand_frames(dy)
    shape = as_shape(shape)
    return getitem_vjp(dy, shape, _along_each(frame.values, shape, ids, axis, validate), validate=False)


def _along_each(like: Array, shape: tuple[int, ...], ids: Any, axis: int, validate: Validate) -> tuple[Array, ...]:
    """The key of index arrays that reads one element for each id: positions on the other axes, ids on `axis`."""
    xp = backend_of(like).xp
    ids = as_index_array(ids, like, name="ids")
    axis = as_axis(axis, len(shape))
    if ids.ndim != len(shape):
        raise ValueError(f"ids must have {len(shape)} axes, as many as what they index, not {ids.ndim}")
    ids = check_ids(ids, shape[axis], axis, validate=validate, name="ids")[0]
    grown = tuple(ids.shape[axis] if a == axis else n for a, n in enumerate(shape))
    target = broadcast_shapes(grown, tuple(ids.shape))
    key = tuple(ids if a == axis else positions_along(a, size, target, ids) for a, size in enumerate(shape))
    # The ids decide the shape also where no other axis has positions of its own.
    return (*key[:axis], xp.broadcast_to(key[axis], target), *key[axis + 1 :])
