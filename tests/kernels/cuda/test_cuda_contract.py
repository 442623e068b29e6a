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
from tests.kernels.test_contract import CALLS

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


# What the contract lets a device do later than the CPU: a bad id is skipped, and raised by the next `check_errors`.


@pytest.mark.parametrize("bad", [-1, -8, 9, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("call", sorted(CALLS))
def test_bad_id_raises_and_nothing_is_written(xp: Any, kernels: CudaKernels, call: str, bad: int) -> None:
    rng = np.random.default_rng(5)
    ids = np.arange(8, dtype=np.int32)
    ids[3] = bad
    padded = np.where(ids == bad, 8, ids).astype(np.int32)
    before, rows = rng.normal(size=(8, 2)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)
    wanted = CALLS[call](kernels, before.copy(), padded, rows)
    kernels.check_errors()
    dst = before.copy()
    if call in ("unique_inverse", "coalesce"):  # they wait for the device anyway
        with pytest.raises(IndexError, match="out of range"):
            CALLS[call](kernels, dst, ids, rows)
        return
    np.testing.assert_array_equal(CALLS[call](kernels, dst, ids, rows), wanted)
    with pytest.raises(IndexError, match="out of range"):
        kernels.check_errors()
    kernels.check_errors()


def test_ids_overwritten_between_calls(xp: Any, kernels: CudaKernels) -> None:
    ids, rows = np.array([1, 2, 0]), np.array([1.0, 2.0, 3.0])
    distinct, inverse = kernels.unique_inverse(ids, 3)
    for mine in (ids, distinct, inverse):
        mine[1] = 10**12
        for call in CALLS.values():
            with pytest.raises(IndexError, match="out of range"):
                call(kernels, np.zeros(3), mine, rows)
                kernels.check_errors()


def test_length_too_short(xp: Any, kernels: CudaKernels) -> None:
    ids, rows = np.array([4, 1, 7, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    for call in (lambda: kernels.unique_inverse(ids, 8, 2), lambda: kernels.coalesce(ids, rows, 8, 2)):
        assert call()[0].tolist() == [1, 4]
        with pytest.raises(ValueError, match="more distinct ids"):
            kernels.check_errors()


def test_axis_beyond_the_address_space(xp: Any, kernels: CudaKernels) -> None:
    huge = 2**50
    ids, rows = np.array([huge - 1, 5, huge - 1, huge, 2**33]), np.arange(10.0).reshape(5, 2)
    distinct, inverse = kernels.unique_inverse(ids, huge)
    assert distinct.tolist() == [5, 2**33, huge - 1]
    assert inverse.tolist() == [2, 0, 2, 3, 1]
    distinct, sums = kernels.coalesce(ids, rows, huge, 4)
    assert distinct.tolist() == [5, 2**33, huge - 1, huge]
    assert sums.tolist() == [[2, 3], [8, 9], [4, 6], [0, 0]]
    with pytest.raises(IndexError, match="out of range"):
        kernels.coalesce(ids + 1, rows, huge)


def test_equal_bits_every_time(xp: Any) -> None:
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
