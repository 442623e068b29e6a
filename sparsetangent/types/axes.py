"""Shapes and axes as the caller writes them, checked and counted from the front."""

from __future__ import annotations

import operator
from typing import Any

from numpy.exceptions import AxisError

__all__ = ["as_axes", "as_axis", "as_shape"]


def as_shape(shape: Any) -> tuple[int, ...]:
    """A tuple of non-negative Python ints; a `TypeError` or `ValueError` that shows what was given."""
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape  # nearly every call
    try:
        result = tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"shape must be a tuple of integers, not {shape!r}") from None
    if min(result, default=0) < 0:
        raise ValueError(f"shape must have no negative size, not {result}")
    return result


def as_axis(axis: Any, ndim: int, name: str = "axis") -> int:
    """`axis` counted from the front; a `TypeError`, or one that is a `ValueError` and an `IndexError`, shows what was given."""
    try:
        number = operator.index(axis)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {axis!r}") from None
    if not -ndim <= number < ndim:
        raise AxisError(f"{name} {number} is out of range for {ndim} axes")
    return number if number >= 0 else number + ndim


def as_axes(axis: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """`axis` (None for all, an int or several) as distinct axes counted from the front, in the order given."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(as_axis(a, ndim, name) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name} {axis} names an axis twice")
    return axes
