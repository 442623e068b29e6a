// Runs the blocks of a launch: which fiber is next, barriers of the block, deadlocks.
#pragma once

namespace emulator {

static constexpr unsigned MAX_THREADS = 1024;
static constexpr unsigned WARPS = MAX_THREADS / 32;
static constexpr size_t MAX_VALUE = 32;  // bytes of a value that a shuffle moves

// One warp operation under way: the lanes of `mask` leave their inputs, and the last to arrive computes all results.
struct Meeting {
  unsigned mask = 0, arrived = 0;
  int line = 0, kind = 0;
  uint64_t ordering = 0;
};
struct Warp {
  Meeting meeting[32];  // by the lowest lane of the mask: disjoint masks may meet at the same time
  alignas(16) unsigned char in[32][MAX_VALUE], out[32][MAX_VALUE];
  int source[32];
  bool predicate[32];
  unsigned result[32];
};

// One barrier of the block.
struct Barrier {
  unsigned waiting = 0;
  int line = 0;
  uint64_t ordering = 0;
};

struct Machine {
  Fiber fiber[MAX_THREADS];
  Warp warp[WARPS];
  Barrier barrier;
  StackPool stacks;
  std::vector<unsigned> order;  // of the threads in a block
  unsigned current = 0, threads = 0, alive = 0;
  void* scheduler_sp = nullptr;
  void (*kernel)(void**) = nullptr;
  void** arguments = nullptr;
  uint64_t epoch = 0;  // counts blocks; shared memory belongs to one
  bool failed = false;
  char message[512] = {};
  IF_ADDRESS_SANITIZER(void* fake_stack = nullptr; const void* bottom = nullptr; size_t size = 0;)
  IF_THREAD_SANITIZER(void* scheduler_handle = nullptr; std::vector<void*> handles; size_t handles_used = 0;)

