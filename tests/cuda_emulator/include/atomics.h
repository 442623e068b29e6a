// Atomic functions: exactly the overloads that CUDA has, so that a missing one fails to compile here too.
#pragma once

namespace emulator {

// One OS thread runs everything, so a plain read and write is atomic. The race detector needs to be told, by a real atomic.
template <class T, class Change>
T read_modify_write(T* place, Change change) {
#if defined(__SANITIZE_THREAD__)
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  Bits* bits = reinterpret_cast<Bits*>(place);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    T before;
    memcpy(&before, &old, sizeof old);
    const T after = change(before);
    Bits desired;
    memcpy(&desired, &after, sizeof after);
    if (__atomic_compare_exchange_n(bits, &old, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return before;
  }
#else
  const T before = *place;
  *place = change(before);
  return before;
#endif
}

}  // namespace emulator

#define EMULATED_ATOMIC(name, T, expression) \
  inline T name(T* place, T v) {             \
    return emulator::read_modify_write(place, [v](T old) -> T { return expression; }); \
  }
#define EMULATED_ATOMIC_4(name, expression)  \
  EMULATED_ATOMIC(name, int, expression)     \
  EMULATED_ATOMIC(name, unsigned, expression) \
  EMULATED_ATOMIC(name, long long, expression) \
  EMULATED_ATOMIC(name, unsigned long long, expression)

EMULATED_ATOMIC(atomicAdd, int, unsigned(old) + unsigned(v))
EMULATED_ATOMIC(atomicAdd, unsigned, old + v)
EMULATED_ATOMIC(atomicAdd, unsigned long long, old + v)
EMULATED_ATOMIC(atomicAdd, float, old + v)
EMULATED_ATOMIC(atomicAdd, double, old + v)
EMULATED_ATOMIC_4(atomicMax, old > v ? old : v)
EMULATED_ATOMIC_4(atomicMin, old < v ? old : v)
EMULATED_ATOMIC(atomicOr, int, old | v)
EMULATED_ATOMIC(atomicOr, unsigned, old | v)
EMULATED_ATOMIC(atomicOr, unsigned long long, old | v)

#if __CUDA_ARCH__ >= 900
// Each component on its own, as the hardware promises no more.
inline float4 atomicAdd(float4* place, float4 v) {
  if (reinterpret_cast<uintptr_t>(place) % 16) emulator::fail("atomicAdd of a float4 at an address that is no multiple of 16");
  return {atomicAdd(&place->x, v.x), atomicAdd(&place->y, v.y), atomicAdd(&place->z, v.z), atomicAdd(&place->w, v.w)};
}
#endif
