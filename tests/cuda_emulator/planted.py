"""Kernels with one deliberate bug each, and beside some of them the correct kernel: what the emulator must and must not report.

python -m tests.cuda_emulator.planted <sanitizer> <bug>     exits with 0 if nothing was seen
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .module import EmulationError, RawModule

__all__ = ["CASES", "Case", "observe"]

SOURCE = r"""
__global__ void add_without_atomic(float* out, const int* id, const float* v) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const float old = out[id[t]];
  __syncthreads();
  out[id[t]] = old + v[t];
}
__global__ void add_atomically(float* out, const int* id, const float* v) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(out + id[t], v[t]);
}
__global__ void reverse_without_barrier(float* out, const float* v) {
  __shared__ float s[64];
  s[threadIdx.x] = v[threadIdx.x];
  out[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void reverse(float* out, const float* v) {
  __shared__ float s[64];
  s[threadIdx.x] = v[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void scan_lacks_barrier(float* out, const float* v) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = v[t];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    const float a = t >= d ? s[t - d] : 0;
    s[t] += a;
    __syncthreads();
  }
  out[t] = s[t];
}
__global__ void barrier_in_branches(float* out) {
  if (threadIdx.x < 16) {
    __syncthreads();
    out[0] = 1;
  } else {
    __syncthreads();
    out[1] = 1;
  }
}
__global__ void barrier_not_reached_by_warp(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  __syncthreads();
}
__global__ void mask_lacks_caller(float* out) {
  const float v = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);
  out[threadIdx.x] = v;
}
__global__ void lane_outside_mask(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0xffffu, 1.0f, 8);
}
__global__ void shared_memory_unset(float* out, const float* v) {
  __shared__ float s[64];
  if (threadIdx.x < 50) s[threadIdx.x] = v[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 64; i++) sum += s[i];
  out[threadIdx.x] = sum;
}
__global__ void warp_sum_without_syncwarp(float* out) {
  __shared__ float s[32];
  const int t = threadIdx.x;
  s[t] = 1;
  for (int d = 16; d; d /= 2)
    if (t < d) s[t] += s[t + d];
  if (t == 0) out[0] = s[0];
}
__global__ void warp_sum(float* out) {
  __shared__ float s[32];
  const int t = threadIdx.x;
  s[t] = 1;
  __syncwarp();
  for (int d = 16; d; d /= 2) {
    const float a = t < d ? s[t + d] : 0;
    __syncwarp();
    if (t < d) s[t] += a;
    __syncwarp();
  }
  if (t == 0) out[0] = s[0];
}
__global__ void read_past_end(float* out, const float* v, int n) {
  if ((int)threadIdx.x <= n) out[threadIdx.x & 1] = v[threadIdx.x];
}
__global__ void write_past_shared(float* out) {
  __shared__ float s[64];
  s[threadIdx.x + 1] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
__global__ void offset_overflows(long long* out, int row, int width) { out[threadIdx.x] = row * width; }
__global__ void misaligned_float4(float* out, const float* v) { out[threadIdx.x] = ((const float4*)(v + 1))->x; }
__global__ void blocks_race(float* out) {
  if (threadIdx.x == 0) out[0] = blockIdx.x;
}
__global__ void takes_int(float* out, int n) { out[0] = n; }
__global__ void takes_float_array(float* out) { out[0] = 1; }
"""

f4 = np.float32
Arguments = tuple[Any, ...]
Check = Callable[[Arguments], bool]


class Case(NamedTuple):
    """A kernel, the sanitizers that must see its bug (none: it is correct), how it is launched, and what must hold then."""

    kernel: str
    seen_by: tuple[str, ...]
    arguments: Callable[[], Arguments]
    check: Check = lambda arguments: True
    grid: int = 1
    block: int = 64


def _adding() -> Arguments:
    return np.zeros(4, f4), np.arange(128, dtype=np.int32) % 4, np.ones(128, f4)


def _added(arguments: Arguments) -> bool:
    return bool((arguments[0] == 32).all())


def _vector() -> Arguments:
    return np.zeros(64, f4), np.arange(1, 65, dtype=f4)


def _out() -> Arguments:
    return (np.zeros(64, f4),)


CASES = {
    case.kernel: case
    for case in (
        Case("add_without_atomic", ("plain", "thread"), _adding, _added, grid=2),
        Case("add_atomically", (), _adding, _added, grid=2),
        Case("reverse_without_barrier", ("plain", "thread"), _vector, lambda a: np.array_equal(a[0], a[1][::-1])),
        Case("reverse", (), _vector, lambda a: np.array_equal(a[0], a[1][::-1])),
        Case("scan_lacks_barrier", ("plain", "thread"), _vector, lambda a: np.array_equal(a[0], np.cumsum(a[1]))),
        Case("barrier_in_branches", ("plain",), _out),
        Case("barrier_not_reached_by_warp", ("plain",), _out),
        Case("mask_lacks_caller", ("plain",), _out),
        Case("lane_outside_mask", ("plain",), _out, lambda a: not np.isnan(a[0]).any()),
        Case("shared_memory_unset", ("plain",), _vector, lambda a: bool((a[0] == a[1][:50].sum()).all())),
        Case("warp_sum_without_syncwarp", ("plain", "thread"), _out, lambda a: a[0][0] == 32, block=32),
        Case("warp_sum", (), _out, lambda a: a[0][0] == 32, block=32),
        Case("read_past_end", ("address",), lambda: (np.zeros(2, f4), np.ones(500, f4), np.int32(500)), block=512),
        Case("write_past_shared", ("address",), _out),
        Case("offset_overflows", ("undefined",), lambda: (np.zeros(1, np.int64), np.int32(5_000_000), np.int32(512)), block=1),
        Case("misaligned_float4", ("undefined",), _vector, block=1),
        Case("blocks_race", ("plain", "thread"), _out, lambda a: a[0][0] == 3, grid=4),
        Case("takes_int", ("plain",), lambda: (np.zeros(1, f4), np.int64(3))),
        Case("takes_float_array", ("plain",), lambda: (np.zeros(1),)),
    )
}


@cache
def _module(sanitizer: str) -> RawModule:
    return RawModule(code=SOURCE, name_expressions=tuple(CASES), sanitizer=sanitizer)


def observe(case: Case, sanitizer: str, seeds: int = 4) -> str | None:
    """What is seen of a bug in this process, over some schedules; a sanitizer ends the process instead."""
    kernel = _module(sanitizer).get_function(case.kernel)
    for seed in range(seeds):
        arguments = case.arguments()
        try:
            kernel((case.grid,), (case.block,), arguments, seed=seed)
        except (EmulationError, TypeError) as error:
            return str(error)
        if not case.check(arguments):
            return f"wrong result under seed {seed}"
    return None


if __name__ == "__main__":
    seen = observe(CASES[sys.argv[2]], sys.argv[1])
    sys.exit(seen)
