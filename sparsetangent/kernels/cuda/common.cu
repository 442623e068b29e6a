// What every kernel file shares; the launcher puts this text before each of them, so no file includes anything (NVRTC then
// takes tens of milliseconds, not seconds). `CUDA_ON_CPU` is defined where the tests run the same source without a GPU.

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// What an error flag may hold; `Fault` in device.py names the same bits.
enum { BAD_ID = 1, TOO_MANY_IDS = 2 };

// ---------------------------------------------------------------------------------------------------------------- elements

struct Half {
  u16 bits;
};
struct Bfloat16 {
  u16 bits;
};
template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R re, im;
};

// The type in which sums are held: float for the half types, else the element's own.
template <class T>
struct Held {
  typedef T type;
};
template <>
struct Held<Half> {
  typedef float type;
};
template <>
struct Held<Bfloat16> {
  typedef float type;
};

__device__ __forceinline__ u32 float_bits(float v) { return __float_as_uint(v); }
__device__ __forceinline__ float bits_float(u32 v) { return __uint_as_float(v); }

// Shifts by more than 31 places give 0, as no bit is left.
__device__ __forceinline__ u32 shifted_right(u32 v, int places) { return places > 31 ? 0 : v >> places; }

// Round to nearest even, by integer arithmetic where the emulator has no instruction for it.
__device__ __forceinline__ float half_to_float(u16 h) {
#ifdef CUDA_ON_CPU
  const u32 sign = (u32)(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude < 0x400) return bits_float(sign | float_bits((float)magnitude * 5.9604644775390625e-8f));  // 2**-24
  if (magnitude >= 0x7c00) return bits_float(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
  return bits_float(sign | ((magnitude << 13) + (112u << 23)));
#else
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
#endif
}
__device__ __forceinline__ u16 float_to_half(float v) {
#ifdef CUDA_ON_CPU
  const u32 bits = float_bits(v), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (u16)(sign | 0x7fff);
  if (magnitude >= 0x477ff000u) return (u16)(sign | 0x7c00);  // rounds to 65536 or more
  // Normal numbers keep 10 bits below the leading one; below 2**-14 the place of the last bit is fixed.
  const int exponent = (int)(magnitude >> 23) - 112, places = exponent > 0 ? 13 : 14 - exponent;
  const u32 fraction = exponent > 0 ? magnitude - (112u << 23) : (magnitude & 0x7fffff) | 0x800000;
  const u32 kept = shifted_right(fraction, places);
  const u32 rest = places > 31 ? 0 : fraction - (kept << places), tie = places > 31 ? 1 : 1u << (places - 1);
  return (u16)(sign | (kept + (rest > tie || (rest == tie && (kept & 1)))));
#else
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
#endif
}
// The instruction for this exists from sm_80 on; four integer ones do on every card, and in the emulator.
__device__ __forceinline__ u16 float_to_bfloat16(float v) {
  const u32 bits = float_bits(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ __forceinline__ float widen(Half v) { return half_to_float(v.bits); }
__device__ __forceinline__ float widen(Bfloat16 v) { return bits_float((u32)v.bits << 16); }
template <class T>
__device__ __forceinline__ T widen(T v) {
  return v;
}

template <class T>
struct Narrow {
  __device__ static T from(T v) { return v; }
};
template <>
struct Narrow<Half> {
  __device__ static Half from(float v) { return {float_to_half(v)}; }
};
template <>
struct Narrow<Bfloat16> {
  __device__ static Bfloat16 from(float v) { return {float_to_bfloat16(v)}; }
};

// ------------------------------------------------------------------------------------------------------------------- packs

// V elements that move in one instruction where their bytes allow (16 at most).
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T v[V];
};

template <class T, int V>
__device__ __forceinline__ Pack<T, V> load(const T* row, i64 pack) {
  return reinterpret_cast<const Pack<T, V>*>(row)[pack];
}
template <class T, int V>
__device__ __forceinline__ void store(T* row, i64 pack, const Pack<T, V>& value) {
  reinterpret_cast<Pack<T, V>*>(row)[pack] = value;
}

// --------------------------------------------------------------------------------------------------------------- launching

// Rows run along y and packs of a row along x; both are strided over the grid, so any grid is right. All of it is 64-bit.
__device__ __forceinline__ i64 first_row() { return (i64)blockIdx.x * blockDim.y + threadIdx.y; }
__device__ __forceinline__ i64 row_stride() { return (i64)gridDim.x * blockDim.y; }
__device__ __forceinline__ i64 first_pack() { return (i64)blockIdx.y * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 pack_stride() { return (i64)gridDim.y * blockDim.x; }

// A thread an element.
__device__ __forceinline__ i64 first_item() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 item_stride() { return (i64)gridDim.x * blockDim.x; }

// -------------------------------------------------------------------------------------------------------------------- ids

// Whether an id names a row. `size` itself is padding, which is skipped; anything else out of range is a fault.
__device__ __forceinline__ bool names_row(i64 id, i64 size, int* flag) {
  if (id >= 0 && id < size) return true;
  if (id != size) atomicOr(flag, BAD_ID);
  return false;
}
