"""The emulator itself: planted bugs are seen, correct kernels are not accused, and it computes what CUDA would."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from .module import MISSING, CompileError, EmulationError, RawModule
from .planted import CASES, observe
from .sanitized import missing, run

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

f4 = np.float32
BUGS = [(case.kernel, sanitizer) for case in CASES.values() for sanitizer in case.seen_by]
CORRECT = [case.kernel for case in CASES.values() if not case.seen_by]


def needs(sanitizer: str) -> None:
    reason = missing(sanitizer)
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("kernel", [kernel for kernel, sanitizer in BUGS if sanitizer == "plain"])
def test_bug_is_seen(kernel: str) -> None:
    assert observe(CASES[kernel], "plain") is not None


@pytest.mark.parametrize(("kernel", "sanitizer"), [bug for bug in BUGS if bug[1] in ("undefined", "address")])
def test_bug_is_seen_by_a_sanitizer(kernel: str, sanitizer: str) -> None:
    needs(sanitizer)
    seen = run(sanitizer, ["-m", "tests.cuda_emulator.planted", sanitizer, kernel])
    assert seen.returncode != 0
    assert "runtime error" in seen.stderr or "AddressSanitizer" in seen.stderr, seen.stderr


@pytest.mark.long
@pytest.mark.parametrize(("kernel", "sanitizer"), [bug for bug in BUGS if bug[1] == "thread"])
def test_race_is_seen(kernel: str, sanitizer: str) -> None:
    needs(sanitizer)
    seen = run(sanitizer, ["-m", "tests.cuda_emulator.planted", sanitizer, kernel])
    assert "data race" in seen.stderr, seen.stderr


@pytest.mark.parametrize("kernel", CORRECT)
def test_correct_kernel_is_not_accused(kernel: str) -> None:
    assert observe(CASES[kernel], "plain", seeds=8) is None


@pytest.mark.long
@pytest.mark.parametrize(("kernel", "sanitizer"), [*product(CORRECT, ("undefined", "address", "thread"))])
def test_correct_kernel_is_not_accused_by_a_sanitizer(kernel: str, sanitizer: str) -> None:
    needs(sanitizer)
    seen = run(sanitizer, ["-m", "tests.cuda_emulator.planted", sanitizer, kernel])
    assert seen.returncode == 0, seen.stderr


def kernel_of(source: str, name: str, **options: Any) -> Any:
    return RawModule(code=source, name_expressions=(name,), **options).get_function(name)


INDEX_SOURCE = """
__global__ void number(int* out) {
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] = block * threads + thread;
}
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("grid", "block"), [((3, 2, 2), (4, 3, 5)), ((1,), (1024,)), ((7,), (1,)), ((1, 5), (2, 2))])
def test_every_thread_of_every_block_runs_once(grid: tuple[int, ...], block: tuple[int, ...], seed: int) -> None:
    count = int(np.prod(grid) * np.prod(block))
    out = np.full(count, -1, np.int32)
    kernel_of(INDEX_SOURCE, "number")(grid, block, (out,), seed=seed)
    np.testing.assert_array_equal(out, np.arange(count))


@pytest.mark.parametrize(("grid", "block"), [((1,), (1025,)), ((0,), (1,)), ((1, 65536), (1,))])
def test_impossible_launches_are_refused(grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    with pytest.raises(EmulationError, match="a block has|a grid has"):
        kernel_of(INDEX_SOURCE, "number")(grid, block, (np.zeros(1, np.int32),))


WARP_SOURCE = """
__global__ void warp(unsigned* out) {
  const unsigned lane = threadIdx.x, all = 0xffffffffu;
  out[lane] = __ballot_sync(all, lane % 3 == 0);
  out[32 + lane] = __shfl_xor_sync(all, lane, 5);
  out[64 + lane] = __shfl_up_sync(all, lane, 4);
  out[96 + lane] = __shfl_down_sync(all, lane, 4);
  out[128 + lane] = __shfl_sync(all, lane, 7);
  if (lane < 8) out[160] = __ballot_sync(0xffu, true);
  else out[161] = __ballot_sync(0xffffff00u, true);
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_warp_operations(seed: int) -> None:
    out = np.zeros(162, np.uint32)
    kernel_of(WARP_SOURCE, "warp")((1,), (32,), (out,), seed=seed)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:32], (1 << lane[lane % 3 == 0]).sum())
    np.testing.assert_array_equal(out[32:64], lane ^ 5)
    np.testing.assert_array_equal(out[64:96], np.where(lane >= 4, lane - 4, lane))
    np.testing.assert_array_equal(out[96:128], np.where(lane < 28, lane + 4, lane))
    np.testing.assert_array_equal(out[128:160], 7)
    assert out[160] == 0xFF
    assert out[161] == 0xFFFFFF00


def test_a_schedule_repeats_and_differs_by_seed() -> None:
    source = "__global__ void order(int* out, int* next) { out[atomicAdd(next, 1)] = blockIdx.x * blockDim.x + threadIdx.x; }"

    def schedule(seed: int) -> list[int]:
        out = np.zeros(64, np.int32)
        kernel_of(source, "order")((4,), (16,), (out, np.zeros(1, np.int32)), seed=seed)
        return out.tolist()

    assert schedule(0) == list(range(64))
    assert schedule(1) == list(range(63, -1, -1))
    assert schedule(2) == schedule(2) != schedule(3)
    assert sorted(schedule(2)) == list(range(64))


def test_a_failed_launch_leaves_the_emulator_usable() -> None:
    assert observe(CASES["barrier_in_branches"], "plain") is not None
    assert observe(CASES["reverse"], "plain") is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(4, f4),), "takes 2 arguments"),
        ((np.zeros(4, f4), 3), "exact type"),
        ((np.zeros(4, np.int32), np.int32(3)), "array of int32"),
        ((np.zeros(8, f4)[::2], np.int32(3)), "not contiguous"),
        ((np.float32(1), np.int32(3)), "by value"),
        ((np.zeros(4, f4), np.zeros(1, np.int32)), "array of int32"),
    ],
)
def test_arguments_are_checked(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kernel_of("__global__ void k(float* out, int n) {}", "k")((1,), (1,), arguments)


def test_a_compile_error_shows_the_line() -> None:
    with pytest.raises(CompileError, match=r"kernel\.cu:2"):
        kernel_of("__global__ void k(float* out) {\n  nonsense;\n}", "k")
