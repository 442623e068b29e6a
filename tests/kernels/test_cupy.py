"""What of the CuPy path can run without a GPU: the seam to CuPy, with the emulator's modules and NumPy's arrays behind it.

On a GPU (``-m gpu``) the contract's suite runs on CuPy itself.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import array_api_compat.numpy
import numpy as np
import pytest

from sparsetangent.kernels.cuda.device import CupyDevice
from sparsetangent.kernels.cuda.launch import CudaKernels
from tests.cuda_emulator.module import MISSING, RawModule

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


class Card(nullcontext):
    def synchronize(self):
        pass


class Flag(np.ndarray):
    """An array with the device that CuPy's have."""

    device = Card()


class OnNumpy(CupyDevice):
    """`CupyDevice` with a stand-in for the library; only what depends on the class of its arrays is replaced."""

    def __init__(self):
        self.xp = array_api_compat.numpy
        self.built = []
        self._cupy = SimpleNamespace(
            RawModule=self._module,
            int32=np.int32,
            zeros=lambda n, dtype: np.zeros(n, dtype).view(Flag),
            cuda=SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0)),
        )
        self._kernels, self._flags = {}, {}

    def _module(self, *, code, name_expressions):
        self.built.extend(name_expressions)
        return RawModule(code=code, name_expressions=name_expressions)

    def active(self, x):
        return nullcontext()

    def address(self, x):
        return x.ctypes.data


def test_kernels_are_built_once_and_flags_read():
    device = OnNumpy()
    kernels = CudaKernels(device)
    rng = np.random.default_rng(0)
    ids, rows = rng.integers(0, 5, 40), rng.integers(-9, 9, (40, 3)).astype(np.float32)
    want = np.zeros((5, 3), np.float32)
    for i, row in zip(ids.tolist(), rows, strict=True):
        want[i] += row
    for _ in range(2):
        np.testing.assert_array_equal(kernels.densify(ids, rows, 5), want)
    assert len(device.built) == len(set(device.built)) > 0
    kernels.check_errors()
    ids[7] = 99
    kernels.gather(want, ids)
    with pytest.raises(IndexError, match="out of range"):
        kernels.check_errors()
    kernels.check_errors()


def test_kernels_without_a_card():
    pytest.importorskip("cupy", reason="CuPy is not installed")
    from sparsetangent.kernels.cupy import CupyKernels

    kernels = CupyKernels(deterministic=False)
    assert (kernels.name, kernels.mutable, kernels.deterministic) == ("cupy", True, False)
    assert CupyKernels().deterministic
    assert kernels.xp.__name__ == "array_api_compat.cupy"
    assert kernels.accumulator(np.dtype("float16")) == np.float32
