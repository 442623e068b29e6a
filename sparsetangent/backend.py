"""From an array to its backend: the standard namespace and the kernels of the library that the array belongs to.

Backends are found by array type and remembered, so the second look-up is one dictionary hit. Nothing is imported before an
array of that library is met, and a third party adds a library with `register_kernels` or the entry point group
``sparsetangent.kernels`` (each entry loads a ``(match, load)`` pair).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from .kernels.base import Array, Kernels, Namespace
from .registry import Dispatched

__all__ = [
    "Backend",
    "backend_of",
    "common_backend",
    "device_of",
    "is_array",
    "known_backends",
    "meet_imported",
    "register_kernels",
    "torch_is_compiling",
    "when_met",
]


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """One array library: its name, its array API namespace, its kernels. One object a library, compared by identity."""

    name: str
    xp: Namespace
    kernels: Kernels


Match = Callable[[Any], bool]
Load = Callable[[], Kernels]


def _kernels_from(module: str, cls: str) -> Load:
    def load() -> Kernels:
        kernels: Kernels = getattr(importlib.import_module(f"sparsetangent.kernels.{module}"), cls)()
        return kernels

    return load


# Tried from the last to the first, so that what is registered later wins.
_PLUGINS: list[tuple[Match, Load]] = [
    (array_api_compat.is_numpy_array, _kernels_from("host", "host_kernels")),
    (array_api_compat.is_torch_array, _kernels_from("torch", "TorchKernels")),
    (array_api_compat.is_jax_array, _kernels_from("jax", "JaxKernels")),
    (array_api_compat.is_cupy_array, _kernels_from("cupy", "CupyKernels")),
]
_BY_TYPE: dict[type, Backend] = {}
_LOADED: dict[Load, Backend] = {}
_WHEN_MET: dict[str, list[Callable[[], None]]] = {}
_entry_points_read = False


def register_kernels(match: Callable[[Any], bool], load: Callable[[], Kernels]) -> None:
    """Add the kernels of an array library.

    Parameters
    ----------
    match : callable
        ``match(x) -> bool``: whether `x` is an array of the library. It must not import the library.
    load : callable
        ``load() -> Kernels``: makes the kernels, called once, when the first such array is met. The object satisfies
        `sparsetangent.kernels.base.Kernels` and has an attribute ``xp``, the array API namespace.

    Notes
    -----
    What is registered last is asked first, so a plug-in may replace built-in kernels.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> from sparsetangent.kernels.generic import GenericKernels
    >>> class Tagged(np.ndarray):
    ...     pass
    >>> st.register_kernels(lambda x: type(x).__name__ == "Tagged", lambda: GenericKernels(np))
    >>> ids, rows = np.array([1, 1]), np.array([2.0, 3.0]).view(Tagged)
    >>> st.IndexedSlices(ids.view(Tagged), rows, (3,)).densify().tolist()
    [0.0, 5.0, 0.0]
    >>> type(st.backend.backend_of(rows).kernels).__name__
    'GenericKernels'
    """
    _PLUGINS.append((match, load))
    _BY_TYPE.clear()


def backend_of(x: Array) -> Backend:
    """The backend of an array; a `TypeError` that names the type if it is none."""
    try:
        return _BY_TYPE[type(x)]
    except KeyError:
        return _find(x)


def is_array(x: Any) -> bool:
    """Whether `x` is an array of a backend that is known or can be found."""
    try:
        backend_of(x)
    except TypeError:
        return False
    return True


def common_backend(*arrays: Array) -> Backend:
    """The one backend of several arrays; a `TypeError` that names two if they differ."""
    first = backend_of(arrays[0])
    for other in arrays[1:]:
        if backend_of(other) is not first:
            raise TypeError(
                f"arrays of different libraries do not mix: {first.name} and {backend_of(other).name}; "
                "convert one of them first (sparsetangent.interop.convert)"
            )
    return first


def device_of(x: Array) -> Any:
    """The device to make new arrays on beside `x`; None where the library places them."""
    return backend_of(x).kernels.device_for(x)


def when_met(library: str, callback: Callable[[], None]) -> None:
    """Call `callback` once: now if `library` is imported already, else when its first array is met."""
    if library in sys.modules:
        callback()
    else:
        _WHEN_MET.setdefault(library, []).append(callback)


def meet_imported() -> None:
    """Call what waits for libraries that are imported by now, though no array of them was met."""
    for library in [name for name in _WHEN_MET if name in sys.modules]:
        for callback in _WHEN_MET.pop(library):
            callback()


def known_backends() -> tuple[Backend, ...]:
    """The backends in use so far."""
    return tuple(dict.fromkeys(_BY_TYPE.values()))


def torch_is_compiling() -> bool:
    """Whether the caller is being traced by torch.compile."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def _find(x: Any) -> Backend:
    if torch_is_compiling() and _is_tensor(x):
        _meet_torch()
        return next(backend for backend in _LOADED.values() if backend.name == "torch")
    return _load(x)


def _is_tensor(x: Any) -> bool:
    import torch

    return isinstance(x, torch.Tensor)


def _meet_torch() -> None:
    import torch

    _load(torch.empty(0))


# As torch.compiler.assume_constant_result does: a compiler runs the imports of the first use and does not trace them.
_meet_torch._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _load(x: Any) -> Backend:
    if isinstance(x, (np.ma.MaskedArray, np.matrix)):
        raise TypeError(f"not a plain array: {type(x).__name__} (its mask or matrix semantics would be lost silently)")
    if isinstance(x, Dispatched):
        raise TypeError(f"not an array but a tangent: {type(x).__name__}")
    _read_entry_points()
    load = next((load for match, load in reversed(_PLUGINS) if match(x)), None)
    if load is None:
        if not hasattr(x, "__array_namespace__") or isinstance(x, type):
            raise TypeError(f"not an array of a known library: {type(x).__name__}")
        load = _generic(x)
    if load not in _LOADED:
        kernels = load()
        _LOADED[load] = Backend(kernels.name, kernels.xp, kernels)
    backend = _BY_TYPE[type(x)] = _LOADED[load]
    for callback in _WHEN_MET.pop(backend.name, ()):
        callback()
    return backend


def _generic(x: Any) -> Load:
    """Standard functions serve any library that conforms, one backend a namespace."""
    from .kernels.generic import GenericKernels

    xp = array_api_compat.array_namespace(x)
    for load, backend in _LOADED.items():
        if backend.xp is xp:
            return load
    return lambda: GenericKernels(xp)


def _read_entry_points() -> None:
    global _entry_points_read
    if not _entry_points_read:
        from importlib.metadata import entry_points  # slow to import

        _entry_points_read = True
        for entry in entry_points(group="sparsetangent.kernels"):
            match, load = entry.load()
            _PLUGINS.append((match, load))
