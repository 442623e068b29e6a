"""The array API namespace that takes tangents and the arrays of one backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import array_api_compat

from ..backend import backend_of, is_array
from ..registry import apply, implements, names
from ..types import Tangent

__all__ = ["TangentNamespace", "namespace"]

# Operations of the table that are no functions of the standard.
_INTERNAL = frozenset(
    {"densify", "coalesce", "getitem", "retain", "add_into", "from_dense", "sum_to_shape", "to_device", "blank_padding"}
)


class TangentNamespace:
    """The functions of one library's namespace, for its arrays and for tangents of them."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self.__name__ = f"sparsetangent.namespace({xp.__name__})"

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(self._xp, name, None)
        if name in names() and name not in _INTERNAL and not name.startswith("__"):
            value: Any = _dispatching(name, theirs)
        elif theirs is not None:
            value = theirs
        else:
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._xp), *(n for n in names() - _INTERNAL if not n.startswith("__"))})

    def __repr__(self) -> str:
        return self.__name__

    def __reduce__(self) -> Any:
        return _by_name, (self._xp.__name__,)


def _by_name(name: str) -> TangentNamespace:
    return _namespace_of(importlib.import_module(name))


def _dispatching(name: str, theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        if theirs is None or any(_holds_tangent(x) for x in args):
            return apply(name, *args, **kwargs)
        return theirs(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(theirs, "__doc__", None)
    return function


def _holds_tangent(x: Any) -> bool:
    return isinstance(x, Tangent) or (isinstance(x, (list, tuple)) and any(isinstance(y, Tangent) for y in x))


@lru_cache
def _namespace_of(xp: Any) -> TangentNamespace:
    return TangentNamespace(xp)


def namespace(xp_or_array: Any) -> TangentNamespace:
    """The array API namespace that takes tangents beside the arrays of one library.

    Parameters
    ----------
    xp_or_array : namespace, Array or Tangent
        ``numpy``, ``torch``, ``jax.numpy``, ``cupy``, any conforming namespace, or an array or tangent of it.

    Returns
    -------
    TangentNamespace
        One object for each library.

    Raises
    ------
    TypeError
        If no namespace can be found.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> xp = st.namespace(np)
    >>> xp.sum(st.IndexedSlices(np.array([0, 0]), np.array([[1.0, 2.0], [3.0, 4.0]]), (2, 2)), axis=0).tolist()
    [4.0, 6.0]
    >>> xp.sum(np.array([1.0, 2.0])).item()
    3.0
    """
    if isinstance(xp_or_array, TangentNamespace):
        return xp_or_array
    if isinstance(xp_or_array, Tangent):
        return _namespace_of(xp_or_array._frame().backend.xp)
    if is_array(xp_or_array):
        return _namespace_of(backend_of(xp_or_array).xp)
    if not hasattr(xp_or_array, "asarray"):
        raise TypeError(f"not an array, a tangent or an array namespace: {type(xp_or_array).__name__}")
    return _namespace_of(array_api_compat.array_namespace(xp_or_array.asarray(0.0)))


@implements("__array_namespace__", Tangent)
def _array_namespace(t: Tangent, *, api_version: str | None = None) -> TangentNamespace:
    return namespace(t)
