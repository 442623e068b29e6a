// What the address and thread sanitizers must be told about fibers. Everything is empty in a build without them.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __asan_unpoison_memory_region(const volatile void*, size_t);
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_size);
}
#define IF_ADDRESS_SANITIZER(...) __VA_ARGS__
#else
#define IF_ADDRESS_SANITIZER(...)
#endif

#if defined(__SANITIZE_THREAD__)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void*);
void __tsan_release(void*);
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#define IF_THREAD_SANITIZER(...) __VA_ARGS__
#else
#define IF_THREAD_SANITIZER(...)
#endif

// Functions that switch stacks, or that prepare one: their own frames are no memory traffic of the kernel.
#define EMULATOR_INTERNAL __attribute__((noinline, no_sanitize("thread")))

namespace emulator {

// The emulator's own bookkeeping, which fibers share without synchronisation, is hidden from the race detector.
struct Quiet {
  Quiet() { IF_THREAD_SANITIZER(AnnotateIgnoreReadsBegin(__FILE__, __LINE__); AnnotateIgnoreWritesBegin(__FILE__, __LINE__);) }
  ~Quiet() { IF_THREAD_SANITIZER(AnnotateIgnoreWritesEnd(__FILE__, __LINE__); AnnotateIgnoreReadsEnd(__FILE__, __LINE__);) }
};

// Ordering between fibers, as the race detector sees it. Switching fibers orders nothing; only these do.
// Every instance of a barrier has an object of its own: one object for all would let a later barrier order an earlier one.
struct Ordering {
  static constexpr size_t COUNT = 1 << 16;
  char instance[COUNT] = {};
  char launch_begins = 0, launch_ends = 0;
  uint64_t next = 0;

  uint64_t fresh() { return ++next; }
  void* object(uint64_t number) { return &instance[number % COUNT]; }
};
static Ordering ORDERING;

inline void release(void* object) { (void)object; IF_THREAD_SANITIZER(__tsan_release(object);) }
inline void acquire(void* object) { (void)object; IF_THREAD_SANITIZER(__tsan_acquire(object);) }

}  // namespace emulator
