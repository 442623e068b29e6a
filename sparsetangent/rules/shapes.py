"""Padding and diagonals; the adjoint of padding is a slice, that of a diagonal puts it back."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..algebra.wrap import held_array
from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..protocols import namespace
from ..types import Fill, IndexedSlices, Tangent, Zero
from ..types.axes import as_axis, as_shape
from .gather import getitem, getitem_vjp
from .operands import check_shape, filled

__all__ = ["diagonal", "diagonal_vjp", "pad", "pad_vjp"]

Widths = int | Sequence[Any]


def pad(x: Any, widths: Widths, value: Any = 0) -> Any:
    """Put `value` around an array.

    Parameters
    ----------
    x : Array or Tangent
        Any shape and dtype.
    widths : int, pair of int, or a pair for each axis
        How many places to put before and after; one number or pair serves every axis.
    value : number
        Of the kind of `x`.

    Returns
    -------
    Array or Tangent
        Compact for a tangent padded with zeros.

    Raises
    ------
    ValueError
        Negative widths, or not one pair for each axis.
    TypeError
        A `value` that the dtype of `x` does not hold.

    Notes
    -----
    ``y[i + before] = x[i]``, `value` elsewhere.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.pad(np.array([1.0, 2.0]), (1, 2)).tolist()
    [0.0, 1.0, 2.0, 0.0, 0.0]
    >>> st.rules.pad(st.IndexedSlices([0], np.array([5.0]), (2**50,)), (3, 0)).indices.tolist()
    [3]
    """
    nx = namespace(x)
    like = held_array(x)
    number = filled(value, (), like, "value")
    for axis, (before, after) in enumerate(_pairs(widths, len(x.shape))):
        for width, side in ((before, 0), (after, 1)):
            if width:
                shape = tuple(width if a == axis else n for a, n in enumerate(x.shape))
                block = _block(shape, number, x, zero=type(value) in (int, float, complex, bool) and value == 0)
                x = nx.concat([block, x] if side == 0 else [x, block], axis=axis)
    return x


def pad_vjp(dy: Any, shape: tuple[int, ...], widths: Widths, value: Any = 0) -> Any:
    """The cotangent of `x` in ``pad(x, widths)``: the slice of the cotangent where `x` stands.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    shape : tuple of int
        The shape of `x`.
    widths : int, pair of int, or a pair for each axis
        As in the forward.
    value : number
        As in the forward; it does not matter.

    Returns
    -------
    Array or Tangent
        Compact if `dy` is.

    Raises
    ------
    ValueError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d x[i] = dy[i + before]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.pad_vjp(np.array([1.0, 2.0, 3.0, 4.0]), (2,), (1, 1)).tolist()
    [2.0, 3.0]
    >>> st.rules.pad_vjp(st.IndexedSlices([3], np.array([5.0]), (2**50,)), (2**50 - 3,), (3, 0)).indices.tolist()
    [0]
    """
    shape = as_shape(shape)
    pairs = _pairs(widths, len(shape))
    check_shape(
        dy, tuple(before + n + after for n, (before, after) in zip(shape, pairs, strict=True)), "dy", "the padded array"
    )
    return getitem(dy, tuple(slice(before, before + n) for n, (before, _) in zip(shape, pairs, strict=True)))


def _pairs(widths: Widths, ndim: int) -> tuple[tuple[int, int], ...]:
    """The widths before and after for every axis."""
    given: Any = widths
    if not isinstance(given, Sequence):
        given = (given, given)
    if len(given) == 2 and not any(isinstance(w, Sequence) for w in given):
        given = (given,) * ndim
    if len(given) != ndim or not all(isinstance(w, Sequence) and len(w) == 2 for w in given):
        raise ValueError(f"widths must be a number, a pair, or a pair for each of {ndim} axes, not {widths!r}")
    pairs = tuple((operator.index(before), operator.index(after)) for before, after in given)
    if any(w < 0 for pair in pairs for w in pair):
        raise ValueError(f"widths must not be negative, not {widths!r}")
    return pairs


def _block(shape: tuple[int, ...], number: Array, x: Any, *, zero: bool) -> Any:
    if isinstance(x, Tangent):
        return Zero(shape, like=number) if zero else Fill(number, shape)
    return backend_of(number).xp.broadcast_to(number, shape)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, which becomes the last axis.

    Parameters
    ----------
    x : Array or Tangent
        Any dtype, with at least two axes.
    offset : int
        How far above the main diagonal.
    axis1, axis2 : int
        The axes whose diagonal is read.

    Returns
    -------
    Array or Tangent
        The axes that are left, then the diagonal.

    Raises
    ------
    ValueError
        Axes out of range or equal.

    Notes
    -----
    ``y[..., k] = x[k, k + offset, ...]`` for a non-negative offset, ``x[k - offset, k, ...]`` else.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [1.0, 4.0]
    >>> st.rules.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]), offset=-1).tolist()
    [3.0]
    """
    nx = namespace(x)
    key, order = _diagonal_key(tuple(x.shape), offset, axis1, axis2, held_array(x))
    entries_first = getitem(nx.permute_dims(x, order), key, validate=False)
    return nx.permute_dims(entries_first, (*range(1, len(order) - 1), 0))


def diagonal_vjp(dy: Any, shape: tuple[int, ...], offset: int = 0, axis1: int = 0, axis2: int = 1) -> IndexedSlices:
    """The cotangent of `x` in ``diagonal(x)``: the cotangent put on the diagonal.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    shape : tuple of int
        The shape of `x`.
    offset, axis1, axis2
        As in the forward.

    Returns
    -------
    IndexedSlices
        With the two axes stored, one entry for each place of the diagonal.

    Raises
    ------
    ValueError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d x[k, k + offset, ...] = dy[..., k]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.diagonal_vjp(np.array([5.0, 6.0]), (2, 3), offset=1).densify().tolist()
    [[0.0, 5.0, 0.0], [0.0, 0.0, 6.0]]
    >>> st.rules.diagonal_vjp(np.array([5.0, 6.0]), (2, 2**50)).stored
    2
    """
    shape = as_shape(shape)
    nx = namespace(dy)
    key, order = _diagonal_key(shape, offset, axis1, axis2, held_array(dy))
    front = tuple(shape[a] for a in order)
    check_shape(dy, (*front[2:], int(key[0].shape[0])), "dy", "the diagonal")
    ndim = len(dy.shape)
    placed = getitem_vjp(nx.permute_dims(dy, (ndim - 1, *range(ndim - 1))), front, key, validate=False)
    if not isinstance(dy, Tangent):
        placed = IndexedSlices._of(placed._frame()._replace(unique=True, ordered=True))
    result: IndexedSlices = nx.permute_dims(placed, tuple(order.index(a) for a in range(len(shape))))
    return result


def _diagonal_key(
    shape: tuple[int, ...], offset: int, axis1: int, axis2: int, like: Array
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The key that reads the diagonal of the first two axes, and the order that brings `axis1` and `axis2` there."""
    first, second, offset = as_axis(axis1, len(shape), "axis1"), as_axis(axis2, len(shape), "axis2"), operator.index(offset)
    if first == second:
        raise ValueError(f"axis1 and axis2 must differ, both are {first}")
    down, right = (0, offset) if offset >= 0 else (-offset, 0)
    length = sorted((0, min(shape[first] - down, shape[second] - right)))[1]
    backend = backend_of(like)
    line = backend.xp.arange(length, dtype=backend.kernels.index_dtype(like), device=device_of(like))
    return (line + down, line + right, ...), (first, second, *(a for a in range(len(shape)) if a not in (first, second)))
