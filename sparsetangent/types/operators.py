"""Python's operators on tangents, which look the registry up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import is_array
from ..registry import Dispatched, apply, apply_pair

__all__ = ["Operators", "plain_number"]

_NUMBERS = frozenset((bool, int, float, complex))


def plain_number(x: Any, t: Any) -> Any:
    """A NumPy scalar beside a tangent of another library is a Python number; all else stays as it is."""
    if isinstance(x, np.generic) and not isinstance(t._frame().values, np.ndarray):
        return x.item()
    return x


def _operand(x: Any, t: Any) -> Any:
    """`x` as it stands beside a tangent in an operation, or NotImplemented for what is no tangent, array or Python number."""
    if type(x) in _NUMBERS or isinstance(x, Dispatched):  # seen at a glance
        return x
    return plain_number(x, t) if isinstance(x, (int, float, complex)) or is_array(x) else NotImplemented


def _left(name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        other = _operand(other, self)
        return other if other is NotImplemented else apply_pair(name, self, other)

    return operator


def _right(name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        other = _operand(other, self)
        return other if other is NotImplemented else apply_pair(name, other, self)

    return operator


def _unary(name: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        return apply(name, self)

    return operator


class Operators(Dispatched):
    """The operators: the left operand first, whichever side the tangent is on."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # equality is elementwise, as for arrays

    __add__, __radd__ = _left("add"), _right("add")
    __sub__, __rsub__ = _left("subtract"), _right("subtract")
    __mul__, __rmul__ = _left("multiply"), _right("multiply")
    __truediv__, __rtruediv__ = _left("divide"), _right("divide")
    __floordiv__, __rfloordiv__ = _left("floor_divide"), _right("floor_divide")
    __mod__, __rmod__ = _left("remainder"), _right("remainder")
    __pow__, __rpow__ = _left("pow"), _right("pow")
    __matmul__, __rmatmul__ = _left("matmul"), _right("matmul")
    __and__, __rand__ = _left("bitwise_and"), _right("bitwise_and")
    __or__, __ror__ = _left("bitwise_or"), _right("bitwise_or")
    __xor__, __rxor__ = _left("bitwise_xor"), _right("bitwise_xor")
    __lshift__, __rlshift__ = _left("bitwise_left_shift"), _right("bitwise_left_shift")
    __rshift__, __rrshift__ = _left("bitwise_right_shift"), _right("bitwise_right_shift")
    __eq__, __ne__ = _left("equal"), _left("not_equal")
    __lt__, __le__ = _left("less"), _left("less_equal")
    __gt__, __ge__ = _left("greater"), _left("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("abs"), _unary("bitwise_invert")
