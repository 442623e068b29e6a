"""One table of operations: (name, operand types) -> implementation, and what each operation does to zeros.

Operators of the types, the array API namespace, NumPy's and torch's protocols all look operations up here by the name that the
array API standard gives them. An implementation is registered with `implements`, for all tangents or for given types:

    @implements("add", IndexedSlices, IndexedSlices)
    def add(a, b): ...

Resolution takes the implementation whose declared types match the operands' most closely: the exact types first, then base
classes in method resolution order from the left, `Dispatched` (any tangent) last. `Array` and `Scalar` stand for dense
arrays and Python numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import product
from typing import Any, TypeVar

import numpy as np

__all__ = ["ZERO_TABLE", "Array", "Dispatched", "Scalar", "Structure", "apply", "implements", "names", "resolve"]

F = TypeVar("F", bound=Callable[..., Any])


class Dispatched:
    """Base of every type that the table dispatches on (the base of `Tangent`)."""

    __slots__ = ()


class Array:
    """Stands for a dense array of any backend in a signature."""


class Scalar:
    """Stands for a Python bool, int, float or complex in a signature."""


class Structure(Enum):
    """What an elementwise operation does to the places that a tangent doesn't store."""

    LINEAR = "acts on the stored values as they are"
    ZERO = "maps zero to zero: coalesces, then acts on the stored values"
    UNION = "maps two zeros to zero: coalesces both, acts on the union of what they store"
    PRODUCT = "zero where the left or the right is zero: acts on what both store"
    QUOTIENT = "zero where the numerator is zero: acts on what the numerator stores"
    DENSE = "does not keep zeros: the dense array, by the densify policy"


_L, _Z, _D = Structure.LINEAR, Structure.ZERO, Structure.DENSE

# Sum, difference and the binary operations that are not named here are decided by evaluating them on two zeros (`algebra.zeros`).
ZERO_TABLE: dict[str, Structure] = {
    **dict.fromkeys(("conj", "imag", "negative", "positive", "real"), _L),
    **dict.fromkeys(
        (
            *("abs", "asin", "asinh", "atan", "atanh", "ceil", "expm1", "floor", "isinf", "isnan", "log1p"),
            *("round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
        ),
        _Z,
    ),
    **dict.fromkeys(
        (
            "acos",
            "acosh",
            "bitwise_invert",
            "cos",
            "cosh",
            "exp",
            "isfinite",
            "log",
            "log10",
            "log2",
            "logical_not",
            "reciprocal",
        ),
        _D,
    ),
    "add": Structure.UNION,
    "subtract": Structure.UNION,
    "multiply": Structure.PRODUCT,
    "divide": Structure.QUOTIENT,
}

_IMPLEMENTATIONS: dict[str, dict[tuple[type, ...], Callable[..., Any]]] = {}
_RESOLVED: dict[tuple[Any, ...], Callable[..., Any]] = {}


def implements(name: str, *types: type) -> Callable[[F], F]:
    """Register the decorated function as operation `name` for operands of `types` (none: any operands)."""

    def register(function: F) -> F:
        _IMPLEMENTATIONS.setdefault(name, {})[types] = function
        _RESOLVED.clear()
        return function

    return register


def names() -> frozenset[str]:
    """The operations that have an implementation."""
    return frozenset(_IMPLEMENTATIONS)


def apply(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call operation `name` on the operands; a `TypeError` if no implementation takes their types."""
    key = (name, *map(type, args))
    try:
        implementation = _RESOLVED[key]
    except KeyError:
        implementation = _RESOLVED[key] = resolve(name, *map(type, args))
    return implementation(*args, **kwargs)


def resolve(name: str, *types: type) -> Callable[..., Any]:
    """The implementation of operation `name` for operands of `types`."""
    table = _IMPLEMENTATIONS.get(name)
    if table is None:
        raise TypeError(f"no operation is registered under the name {name!r}")
    for count in range(len(types), -1, -1):
        for signature in product(*map(_ancestry, types[:count])):
            if signature in table:
                return table[signature]
    raise TypeError(f"{name} takes no operands of types ({', '.join(t.__name__ for t in types)})")


def _ancestry(cls: type) -> Iterator[type]:
    """The types under which `cls` may be declared, the closest first."""
    if issubclass(cls, Dispatched):
        return iter(cls.__mro__[: cls.__mro__.index(Dispatched) + 1])
    is_number = issubclass(cls, (int, float, complex)) and not issubclass(cls, np.generic)
    return iter((Scalar,) if is_number else (Array,))
