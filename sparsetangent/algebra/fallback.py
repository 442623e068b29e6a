"""What serves a function of the standard where no rule is registered: the library's own on the dense arrays, by the densify policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernels.base import Namespace
from ..registry import EXTENSIONS, MAIN, TABLE, Structure, implements
from ..types import Tangent
from .dense import implicit

__all__ = ["call_dense", "densified", "library_function"]


def library_function(xp: Namespace, name: str) -> Callable[..., Any]:
    """The library's function of that name, in the main namespace or in an extension."""
    space = xp if name in MAIN else getattr(xp, next(e for e, names in EXTENSIONS.items() if name in names))
    function: Callable[..., Any] = getattr(space, name)
    return function


def call_dense(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the library's function with every tangent among the arguments, also inside lists, made dense under the policy."""
    given = [*_tangents(args), *_tangents(list(kwargs.values()))]
    if not given:
        raise TypeError(f"{name} takes no operands of types ({', '.join(type(x).__name__ for x in args)})")
    function = library_function(given[0]._frame().backend.xp, name)
    return function(*densified(name, args), **{k: densified(name, v) for k, v in kwargs.items()})


def _tangents(x: Any) -> list[Tangent]:
    if isinstance(x, Tangent):
        return [x]
    return [t for y in x for t in _tangents(y)] if isinstance(x, (list, tuple)) else []


def densified(name: str, x: Any) -> Any:
    """`x` with every tangent in it made dense under the policy."""
    if isinstance(x, Tangent):
        return implicit(x, name)
    return type(x)([densified(name, y) for y in x]) if type(x) in (list, tuple) and _tangents(x) else x


def _register(name: str) -> None:
    def function(*args: Any, **kwargs: Any) -> Any:
        return call_dense(name, *args, **kwargs)

    implements(name)(function)


# Registered without types, so that any rule for the operands at hand comes before it.
for _name, _structure in TABLE.items():
    if _structure not in (Structure.CREATION, Structure.INSPECTION):
        _register(_name)
