// Compiles CUDA C kernel source as C++ and runs it on the CPU. For correctness tests only; speed means nothing here.
//
// The model: one OS thread. Blocks run one after another. Every CUDA thread of the running block is a fiber with a stack
// of its own, which runs until it ends or waits at a barrier or in a warp operation. The order of the blocks, and of the
// threads in a block, follows a seed, so that a test can repeat a kernel under many schedules.
//
// What is caught at run time: barriers that not all threads reach, warp operations whose mask is wrong, deadlocks, shared
// memory read before it is written (it is poisoned), and, with the sanitizers on top, everything that they find in plain C++:
// out of bounds, misaligned loads, overflow, and races between CUDA threads (the fibers are known to the thread sanitizer).
//
// What is not: weak memory order, flush-to-zero, contraction into fused multiply-add, streams, limits of a launch, speed.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

// Kernel sources ask for this where the GPU's way is inline PTX.
#define CUDA_ON_CPU 1
#ifndef EMULATED_ARCH
#define EMULATED_ARCH 800
#endif
#define __CUDA_ARCH__ EMULATED_ARCH

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
// A `__shared__` declaration is rewritten by the driver (module.py) to a call of `emulator::shared`.

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// The built-in variables are plain globals, set whenever a fiber is resumed.
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

#include "sanitizers.h"
#include "fibers.h"
#include "scheduler.h"
#include "operations.h"
#include "atomics.h"
#include "launch.h"
