"""Operators and functions of torch on tangents, through ``__torch_function__``, by torch's own names and arguments."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..algebra.dense import add_into
from ..backend import torch_is_compiling, when_met
from ..registry import BINARY, TABLE, UNARY, Structure, apply, implements
from ..types import Tangent
from .calls import read_call

__all__: list[str] = []

# torch's name -> the standard's, where they differ. Reflected operators swap the operands first.
_NAMES = {
    "absolute": "abs",
    "arctan2": "atan2",
    "bitwise_not": "bitwise_invert",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "sub": "subtract",
    "true_divide": "divide",
}
# torch's function -> the standard's name, torch's names of the operands, and of the other arguments in their order.
_CALLS = {
    "sum": "sum: input | dim>axis keepdim>keepdims dtype",
    "prod": "prod: input | dim>axis keepdim>keepdims dtype",
    "mean": "mean: input | dim>axis keepdim>keepdims",
    "amax": "max: input | dim>axis keepdim>keepdims",
    "amin": "min: input | dim>axis keepdim>keepdims",
    "max": "max: input | dim>axis keepdim>keepdims",
    "min": "min: input | dim>axis keepdim>keepdims",
    "any": "any: input | dim>axis keepdim>keepdims",
    "all": "all: input | dim>axis keepdim>keepdims",
    "count_nonzero": "count_nonzero: input | dim>axis",
    "argmax": "argmax: input | dim>axis keepdim>keepdims",
    "argmin": "argmin: input | dim>axis keepdim>keepdims",
    "var": "var: input | dim>axis unbiased keepdim>keepdims correction",
    "std": "std: input | dim>axis unbiased keepdim>keepdims correction",
    "cumsum": "cumulative_sum: input | dim>axis dtype",
    "cumprod": "cumulative_prod: input | dim>axis dtype",
    "diff": "diff: input | n dim>axis prepend append",
    "round": "round: input |",
    "clamp": "clip: input | min max",
    "clip": "clip: input | min max",
    "where": "where: condition input other |",
    "isin": "isin: elements test_elements | assume_unique invert",
    "cat": "concat: tensors | dim>axis",
    "concat": "concat: tensors | dim>axis",
    "concatenate": "concat: tensors | dim>axis",
    "stack": "stack: tensors | dim>axis",
    "unbind": "unstack: input | dim>axis",
    "permute": "permute_dims: input dims |",
    "movedim": "moveaxis: input source destination |",
    "moveaxis": "moveaxis: input source destination |",
    "unsqueeze": "expand_dims: input | dim>axis",
    "squeeze": "squeeze: input | dim>axis",
    "reshape": "reshape: input shape |",
    "broadcast_to": "broadcast_to: input size |",
    "flip": "flip: input | dims>axis",
    "roll": "roll: input shifts | dims>axis",
    "repeat_interleave": "repeat: input repeats | dim>axis",
    "tile": "tile: input dims |",
    "tril": "tril: input | diagonal>k",
    "triu": "triu: input | diagonal>k",
    "trace": "trace: input |",
    "index_select": "take: input dim index |",
    "take_along_dim": "take_along_axis: input indices | dim>axis",
    "matmul": "matmul: input other |",
    "mm": "matmul: input mat2 |",
    "mv": "matmul: input vec |",
    "bmm": "matmul: input mat2 |",
    "outer": "outer: input vec2 |",
    "tensordot": "tensordot: a b | dims>axes",
    "linalg_vecdot": "vecdot: x y | dim>axis",
    "linalg_cross": "cross: input other | dim>axis",
    "linalg_matmul": "matmul: input other |",
    "linalg_vector_norm": "vector_norm: x | ord dim>axis keepdim>keepdims",
    "linalg_matrix_power": "matrix_power: A n |",
    **{f"fft_{name}": f"{name}: input | n dim>axis norm" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft_{name}": f"{name}: input | s dim>axes norm" for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fft_fftshift": "fftshift: input | dim>axes",
    "fft_ifftshift": "ifftshift: input | dim>axes",
    "zeros_like": "zeros_like: input | dtype device",
    "ones_like": "ones_like: input | dtype device",
    "full_like": "full_like: input fill_value | dtype device",
    **{name: f"{name}: input |" for name in UNARY},
    **{name: f"{name}: input other |" for name in BINARY},
    **{theirs: f"{ours}: input |" for theirs, ours in _NAMES.items() if ours in UNARY},
    **{theirs: f"{ours}: input other |" for theirs, ours in _NAMES.items() if ours in BINARY},
    **{f"linalg_{name}": f"{name}: input |" for name in ("det", "eig", "eigvals", "inv", "slogdet")},
}
_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "div": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
_IN_PLACE = {"add_": 1, "__iadd__": 1, "sub_": -1, "__isub__": -1}


@implements("__torch_function__")
def _torch_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _FUNCTIONS.get(function) or function.__name__
    if given == "matmul" and torch_is_compiling() and not isinstance(args[0], Tangent):
        # Dynamo (torch 2.13) hands ``t @ w`` over as ``w @ t``.
        raise TypeError(
            "the operator @ of a tensor and a tangent is ambiguous under torch.compile; call matmul of sparsetangent.namespace"
        )
    if given in _IN_PLACE and not isinstance(args[0], Tangent):
        alpha = kwargs.pop("alpha", 1)
        try:
            result = add_into(args[0], args[1], _IN_PLACE[given] * alpha)
            return result if result is args[0] else args[0].copy_(result)
        except TypeError as error:
            # torch takes a TypeError here for "not implemented", and Python would rebind the name to a new tensor.
            raise RuntimeError(str(error)) from error
    if given == "where" and hasattr(function, "__objclass__"):  # the method: x.where(condition, other)
        args = (args[1], args[0], *args[2:])
    swapped = _reflected(given, args)
    if swapped is not None:
        return NotImplemented if kwargs else apply(*swapped)
    return _call(given, args, {k: v for k, v in kwargs.items() if v is not None}) if given in _CALLS else NotImplemented


def _call(given: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the standard's function with what torch's was called with."""
    standard, operands, arguments = read_call(_CALLS[given])
    order = (*operands, *arguments)
    if given in ("max", "min") and len(args) > 1 and not isinstance(args[1], int):
        return apply(f"{given}imum", *args)
    if given in ("var", "std") and len(args) == 2 and isinstance(args[1], bool):
        kwargs = {"unbiased": args[1], **kwargs}
        args = args[:1]
    if len(args) > len(order):
        raise TypeError(f"torch.{given} of a tangent takes at most {len(order)} positional arguments, not {len(args)}")
    bound = dict(zip(order, args, strict=False)) | kwargs
    unknown = sorted(set(bound) - set(order))
    if unknown:
        raise TypeError(f"torch.{given} of a tangent takes no argument {unknown[0]!r}")
    values = [bound[name] for name in operands if name in bound]
    named = {arguments[k]: _as_tuple(v) for k, v in bound.items() if k in arguments and v is not None}
    if given in _ADAPTED:
        return _ADAPTED[given](standard, values, named)
    if TABLE[standard] is Structure.CREATION:
        return apply(standard, values[0]._frame().backend.xp, *values, **named)
    return apply(standard, *values, **named)


