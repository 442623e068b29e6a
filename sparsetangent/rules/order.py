"""Sorting and the k greatest along an axis; their adjoints put cotangents back where the elements came from."""

from __future__ import annotations

import operator
from typing import Any

from ..backend import backend_of
from ..kernels.base import Array
from ..types import IndexedSlices, Tangent
from ..types.axes import as_axis
from .gather import take_along_axis, take_along_axis_vjp
from .operands import check_shape, dense_operand, refuse_complex

__all__ = ["sort", "sort_vjp", "topk", "topk_vjp"]


def sort(x: Any, axis: int = -1) -> Array:
    """The elements along an axis in ascending order, nan last.

    Parameters
    ----------
    x : Array
        Any shape with at least one axis, of a dtype with an order: not complex. A tangent is made dense, under the densify policy.
    axis : int
        Along which to sort.

    Returns
    -------
    Array
        Shape and dtype of `x`.

    Raises
    ------
    ValueError
        An axis out of range.
    TypeError
        A complex dtype, which has no order.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.sort(np.array([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    >>> st.rules.sort(np.array([[3.0, 1.0], [2.0, 5.0]]), axis=0).tolist()
    [[2.0, 1.0], [3.0, 5.0]]
    """
    x = dense_operand(x, "sort")
    axis, order = _ascending(x, axis)
    return take_along_axis(x, order, axis, validate=False)


def sort_vjp(dy: Any, x: Any, axis: int = -1) -> Any:
    """The cotangent of `x` in ``sort(x, axis)``: the cotangent in the order that `x` had.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of `x`.
    x, axis
        As in the forward.

    Returns
    -------
    Array or Tangent
        Shape of `x`. An array for an array, since nothing is zero in it; compact if `dy` is.

    Raises
    ------
    ValueError, TypeError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d x[order[i]] = dy[i]``. Equal elements count as sorted stably: the first of them has the first place.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.sort_vjp(np.array([10.0, 20.0, 30.0]), np.array([3.0, 1.0, 2.0])).tolist()
    [30.0, 10.0, 20.0]
    >>> st.rules.sort_vjp(np.array([10.0, 20.0, 30.0]), np.array([2.0, 2.0, 1.0])).tolist()
    [20.0, 30.0, 10.0]
    """
    x = dense_operand(x, "sort_vjp")
    axis, order = _ascending(x, axis)
    check_shape(dy, tuple(x.shape), "dy", "x")
    places = backend_of(x).xp.argsort(order, axis=axis, stable=True)
    return take_along_axis(dy, places, axis, validate=False)


def topk(x: Any, k: int, axis: int = -1) -> Array:
    """The `k` greatest elements along an axis, the greatest first; nan counts as the greatest of all.

    Parameters
    ----------
    x : Array
        Any shape with at least one axis, of a dtype with an order: not complex. A tangent is made dense, under the densify policy.
    k : int
        ``0 <= k <= x.shape[axis]``.
    axis : int
        Along which to choose.

    Returns
    -------
    Array
        Shape of `x` with k at `axis`, dtype of `x`.

    Raises
    ------
    ValueError
        An axis or k out of range.
    TypeError
        A complex dtype, which has no order.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.topk(np.array([3.0, 1.0, 2.0]), 2).tolist()
    [3.0, 2.0]
    >>> st.rules.topk(np.array([[3.0, 1.0], [2.0, 5.0]]), 1, axis=0).tolist()
    [[3.0, 5.0]]
    """
    x = dense_operand(x, "topk")
    axis, order = _greatest(x, k, axis)
    return take_along_axis(x, order, axis, validate=False)


def topk_vjp(dy: Any, x: Any, k: int, axis: int = -1) -> IndexedSlices:
    """The cotangent of `x` in ``topk(x, k, axis)``: that of each of the greatest, at its place.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    x, k, axis
        As in the forward.

    Returns
    -------
    IndexedSlices
        With every axis stored, one entry for each element of the forward's result.

    Raises
    ------
    ValueError, TypeError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d x[order[i]] = dy[i]`` for the k places that were chosen; of equal elements the first.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.topk_vjp(np.array([10.0, 20.0]), np.array([3.0, 1.0, 2.0]), 2).densify().tolist()
    [10.0, 0.0, 20.0]
    >>> st.rules.topk_vjp(np.array([10.0]), np.array([2.0, 2.0, 1.0]), 1).indices.tolist()
    [0]
    """
    x = dense_operand(x, "topk_vjp")
    axis, order = _greatest(x, k, axis)
    check_shape(dy, tuple(order.shape), "dy", "the forward's result")
    dx = take_along_axis_vjp(dy, tuple(x.shape), order, axis, validate=False)
    return dx if isinstance(dy, Tangent) else IndexedSlices._of(dx._frame()._replace(unique=True))


def _ascending(x: Array, axis: int) -> tuple[int, Array]:
    refuse_complex(x, "order")
    axis = as_axis(axis, x.ndim)
    return axis, backend_of(x).xp.argsort(x, axis=axis, stable=True)


def _greatest(x: Array, k: int, axis: int) -> tuple[int, Array]:
    xp = backend_of(x).xp
    refuse_complex(x, "order")
    axis, k = as_axis(axis, x.ndim), operator.index(k)
    n = int(x.shape[axis])
    if not 0 <= k <= n:
        raise ValueError(f"k must be between 0 and the {n} elements of axis {axis}, not {k}")
    # A stable sort of the reversed line, read backwards, keeps the order of equal elements (nan, which is sorted last, comes first).
    order = n - 1 - xp.flip(xp.argsort(xp.flip(x, axis=axis), axis=axis, stable=True), axis=axis)
    return axis, order[(*(slice(None),) * axis, slice(0, k), ...)]
