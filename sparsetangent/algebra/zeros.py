"""What an operation gives on zeros: the question that decides whether a result stays compact.

It is answered once, with NumPy, for the kinds of the operands: whether ``maximum(0, 0)`` is 0 does not depend on the backend. Integer
division by zero does (0, -1 or an exception), so it counts as not zero and the backend's own dense operation answers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend import Backend
from ..dtypes import facts
from ..kernels.base import DType, Namespace
from ..types import Frame

__all__ = ["common_dtype", "function_of", "keeps_zero", "result_dtype"]

# Python's operators serve a Python number beside an array in every library; the standard's functions need not.
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift,
    "bitwise_right_shift": operator.rshift,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_NUMBERS = (bool, int, float, complex)
_NUMPY_KINDS = {"bool": np.bool, "signed": np.int64, "unsigned": np.uint64, "real": np.float64, "complex": np.complex128}


def function_of(name: str, xp: Namespace, *operands: Any) -> Callable[..., Any]:
    """The library's function for a binary operation on these operands: an operator where one is a Python number."""
    if name in _OPERATORS:
        for x in operands:
            if isinstance(x, _NUMBERS):
                return _OPERATORS[name]
    function: Callable[..., Any] = getattr(xp, name)
    return function


def keeps_zero(name: str, *operands: Any, backend: Backend) -> bool:
    """Whether the operation gives 0 when every operand that is a dtype is replaced by 0; Python numbers take part."""
    return _keeps_zero(name, *(_key(x, backend) for x in operands))


def _key(operand: Any, backend: Backend) -> tuple[str, Any]:
    """Kind of a dtype, or type and value of a number (True, 1 and 1.0 are equal, and differ)."""
    if isinstance(operand, _NUMBERS):
        return type(operand).__name__, operand
    return "zero", facts(backend, operand).kind


@lru_cache(maxsize=4096)
def _keeps_zero(name: str, *operands: tuple[str, Any]) -> bool:
    if _libraries_disagree(name, operands):
        return False
    values = [np.zeros(1, _NUMPY_KINDS[x]) if how == "zero" else x for how, x in operands]
    try:
        with np.errstate(all="ignore", divide="raise"):
            result = function_of(name, np, *values)(*values)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return False
    return bool(np.all(np.asarray(result) == 0))


def _libraries_disagree(name: str, operands: tuple[tuple[str, Any], ...]) -> bool:
    """Where zero is no common answer: a negative number beside an unsigned array (NumPy compares, torch wraps it), and complex
    powers of 0 (0 in NumPy, nan in JAX).
    """
    negative = any(how in ("int", "float") and x < 0 for how, x in operands)
    is_complex = any(how == "complex" or x == "complex" for how, x in operands)
    return (negative and ("zero", "unsigned") in operands) or (is_complex and name == "pow")


def result_dtype(name: str, frame: Frame, *operands: Any) -> DType:
    """The dtype that the dense operation gives for dtypes and Python numbers, for the library of `frame`.

    The library is asked, on empty arrays; where the dense operation raises, so does this.
    """
    asked = ((type(x), x) if isinstance(x, _NUMBERS) else (False, x) for x in operands)
    return _asked_dtype(name, frame.backend, frame.backend.kernels.index_dtype(frame.values), *asked)


def common_dtype(name: str, *frames: Frame) -> DType:
    """The dtype that the dense operation gives for the arrays that frames stand for.

    Some libraries treat an array without axes apart, so the question is asked with arrays that have none where a frame has none.
    """
    asked = ((len(f.shape) == 0, f.values.dtype) for f in frames)
    return _asked_dtype(name, frames[0].backend, frames[0].backend.kernels.index_dtype(frames[0].values), *asked)


@lru_cache(maxsize=4096)
def _asked_dtype(name: str, backend: Backend, widest: DType, *operands: tuple[type | bool, Any]) -> DType:
    # `widest` stands in the key for JAX's switch of 64-bit types, which changes the answer.
    xp = backend.xp
    values = [x if isinstance(how, type) else xp.zeros(() if how else (0,), dtype=x) for how, x in operands]
    return function_of(name, xp, *values)(*values).dtype
