"""A pytest plugin: the fixture `xp`, a test once for each array library, those not installed skipped by name.

It is not loaded by itself, since a fixture of so short a name may well be yours: ask for it with ``pytest -p sparsetangent.testing.plugin``,
by ``addopts = "-p sparsetangent.testing.plugin"`` in the configuration, or by ``pytest_plugins = ["sparsetangent.testing.plugin"]`` in the
root ``conftest.py``. A fixture ``xp`` of your own, in a ``conftest.py`` or a test module, takes precedence.

``--xp=numpy,torch`` chooses libraries; one that is named there must be installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from typing import Any

import pytest

__all__ = ["LIBRARIES", "Library", "library"]

LIBRARIES: dict[str, tuple[str, str]] = {
    "numpy": ("numpy", "array_api_compat.numpy"),
    "torch": ("torch", "array_api_compat.torch"),
    "jax": ("jax", "jax.numpy"),
    "jax32": ("jax", "jax.numpy"),
    "array_api_strict": ("array_api_strict", "array_api_strict"),
    "cupy": ("cupy", "array_api_compat.cupy"),
}
"""Name of the parameter: the package that must be installed, and the module of its array API namespace."""


class Library:
    """A namespace under the name of its parameter: JAX appears twice, with 64-bit types (``jax``) and without (``jax32``).

    Parameters
    ----------
    name : str
        The name of the parameter.
    module : module
        The array API namespace, whose attributes are this object's.

    Raises
    ------
    AttributeError
        When an attribute is asked for that the namespace has not.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetangent.testing.plugin import Library
    >>> xp = Library("numpy", np)
    >>> xp, xp.__name__
    (numpy, 'numpy')
    >>> xp.ones(2)
    array([1., 1.])
    """

    def __init__(self, name: str, module: Any) -> None:
        self.backend_name = name
        self.module = module
        self.__name__ = module.__name__

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.module, attribute)

    def __repr__(self) -> str:
        return self.backend_name


@contextmanager
def library(name: str) -> Iterator[Library]:
    """One library by its name in `LIBRARIES`, with JAX's switch of 64-bit types set for the time being.

    Parameters
    ----------
    name : str
        One of `LIBRARIES`.

    Yields
    ------
    Library
        Its namespace.

    Raises
    ------
    KeyError
        If there is no such name.
    ModuleNotFoundError
        If the library is not installed.

    Examples
    --------
    >>> from sparsetangent.testing.plugin import library
    >>> with library("numpy") as xp:
    ...     xp.backend_name
    'numpy'
    >>> with library("jax32") as xp:
    ...     xp.ones(2).dtype
    dtype('float32')
    """
    module = importlib.import_module(LIBRARIES[name][1])
    if LIBRARIES[name][0] != "jax":
        yield Library(name, module)
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", name == "jax")
    try:
        yield Library(name, module)
    finally:
        jax.config.update("jax_enable_x64", before)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option ``--xp``."""
    parser.getgroup("sparsetangent").addoption(
        "--xp",
        default=None,
        help=f"the array libraries to test, by comma: {', '.join(LIBRARIES)} (default: all that are installed)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a choice that cannot be tested, rather than skip all of it."""
    chosen = _chosen(config)
    if unknown := [name for name in chosen if name not in LIBRARIES]:
        raise pytest.UsageError(f"--xp: {', '.join(unknown)} is none of {', '.join(LIBRARIES)}")
    if missing := [f"{name} ({reason})" for name in chosen if (reason := _missing(name))]:
        raise pytest.UsageError(f"--xp: cannot test {', '.join(missing)}")


@pytest.fixture(params=LIBRARIES)
def xp(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Each array library that is installed, as its array API namespace."""
    chosen = _chosen(request.config)
    if chosen and request.param not in chosen:
        pytest.skip(f"{request.param} is not in --xp={','.join(chosen)}")
    if reason := _missing(request.param):
        pytest.skip(reason)
    with library(request.param) as found:
        yield found


def _chosen(config: pytest.Config) -> list[str]:
    return [name.strip() for name in (config.getoption("--xp") or "").split(",") if name.strip()]


def _missing(name: str) -> str | None:
    """Why a library cannot be tested, or None."""
    package = LIBRARIES[name][0]
    if util.find_spec(package) is None:
        return f"{package} is not installed"
    if package == "cupy" and not _has_device():
        return "cupy finds no CUDA device"
    return None


def _has_device() -> bool:
    import cupy

    try:
        return bool(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return False
