"""The types as pytrees of jax and torch (and of optree, which has torch's leaves).

The leaves are the arrays; shape, axes and the known facts are static. Unflattening checks nothing, since transformations put
shapes, shardings and float0 into the leaves; the first operation on indices that are no integers raises.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from ..backend import when_met
from .fill import Fill
from .frame import Frame
from .indexed_slices import IndexedSlices
from .one_hot import OneHot
from .zero import Zero

__all__ = ["RULES", "PytreeRule", "register_with"]

Children = Iterable[Any]


class PytreeRule(NamedTuple):
    """How a type comes apart into leaves and static data, and together again."""

    cls: type
    flatten: Callable[[Any], tuple[Children, Hashable]]
    unflatten: Callable[[Any, Children], Any]


def _flatten_slices(t: IndexedSlices) -> tuple[Children, Hashable]:
    axes, ids, values, *static = t._data
    return (*ids, values), (axes, *static)


def _unflatten_slices(static: Any, leaves: Children) -> IndexedSlices:
    axes, *facts = static
    *ids, values = leaves
    return IndexedSlices._of(Frame(axes, tuple(ids), values, *facts), vouched=False)


def _flatten_one_hot(t: OneHot) -> tuple[Children, Hashable]:
    return (t._indices,), (t._depth, t._axis, t._dtype, t._padded)


def _unflatten_one_hot(static: Any, leaves: Children) -> OneHot:
    (indices,) = leaves
    return OneHot._of(indices, *static, checked=False)


def _unflatten_fill(shape: Any, leaves: Children) -> Fill:
    (value,) = leaves
    return Fill._of(value, shape)


def _unflatten_zero(shape: Any, leaves: Children) -> Zero:
    (probe,) = leaves
    return Zero._of(probe, shape)


RULES = (
    PytreeRule(IndexedSlices, _flatten_slices, _unflatten_slices),
    PytreeRule(OneHot, _flatten_one_hot, _unflatten_one_hot),
    PytreeRule(Fill, lambda t: ((t._value,), t._shape), _unflatten_fill),
    PytreeRule(Zero, lambda t: ((t._probe,), t._shape), _unflatten_zero),
)


def _register_jax() -> None:
    import jax

    for cls, flatten, unflatten in RULES:
        jax.tree_util.register_pytree_node(cls, flatten, unflatten)


def _register_torch() -> None:
    from torch.utils import _pytree

    for cls, flatten, unflatten in RULES:
        _pytree.register_pytree_node(
            cls,
            _leaves_first(flatten),
            _context_last(unflatten),
            serialized_type_name=f"sparsetangent.{cls.__name__}",
        )


def _leaves_first(flatten: Callable[[Any], tuple[Children, Hashable]]) -> Callable[[Any], tuple[list[Any], Any]]:
    def flatten_fn(t: Any) -> tuple[list[Any], Any]:
        leaves, static = flatten(t)
        return list(leaves), static

    return flatten_fn


def _context_last(unflatten: Callable[[Any, Children], Any]) -> Callable[[Children, Any], Any]:
    return lambda leaves, static: unflatten(static, leaves)


_REGISTER = {"jax": _register_jax, "torch": _register_torch}


def register_with(library: str) -> None:
    """Register the types with ``"jax"`` or ``"torch"`` as soon as it is met, once."""
    when_met(library, _REGISTER[library])


for _library in _REGISTER:
    register_with(_library)
