"""Products and quotients: linear, so always compact; unstored places stay zero whatever they are multiplied with."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..backend import backend_of
from ..dtypes import facts
from ..kernels.base import Array as AnyArray
from ..registry import Array, Scalar, implements
from ..types import Frame, IndexedSlices, Tangent, Zero
from .binary import by_zero, with_number
from .frames import blank_padding, broadcast_shapes, distinct, promote
from .join import product, quotient
from .wrap import like, operand_frames
from .zeros import common_dtype, result_dtype

__all__: list[str] = []

Combine = Callable[[Frame, Frame, Callable[[AnyArray, AnyArray], AnyArray]], Frame]


def _combined(name: str, a: Any, b: Any, combine: Combine, linear: tuple[bool, bool]) -> Tangent:
    """Combine the frames of two operands, the tangents in which the operation is linear cast to the result's dtype first.

    The function would cast summands itself; `promote` merges them where that gives another sum.
    """
    frames = operand_frames(a, b)
    dtype, xp = common_dtype(name, *frames), frames[0].backend.xp
    left, right = (
        promote(f, dtype) if is_linear and isinstance(x, Tangent) else f
        for x, f, is_linear in zip((a, b), frames, linear, strict=True)
    )
    result = combine(left, right, getattr(xp, name))
    return IndexedSlices._of(result.with_values(xp.astype(result.values, dtype, copy=False)))


@implements("multiply", Tangent, Tangent)
@implements("multiply", Tangent, Array)
@implements("multiply", Array, Tangent)
def multiply(a: Any, b: Any) -> Tangent:
    """Values times the other operand's at the stored places; of two compacts, the places that both store."""
    return _combined("multiply", a, b, product, (True, True))


@implements("divide", Tangent, Tangent)
@implements("divide", Tangent, Array)
def divide(a: Tangent, b: Any) -> Tangent:
    """Values over the other operand's at the stored places, its implicit zeros included."""
    return _combined("divide", a, b, quotient, (True, False))


@implements("divide", Array, Tangent)
def divide_array(a: AnyArray, b: Tangent) -> AnyArray:
    """Dense: the quotient is not zero where the tangent is."""
    return by_zero("divide", a, b)


def _scaling(name: str, function: Callable[[AnyArray, complex], AnyArray]) -> Callable[[Tangent, complex], Tangent]:
    """A linear operation of a tangent with a Python number."""

    def scaled(t: Tangent, number: complex) -> Tangent:
        frame = t._frame()
        values = frame.values
        if facts(backend_of(values), values.dtype).kind not in ("real", "complex"):
            # Integers and bools may be cast by the product, and a cast of summands need not be the cast of their sum.
            dtype = result_dtype(name, frame, values.dtype, type(number)(1))
            frame = frame if dtype == values.dtype else distinct(frame)
        if number - number != 0 or (number == 0 and name == "divide"):
            frame = distinct(frame)  # of an infinity or nan: inf - inf of two summands is nan where their sum has a product
        frame = frame.with_values(function(frame.values, number))
        # 0 / 0 in a padding row would come back as nan.
        return like(t, blank_padding(frame) if frame.padded else frame)

    return scaled


_times, _over = _scaling("multiply", operator.mul), _scaling("divide", operator.truediv)
implements("multiply", Tangent, Scalar)(_times)
implements("multiply", Scalar, Tangent)(lambda number, t: _times(t, number))
implements("divide", Tangent, Scalar)(_over)


@implements("divide", Scalar, Tangent)
def divide_number(a: complex, b: Tangent) -> Any:
    return with_number("divide", a, b)


def _intersection(name: str) -> None:
    """Register a function that is zero where either operand is, and not linear: repeats are merged first."""

    def intersection(a: Any, b: Any) -> Tangent:
        left, right = operand_frames(a, b)
        dtype, xp = common_dtype(name, left, right), left.backend.xp
        result = product(distinct(left), distinct(right), getattr(xp, name))
        return IndexedSlices._of(result.with_values(xp.astype(result.values, dtype, copy=False)))

    for pair in ((Tangent, Tangent), (Tangent, Array), (Array, Tangent)):
        implements(name, *pair)(intersection)


for _name in ("logical_and", "bitwise_and"):
    _intersection(_name)


def _absorbing(name: str) -> Any:
    def absorb(a: Any, b: Any) -> Zero:
        """A zero absorbs what it is multiplied with: the broadcast shape, the promoted dtype."""
        frames = operand_frames(a, b)
        dtype = common_dtype(name, *frames)
        return Zero(broadcast_shapes(a.shape, b.shape), like=frames[0].values, dtype=dtype)

    return absorb


_LEFT, _RIGHT = ((Zero, Tangent), (Zero, Array)), ((Tangent, Zero), (Array, Zero))
for _name in ("multiply", "logical_and", "bitwise_and", "divide"):
    for _pair in _LEFT if _name == "divide" else (*_LEFT, *_RIGHT):
        implements(_name, *_pair)(_absorbing(_name))
