"""Selection by a condition and by bounds: compact where the other arguments leave a zero zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of, device_of
from ..dtypes import facts
from ..kernels.base import Array, DType
from ..registry import implements
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from .beside import beside
from .dense import dense_of, implicit
from .fallback import call_dense
from .frames import align, broadcast_shapes, distinct, promote
from .join import product, quotient, union
from .sums import join_entries
from .wrap import held_array, like, operand_frames

__all__ = ["clip", "where"]

Number = bool | int | float | complex


def _is_number(x: Any) -> bool:
    return isinstance(x, Number) and not isinstance(x, np.generic)


@implements("where")
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """`x1` where the condition holds, else `x2`; linear in both, so compact if what is not stored gives 0."""
    tangents = [x for x in (condition, x1, x2) if isinstance(x, Tangent)]
    like_frame = tangents[0]._frame()
    xp = like_frame.backend.xp
    dtype, arrays = _branches(like_frame, condition, x1, x2)
    if not (_leaves_zeros(x2) and (_leaves_zeros(x1) or _leaves_zeros(condition))):
        return _where_dense(condition, arrays, dtype)
    (chosen, *_) = operand_frames(condition, *(x for x in tangents if x is not condition))
    chosen = distinct(chosen)
    if chosen.values.dtype != xp.bool:
        chosen = chosen.with_values(chosen.values != 0)
    then, other = (promote(f, dtype) for f in operand_frames(*arrays))
    shape = broadcast_shapes(chosen.shape, then.shape, other.shape)
    zero = xp.zeros((), dtype=dtype, device=device_of(then.values))
    then, other, chosen = (align(f, shape) for f in (then, other, chosen))
    parts = []
    if not _is_zero(x1):
        parts.append(product(then, chosen, lambda x, c: xp.where(c, x, zero)))
    if not _is_zero(x2):
        parts.append(quotient(other, chosen, lambda x, c: xp.where(c, zero, x)))
    return IndexedSlices._of(join_entries(parts, dtype)) if parts else Zero(shape, like=then.values, dtype=dtype)


def _is_zero(x: Any) -> bool:
    return isinstance(x, Zero) or (_is_number(x) and x == 0)


def _leaves_zeros(x: Any) -> bool:
    """Whether an operand is zero where it stores nothing."""
    return _is_zero(x) or (isinstance(x, Tangent) and not isinstance(x, Fill))


def _branches(frame: Frame, condition: Any, *branches: Any) -> tuple[DType, list[Any]]:
    """The dtype of the result, and the branches with their numbers made arrays of it."""
    xp, device = frame.backend.xp, device_of(frame.values)
    probes = [x if _is_number(x) else xp.zeros((0,) if len(x.shape) else (), dtype=x.dtype) for x in branches]
    asked = xp.zeros((0,), dtype=condition.dtype)  # refused where the library takes bools only
    dtype = xp.where(asked, *probes).dtype if not all(map(_is_number, branches)) else xp.asarray(probes[0] + probes[1]).dtype
    return dtype, [xp.asarray(x, dtype=dtype, device=device) if _is_number(x) else x for x in branches]


def _where_dense(condition: Any, branches: list[Any], dtype: DType) -> Array:
    """The dense answer; silent beside an array that has the result's shape already."""
    operands = (condition, *branches)
    shape = broadcast_shapes(*(tuple(x.shape) for x in operands))
    covered = any(not isinstance(x, Tangent) and tuple(x.shape) == shape for x in operands)
    frames = operand_frames(*operands)
    xp = frames[0].backend.xp
    dense = [
        x if not isinstance(x, Tangent) else dense_of(f) if covered else implicit(x, "where", shape)
        for x, f in zip(operands, frames, strict=True)
    ]
    return xp.where(dense[0], *(xp.astype(x, dtype, copy=False) for x in dense[1:]))


@implements("clip")
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Every element moved into the bounds: compact if they leave 0 where it is, numbers by their value, tangents always."""
    if min is None and max is None:
        return x
    bounds = {"min": min, "max": max}
    numbers = {k: b for k, b in bounds.items() if _is_number(b)}
    arrays = {k: b for k, b in bounds.items() if b is not None and not _is_number(b)}
    compact = isinstance(x, Tangent) and not isinstance(x, Fill) and all(_allows_zero(k, b, x) for k, b in arrays.items())
    if not isinstance(x, Tangent) or not (compact and _leaves_zero(numbers, x)):
        if isinstance(x, Fill) and not arrays:
            return like(x, _clipped(x._frame(), numbers))
        shape = broadcast_shapes(*(tuple(y.shape) for y in (x, *arrays.values())))
        covered = any(not isinstance(y, Tangent) and tuple(y.shape) == shape for y in (x, *arrays.values()))
        if not covered:
            return call_dense("clip", x, **bounds)
        dense = {k: b.densify() if isinstance(b, Tangent) else b for k, b in bounds.items()}
        first = x.densify() if isinstance(x, Tangent) else x
        return backend_of(first).xp.clip(first, **dense)
    frames = operand_frames(x, *arrays.values())
    if not arrays:
        return like(x, _clipped(distinct(frames[0]), numbers))
    xp = frames[0].backend.xp
    # The lower bound first: where it is above the upper one, the upper one wins.
    frame = frames[0]
    limits = dict(zip(arrays, frames[1:], strict=True))
    for name in ("min", "max"):
        if name in limits:
            combine = beside if _is_whole(arrays[name]) else union
            frame = combine(distinct(frame), limits[name], lambda v, b, name=name: xp.clip(v, **{name: b}))  # type: ignore[misc]
        elif name in numbers:
            frame = _clipped(distinct(frame), {name: numbers[name]})
    return IndexedSlices._of(frame)


def _is_whole(bound: Any) -> bool:
    """Whether a bound is an array, or a number everywhere: it has elements beside every implicit zero."""
    return isinstance(bound, Fill) or not isinstance(bound, Tangent)


def _allows_zero(name: str, bound: Any, x: Tangent) -> bool:
    """Whether a bound that is no Python number moves no zero: one pass over an array, none over slices."""
    if not _is_whole(bound):
        return True
    values = held_array(bound)
    backend = backend_of(values)
    if not backend.kernels.concrete(values) or not x._frame().concrete:
        return False
    return bool(backend.xp.all(values <= 0 if name == "min" else values >= 0))


def _leaves_zero(bounds: dict[str, Any], x: Tangent) -> bool:
    if any(b < 0 for b in bounds.values()) and facts(x._frame().backend, x.dtype).kind == "unsigned":
        return False  # some libraries wrap a negative bound
    return bool(np.clip(0.0, bounds.get("min"), bounds.get("max")) == 0) if bounds else True


def _clipped(frame: Frame, bounds: dict[str, Any]) -> Frame:
    return frame.with_values(frame.backend.xp.clip(frame.values, **bounds))