def _as_tuple(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) and all(isinstance(n, int) for n in x) else x


def _extreme(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    """With an axis torch gives the positions too."""
    if "axis" not in named:
        return apply(standard, *values, **named)
    import torch

    positions = apply(f"arg{standard}", *values, **named)
    return getattr(torch.return_types, standard)((apply(standard, *values, **named), positions))


def _spread(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    """torch's correction is 1 unless it is told otherwise."""
    unbiased = named.pop("unbiased", True)
    named.setdefault("correction", 1 if unbiased else 0)
    return apply(standard, *values, **named)


def _squeezed(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    """Axes of another size than 1 stay, and with no axis named all of size 1 go."""
    shape = values[0].shape
    axis = named.get("axis", tuple(range(len(shape))))
    axes = tuple(a for a in (axis if isinstance(axis, tuple) else (axis,)) if shape[a] == 1)
    return apply(standard, values[0], axes)


def _selected(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    x, dim, index = values
    return apply(standard, x, index, axis=dim)


def _rolled(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    x, shift = values
    return apply(standard, x, _as_tuple(shift), **named)


def _is_member(standard: str, values: list[Any], named: dict[str, Any]) -> Any:
    named.pop("assume_unique", None)
    return apply(standard, *values, **named)


_ADAPTED: dict[str, Callable[[str, list[Any], dict[str, Any]], Any]] = {
    "max": _extreme,
    "min": _extreme,
    "var": _spread,
    "std": _spread,
    "squeeze": _squeezed,
    "index_select": _selected,
    "roll": _rolled,
    "isin": _is_member,
}


def _read_functions() -> None:
    import torch

    # Dynamo knows the functions of C by identity, and not their names.
    given = {*_CALLS, *_IN_PLACE, *_OPERATORS, "rsub", *(f"__{o}__" for o in _OPERATORS)}
    for name in given:
        for place in (torch.Tensor, torch):
            function = getattr(place, name, None)
            if function is not None and not isinstance(function, FunctionType):
                _FUNCTIONS.setdefault(function, name)


_FUNCTIONS: dict[Any, str] = {}
when_met("torch", _read_functions)


def _reflected(given: str, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The standard's name of an operator and its operands in order; None for what is no operator."""
    bare = given.strip("_")
    if given.startswith("__") and bare in _OPERATORS:
        return _OPERATORS[bare], *args
    if given.startswith("__r") and bare[1:] in _OPERATORS:
        return _OPERATORS[bare[1:]], *args[::-1]
    return ("subtract", *args[::-1]) if given == "rsub" else None
