"""Folds give the same bits under every schedule, and NumPy's numbers exactly where these do not depend on the order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparsetangent.kernels.cuda.geometry import Limits
from sparsetangent.kernels.cuda.launch import CudaKernels, Step
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.module import MISSING
from tests.kernels import reference as ref

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

SCHEDULES = range(8)
SIZE = 300
N = 5000  # two levels and more, with chunks of 16

DISTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda rng: rng.integers(0, SIZE, N),
    "zipf": lambda rng: rng.zipf(1.3, N) % SIZE,
    "one id": lambda rng: np.full(N, SIZE // 2),
    "two ids": lambda rng: rng.integers(0, 2, N) * (SIZE - 1),
    "distinct": lambda rng: rng.permutation(N),
    "half on one id": lambda rng: np.where(rng.random(N) < 0.5, 7, rng.integers(0, SIZE, N)),
}
# One dtype of each way through the kernels: held wider, wrapping, or-ed, compared as signed and unsigned, two reals.
DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128")


def on(seed: int, **options: Any) -> CudaKernels:
    # Tiny grids on odd schedules: the number of blocks must not matter either.
    limits = Limits() if seed % 2 else Limits(threads=64, blocks=5)
    return CudaKernels(EmulatedDevice(seed=seed), limits=limits, **options)


def draw(distribution: str) -> tuple[Any, int]:
    ids = DISTRIBUTIONS[distribution](np.random.default_rng(11)).astype(np.int64)
    return ids, int(ids.max()) + 1


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "complex64"])
def test_sums_have_the_same_bits_under_every_schedule(distribution: str, dtype: str) -> None:
    ids, size = draw(distribution)
    rng = np.random.default_rng(12)
    rows = (rng.normal(size=(N, 4)) * 10.0 ** rng.integers(-3, 3, (N, 1))).astype(dtype)
    assert len({on(seed).densify(ids, rows, size).tobytes() for seed in SCHEDULES}) == 1
    assert len({on(seed).coalesce(ids, rows, size)[1].tobytes() for seed in SCHEDULES}) == 1


@pytest.mark.parametrize("op", ["mul", "mean", "max", "min"])
def test_other_folds_have_the_same_bits_under_every_schedule(op: Any) -> None:
    ids, size = draw("zipf")
    rows = (1 + 0.01 * np.random.default_rng(13).normal(size=(N, 4))).astype(np.float32)
    start = np.ones((size, 4), np.float32)
    assert len({on(seed).scatter_reduce(op, start.copy(), ids, rows).tobytes() for seed in SCHEDULES}) == 1


def test_the_sum_is_within_its_error_bound() -> None:
    """Chunks are added in order and then among each other, so errors grow with the chunk and the levels, not with n."""
    rows = np.full((2**17, 1), np.float32(0.1))
    got = on(1).densify(np.zeros(2**17, np.int64), rows, 1)[0, 0]
    assert abs(got - 2**17 * np.float64(np.float32(0.1))) < 2**17 * 0.1 * 64 * 2**-24


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("dtype", "op"), [(dtype, op) for dtype in DTYPES for op in ref.ops_of(dtype)])
def test_folds_equal_numpy(dtype: str, op: Any, distribution: str) -> None:
    ids, size = draw(distribution)
    rng = np.random.default_rng(14)
    rows = ref.values(rng, (N, 3), dtype)
    if op == "mul" and dtype.startswith(("float", "complex")):
        rows = np.sign(rows.real).astype(dtype)  # products that stay exact
    if op in ("add", "mean") and dtype == "float16":
        rows = (rows > 0).astype(dtype)
    start = np.zeros((size, 3), dtype)
    got = on(3).scatter_reduce(op, start.copy(), ids, rows, False)
    want = _folded(op, start, ids, rows)
    if op == "mean":
        np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == "float16" else 1e-6)
    else:
        np.testing.assert_array_equal(got, want)


def _folded(op: str, start: Any, ids: Any, rows: Any) -> Any:
    """By NumPy in wide numbers, one run at a time; integers wrap as NumPy's own do."""
    want = start.copy()
    wide = rows if rows.dtype.kind in "biu" else ref.wide(rows)
    for i in np.unique(ids):
        run = wide[ids == i]
        folded = run[0]
        for row in run[1:]:
            folded = ref.FOLD[op](folded, row)
        want[i] = folded / len(run) if op == "mean" else folded
    return want


def test_steps_have_the_same_bits_under_every_schedule() -> None:
    rng = np.random.default_rng(15)
    ids, rows = rng.permutation(40)[:30], rng.normal(size=(30, 70)).astype(np.float32)
    results = set()
    for seed in SCHEDULES:
        param, squares = np.ones((40, 70), np.float32), np.zeros(40, np.float32)
        on(seed).update_rows(Step("rowwise_adagrad", 0.1), param, [squares], ids, rows)
        results.add(param.tobytes() + squares.tobytes())
    assert len(results) == 1
