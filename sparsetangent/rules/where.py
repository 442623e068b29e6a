"""Choice by a mask."""

from __future__ import annotations

from typing import Any

from ..algebra.frames import broadcast_shapes, frame_of_array
from ..algebra.join import product
from ..algebra.shapes import sum_to_shape
from ..algebra.wrap import like, operand_frames
from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..types import Fill, Tangent, Zero
from .operands import check_shape, dense_operand

__all__ = ["masked", "where", "where_vjp_x", "where_vjp_y"]


def where(condition: Array, x: Any, y: Any) -> Array:
    """Elements of `x` where `condition` holds, else of `y`.

    Parameters
    ----------
    condition : Array of bool
        Any shape.
    x, y : Array, Tangent or Python number
        Of shapes that broadcast with `condition`, any dtype. A tangent is made dense, under the densify policy.

    Returns
    -------
    Array

    Raises
    ------
    ValueError
        Shapes that do not broadcast.
    TypeError
        A `condition` that is not bool.

    Notes
    -----
    ``z[i] = x[i] if condition[i] else y[i]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.where(np.array([True, False]), np.array([1.0, 2.0]), np.array([8.0, 9.0])).tolist()
    [1.0, 9.0]
    >>> st.rules.where(np.array([True, False]), np.array([[1.0], [2.0]]), 0.0).tolist()
    [[1.0, 0.0], [2.0, 0.0]]
    """
    _check_condition(condition)
    operands = [dense_operand(v, "where") if hasattr(v, "shape") else v for v in (x, y)]
    broadcast_shapes(*(tuple(getattr(v, "shape", ())) for v in (condition, *operands)))
    return backend_of(condition).xp.where(condition, *operands)


def where_vjp_x(dy: Any, condition: Array, shape_of_x: tuple[int, ...], shape_of_y: tuple[int, ...]) -> Any:
    """The cotangent of `x` in ``where(condition, x, y)``.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    condition : Array of bool
        As in the forward, any shape.
    shape_of_x, shape_of_y : tuple of int
        The shapes of `x` and `y`.

    Returns
    -------
    Array or Tangent
        Shape of `x`; compact if `dy` is.

    Raises
    ------
    ValueError
        Shapes that do not fit.
    TypeError
        As the forward.

    Notes
    -----
    ``d x[i] = dy[i] if condition[i] else 0``, also where ``dy[i]`` is nan, summed over the axes that were stretched.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.where_vjp_x(np.array([5.0, np.nan]), np.array([True, False]), (2,), (2,)).tolist()
    [5.0, 0.0]
    >>> st.rules.where_vjp_x(np.array([5.0, 6.0]), np.array([True, True]), (1,), (2,)).tolist()
    [11.0]
    """
    return _chosen(dy, condition, shape_of_x, shape_of_x, shape_of_y)


def where_vjp_y(dy: Any, condition: Array, shape_of_x: tuple[int, ...], shape_of_y: tuple[int, ...]) -> Any:
    """The cotangent of `y` in ``where(condition, x, y)``.

    Parameters
    ----------
    dy, condition, shape_of_x, shape_of_y
        As for `where_vjp_x`.

    Returns
    -------
    Array or Tangent
        Shape of `y`; compact if `dy` is.

    Raises
    ------
    ValueError, TypeError
        As `where_vjp_x`.

    Notes
    -----
    ``d y[i] = 0 if condition[i] else dy[i]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.where_vjp_y(np.array([5.0, 6.0]), np.array([True, False]), (2,), (2,)).tolist()
    [0.0, 6.0]
    >>> st.rules.where_vjp_y(np.array([5.0, 6.0]), np.array([False, False]), (2,), ()).item()
    11.0
    """
    _check_condition(condition)
    return _chosen(dy, ~condition, shape_of_y, shape_of_x, shape_of_y)


def _check_condition(condition: Array) -> None:
    if condition.dtype != backend_of(condition).xp.bool:
        raise TypeError(f"condition must be bool, not {condition.dtype}")


def _chosen(dy: Any, mask: Array, target: tuple[int, ...], shape_of_x: tuple[int, ...], shape_of_y: tuple[int, ...]) -> Any:
    _check_condition(mask)
    check_shape(dy, broadcast_shapes(tuple(mask.shape), tuple(shape_of_x), tuple(shape_of_y)), "dy", "the forward's result")
    return sum_to_shape(masked(dy, mask), tuple(target))


def masked(dy: Any, mask: Array) -> Any:
    """`dy` where `mask` holds, else 0: no product, which would keep nan."""
    xp = backend_of(mask).xp

    def choose(values: Array, kept: Array) -> Array:
        return xp.where(kept, values, xp.zeros((1,) * values.ndim, dtype=values.dtype, device=device_of(values)))

    if isinstance(dy, Zero):
        return dy
    if not isinstance(dy, Tangent):
        return choose(dy, mask)
    frame = product(operand_frames(dy)[0], frame_of_array(mask), choose)
    return like(None if isinstance(dy, Fill) else dy, frame)
