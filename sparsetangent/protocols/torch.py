"""Operators of torch tensors with tangents on either side, through ``__torch_function__``."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..algebra.dense import add_into
from ..backend import torch_is_compiling, when_met
from ..registry import apply, implements, names
from ..types import Tangent

__all__: list[str] = []

# torch's name -> the standard's, where they differ. Reflected operators swap the operands first.
_NAMES = {
    "absolute": "abs",
    "arctan2": "atan2",
    "bitwise_not": "bitwise_invert",
    "cat": "concat",
    "concatenate": "concat",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "mm": "matmul",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "sub": "subtract",
    "true_divide": "divide",
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
    name, operands = _standard(given, args)
    if name not in names() or kwargs:
        return NotImplemented
    return apply(name, *operands)


def _read_functions() -> None:
    import torch

    # Dynamo knows the functions of C by identity, and not their names.
    given = {*_NAMES, *_NAMES.values(), *_IN_PLACE, *_OPERATORS, *names(), "rsub", *(f"__{o}__" for o in _OPERATORS)}
    for name in given:
        for place in (torch.Tensor, torch):
            function = getattr(place, name, None)
            if function is not None and not isinstance(function, FunctionType):
                _FUNCTIONS.setdefault(function, name)


_FUNCTIONS: dict[Any, str] = {}
when_met("torch", _read_functions)


def _standard(given: str, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The standard's name of a torch function and its operands in order."""
    bare = given.strip("_")
    if given.startswith("__") and bare in _OPERATORS:
        return _OPERATORS[bare], args
    if given.startswith("__r") and bare[1:] in _OPERATORS:
        return _OPERATORS[bare[1:]], args[::-1]
    if given == "rsub":
        return "subtract", args[::-1]
    return _NAMES.get(given, given), args
