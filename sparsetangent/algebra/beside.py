"""A tangent beside an array whose elements leave a zero zero: compact at what the tangent stores, once the array has been looked at.

One pass over an array that the caller holds already; nothing of the tangent's shape is made. Under a tracer, where no value can be seen,
the answer is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..backend import backend_of, device_of
from ..dtypes import facts
from ..kernels.base import Array
from ..registry import BINARY, Structure
from ..types import Frame
from .frames import align, blank_padding, broadcast_shapes, coalesce, distinct
from .join import quotient

__all__ = ["at_entries", "beside", "leaves_zeros", "stores_all"]

Test = Callable[[Array, Any], Array]


def _divides(y: Array, xp: Any) -> Array:
    return (y != 0) & (y == y)  # 0 / nan is nan


# What every element of the right operand must satisfy so that 0 on the left gives 0, and of the left for 0 on the right. What is not
# here gives another number (y // 0, y**0), or is asked by evaluating the function.
_RIGHT: dict[str, Test] = {
    "floor_divide": _divides,
    "remainder": _divides,
    "pow": lambda y, xp: y > 0,
    "equal": lambda y, xp: y != 0,
    "less_equal": lambda y, xp: xp.logical_not(y >= 0),
    "greater_equal": lambda y, xp: xp.logical_not(y <= 0),
}
_LEFT: dict[str, Test] = {
    "equal": lambda y, xp: y != 0,
    "less_equal": lambda y, xp: xp.logical_not(y <= 0),
    "greater_equal": lambda y, xp: xp.logical_not(y >= 0),
}


def leaves_zeros(name: str, y: Array, zero: Array, *, on_right: bool) -> bool:
    """Whether a binary function of a `zero` and any element of `y`, which stands on the right or on the left, is zero."""
    backend = backend_of(y)
    xp = backend.xp
    if BINARY[name] is Structure.VALUE:
        test = (_RIGHT if on_right else _LEFT).get(name)
        kind = facts(backend, y.dtype).kind
        if test is None or (kind in ("bool", "complex") and name != "equal"):
            return False
        return bool(xp.all(y if kind == "bool" else test(y, xp)))
    with np.errstate(all="ignore"):
        result = getattr(xp, name)(*((zero, y) if on_right else (y, zero)))
    return not bool(xp.any(result if result.dtype == xp.bool else result != 0))


def at_entries(name: str, left: Frame, right: Frame) -> Frame | None:
    """A binary function at the entries of the one frame that has stored axes, if all elements of the other leave zeros, or if no zero
    is implicit; else None.

    An array of the result's shape is looked through only for a function that such an array may leave compact by the table: for another
    the dense answer takes no more than it does.
    """
    on_right = bool(left.axes)
    t, array = (left, right) if on_right else (right, left)
    shape = broadcast_shapes(t.shape, array.shape)
    if array.axes or not array.n or not align(t, shape).axes or not (t.concrete and array.concrete):
        return None
    array = coalesce(array)
    if BINARY[name] is not Structure.VALUE and prod(array.values.shape) == prod(shape):
        return None
    xp = t.backend.xp
    zero = xp.zeros((1,) * max(array.values.ndim - 1, 1), dtype=t.values.dtype, device=device_of(t.values))
    full = BINARY[name] is Structure.VALUE and stores_all(align(t, shape))
    if not full and not leaves_zeros(name, array.values[0, ...], zero, on_right=on_right):
        return None
    function = getattr(xp, name)
    return beside(distinct(t), array, function if on_right else lambda x, y: function(y, x))


def beside(t: Frame, array: Frame, function: Callable[[Array, Array], Array]) -> Frame:
    """A function of the values of a frame and of an array's elements there; an array without axes stays one, for its promotion."""
    if array.shape:
        return blank_padding(result) if (result := quotient(t, array, function)).padded else result
    result = t.with_values(function(t.values, array.values[0, ...]))
    return blank_padding(result) if t.padded else result


def stores_all(frame: Frame) -> bool:
    """Whether a frame has an entry at every place, so that no zero of it is implicit."""
    if not frame.axes or frame.padded or not frame.concrete or frame.n < prod(frame.stored_sizes):
        return False
    return distinct(frame).n == prod(frame.stored_sizes)
