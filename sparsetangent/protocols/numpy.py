"""NumPy's protocols on the registry: ufuncs (with in-place addition), functions, and conversion to an array."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import numpy as np

from ..algebra.dense import add_into, dense_of
from ..policy import note_densify
from ..registry import apply, implements, names
from ..types import Tangent
from ..types.tangent import plain_number

__all__: list[str] = []

# NumPy's name -> the standard's, where they differ.
_UFUNCS = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "rint": "round",
    "right_shift": "bitwise_right_shift",
    "true_divide": "divide",
}
_FUNCTIONS = {
    "amax": "max",
    "amin": "min",
    "concatenate": "concat",
    "norm": "vector_norm",
    "transpose": "permute_dims",
}
# Arguments of NumPy's functions that the standard names otherwise; what is not here must not be given.
_ARGUMENTS = {"axis": "axis", "keepdims": "keepdims", "dtype": "dtype", "ord": "ord", "shape": "shape", "shift": "shift"}


@implements("__array_ufunc__")
def _ufunc(t: Tangent, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    out = kwargs.pop("out", None)
    if method != "__call__" or name not in names() or kwargs:
        return NotImplemented
    if out is None:
        return apply(name, *(plain_number(x, t) for x in inputs))
    (target,) = out
    if isinstance(target, Tangent):
        raise TypeError("out must be an array: a tangent is immutable")
    if name in ("add", "subtract") and inputs[0] is target:
        return add_into(target, inputs[1], 1 if name == "add" else -1)
    result = apply(name, *(plain_number(x, t) for x in inputs))
    target[...] = result.densify() if isinstance(result, Tangent) else result
    return target


@implements("__array_function__")
def _function(t: Tangent, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = _FUNCTIONS.get(function.__name__, function.__name__)
    if name not in names():
        return NotImplemented
    (_, value), *rest = _signature(function).bind(*args, **kwargs).arguments.items()
    given = {k: v for k, v in rest if v is not None}
    unknown = sorted(set(given) - set(_ARGUMENTS) - {"axes", "indices", "newshape"})
    if unknown:
        raise TypeError(f"numpy.{function.__name__} of a tangent takes no argument {unknown[0]!r}")
    if name == "permute_dims":
        given.setdefault("axes", tuple(reversed(range(value.ndim))))
    return apply(name, value, **{_ARGUMENTS.get(k, k): v for k, v in given.items()})


@lru_cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


@implements("__array__", Tangent)
def _array(t: Tangent, *, dtype: Any = None, copy: bool | None = None) -> Any:
    """``np.asarray(t)``: the dense array under the densify policy, never an object array."""
    frame = t._frame()
    if not frame.backend.kernels.synchronous(frame.values):
        raise TypeError(f"a tangent of {frame.backend.name} on a device is not converted to a NumPy array implicitly")
    if copy is False:
        raise ValueError("a tangent has no dense array to share: copy=False cannot be met")
    note_densify("__array__", t.shape, t.dense_nbytes, traced=False)
    dense = np.asarray(dense_of(frame))
    return dense if dtype is None else dense.astype(dtype, copy=False)
