"""What the rules ask of their operands: dense arrays, fitting shapes, dtypes that can hold a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..algebra.dense import implicit
from ..backend import backend_of, common_backend, device_of, is_array
from ..dtypes import facts, same_kind
from ..kernels.base import Array, DType
from ..types import Tangent
from ..types.tangent import dtype_name

__all__ = ["check_shape", "dense_operand", "derivative_dtype", "filled", "refuse_complex", "same_value"]

_NUMBERS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "signed": (bool, int),
    "unsigned": (bool, int),
    "real": (bool, int, float),
    "complex": (bool, int, float, complex),
}


def dense_operand(x: Any, operation: str) -> Array:
    """The dense array of an operand, under the densify policy if it is a tangent."""
    if isinstance(x, Tangent):
        return implicit(x, operation)
    backend_of(x)
    return x


def check_shape(x: Any, expected: tuple[int, ...], name: str, what: str) -> None:
    """A `ValueError` unless `x` has the `expected` shape, which is that of `what`."""
    if tuple(x.shape) != expected:
        raise ValueError(f"{name} must have the shape {expected} of {what}, not {tuple(x.shape)}")


def derivative_dtype(x: Array, operation: str) -> DType:
    """The dtype in which factors of a cotangent are computed; a `TypeError` for one that holds no derivative."""
    backend = backend_of(x)
    if facts(backend, x.dtype).kind not in ("real", "complex"):
        raise TypeError(f"{operation} has a derivative in floating and complex dtypes, not in {x.dtype}")
    return backend.kernels.accumulator(x.dtype)


def refuse_complex(x: Array, operation: str) -> None:
    """A `TypeError` for complex numbers, which have no order."""
    if facts(backend_of(x), x.dtype).kind == "complex":
        raise TypeError(f"complex numbers have no order, so no {operation}")


def same_value(a: Array, b: Array) -> Array:
    """Where two arrays are equal, nan to nan."""
    return (a == b) | ((a != a) & (b != b))


def filled(value: Any, shape: tuple[int, ...], like: Array, name: str) -> Array:
    """A new array that holds one number, given in Python or as an array without axes, of the kind of `like` or a lower one."""
    backend = backend_of(like)
    if isinstance(value, np.generic) and backend.name != "numpy":
        value = value.item()
    if is_array(value):
        common_backend(value, like)
        fits = not value.shape and same_kind(backend, value.dtype, like.dtype)
    else:
        fits = isinstance(value, _NUMBERS[facts(backend, like.dtype).kind])
        value = backend.xp.asarray(value, dtype=like.dtype, device=device_of(like)) if fits else value
    if not fits:
        raise TypeError(f"{name}={value!r} is no number that fits an array of dtype {dtype_name(like)}")
    return backend.xp.astype(backend.xp.broadcast_to(backend.xp.astype(value, like.dtype), shape), like.dtype, copy=True)
