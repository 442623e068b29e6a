"""The law with compiled loops under every operation, however small."""

import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from sparsetangent import backend
from sparsetangent.kernels.numba import NumbaKernels
from sparsetangent.testing import laws, strategies
from tests.conftest import Library, _library
from tests.helpers import for_all


@pytest.fixture
def xp(monkeypatch):
    kernels = NumbaKernels(smallest=0)
    monkeypatch.setattr(backend, "_PLUGINS", [(match, load) for match, load in backend._PLUGINS])
    monkeypatch.setattr(backend, "_BY_TYPE", {})
    monkeypatch.setattr(backend, "_LOADED", {})
    backend.register_kernels(backend.array_api_compat.is_numpy_array, lambda: kernels)
    yield from _library("numpy")


@pytest.mark.parametrize("law", sorted(set(laws.NAMES) - {"two tangents"}))
def test_law(xp: Library, law: str) -> None:
    for_all(xp, laws._LAWS[law], strategies.tangents(xp), examples=60)
