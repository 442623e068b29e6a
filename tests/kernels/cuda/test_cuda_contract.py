"""The contract's own suite on the CUDA kernels, run on the CPU: the same tests that NumPy and torch pass.

Two launch configurations: the real one, deterministic, for older cards; and a tiny grid with atomics on a shuffled schedule, so
that every kernel strides, for cards with vector atomics.
"""

from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest

from sparsetangent.kernels.cuda.geometry import Limits
from sparsetangent.kernels.cuda.launch import CudaKernels
from tests.conftest import Library
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.module import MISSING
from tests.kernels import reference as ref
from tests.kernels.test_contract import *  # noqa: F403

pytestmark = [
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning"),
]

CONFIGURATIONS = {
    "deterministic": lambda: CudaKernels(EmulatedDevice()),
    "atomic": lambda: CudaKernels(EmulatedDevice(arch=900, seed=7), deterministic=False, limits=Limits(threads=32, blocks=3)),
}


@pytest.fixture
def xp() -> Library:
    """NumPy's namespace under CuPy's name: its arrays stand for CuPy's."""
    return Library("cupy", array_api_compat.numpy)


@pytest.fixture(params=sorted(CONFIGURATIONS))
def kernels(request: pytest.FixtureRequest) -> Any:
    kernels = CONFIGURATIONS[request.param]()
    yield kernels
    kernels.check_errors()


def test_equal_bits_under_every_schedule(xp: Any) -> None:
    """Under every schedule, where sums are deterministic; test_cuda_determinism.py has more."""
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 7, 3000).astype(np.int32)
    rows = (rng.normal(size=(3000, 5)) * 10.0 ** rng.integers(-6, 6, (3000, 1))).astype(np.float32)
    results = {CudaKernels(EmulatedDevice(seed=seed)).densify(ids, rows, 7).tobytes() for seed in range(3)}
    assert len(results) == 1


@pytest.mark.parametrize("op", ref.OPS)
def test_bfloat16(kernels: CudaKernels, op: str) -> None:
    """Not among CuPy's dtypes of the suite, as only some of its releases have it."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    rng = np.random.default_rng(1)
    for n, inner in ((7, (3,)), (600, (16,)), (600, ())):
        ids, wide = rng.integers(0, 9, n), ref.values(rng, (n, *inner), "bfloat16")
        dst = ref.values(rng, (9, *inner), "bfloat16")
        got = kernels.scatter_reduce(op, dst.astype(ml_dtypes.bfloat16), ids, wide.astype(ml_dtypes.bfloat16), False)
        want = ref.narrow(ref.loop_reduce(op, dst, ids, wide, False), "bfloat16")
        np.testing.assert_array_equal(got.astype(np.float32), want)
        np.testing.assert_array_equal(kernels.gather(got, ids), got[ids])
