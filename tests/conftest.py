"""The backends under test: one suite, the namespace passed in as `xp`."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

BACKENDS = ("numpy", "torch", "jax", "jax32", "array_api_strict", pytest.param("cupy", marks=pytest.mark.gpu))
MODULES = {
    "numpy": "array_api_compat.numpy",
    "torch": "array_api_compat.torch",
    "jax": "jax.numpy",
    "jax32": "jax.numpy",
    "array_api_strict": "array_api_strict",
    "cupy": "array_api_compat.cupy",
}


class Library:
    """A library's namespace under the name of its test parameter (JAX appears with and without 64-bit types)."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.backend_name = name
        self.module = module
        self.__name__ = module.__name__

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.module, attribute)

    def __repr__(self) -> str:
        return self.backend_name


def _library(name: str) -> Iterator[Library]:
    module = pytest.importorskip(MODULES[name], reason=f"{name} is not installed")
    if not name.startswith("jax"):
        yield Library(name, module)
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", name == "jax")
    yield Library(name, module)
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(params=BACKENDS)
def xp(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Every backend."""
    yield from _library(request.param)


@pytest.fixture(params=["torch", "jax"])
def engine(request: pytest.FixtureRequest) -> Iterator[Library]:
    """The backends that differentiate by themselves."""
    yield from _library(request.param)


@pytest.fixture(params=[b for b in BACKENDS if b != "jax32"])
def xp64(request: pytest.FixtureRequest) -> Iterator[Library]:
    """Every backend that indexes with 64 bits."""
    yield from _library(request.param)
