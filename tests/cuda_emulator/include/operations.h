// Barriers, shared memory, warp operations and small intrinsics.
#pragma once

namespace emulator {

enum Kind { SHUFFLE = 1, VOTE, SYNC };  // of these only SYNC orders memory, as in CUDA

// Every lane of `mask` arrives with its input in the warp; the last runs `finish`, which computes the outputs of all.
template <class Finish>
void meet(unsigned mask, int line, int kind, Finish finish) {
  const unsigned lane = MACHINE.lane(), first_thread = MACHINE.current - lane;
  Fiber& fiber = MACHINE.self();
  if (!(mask >> lane & 1)) fail("line %d: lane %u calls a warp operation with mask 0x%08x, which lacks it", line, lane, mask);
  Meeting& meeting = MACHINE.own_warp().meeting[__builtin_ctz(mask)];
  if (meeting.arrived && (meeting.mask != mask || meeting.kind != kind || meeting.line != line))
    fail("line %d: lane %u joins with mask 0x%08x a warp operation where others wait at line %d with 0x%08x", line, lane, mask,
         meeting.line, meeting.mask);
  if (!meeting.arrived) meeting = {mask, 0, line, kind, ORDERING.fresh()};
  const uint64_t ordering = meeting.ordering;
  meeting.arrived |= 1u << lane;
  fiber.line = line;
  fiber.mask = mask;
  if (kind == SYNC) release(ORDERING.object(ordering));
  if (meeting.arrived == mask) {
    finish();
    meeting.arrived = 0;
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1 && MACHINE.fiber[first_thread + i].state == IN_WARP) MACHINE.fiber[first_thread + i].state = READY;
  } else {
    fiber.state = IN_WARP;
    yield();
  }
  if (kind == SYNC) acquire(ORDERING.object(ordering));
}

template <class T>
T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= MAX_VALUE && std::is_trivially_copyable_v<T>);
  Quiet quiet;
  const unsigned lane = MACHINE.lane();
  Warp& warp = MACHINE.own_warp();
  memcpy(warp.in[lane], &value, sizeof value);
  warp.source[lane] = source;
  meet(mask, line, SHUFFLE, [&warp, mask] {
    for (unsigned i = 0; i < 32; i++) {
      if (!(mask >> i & 1)) continue;
      const bool defined = mask >> warp.source[i] & 1;  // a lane that takes no part has no defined value: all bits set, a NaN
      if (defined)
        memcpy(warp.out[i], warp.in[warp.source[i]], sizeof(T));
      else
        memset(warp.out[i], 0xFF, sizeof(T));
    }
  });
  memcpy(&value, warp.out[lane], sizeof value);
  return value;
}

inline unsigned ballot(unsigned mask, bool predicate, int line, int kind = VOTE) {
  Quiet quiet;
  const unsigned lane = MACHINE.lane();
  Warp& warp = MACHINE.own_warp();
  warp.predicate[lane] = predicate;
  meet(mask, line, kind, [&warp, mask] {
    unsigned votes = 0;
    for (unsigned i = 0; i < 32; i++) votes |= unsigned(mask >> i & 1 && warp.predicate[i]) << i;
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) warp.result[i] = votes;  // other lanes may not have read theirs yet
  });
  return warp.result[lane];
}

// Where lane arithmetic of width 32 points; past the ends a lane reads itself, as in CUDA.
inline int above(unsigned delta) { return MACHINE.lane() + delta < 32 ? int(MACHINE.lane() + delta) : int(MACHINE.lane()); }
inline int below(unsigned delta) { return MACHINE.lane() >= delta ? int(MACHINE.lane() - delta) : int(MACHINE.lane()); }

// Shared memory: a fresh, poisoned allocation a block for each declaration (a lambda's type makes `Tag` unique to it).
struct Shared {
  uint64_t epoch = 0;
  void* memory = nullptr;
  Shared* next = nullptr;
};
static Shared* ALLOCATED = nullptr;
static size_t SHARED_USED = 0;

static void free_shared_memory() {
  for (; ALLOCATED; ALLOCATED = ALLOCATED->next) {
    free(ALLOCATED->memory);
    ALLOCATED->memory = nullptr;
  }
  SHARED_USED = 0;
}

EMULATOR_INTERNAL static void* shared_memory(Shared& slot, size_t bytes) {
  static constexpr size_t LIMIT = 48 << 10;
  if (slot.epoch == MACHINE.epoch) return slot.memory;
  Quiet quiet;
  slot = {MACHINE.epoch, aligned_alloc(16, (bytes + 15) / 16 * 16), ALLOCATED};
  ALLOCATED = &slot;
  memset(slot.memory, 0xFF, bytes);
  if ((SHARED_USED += bytes) > LIMIT) fail("static shared memory above %zu bytes", LIMIT);
  return slot.memory;
}

template <class T, class Tag>
T& shared(Tag) {
  static_assert(std::is_trivially_copyable_v<T>);
  static Shared slot;
  return *static_cast<T*>(shared_memory(slot, sizeof(T)));
}

}  // namespace emulator

#define __syncthreads() emulator::wait_at_barrier(__LINE__)
#define __syncwarp() ((void)emulator::ballot(0xffffffffu, false, __LINE__, emulator::SYNC))
#define __shfl_sync(mask, value, lane) emulator::shuffle(mask, value, (lane) & 31, __LINE__)
#define __shfl_down_sync(mask, value, delta) emulator::shuffle(mask, value, emulator::above(delta), __LINE__)
#define __shfl_up_sync(mask, value, delta) emulator::shuffle(mask, value, emulator::below(delta), __LINE__)
#define __shfl_xor_sync(mask, value, bits) emulator::shuffle(mask, value, int(emulator::MACHINE.lane() ^ (bits)), __LINE__)
#define __ballot_sync(mask, predicate) emulator::ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (emulator::ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (emulator::ballot(mask, predicate, __LINE__) == (mask))
// __activemask is left out on purpose: a result that depends on how a warp happens to converge cannot be tested here.

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }

template <class To, class From>
inline To emulated_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline int __float_as_int(float v) { return emulated_bits<int>(v); }
inline unsigned __float_as_uint(float v) { return emulated_bits<unsigned>(v); }
inline float __int_as_float(int v) { return emulated_bits<float>(v); }
inline float __uint_as_float(unsigned v) { return emulated_bits<float>(v); }
