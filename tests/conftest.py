"""The backends under test: one suite, the namespace passed in as `xp`. The plugin's fixture, with CUDA behind a mark of its own."""

import os
import tempfile
from collections.abc import Iterator

import pytest

from sparsetangent.testing.plugin import LIBRARIES, Library, library

# Eager JAX compiles every operation for every shape, which is most of the suite's time: workers share what they compiled, and a
# second run takes half as long. Read when JAX is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"jax-compilations-{os.getuid()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

BACKENDS = tuple(pytest.param(name, marks=pytest.mark.gpu) if name == "cupy" else name for name in LIBRARIES)


def _library(name: str) -> Iterator[Library]:
    pytest.importorskip(LIBRARIES[name][1], reason=f"{name} is not installed")
    with library(name) as found:
        yield found


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
