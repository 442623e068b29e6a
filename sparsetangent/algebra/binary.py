"""Binary operations that have no rule of their own: compact if no implicit zero gives another number, else dense by the policy.

Also the pairings of `Fill` and `Zero`, which are one number, for all binary operations.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from ..backend import backend_of, common_backend
from ..kernels.base import Array as AnyArray
from ..registry import BINARY, Array, Scalar, Structure, implements
from ..types import Fill, IndexedSlices, Tangent, Zero
from .beside import at_entries, stores_all
from .dense import dense_of, holds_all, implicit
from .frames import align, broadcast_shapes, distinct
from .join import union
from .wrap import like, operand_frames
from .zeros import common_dtype, function_of, keeps_zero

__all__ = ["by_zero", "with_number"]

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
"""These have rules of their own, in `sums` and `products`."""


def by_zero(name: str, a: Any, b: Any) -> Any:
    """Two tangents, or a tangent and an array.

    Compact on the union of what two tangents store if zeros stay zero, or if one of them has no implicit zero; compact on what the
    tangent stores if every element of the array leaves a zero zero; else dense.
    """
    frames = left, right = operand_frames(a, b)
    backend = left.backend
    function = getattr(backend.xp, name)
    dtypes = left.values.dtype, right.values.dtype
    shape = broadcast_shapes(a.shape, b.shape)
    if isinstance(a, Tangent) and isinstance(b, Tangent):
        common_dtype(name, *frames)  # raises where the dense operation does
        if keeps_zero(name, *dtypes, backend=backend):
            return IndexedSlices._of(union(left, right, function))
        if BINARY[name] is Structure.VALUE and any(stores_all(align(f, shape)) for f in frames):
            return IndexedSlices._of(union(left, right, function))
    if (kept := at_entries(name, left, right)) is not None:
        return IndexedSlices._of(kept)
    covered = any(holds_all(f, shape) for f in frames)
    dense = [
        x if not isinstance(x, Tangent) else dense_of(f) if covered else implicit(x, name, shape)
        for x, f in zip((a, b), frames, strict=True)
    ]
    return function(*dense)


def with_number(name: str, a: Any, b: Any) -> Any:
    """A tangent and a Python number, in either order: compact if a zero stays zero."""
    t = a if isinstance(a, Tangent) else b
    frame = t._frame()
    backend = frame.backend
    operands = [x.dtype if isinstance(x, Tangent) else x for x in (a, b)]

    def on_array(x: AnyArray) -> AnyArray:
        pair = [x if isinstance(y, Tangent) else y for y in (a, b)]
        return function_of(name, backend.xp, *pair)(*pair)

    if keeps_zero(name, *operands, backend=backend):
        frame = distinct(frame)
        return like(t, frame.with_values(on_array(frame.values)))
    return on_array(implicit(t, name))


def _constants(name: str, structure: Structure, a: Any, b: Any) -> Tangent:
    """Numbers everywhere: one number everywhere, and a zero where that is known without looking."""
    tangents = [x for x in (a, b) if isinstance(x, Tangent)]
    backend = common_backend(*(x._frame().values for x in tangents))
    numbers = [_number_of(x) for x in (a, b)]
    shape = broadcast_shapes(*(x.shape for x in tangents))
    if 0 in shape:  # nothing is computed, nor refused: torch divides no integer by 0
        numbers = [x[:0] if hasattr(x, "shape") else x for x in numbers]
        return Zero(shape, like=function_of(name, backend.xp, *numbers)(*numbers))
    value = function_of(name, backend.xp, *numbers)(*numbers)
    absorbed = structure in (Structure.PRODUCT, Structure.QUOTIENT) and isinstance(a, Zero)
    absorbed = absorbed or (structure is Structure.PRODUCT and isinstance(b, Zero))
    operands = [x.dtype if isinstance(x, Zero) else x for x in (a, b)]
    if absorbed or (not any(isinstance(x, Fill) for x in operands) and keeps_zero(name, *operands, backend=backend)):
        return Zero(shape, like=value)
    return Fill._of(backend.xp.reshape(value, ()), shape)


def _number_of(x: Any) -> Any:
    if isinstance(x, Fill):
        return backend_of(x.value).xp.reshape(x.value, (1,))
    return backend_of(x._probe).xp.zeros((1,), dtype=x.dtype) if isinstance(x, Zero) else x


def _fill_beside(name: str, a: Any, b: Any) -> Any:
    """A fill beside a tangent or an array, for an operation that is no product; the fill takes part as one number.

    Compact beside slices if the number leaves a zero zero (but a sum of the two is dense whatever it is), else dense.
    """
    shape = broadcast_shapes(a.shape, b.shape)
    frames = operand_frames(a, b)
    if name not in _ARITHMETIC and (kept := at_entries(name, *frames)) is not None:
        return IndexedSlices._of(kept)
    backend = frames[0].backend
    dense = [_fill_values(x, len(shape)) if isinstance(x, Fill) else _dense(x, name, shape) for x in (a, b)]
    result = getattr(backend.xp, name)(*dense)
    if tuple(result.shape) == shape:
        return result
    return backend.xp.astype(backend.xp.broadcast_to(result, shape), result.dtype, copy=True)


def _fill_values(x: Fill, ndim: int) -> AnyArray:
    # As many axes as the result: a 0-d array would promote otherwise in some libraries.
    return backend_of(x.value).xp.reshape(x.value, (1,) * ndim)


def _dense(x: Any, name: str, shape: tuple[int, ...]) -> AnyArray:
    return implicit(x, name, shape) if isinstance(x, Tangent) else x


def _register(name: str, structure: Structure) -> None:
    def constants(a: Any, b: Any) -> Tangent:
        return _constants(name, structure, a, b)

    def fill_beside(a: Any, b: Any) -> Any:
        return _fill_beside(name, a, b)

    def pair(a: Any, b: Any) -> Any:
        return by_zero(name, a, b)

    def number(a: Any, b: Any) -> Any:
        return with_number(name, a, b)

    for left, right in product((Fill, Zero, Scalar), repeat=2):
        if (left, right) != (Scalar, Scalar):
            implements(name, left, right)(constants)
    if structure not in (Structure.PRODUCT, Structure.QUOTIENT):
        for other in (Tangent, Array):
            implements(name, Fill, other)(fill_beside)
            implements(name, other, Fill)(fill_beside)
    if name not in _ARITHMETIC:
        for left, right in ((Tangent, Tangent), (Tangent, Array), (Array, Tangent)):
            implements(name, left, right)(pair)
        for left, right in ((Tangent, Scalar), (Scalar, Tangent)):
            implements(name, left, right)(number)


for _name, _structure in BINARY.items():
    _register(_name, _structure)
