"""Arrays made from nothing: zeros as `Zero`, one number everywhere as `Fill`, the identity as `OneHot`.

Each takes the library's namespace first, since it has no operand to take the library from. What has no axis is an array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..backend import backend_of
from ..kernels.base import Array, DType, Namespace
from ..registry import implements
from ..types import Fill, OneHot, Tangent, Zero
from ..types.axes import as_shape
from ..types.one_hot import is_weak
from .elementwise import astype, to_device

__all__ = ["asarray", "empty_like", "eye", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def _shape(given: int | Sequence[int]) -> tuple[int, ...]:
    return as_shape(given if isinstance(given, (tuple, list)) else (given,))


def _like(x: Any, dtype: DType | None, device: Any) -> tuple[tuple[int, ...], DType, Any]:
    """Shape, dtype and device of a tangent or array, unless given."""
    held = x._frame().values if isinstance(x, Tangent) else x
    if device is None:
        device = getattr(held, "device", None)
    return tuple(x.shape), x.dtype if dtype is None else dtype, device


@implements("zeros")
def zeros(xp: Namespace, shape: int | Sequence[int], *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """Zero everywhere."""
    sizes = _shape(shape)
    return Zero(sizes, xp=xp, dtype=dtype, device=device) if sizes else xp.zeros((), dtype=dtype, device=device)


@implements("full")
def full(
    xp: Namespace, shape: int | Sequence[int], fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tangent | Array:
    """One number everywhere."""
    sizes = _shape(shape)
    value = xp.full((), fill_value, dtype=dtype, device=device)
    return Fill(value, sizes) if sizes else value


@implements("ones")
def ones(xp: Namespace, shape: int | Sequence[int], *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """One everywhere."""
    sizes = _shape(shape)
    value = xp.ones((), dtype=dtype, device=device)
    return Fill(value, sizes) if sizes else value


@implements("zeros_like")
def zeros_like(xp: Namespace, x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """Zero everywhere, in the shape of a tangent or array."""
    shape, dtype, device = _like(x, dtype, device)
    return zeros(xp, shape, dtype=dtype, device=device)


@implements("ones_like")
def ones_like(xp: Namespace, x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """One everywhere, in the shape of a tangent or array."""
    shape, dtype, device = _like(x, dtype, device)
    return ones(xp, shape, dtype=dtype, device=device)


@implements("full_like")
def full_like(xp: Namespace, x: Any, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """One number everywhere, in the shape of a tangent or array."""
    shape, dtype, device = _like(x, dtype, device)
    return full(xp, shape, fill_value, dtype=dtype, device=device)


@implements("empty_like")
def empty_like(xp: Namespace, x: Any, /, *, dtype: DType | None = None, device: Any = None) -> Tangent | Array:
    """Of an array, memory to write into; of a tangent, which nobody writes into, zeros."""
    if isinstance(x, Tangent):
        return zeros_like(xp, x, dtype=dtype, device=device)
    return xp.empty_like(x, dtype=dtype, device=device)


@implements("eye")
def eye(
    xp: Namespace, n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Tangent:
    """One on the `k`-th diagonal: an index for each position of the shorter axis."""
    rows = operator.index(n_rows)
    columns = rows if n_cols is None else operator.index(n_cols)
    if rows < 0 or columns < 0:
        raise ValueError(f"the sizes of eye must be at least 0, not {rows} and {columns}")
    probe = xp.zeros((), dtype=dtype, device=device)
    line = xp.arange(min(rows, columns), dtype=backend_of(probe).kernels.index_dtype(probe), device=device)
    by_row = rows <= columns
    k = max(-rows, min(k, columns))  # a diagonal further out holds as little, and may be out of reach of the index dtype
    ids = line + k if by_row else line - k
    return OneHot(ids, columns if by_row else rows, axis=1 if by_row else 0, dtype=probe.dtype, mode="drop")


@implements("asarray")
def asarray(
    xp: Namespace, obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Tangent | Array:
    """A tangent as it is, of another dtype or on another device if asked for; all else as the library makes it."""
    if not isinstance(obj, Tangent):
        return xp.asarray(obj, dtype=dtype, device=device, copy=copy)
    if obj._frame().backend.xp is not xp:
        raise TypeError(f"a tangent of {obj._frame().backend.name} is no array of {xp.__name__}; densify and convert it")
    result = obj if dtype is None or (obj.dtype == dtype and not is_weak(obj)) else astype(obj, dtype)
    result = result if device is None or device == obj.device else to_device(result, device)
    if copy is False and result is not obj:
        raise ValueError("copy=False cannot be met: the dtype or the device changes")
    return result
