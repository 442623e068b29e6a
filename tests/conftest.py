"""The backends under test: one suite, the namespace passed in as `xp`. The plugin's fixture, with CUDA behind a mark of its own."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings

from sparsetangent.testing.plugin import LIBRARIES, Library, library

# Eager JAX compiles every operation for every shape, which is most of the suite's time: workers share what they compiled, and a
# second run takes half as long. Read when JAX is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"jax-compilations-{os.getuid()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# The same examples every time, also where a test or a page of the documents gives no settings; `make test-long` draws others.
settings.register_profile("suite", derandomize=True, database=None, deadline=None)
if os.environ.get("HYPOTHESIS_PROFILE") != "long":
    settings.load_profile("suite")

# Helpers that import what may be missing; they hold no tests, and the tests that import them say what they need.
collect_ignore = ["interop/interchange.py", "interop/ranks.py", "transforms/jax_support.py", "transforms/torch_support.py"]

BACKENDS = tuple(pytest.param(name, marks=pytest.mark.gpu) if name == "cupy" else name for name in LIBRARIES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's option, for the whole suite: ``--xp=numpy,array_api_strict`` where no other library is installed."""
    parser.addoption("--xp", default=None, help=f"test these libraries only, by comma: {', '.join(LIBRARIES)}")


def pytest_configure(config: pytest.Config) -> None:
    """A library that was asked for is there."""
    for name in _chosen(config):
        if name not in LIBRARIES or find_spec(LIBRARIES[name][0]) is None:
            raise pytest.UsageError(f"--xp: {name} is not installed or none of {', '.join(LIBRARIES)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever has a library that was not chosen for a parameter is deselected, and counted as such."""
    if chosen := _chosen(config):
        others = LIBRARIES.keys() - chosen
        selected: list[pytest.Item] = []
        deselected: list[pytest.Item] = []
        for item in items:
            (selected if others.isdisjoint(map(str, _parameters(item))) else deselected).append(item)
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected


def _chosen(config: pytest.Config) -> set[str]:
    return {name.strip() for name in (config.getoption("--xp") or "").split(",") if name.strip()}


def _parameters(item: pytest.Item) -> Iterable[object]:
    return item.callspec.params.values() if hasattr(item, "callspec") else ()


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
