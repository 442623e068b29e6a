"""The operations that the laws are checked with, as functions that take a tangent or a dense array alike.

Each is called as ``f(nx, x)`` or ``f(nx, x, y)`` with `nx` the namespace of `sparsetangent.namespace`, so one text serves both sides of
``densify(f(t)) == f(densify(t))``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..registry import UNARY

__all__ = ["BINARY_OPERATORS", "Operation", "indexing_operations", "reductions", "shape_operations", "unary_operations"]


class Operation(NamedTuple):
    """A named function of a namespace and an operand.

    Parameters
    ----------
    name : str
        What a failure shows.
    apply : callable
        ``apply(nx, x)`` on a tangent or an array `x` alike, with the namespace `nx` of `sparsetangent.namespace`.

    Raises
    ------
    TypeError
        If one of the two is left out.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> twice = st.testing.operations.Operation("twice", lambda nx, x: nx.add(x, x))
    >>> twice.name
    'twice'
    >>> twice.apply(st.namespace(np), st.Fill(np.asarray(1.5), (2,))).value.item()
    3.0
    """

    name: str
    apply: Callable[[Any, Any], Any]


BINARY_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}


def unary_operations() -> Iterator[Operation]:
    """Every unary function of the standard.

    Yields
    ------
    Operation
        One at a time.

    Examples
    --------
    >>> from sparsetangent.testing import operations
    >>> "tanh" in [o.name for o in operations.unary_operations()]
    True
    >>> next(operations.unary_operations()).name
    'conj'
    """
    for name in UNARY:
        yield Operation(name, lambda nx, x, name=name: getattr(nx, name)(x))  # type: ignore[misc]


def reductions(ndim: int) -> Iterator[Operation]:
    """Every reduction over each axis, two axes, all and none of them.

    Parameters
    ----------
    ndim : int
        How many axes the operand has.

    Yields
    ------
    Operation
        One at a time.

    Examples
    --------
    >>> from sparsetangent.testing import operations
    >>> next(operations.reductions(2)).name
    'sum(axis=None, keepdims=False)'
    >>> len(list(operations.reductions(1)))
    32
    """
    choices: list[Any] = [None, *range(ndim)]
    if ndim >= 2:
        choices += [(0, 1), (-1, 0)]
    for name in ("sum", "mean", "max", "min", "prod", "any", "all", "count_nonzero"):
        for axis in choices:
            for keepdims in (False, True):
                yield Operation(f"{name}(axis={axis}, keepdims={keepdims})", _reduction(name, axis, keepdims))


def _reduction(name: str, axis: Any, keepdims: bool) -> Callable[[Any, Any], Any]:
    def apply(nx: Any, x: Any) -> Any:
        if name in ("max", "min") and isinstance(axis, tuple):
            first, second = sorted((a % x.ndim for a in axis), reverse=True)
            once = getattr(nx, name)(x, axis=first, keepdims=keepdims)
            return getattr(nx, name)(once, axis=second, keepdims=keepdims)
        return getattr(nx, name)(x, axis=axis, keepdims=keepdims)

    return apply


def shape_operations(shape: tuple[int, ...]) -> Iterator[Operation]:
    """Manipulations that fit a shape.

    Parameters
    ----------
    shape : tuple of int
        That of the operand.

    Yields
    ------
    Operation
        One at a time.

    Examples
    --------
    >>> from sparsetangent.testing import operations
    >>> [o.name for o in operations.shape_operations(())][:2]
    ['reshape(-1)', 'reshape(1, *, 1)']
    >>> "roll(flat)" in [o.name for o in operations.shape_operations((2, 3))]
    True
    """
    ndim = len(shape)
    yield Operation("reshape(-1)", lambda nx, x: nx.reshape(x, (-1,)))
    yield Operation("reshape(1, *, 1)", lambda nx, x: nx.reshape(x, (1, *shape, 1)))
    yield Operation("broadcast_to(2, *)", lambda nx, x: nx.broadcast_to(x, (2, *shape)))
    yield Operation("broadcast_to(ones to 3)", lambda nx, x: nx.broadcast_to(x, tuple(3 if n == 1 else n for n in shape)))
    yield Operation("permute_dims(reversed)", lambda nx, x: nx.permute_dims(x, tuple(reversed(range(ndim)))))
    yield Operation("flip", lambda nx, x: nx.flip(x))
    for axis in range(ndim + 1):
        yield Operation(f"expand_dims({axis})", lambda nx, x, a=axis: nx.expand_dims(x, axis=a))  # type: ignore[misc]
        yield Operation(f"stack({axis})", lambda nx, x, a=axis: nx.stack([x, x], axis=a))  # type: ignore[misc]
    for axis in range(ndim):
        yield Operation(f"flip({axis})", lambda nx, x, a=axis: nx.flip(x, axis=a))  # type: ignore[misc]
        yield Operation(f"roll(2, {axis})", lambda nx, x, a=axis: nx.roll(x, 2, axis=a))  # type: ignore[misc]
        yield Operation(f"concat({axis})", lambda nx, x, a=axis: nx.concat([x, x], axis=a))  # type: ignore[misc]
        # An axis of another size than 1 is refused, by tangents as by arrays.
        yield Operation(f"squeeze({axis})", lambda nx, x, a=axis: nx.squeeze(x, axis=a))  # type: ignore[misc]
    if ndim >= 2:
        merged = (shape[0] * shape[1], *shape[2:])
        yield Operation("reshape(merge first two)", lambda nx, x: nx.reshape(x, merged))
        yield Operation("roll(flat)", lambda nx, x: nx.roll(x, 3))
        yield Operation("permute_dims(rotated)", lambda nx, x: nx.permute_dims(x, (*range(1, ndim), 0)))
        yield Operation("split", lambda nx, x: nx.reshape(x, _split(shape)))


def _split(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The first axis split by two where it can be, and the last two merged."""
    head = (2, shape[0] // 2) if shape[0] % 2 == 0 and shape[0] else (1, shape[0])
    tail = (*shape[1:-2], shape[-2] * shape[-1]) if len(shape) > 2 else shape[1:]
    return (*head, *tail)


def indexing_operations(shape: tuple[int, ...]) -> Iterator[Operation]:
    """Basic keys that every library accepts.

    Parameters
    ----------
    shape : tuple of int
        That of the operand.

    Yields
    ------
    Operation
        One at a time.

    Examples
    --------
    >>> from sparsetangent.testing import operations
    >>> [o.name for o in operations.indexing_operations(())]
    ['x[Ellipsis]', 'x[(None, Ellipsis)]', 'x[(Ellipsis, None)]']
    >>> any("-1" in o.name for o in operations.indexing_operations((0,)))  # nothing to read there
    False
    """
    ndim = len(shape)
    keys: list[Any] = [..., (None, ...), (..., None)]
    for axis, size in enumerate(shape):
        lead = (slice(None),) * axis
        keys += [(*lead, slice(min(1, size), None), ...), (*lead, slice(0, size, 2), ...), (*lead, slice(0, 0), ...)]
        keys += [(*lead, slice(-min(2, size), None), ...)]
        if size:
            keys += [(*lead, 0, ...), (*lead, -1, ...)]
    if ndim >= 2 and shape[0] and shape[-1]:
        keys += [(0, ..., -1), (slice(None), None, ...), (-1, None, ...)]
    for key in keys:
        yield Operation(f"x[{key}]", lambda nx, x, k=key: x[k])  # type: ignore[misc]
