"""The array API namespace that takes tangents and the arrays of one backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import array_api_compat

from ..backend import backend_of, is_array
from ..registry import EXTENSIONS, MAIN, TABLE, Structure, apply, implements
from ..types import Tangent
from .signatures import signature_of

__all__ = ["TangentNamespace", "namespace"]

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class TangentNamespace:
    """The functions of one library's namespace, for its arrays and for tangents of them; `linalg` and `fft` are of this class too."""

    def __init__(self, xp: Any, extension: str = "") -> None:
        self._library, self._extension = xp, extension
        self._xp = getattr(xp, extension) if extension else xp
        self._names = EXTENSIONS.get(extension, MAIN)
        self.__name__ = f"sparsetangent.namespace({xp.__name__})" + (extension and f".{extension}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in ("__array_namespace_info__", "__array_api_version__", "__version__"):
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        value = self._find(name)
        self.__dict__[name] = value
        return value

    def _find(self, name: str) -> Any:
        theirs = getattr(self._xp, name, None)
        if not self._extension and name in EXTENSIONS:
            return TangentNamespace(self._library, name)
        if name in self._names and TABLE[name] is Structure.CREATION:
            return _creating(name, self._library, theirs)
        if name in self._names or (not self._extension and name in _ALSO):
            return _dispatching(name, theirs)
        if not hasattr(self._xp, name):
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        return theirs  # newaxis is None

    def __dir__(self) -> list[str]:
        given = (*dir(self._xp), *getattr(self._xp, "__all__", ()))  # modules may hide what they load late
        return sorted({*given, *self._names, *(() if self._extension else (*_ALSO, *EXTENSIONS))})

    def __repr__(self) -> str:
        return self.__name__

    def __reduce__(self) -> Any:
        return _by_name, (self._library.__name__, self._extension)


# Beside the standard: the norm was here before `linalg` was.
_ALSO = frozenset({"vector_norm"})


def _by_name(name: str, extension: str) -> TangentNamespace:
    whole = _namespace_of(importlib.import_module(name))
    return getattr(whole, extension) if extension else whole


def _dispatching(name: str, theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        if theirs is None or any(map(_holds_tangent, args)) or any(map(_holds_tangent, kwargs.values())):
            return apply(name, *args, **kwargs)
        return theirs(*args, **kwargs)

    return _named(function, name, theirs)


def _creating(name: str, xp: Any, theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return apply(name, xp, *args, **kwargs)

    return _named(function, name, theirs)


def _named(function: Callable[..., Any], name: str, theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(theirs, "__doc__", None)
    if (signature := signature_of(name)) is not None:
        function.__signature__ = signature  # type: ignore[attr-defined]
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
        ``numpy``, ``torch``, ``jax.numpy``, ``cupy``, any conforming namespace, or an array or tangent of it, of any shape and dtype.

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
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"api_version must be one of {_VERSIONS}, not {api_version!r}")
    return namespace(t)
