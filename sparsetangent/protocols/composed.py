"""NumPy's functions that the standard has not, made of those that it has: each with NumPy's own arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..algebra.comparisons import allclose as is_close
from ..algebra.comparisons import equal
from ..algebra.wrap import as_tangent
from ..registry import apply
from ..types import Tangent

__all__ = ["COMPOSED"]


def _operand(x: Any) -> Any:
    return x if isinstance(x, Tangent) else np.asarray(x)


def _ravel(a: Any, order: str = "C") -> Any:
    _refuse(order != "C", "ravel", "order")
    return apply("reshape", a, (-1,))


def _refuse(given: bool, function: str, argument: str) -> None:
    if given:
        raise TypeError(f"numpy.{function} of a tangent takes no argument {argument!r}")


def _copy(a: Tangent, order: str = "K", subok: bool = False) -> Tangent:
    """A tangent is immutable, so it is its own copy."""
    return a


def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return apply("permute_dims", a, tuple(order))


def _fliplr(m: Any) -> Any:
    return apply("flip", m, axis=1)


def _flipud(m: Any) -> Any:
    return apply("flip", m, axis=0)


def _grown(x: Any, ndim: int) -> Any:
    """At least `ndim` axes, new ones in front."""
    for _ in range(ndim - x.ndim):
        x = x[None, ...]
    return x


def _at_least(ndim: int) -> Callable[..., Any]:
    def grown(*arys: Any) -> Any:
        result = tuple(_grown(_operand(x), ndim) for x in arys)
        return result[0] if len(result) == 1 else result

    return grown


def _vstack(tup: Sequence[Any]) -> Any:
    return apply("concat", [_grown(_operand(x), 2) for x in tup], axis=0)


def _hstack(tup: Sequence[Any]) -> Any:
    parts = [_grown(_operand(x), 1) for x in tup]
    return apply("concat", parts, axis=0 if parts[0].ndim == 1 else 1)


def _column_stack(tup: Sequence[Any]) -> Any:
    return apply("concat", [x if x.ndim > 1 else _grown(x, 1)[:, None] for x in map(_operand, tup)], axis=1)


def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    parts = [_operand(arr), _operand(values)]
    if axis is None:
        parts = [as_tangent(apply("reshape", x, (-1,))) if isinstance(x, Tangent) else x.ravel() for x in parts]
    return apply("concat", parts, axis=axis or 0)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    size, axis = ary.shape[axis], axis % ary.ndim
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        cuts = [int(i) for i in indices_or_sections]
    else:
        if sections < 1:
            raise ValueError(f"sections must be at least 1, not {sections}")
        each, more = divmod(size, sections)
        cuts = [i * each + min(i, more) for i in range(1, sections)]
    bounds = zip([0, *cuts], [*cuts, size], strict=True)
    return [ary[(*(slice(None),) * axis, slice(low, high), ...)] for low, high in bounds]


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError(f"an axis of size {ary.shape[axis]} cannot be split into {indices_or_sections} equal parts")
    return _array_split(ary, indices_or_sections, axis)


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    _refuse(out is not None, "dot", "out")
    a, b = _operand(a), _operand(b)
    if not a.ndim or not b.ndim:
        return apply("multiply", a, b)
    return apply("tensordot", a, b, axes=((a.ndim - 1,), (max(b.ndim - 2, 0),)))


def _inner(a: Any, b: Any) -> Any:
    a, b = _operand(a), _operand(b)
    if not a.ndim or not b.ndim:
        return apply("multiply", a, b)
    return apply("tensordot", a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


def _vdot(a: Any, b: Any) -> Any:
    a, b = _operand(a), _operand(b)
    if a.size != b.size:
        raise ValueError(f"numpy.vdot needs equally many elements, not {a.size} and {b.size}")
    if a.shape != b.shape:
        raise ValueError(f"numpy.vdot of a tangent needs equal shapes, not {a.shape} and {b.shape}")
    return apply("sum", (apply("conj", a) if isinstance(a, Tangent) else np.conj(a)) * b)


def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    _refuse(out is not None, "ptp", "out")
    kwargs = {"axis": axis, "keepdims": keepdims is True}
    return apply("max", a, **kwargs) - apply("min", a, **kwargs)


def _flatnonzero(a: Any) -> Any:
    return apply("nonzero", as_tangent(apply("reshape", a, (-1,))))[0]


def _argwhere(a: Any) -> Any:
    return np.stack(apply("nonzero", a), axis=-1) if a.ndim else np.zeros((int(bool(a.densify())), 0), np.intp)


def _allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    _refuse(equal_nan, "allclose", "equal_nan")
    a, b = np.broadcast_arrays(_operand(a), _operand(b))
    return is_close(a, b, rtol=rtol, atol=atol)


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    _refuse(equal_nan, "array_equal", "equal_nan")
    return equal(_operand(a1), _operand(a2))


COMPOSED: dict[str, Callable[..., Any]] = {
    "allclose": _allclose,
    "append": _append,
    "argwhere": _argwhere,
    "array_equal": _array_equal,
    "array_split": _array_split,
    "atleast_1d": _at_least(1),
    "atleast_2d": _at_least(2),
    "column_stack": _column_stack,
    "copy": _copy,
    "dot": _dot,
    "flatnonzero": _flatnonzero,
    "fliplr": _fliplr,
    "flipud": _flipud,
    "hstack": _hstack,
    "inner": _inner,
    "ptp": _ptp,
    "ravel": _ravel,
    "split": _split,
    "swapaxes": _swapaxes,
    "vdot": _vdot,
    "vstack": _vstack,
}
