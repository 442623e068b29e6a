"""The law on an emulated GPU: tangents whose NumPy arrays stand for CuPy's, with our CUDA kernels under every operation."""

import array_api_compat.numpy
import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import backend
from sparsetangent.kernels.cuda.device import Launch
from sparsetangent.kernels.cuda.launch import CudaKernels
from sparsetangent.testing import laws, strategies
from tests.conftest import Library
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.module import MISSING
from tests.helpers import for_all

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


class Emulated(EmulatedDevice):
    """Starts every launch on another schedule."""

    def get(self, name: str) -> Launch:
        self.seed += 1
        return super().get(name)


def is_numpy(x: object) -> bool:
    return isinstance(x, np.ndarray | np.generic)  # what NumPy reduces to 0-d is no array


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Emulated:
    """NumPy arrays belong to the emulated GPU until the test ends."""
    device = Emulated()
    kernels = CudaKernels(device, "emulated")
    monkeypatch.setattr(backend, "_PLUGINS", [*backend._PLUGINS, (is_numpy, lambda: kernels)])
    monkeypatch.setattr(backend, "_BY_TYPE", {})
    monkeypatch.setattr(backend, "_LOADED", {})
    return device


@pytest.fixture
def xp() -> Library:
    return Library("cupy", array_api_compat.numpy)


@pytest.mark.parametrize("law", sorted(set(laws.NAMES) - {"two tangents"}))
def test_law(device: Emulated, xp: Library, law: str) -> None:
    for_all(xp, laws._LAWS[law], strategies.tangents(xp), examples=100)


@pytest.mark.parametrize("law", ["numbers", "sums and products", "reductions"])
def test_law_with_nan_and_inf(device: Emulated, xp: Library, law: str) -> None:
    floats = strategies.dtypes_of(xp, ("float32", "float64"))
    for_all(xp, laws._LAWS[law], strategies.indexed_slices(xp, dtypes=floats, special=True), examples=60)


def test_our_kernels_are_under_it(device: Emulated) -> None:
    t = st.IndexedSlices(np.array([2, 0, 2]), np.ones((3, 4)), (3, 4))
    assert t.densify().tolist() == [[1.0] * 4, [0.0] * 4, [2.0] * 4]
    assert "fold_sorted<Sum, double, double, double, 2>" in {name for name, _, _ in device.launched}
