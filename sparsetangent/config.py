"""What is installed and in use."""

from __future__ import annotations

import platform

from .backend import known_backends

__all__ = ["show_config"]

_LIBRARIES = ("sparsetangent", "array-api-compat", "numpy", "scipy", "torch", "jax", "cupy-cuda13x", "numba", "optree")


def show_config() -> None:
    """Print versions, the backends met so far and their kernels. Imports nothing.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.show_config()  # doctest: +ELLIPSIS
    python ...
    sparsetangent ...

    A backend is listed once an array of it was met:

    >>> import numpy as np
    >>> t = st.Fill(np.float32(1), (2,))
    >>> st.show_config()  # doctest: +ELLIPSIS
    python ...
    numpy: namespace array_api_compat.numpy, kernels ...
    """
    print(f"python {platform.python_version()} ({platform.system()} {platform.machine()})")
    for name in _LIBRARIES:
        print(f"{name} {_version(name)}")
    for backend in known_backends():
        print(f"{backend.name}: namespace {backend.xp.__name__}, kernels {type(backend.kernels).__name__}")


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