  Fiber& self() { return fiber[current]; }
  unsigned lane() const { return current % 32; }
  Warp& own_warp() { return warp[current / 32]; }
};
static Machine MACHINE;

template <class... Args>
void note_failure(const char* format, Args... args) {
  if (MACHINE.failed) return;
  MACHINE.failed = true;
  snprintf(MACHINE.message, sizeof MACHINE.message, format, args...);
}

// From the running fiber back to the scheduler.
EMULATOR_INTERNAL static void yield() {
  Fiber& fiber = MACHINE.self();
  IF_ADDRESS_SANITIZER(void* fake = nullptr;
                       __sanitizer_start_switch_fiber(fiber.state == DONE ? nullptr : &fake, MACHINE.bottom, MACHINE.size);)
  IF_THREAD_SANITIZER(__tsan_switch_to_fiber(MACHINE.scheduler_handle, 1);)  // 1: the switch itself orders nothing
  emulator_switch_stack(&fiber.sp, MACHINE.scheduler_sp);
  IF_ADDRESS_SANITIZER(__sanitizer_finish_switch_fiber(fake, &MACHINE.bottom, &MACHINE.size);)
}

// Ends the launch from inside a fiber, which is never resumed.
template <class... Args>
[[noreturn]] void fail(const char* format, Args... args) {
  note_failure(format, args...);
  yield();
  abort();
}

EMULATOR_INTERNAL static void enter_fiber() {
  IF_ADDRESS_SANITIZER(__sanitizer_finish_switch_fiber(nullptr, &MACHINE.bottom, &MACHINE.size);)
  acquire(&ORDERING.launch_begins);
  MACHINE.kernel(MACHINE.arguments);
  release(&ORDERING.launch_ends);
  MACHINE.self().state = DONE;
  yield();
  abort();
}

// From the scheduler into a fiber.
EMULATOR_INTERNAL static void resume(unsigned number) {
  Fiber& fiber = MACHINE.fiber[number];
  MACHINE.current = number;
  threadIdx = fiber.thread;
  fiber.state = READY;
  IF_THREAD_SANITIZER(__tsan_switch_to_fiber(fiber.handle, 1);)
  IF_ADDRESS_SANITIZER(__sanitizer_start_switch_fiber(&MACHINE.fake_stack, fiber.stack, STACK_BYTES);)
  emulator_switch_stack(&MACHINE.scheduler_sp, fiber.sp);
  IF_ADDRESS_SANITIZER(__sanitizer_finish_switch_fiber(MACHINE.fake_stack, nullptr, nullptr);)
}

#if defined(__SANITIZE_THREAD__)
// Handles take half a millisecond to make, so they are kept for later launches, which this launch's end orders.
static bool give_handle(Fiber& fiber) {
  static constexpr size_t LIMIT = 8000;  // the runtime's own limit on threads is a little higher
  if (MACHINE.handles_used == MACHINE.handles.size()) {
    if (MACHINE.handles_used == LIMIT) {
      note_failure("under the thread sanitizer a launch takes at most %zu CUDA threads", LIMIT);
      return false;
    }
    MACHINE.handles.push_back(__tsan_create_fiber(0));
  }
  fiber.handle = MACHINE.handles[MACHINE.handles_used++];
  return true;
}
#endif

EMULATOR_INTERNAL static bool start_fiber(Fiber& fiber) {
  fiber.stack = MACHINE.stacks.take();
  IF_ADDRESS_SANITIZER(__asan_unpoison_memory_region(fiber.stack, STACK_BYTES);)  // frames of its last user are still poisoned
  fiber.sp = first_frame(fiber.stack + STACK_BYTES, &enter_fiber);
  IF_THREAD_SANITIZER(if (!give_handle(fiber)) return false;)
  return true;
}

static void open_barrier() {
  MACHINE.barrier.waiting = 0;
  for (unsigned i = 0; i < MACHINE.threads; i++)
    if (MACHINE.fiber[i].state == AT_BARRIER) MACHINE.fiber[i].state = READY;
}

static void finish_fiber(Fiber& fiber) {
  MACHINE.stacks.give(fiber.stack);
  fiber.stack = nullptr;
  MACHINE.alive--;
  // A thread that has ended is no longer waited for.
  if (MACHINE.barrier.waiting && MACHINE.barrier.waiting == MACHINE.alive) open_barrier();
}

static void wait_at_barrier(int line) {
  Quiet quiet;
  Barrier& barrier = MACHINE.barrier;
  Fiber& fiber = MACHINE.self();
  if (barrier.waiting && barrier.line != line)
    fail("divergent __syncthreads: thread %u is at line %d while others wait at line %d", MACHINE.current, line, barrier.line);
  if (!barrier.waiting) barrier.ordering = ORDERING.fresh();
  const uint64_t ordering = barrier.ordering;
  barrier.line = fiber.line = line;
  fiber.state = AT_BARRIER;
  release(ORDERING.object(ordering));
  if (++barrier.waiting == MACHINE.alive) open_barrier();
  yield();  // even the last to arrive, so that it gets no head start
  acquire(ORDERING.object(ordering));
}

static void note_deadlock() {
  unsigned number = 0;
  while (MACHINE.fiber[number].state == DONE) number++;
  const Fiber& fiber = MACHINE.fiber[number];
  const char* what = fiber.state == AT_BARRIER ? "the barrier of the block" : "its warp";
  note_failure("deadlock in block (%u, %u, %u): thread %u waits at line %d for %s (mask 0x%08x)", blockIdx.x, blockIdx.y,
               blockIdx.z, number, fiber.line, what, fiber.mask);
}

// One pass over the threads in their order. Whether any of them ran.
static bool run_ready_fibers() {
  bool ran = false;
  for (unsigned number : MACHINE.order) {
    Fiber& fiber = MACHINE.fiber[number];
    if (fiber.state != FRESH && fiber.state != READY) continue;
    if (fiber.state == FRESH && !start_fiber(fiber)) return false;
    ran = true;
    resume(number);
    if (MACHINE.failed) return false;
    if (fiber.state == DONE) finish_fiber(fiber);
  }
  return ran;
}

static void free_shared_memory();

static void run_block() {
  free_shared_memory();
  MACHINE.epoch++;
  MACHINE.alive = MACHINE.threads;
  MACHINE.barrier = {};
  for (Warp& warp : MACHINE.warp)
    for (Meeting& meeting : warp.meeting) meeting = {};
  for (unsigned i = 0; i < MACHINE.threads; i++) MACHINE.fiber[i].state = FRESH;
  while (MACHINE.alive && !MACHINE.failed)
    if (!run_ready_fibers() && !MACHINE.failed) note_deadlock();
}

}  // namespace emulator
