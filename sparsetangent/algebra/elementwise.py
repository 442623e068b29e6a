"""Unary functions, by the zero table, and casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat

from ..backend import backend_of
from ..dtypes import as_dtype
from ..kernels.base import DType
from ..registry import UNARY, Structure, implements
from ..types import Fill, OneHot, Tangent, Zero
from ..types.one_hot import is_weak
from .dense import implicit
from .frames import distinct, promote
from .wrap import like

__all__ = ["astype", "to_device", "unary"]


def unary(name: str, structure: Structure) -> Callable[[Tangent], Any]:
    """The function `name` of the standard on tangents."""

    def on_tangent(x: Tangent, /) -> Any:
        frame = x._frame()
        function = getattr(frame.backend.xp, name)
        if structure is Structure.DENSE:
            return function(implicit(x, name))
        if (
            structure is Structure.LINEAR and frame.values.dtype != frame.backend.xp.bool
        ):  # NumPy's conj makes integers of bools
            return like(x, frame.with_values(function(frame.values)))
        frame = distinct(frame)
        return like(x, frame.with_values(function(frame.values)))

    def on_fill(x: Fill, /) -> Fill:
        return Fill._of(getattr(backend_of(x.value).xp, name)(x.value), x.shape)

    def on_zero(x: Zero, /) -> Tangent:
        xp = backend_of(x._probe).xp
        if structure is not Structure.DENSE:
            return Zero._of(getattr(xp, name)(x._probe), x.shape)
        return on_fill(Fill._of(xp.zeros((), dtype=x.dtype), x.shape))

    implements(name, Tangent)(on_tangent)
    implements(name, Fill)(on_fill)
    implements(name, Zero)(on_zero)
    return on_tangent


for _name, _structure in UNARY.items():
    unary(_name, _structure)


@implements("astype")
def astype(x: Tangent, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tangent:
    """The tangent with another dtype. A cast that doesn't commute with sums merges repeats first."""
    if device is not None and device != x.device:
        return to_device(astype(x, dtype), device)
    dtype = as_dtype(x._frame().backend, dtype)
    if x.dtype == dtype and not is_weak(x):
        return x
    if isinstance(x, OneHot):
        xp = x._frame().backend.xp
        xp.astype(xp.zeros((0,), dtype=x.dtype), dtype)  # refuses what the library refuses
        return x._with_dtype(dtype)
    return like(x, promote(x._frame(), dtype))


@implements("to_device")
def to_device(x: Tangent, device: Any, /, *, stream: Any = None) -> Tangent:
    """The tangent with its arrays on `device`."""
    frame = x._frame()
    ids = tuple(array_api_compat.to_device(i, device, stream=stream) for i in frame.ids)
    return like(x, frame._replace(ids=ids, values=array_api_compat.to_device(frame.values, device, stream=stream)))
