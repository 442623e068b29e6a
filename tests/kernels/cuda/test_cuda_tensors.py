"""torch tensors through the CUDA kernels, with tensors of the CPU in place of those of a GPU and the emulator behind them."""

from contextlib import nullcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from sparsetangent.kernels.cuda.launch import CudaKernels  # noqa: E402  (after the skip)
from sparsetangent.kernels.cuda.steps import Step  # noqa: E402
from sparsetangent.kernels.cuda.tensors import TorchCudaKernels  # noqa: E402
from tests.cuda_emulator.device import EmulatedDevice  # noqa: E402
from tests.cuda_emulator.module import MISSING  # noqa: E402
from tests.kernels import reference as ref  # noqa: E402

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

DTYPES = ("bool", "int8", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")


class Shared:
    """The same memory as NumPy arrays."""

    def takes(self, x):
        return x.is_cpu

    def scope(self, x):
        return nullcontext()

    def array(self, x):
        return x.detach().numpy()

    def tensor(self, x):
        return torch.from_numpy(x)


@pytest.fixture
def device():
    return EmulatedDevice(seed=3)


@pytest.fixture
def kernels(device):
    kernels = TorchCudaKernels(CudaKernels(device, "torch"), Shared())
    yield kernels
    kernels.check_errors()


def case(dtype, n=50, size=9, inner=(3,), seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, size + 1, n)  # padding too
    return ids, ref.values(rng, (n, *inner), dtype), ref.values(rng, (size, *inner), dtype)


def ran(device, name):
    return any(launched.startswith(name) for launched, _, _ in device.launched)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums(kernels, device, dtype):
    ids, rows, dst = case(dtype)
    i, x = torch.from_numpy(ids), torch.from_numpy(rows)
    want = ref.loop_add(np.zeros_like(dst), ids, rows)
    np.testing.assert_array_equal(kernels.densify(i, x, 9).numpy(), want)
    distinct, sums = kernels.coalesce(i, x, 9)
    np.testing.assert_array_equal(sums.numpy(), want[distinct.numpy()])
    want, target = ref.loop_add(dst, ids, rows), torch.from_numpy(dst)
    version = target._version
    assert kernels.scatter_add(target, i, x) is target
    np.testing.assert_array_equal(target.numpy(), want)
    assert target._version > version
    assert ran(device, "fold_sorted<Sum")


@pytest.mark.parametrize("op", ref.OPS)
@pytest.mark.parametrize("include_self", [True, False])
def test_folds(kernels, device, op, include_self):
    ids, rows, dst = case("float32", seed=1)
    want = ref.loop_reduce(op, dst, ids, rows, include_self)
    got = kernels.scatter_reduce(op, torch.from_numpy(dst), torch.from_numpy(ids), torch.from_numpy(rows), include_self)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    starts = torch.tensor([0, 7, 7, 50])
    folded = kernels.segment_reduce(op, torch.from_numpy(rows), starts).numpy()
    for k, (a, b) in ((0, (0, 7)), (2, (7, 50))):
        want = ref.loop_reduce(op, rows[:1], np.zeros(b - a, int), rows[a:b], False)[0]
        np.testing.assert_allclose(folded[k], want, rtol=1e-5)
    assert ran(device, "fold_sorted")


def test_distinct(kernels):
    ids = torch.tensor([7, 2, 9, 7, 0])
    distinct, inverse = kernels.unique_inverse(ids, 9, 4)
    assert (distinct.tolist(), inverse.tolist()) == ([0, 2, 7, 9], [2, 1, 4, 2, 0])


def test_optimizer_rows(kernels, device):
    rng = np.random.default_rng(2)
    table, state, rows = rng.normal(size=(6, 4)), rng.random((6, 4)), rng.normal(size=(3, 4))
    ids = np.array([4, 0, 5])
    want, sums = table.copy(), state.copy()
    sums[ids] += rows**2
    want[ids] -= 0.1 * rows / (np.sqrt(sums[ids]) + 1e-8)
    given = [torch.from_numpy(x) for x in (table, state, ids, rows)]
    kernels.update_rows(Step("adagrad", 0.1), given[0], [given[1]], given[2], given[3])
    np.testing.assert_allclose(table, want, rtol=1e-14)
    np.testing.assert_allclose(state, sums, rtol=1e-14)


def test_watched_tensors_keep_their_derivatives(kernels, device):
    ids, rows, _ = case("float64")
    x = torch.from_numpy(rows).requires_grad_()
    kernels.densify(torch.from_numpy(ids), x, 9).square().sum().backward()
    sums = ref.loop_add(np.zeros((10, 3)), ids, rows)
    sums[9] = 0
    np.testing.assert_allclose(x.grad.numpy(), 2 * sums[ids])
    assert not device.launched


def test_faults_are_raised_later(kernels):
    rows = torch.from_numpy(np.random.default_rng(4).normal(size=(3, 2)))
    got = kernels.densify(torch.tensor([1, -1, 8]), rows, 3)
    assert got[1].tolist() == rows[0].tolist() and not got[[0, 2]].any()
    with pytest.raises(IndexError, match="out of range"):
        kernels.check_errors()
