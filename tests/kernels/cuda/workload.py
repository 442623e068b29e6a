"""Every kernel once, against literal loops: what runs under each sanitizer, and on each mutant.

python -m tests.kernels.cuda.workload <sanitizer> <part>... [--mutant NAME]     exits with 0 if all is right
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from sparsetangent.kernels.cuda.geometry import Limits
from sparsetangent.kernels.cuda.launch import CudaKernels, Step
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.memory import reserved
from tests.kernels import reference as ref
from tests.kernels.cuda.mutants import MUTANTS

__all__ = ["PARTS", "kernels_for", "run"]

# Grids so small that every kernel strides; the thread sanitizer bears few threads besides.
SMALL = Limits(threads=64, blocks=4)
BAD = (-1, 2**31 - 1, -(2**31))


def kernels_for(device: EmulatedDevice, **options: Any) -> CudaKernels:
    return CudaKernels(device, limits=SMALL, **options)


def _ids(rng: Any, n: int, size: int, dtype: Any = np.int64) -> Any:
    """Repeats, padding, and ids out of range."""
    ids = rng.integers(0, size + 1, n)
    ids[rng.random(n) < 0.5] = size // 2
    ids[: len(BAD)] = BAD
    return ids.astype(dtype)


def _padded(ids: Any, size: int) -> Any:
    """What a device makes of bad ids: padding."""
    return np.where((ids < 0) | (ids >= size), size, ids)


def _flagged(kernels: CudaKernels) -> None:
    try:
        kernels.check_errors()
    except IndexError:
        return
    raise AssertionError("bad ids were not flagged")


def gather(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(0)
    kernels = kernels_for(device)
    for dtype, inner, ids_dtype in (("float32", 8, np.int64), ("int8", 3, np.int32), ("float16", 5, np.int64)):
        src, ids = ref.values(rng, (9, inner), dtype), _ids(rng, 50, 9, ids_dtype)
        np.testing.assert_array_equal(kernels.gather(src, ids), ref.loop_gather(src, _padded(ids, 9)))
        _flagged(kernels)
        dst, unique = ref.values(rng, (60, inner), dtype), rng.permutation(60).astype(ids_dtype)
        unique[: len(BAD)] = BAD
        rows, want = ref.values(rng, (60, inner), dtype), dst.copy()
        want[unique[3:]] = rows[3:]
        np.testing.assert_array_equal(kernels.put(dst, unique, rows), want)
        _flagged(kernels)
    # A row that starts between two packs: only single elements may be read from it.
    odd = np.arange(41, dtype=np.float32)[1:].reshape(10, 4)
    np.testing.assert_array_equal(kernels.gather(odd, np.arange(10)), odd)
    rows = ref.values(rng, (50, 40), "float32")
    dense = kernels.densify(np.arange(50)[::-1].copy(), rows, 51, unique=True)
    np.testing.assert_array_equal(dense, np.concatenate([rows[::-1], np.zeros((1, 40), np.float32)]))


def fold(device: EmulatedDevice) -> None:
    kernels = kernels_for(device)
    _folds(kernels, (("float32", 4), ("float16", 8)))
    _fold_special(kernels)


def fold_more(device: EmulatedDevice) -> None:
    _folds(kernels_for(device), (("int8", 3), ("bool", 1), ("complex64", 2)))


def _folds(kernels: CudaKernels, types: tuple[tuple[str, int], ...]) -> None:
    rng = np.random.default_rng(1)
    for dtype, inner in types:
        for op in ref.ops_of(dtype):
            # Chunks of 8, two levels, and runs that pass whole chunks.
            n, size = 200, 6
            ids, rows = _ids(rng, n, size), ref.values(rng, (n, inner), dtype)
            if op == "mul":
                rows = np.ones_like(rows) * np.sign(rows.real).astype(rows.dtype) if dtype != "bool" else rows
            dst = ref.values(rng, (size, inner), dtype)
            for include_self in (False, True):
                want = ref.loop_reduce(op, dst, _padded(ids, size), rows, include_self)
                got = kernels.scatter_reduce(op, dst.copy(), ids, rows, include_self)
                np.testing.assert_allclose(got, ref.narrow(want, dtype), rtol=1e-3 if op == "mean" else 0)
                _flagged(kernels)


def _fold_special(kernels: CudaKernels) -> None:
    nan = np.array([[1.0] * 4, [np.nan] * 4, [3.0] * 4], np.float32)
    for op in ("max", "min"):
        got = kernels.scatter_reduce(op, np.zeros((1, 4), np.float32), np.zeros(3, np.int64), nan)  # type: ignore[arg-type]
        assert np.isnan(got).all()
    # Halfway between two halves: to the even one.
    ties = np.array([[2048.0] * 8, [1.0, 3.0] * 4], np.float16)
    assert kernels.densify(np.zeros(2, np.int64), ties, 1).tolist() == [[2048.0, 2052.0] * 4]
    starts = np.array([0, 0, 3, 3, 200], np.int32)
    rows = np.arange(800, dtype=np.float32).reshape(200, 4)
    got = kernels.segment_reduce("mean", rows, starts)
    np.testing.assert_array_equal(got, [[0] * 4, [4, 5, 6, 7], [0] * 4, rows[3:].mean(axis=0)])


def distinct(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(2)
    for deterministic in (True, False):
        kernels = kernels_for(device, deterministic=deterministic)
        for size in (40, 10**6):
            ids = rng.integers(0, 40, 300).astype(np.int32)
            ids[rng.random(300) < 0.1] = size
            rows = ref.values(rng, (300, 4), "float32")
            wanted, inverse = ref.loop_unique(ids, size)
            got = kernels.unique_inverse(ids, size)
            assert got[0].tolist() == wanted
            assert got[1].tolist() == inverse
            sums = kernels.coalesce(ids, rows, size)[1]
            zeros = np.zeros((len(wanted), 4), np.float32)
            np.testing.assert_array_equal(sums, ref.loop_add(zeros, np.array(inverse), rows))
            _too_many(kernels, ids, rows, size, wanted)


def _too_many(kernels: CudaKernels, ids: Any, rows: Any, size: int, wanted: list[int]) -> None:
    few, _, count = kernels.coalesce_padded(ids, rows, size, 5)
    assert few.tolist() == wanted[:5]
    assert count.tolist() == [len(wanted)]
    assert kernels.unique_inverse(ids, size, 5)[0].tolist() == wanted[:5]
    try:
        kernels.check_errors()
    except ValueError:
        return
    raise AssertionError("too many distinct ids were not flagged")


def scatter(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(3)
    kernels = kernels_for(device, deterministic=False)
    for dtype, inner in (("float32", 8), ("float32", 3), ("float64", 2)):
        dst, ids, rows = ref.values(rng, (7, inner), dtype), _ids(rng, 60, 7), ref.values(rng, (60, inner), dtype)
        want = ref.loop_add(dst, _padded(ids, 7), rows * np.asarray(2, dtype))
        np.testing.assert_array_equal(kernels.scatter_add(dst, ids, rows, 2, in_order=True), want)
        _flagged(kernels)


def steps(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(4)
    kernels = kernels_for(device)
    param, rows = rng.normal(size=(6, 70)).astype(np.float32), rng.normal(size=(6, 70)).astype(np.float32)
    ids = np.array([4, -1, 0, 6, 99, 2])
    named = [4, 0, 2]
    g, squares = rows[[0, 2, 5]], np.full(6, 0.5, np.float32)
    want, sums = param.copy(), squares.copy()
    sums[named] += (g**2).mean(axis=1)
    want[named] -= 0.1 / (np.sqrt(sums[named]) + 1e-8)[:, None] * g
    kernels.update_rows(Step("rowwise_adagrad", 0.1), param, [squares], ids, rows)
    np.testing.assert_allclose(squares, sums, rtol=1e-5)
    np.testing.assert_allclose(param, want, rtol=1e-5, atol=1e-6)
    _flagged(kernels)
    want[named] -= np.float32(0.1) * g
    kernels.update_rows(Step("sgd", 0.1), param, [], ids, rows)
    np.testing.assert_allclose(param, want, rtol=1e-5, atol=1e-6)
    _flagged(kernels)


def large(device: EmulatedDevice) -> None:
    """Rows beyond 2**31 packs, in memory that is reserved and hardly touched."""
    rows = 2**31 // 3 + 5
    src = reserved((rows, 3), np.uint8)
    src[rows - 1], src[0] = [1, 2, 3], [5, 6, 7]
    kernels = kernels_for(device)
    assert kernels.gather(src, np.array([rows - 1, 0])).tolist() == [[1, 2, 3], [5, 6, 7]]
    kernels.put(src, np.array([rows - 2]), np.array([[9, 9, 9]], np.uint8))
    assert src[rows - 3 :].tolist() == [[0, 0, 0], [9, 9, 9], [1, 2, 3]]
    kernels.scatter_reduce("add", src, np.array([rows - 2, rows - 1]), np.array([[1, 1, 1], [2, 2, 2]], np.uint8))
    assert src[rows - 3 :].tolist() == [[0, 0, 0], [10, 10, 10], [3, 4, 5]]


PARTS: dict[str, Callable[[EmulatedDevice], None]] = {
    part.__name__: part for part in (gather, fold, fold_more, distinct, scatter, steps, large)
}


def run(parts: tuple[str, ...], sanitizer: str = "plain", mutant: str | None = None, seeds: tuple[int, ...] = (0, 5)) -> None:
    for seed in seeds:
        device = EmulatedDevice(sanitizer=sanitizer, seed=seed, mutation=MUTANTS[mutant].change if mutant else None)
        for part in parts:
            PARTS[part](device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sanitizer")
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--mutant")
    chosen = parser.parse_args()
    run(tuple(chosen.parts), chosen.sanitizer, chosen.mutant)
