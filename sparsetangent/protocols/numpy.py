"""NumPy's protocols on the registry: ufuncs (with in-place addition), functions, and conversion to an array."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..algebra.dense import add_into, dense_of
from ..algebra.fallback import densified
from ..policy import note_densify
from ..registry import TABLE, Structure, apply, implements
from ..types import Tangent
from ..types.operators import plain_number
from .calls import read_call
from .composed import COMPOSED

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
# NumPy's function -> the standard's name, NumPy's names of the operands, and of the arguments that it may be given ("theirs>standard's").
_FUNCTIONS = {
    "sum": "sum: a | axis dtype keepdims",
    "prod": "prod: a | axis dtype keepdims",
    "mean": "mean: a | axis keepdims",
    "var": "var: a | axis keepdims ddof>correction correction",
    "std": "std: a | axis keepdims ddof>correction correction",
    "max": "max: a | axis keepdims",
    "amax": "max: a | axis keepdims",
    "min": "min: a | axis keepdims",
    "amin": "min: a | axis keepdims",
    "any": "any: a | axis keepdims",
    "all": "all: a | axis keepdims",
    "count_nonzero": "count_nonzero: a | axis keepdims",
    "argmax": "argmax: a | axis keepdims",
    "argmin": "argmin: a | axis keepdims",
    "cumsum": "cumulative_sum: a | axis dtype",
    "cumprod": "cumulative_prod: a | axis dtype",
    "cumulative_sum": "cumulative_sum: x | axis dtype include_initial",
    "cumulative_prod": "cumulative_prod: x | axis dtype include_initial",
    "diff": "diff: a | n axis prepend append",
    "sort": "sort: a | axis stable",
    "real": "real: val |",
    "imag": "imag: val |",
    "round": "round: a |",
    "around": "round: a |",
    "clip": "clip: a | a_min>min a_max>max min max",
    "where": "where: condition x y |",
    "isin": "isin: element test_elements | invert",
    "nonzero": "nonzero: a |",
    "unique_values": "unique_values: x |",
    "unique_counts": "unique_counts: x |",
    "concatenate": "concat: arrays | axis",
    "stack": "stack: arrays | axis",
    "unstack": "unstack: x | axis",
    "transpose": "permute_dims: a | axes",
    "moveaxis": "moveaxis: a source destination |",
    "matrix_transpose": "matrix_transpose: x |",
    "expand_dims": "expand_dims: a | axis",
    "squeeze": "squeeze: a | axis",
    "reshape": "reshape: a shape |",
    "broadcast_to": "broadcast_to: array shape |",
    "flip": "flip: m | axis",
    "roll": "roll: a shift | axis",
    "repeat": "repeat: a repeats | axis",
    "tile": "tile: A reps |",
    "tril": "tril: m | k",
    "triu": "triu: m | k",
    "diagonal": "diagonal: a | offset axis1 axis2",
    "trace": "trace: a | offset dtype axis1 axis2",
    "take": "take: a indices | axis",
    "take_along_axis": "take_along_axis: arr indices | axis",
    "tensordot": "tensordot: a b | axes",
    "outer": "outer: a b |",
    "cross": "cross: a b | axis",
    "astype": "astype: x dtype |",
    "zeros_like": "zeros_like: a | dtype device",
    "ones_like": "ones_like: a | dtype device",
    "empty_like": "empty_like: prototype | dtype device",
    "full_like": "full_like: a fill_value | dtype device",
    "norm": "vector_norm: x | ord axis keepdims",
    "linalg.diagonal": "diagonal: x | offset",
    "linalg.trace": "trace: x | offset dtype",
    "linalg.cross": "cross: x1 x2 | axis",
    "linalg.outer": "outer: x1 x2 |",
    "linalg.matmul": "matmul: x1 x2 |",
    "linalg.tensordot": "tensordot: x1 x2 | axes",
    "linalg.vecdot": "vecdot: x1 x2 | axis",
    "vector_norm": "vector_norm: x | axis keepdims ord",
    "matrix_norm": "matrix_norm: x | keepdims ord",
    "matrix_power": "matrix_power: a n |",
    **{name: f"{name}: a | n axis norm" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{name: f"{name}: a | s axes norm" for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fftshift": "fftshift: x | axes",
    "ifftshift": "ifftshift: x | axes",
}
# Of these NumPy flattens what is given no axis.
_FLATTENING = ("cumsum", "cumprod", "take", "sort")
# Functions of the standard without a compact answer under other names than the standard's.
_DENSE = frozenset(name for name, structure in TABLE.items() if structure is Structure.DENSE)
_ABOUT: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
    "iscomplexobj": lambda x: "complex" in str(x.dtype),
    "isrealobj": lambda x: "complex" not in str(x.dtype),
}
# A ufunc's method `reduce` -> the standard's reduction.
_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}


@implements("__array_ufunc__")
def _ufunc(t: Tangent, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    out = kwargs.pop("out", None)
    if (
        method == "reduce"
        and name in _REDUCTIONS
        and out is None
        and len(inputs) == 1
        and set(kwargs) <= {"axis", "keepdims", "dtype"}
    ):
        given = {k: v for k, v in kwargs.items() if k == "axis" or v is not None}
        return apply(_REDUCTIONS[name], *inputs, **{"axis": 0, **given})
    if method != "__call__" or name not in TABLE or set(kwargs) - ({"axis"} if name == "vecdot" else set()):
        return NotImplemented
    if out is None:
        return apply(name, *(plain_number(x, t) for x in inputs), **kwargs)
    (target,) = out
    if isinstance(target, Tangent):
        raise TypeError("out must be an array: a tangent is immutable")
    if name in ("add", "subtract") and inputs[0] is target:
        return add_into(target, inputs[1], 1 if name == "add" else -1)
    result = apply(name, *(plain_number(x, t) for x in inputs), **kwargs)
    np.copyto(target, result.densify() if isinstance(result, Tangent) else result, casting="same_kind")
    return target


@implements("__array_function__")
def _function(t: Tangent, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = function.__name__
    in_linalg = f"linalg.{name}"
    if in_linalg in _FUNCTIONS and function.__module__ == "numpy.linalg":
        name = in_linalg
    if name in ("broadcast_arrays", "meshgrid", "result_type", "can_cast"):
        return apply(name, *args, **kwargs)
    if name in _ABOUT and len(args) == 1 and not kwargs:
        return _ABOUT[name](args[0])
    if name in COMPOSED:
        return COMPOSED[name](*args, **kwargs)
    if name in _DENSE:
        return function(*(densified(name, x) for x in args), **{k: densified(name, x) for k, x in kwargs.items()})
    if name not in _FUNCTIONS:
        return NotImplemented
    standard, operands, keywords = read_call(_FUNCTIONS[name])
    signature = _signature(function)
    bound = signature.bind(*args, **kwargs).arguments
    given = {k: v for k, v in bound.items() if k in operands or not _is_default(v, signature.parameters[k].default)}
    unknown = sorted(set(given) - {*operands, *keywords})
    if unknown:
        raise TypeError(f"numpy.{function.__name__} of a tangent takes no argument {unknown[0]!r}")
    values = [given[k] for k in operands if k in given]
    named = {keywords[k]: v for k, v in given.items() if k in keywords}
    if name in _ADAPTED:
        standard, values, named = _ADAPTED[name](values, named)
    elif name in _FLATTENING and named.get("axis", -1 if name == "sort" else None) is None:
        values[0], named["axis"] = apply("reshape", values[0], (-1,)), 0
    if TABLE[standard] is Structure.CREATION:
        return apply(standard, t._frame().backend.xp, *values, **named)
    return apply(standard, *values, **named)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (int, str)) and type(value) is type(default) and value == default)


Call = tuple[str, list[Any], dict[str, Any]]


def _norm(values: list[Any], named: dict[str, Any]) -> Call:
    """A vector's norm, or a matrix's where NumPy means that: two axes, and an order or two of several axes named."""
    (x,) = values
    axis, order, keepdims = named.pop("axis", None), named.pop("ord", None), named.pop("keepdims", False)
    if axis is None and (order is None or x.ndim == 1):
        return "vector_norm", [x], {"keepdims": keepdims, "ord": 2 if order is None else order}
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return "vector_norm", [x], {"axis": axes, "keepdims": keepdims, "ord": 2 if order is None else order}
    if len(axes) != 2:
        raise ValueError(f"numpy.linalg.norm takes one or two axes, not {axes}")
    if order is None or order == "fro":
        return "vector_norm", [x], {"axis": axes, "keepdims": keepdims}
    last = apply("moveaxis", x, axes, (-2, -1))
    if keepdims and last is not x and sorted(a % x.ndim for a in axes) != [x.ndim - 2, x.ndim - 1]:
        raise TypeError("numpy.linalg.norm of a tangent takes keepdims only for the last two axes")
    return "matrix_norm", [last], {"keepdims": keepdims, "ord": order}


def _on_axes(standard: str) -> Callable[[list[Any], dict[str, Any]], Call]:
    """NumPy's diagonals are those of the first two axes, unless it is told which."""

    def adapt(values: list[Any], named: dict[str, Any]) -> Call:
        axes = named.pop("axis1", 0), named.pop("axis2", 1)
        return standard, [apply("moveaxis", values[0], axes, (-2, -1))], named

    return adapt


def _transposed(values: list[Any], named: dict[str, Any]) -> Call:
    named.setdefault("axes", tuple(reversed(range(values[0].ndim))))
    return "permute_dims", values, named


def _squeezed(values: list[Any], named: dict[str, Any]) -> Call:
    named.setdefault("axis", tuple(a for a, n in enumerate(values[0].shape) if n == 1))
    return "squeeze", values, named


def _where(values: list[Any], named: dict[str, Any]) -> Call:
    return "nonzero" if len(values) == 1 else "where", values, named


_ADAPTED: dict[str, Callable[[list[Any], dict[str, Any]], Call]] = {
    "norm": _norm,
    "trace": _on_axes("trace"),
    "diagonal": _on_axes("diagonal"),
    "transpose": _transposed,
    "squeeze": _squeezed,
    "where": _where,
}


# Written in C, these tell no signature before NumPy 2.4; and the shape had another name before 2.1.
_SIGNATURES: dict[str, Callable[..., None]] = {
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "reshape": lambda a, /, shape=None, order="C", *, copy=None: None,
    "where": lambda condition, x=None, y=None, /: None,
}


@lru_cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(_SIGNATURES.get(function.__name__, function))


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
