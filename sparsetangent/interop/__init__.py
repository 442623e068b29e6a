"""Neighbours: other libraries' sparse types and automatic differentiation, each in a file that imports its neighbour.

Nothing here is imported with the package, and a neighbour only when its file is asked for: ``sparsetangent.interop.jax`` imports
JAX, ``sparsetangent.interop.scipy`` SciPy's sparse arrays.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import Any as _Any

from .conversion import convert

__all__ = ["convert"]


def __getattr__(name: str) -> _Any:
    """The file of a neighbour, imported when it is first asked for."""
    if name.startswith("_") or _find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(f"{__name__}.{name}")
