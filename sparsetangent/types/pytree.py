"""The types as pytrees of jax and torch (and of optree, which has torch's leaves).

The leaves are the arrays; shape, axes and the known facts are static. Unflattening checks nothing, since transformations put
shapes, shardings and float0 into the leaves; the first operation on indices that are no integers raises.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from ..backend import is_array, meet_imported, when_met
from .fill import Fill
from .frame import Frame
from .indexed_slices import IndexedSlices
from .one_hot import OneHot
from .tangent import Tangent
from .zero import Zero

__all__ = ["RULES", "PytreeRule", "register_tangent", "register_with"]

T = TypeVar("T", bound=Tangent)
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


RULES = [
    PytreeRule(IndexedSlices, _flatten_slices, _unflatten_slices),
    PytreeRule(OneHot, _flatten_one_hot, _unflatten_one_hot),
    PytreeRule(Fill, lambda t: ((t._value,), t._shape), _unflatten_fill),
    PytreeRule(Zero, lambda t: ((t._probe,), t._shape), _unflatten_zero),
]


def register_tangent(cls: type[T]) -> type[T]:
    """Add a tangent type of your own to the pytrees of JAX and torch; a decorator.

    The leaves are the attributes that hold arrays; all others are static, and so must be hashable.

    Parameters
    ----------
    cls : type
        A class derived from `Tangent` that gives ``shape``, ``dtype`` and ``to_slices()``.

    Returns
    -------
    type
        `cls` itself.

    Raises
    ------
    TypeError
        If `cls` does not derive from `Tangent`, or one of the three is missing.
    ValueError
        If `cls` is registered already.

    Notes
    -----
    Deriving from `Tangent` is all that operations need; this is for `jax.jit`, `jax.tree.map` and their like.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> @st.register_tangent
    ... class Diagonal(st.Tangent):
    ...     def __init__(self, values):
    ...         self.values = values
    ...     shape = property(lambda self: 2 * self.values.shape)
    ...     dtype = property(lambda self: self.values.dtype)
    ...     def to_slices(self):
    ...         ids = np.arange(self.values.shape[0])
    ...         return st.IndexedSlices((ids, ids), self.values, self.shape, axis=(0, 1))
    >>> Diagonal(np.array([1.0, 2.0])).densify().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    >>> st.register_tangent(int)
    Traceback (most recent call last):
        ...
    TypeError: register_tangent takes a class derived from sparsetangent.Tangent, not <class 'int'>
    """
    if not (isinstance(cls, type) and issubclass(cls, Tangent)):
        raise TypeError(f"register_tangent takes a class derived from sparsetangent.Tangent, not {cls!r}")
    missing = [name for name in ("shape", "dtype", "to_slices") if getattr(cls, name) is getattr(Tangent, name)]
    if missing:
        raise TypeError(f"{cls.__name__} must give {' and '.join(missing)}")
    if any(rule.cls is cls for rule in RULES):
        raise ValueError(f"{cls.__name__} is registered already")
    rule = PytreeRule(cls, _flatten_attributes, lambda static, leaves: _with_attributes(cls, static, leaves))
    meet_imported()  # an array of a library may reach `cls` before it reaches us
    RULES.append(rule)
    for library in _MET:
        _REGISTER[library](rule)
    return cls


def _flatten_attributes(t: Any) -> tuple[Children, Hashable]:
    names = sorted({*getattr(t, "__dict__", ()), *_slots(type(t))} - {"__dict__", "__weakref__"})
    held = {name: getattr(t, name) for name in names if hasattr(t, name)}
    leaves = {name: x for name, x in held.items() if is_array(x)}
    return tuple(leaves.values()), (tuple(leaves), tuple((name, x) for name, x in held.items() if name not in leaves))


def _slots(cls: type) -> Iterable[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _with_attributes(cls: type, static: Any, leaves: Children) -> Any:
    names, others = static
    t: Any = object.__new__(cls)
    for name, x in (*zip(names, leaves, strict=True), *others):
        object.__setattr__(t, name, x)
    return t


def _register_jax(rule: PytreeRule) -> None:
    import jax

    jax.tree_util.register_pytree_node(*rule)


def _register_torch(rule: PytreeRule) -> None:
    from torch.utils import _pytree

    cls, flatten, unflatten = rule
    _pytree.register_pytree_node(
        cls, _leaves_first(flatten), _context_last(unflatten), serialized_type_name=f"{cls.__module__}.{cls.__qualname__}"
    )


def _leaves_first(flatten: Callable[[Any], tuple[Children, Hashable]]) -> Callable[[Any], tuple[list[Any], Any]]:
    def flatten_fn(t: Any) -> tuple[list[Any], Any]:
        leaves, static = flatten(t)
        return list(leaves), static

    return flatten_fn


def _context_last(unflatten: Callable[[Any, Children], Any]) -> Callable[[Children, Any], Any]:
    return lambda leaves, static: unflatten(static, leaves)


_REGISTER: dict[str, Callable[[PytreeRule], None]] = {"jax": _register_jax, "torch": _register_torch}
_MET: list[str] = []


def _meet(library: str) -> None:
    """Register every type so far, and from now on each one as it comes."""
    _MET.append(library)
    for rule in RULES:
        _REGISTER[library](rule)


def register_with(library: str) -> None:
    """Register the types with ``"jax"`` or ``"torch"`` as soon as it is met, once."""
    when_met(library, lambda: _meet(library))


for _library in _REGISTER:
    register_with(_library)
