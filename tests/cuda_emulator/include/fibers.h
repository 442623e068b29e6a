// Fibers: stacks, and the switch between them.
#pragma once
#include <sys/mman.h>

namespace emulator {

// Stores the callee-saved registers on the running stack, leaves its pointer in `*save`, and continues on the stack `load`.
extern "C" void emulator_switch_stack(void** save, void* load) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
asm(R"(
.text
.hidden emulator_switch_stack
.globl emulator_switch_stack
.type emulator_switch_stack,@function
emulator_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch_stack,.-emulator_switch_stack
)");
// A stack that was never run: six registers to pop, and the entry function as the return address, 16-byte aligned as a call.
inline void* first_frame(char* top, void (*entry)()) {
  void** sp = reinterpret_cast<void**>(top - 8);
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.hidden emulator_switch_stack
.globl emulator_switch_stack
.type emulator_switch_stack,%function
emulator_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
inline void* first_frame(char* top, void (*entry)()) {
  void** sp = reinterpret_cast<void**>(top - 160);
  memset(static_cast<void*>(sp), 0, 160);
  sp[11] = reinterpret_cast<void*>(entry);  // the link register's place
  return sp;
}
#else
#error "the emulator needs a stack switch for this machine"
#endif

static constexpr size_t STACK_BYTES = 64 << 10;
static constexpr size_t GUARD_BYTES = 4096;

inline char* new_stack() {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* p = mmap(nullptr, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) {
    perror("the emulator's mmap");
    abort();
  }
  mprotect(p, GUARD_BYTES, PROT_NONE);  // an overflow faults instead of corrupting a neighbour
  return static_cast<char*>(p) + GUARD_BYTES;
}

inline void free_stack(char* stack) { munmap(stack - GUARD_BYTES, STACK_BYTES + GUARD_BYTES); }

// Stacks of finished fibers, for the next ones. Not under the race detector, to which a reused stack is a race.
struct StackPool {
  std::vector<char*> free;

  char* take() {
    if (free.empty()) return new_stack();
    char* stack = free.back();
    free.pop_back();
    return stack;
  }
  void give(char* stack) {
    IF_THREAD_SANITIZER(free_stack(stack); return;)
    free.push_back(stack);
  }
};

enum State : uint8_t { FRESH, READY, AT_BARRIER, IN_WARP, DONE };

struct Fiber {
  void* sp = nullptr;
  char* stack = nullptr;
  uint3 thread{};
  State state = FRESH;
  int line = 0;       // where it waits, for messages
  unsigned mask = 0;  // the lanes that it waits for
  IF_THREAD_SANITIZER(void* handle = nullptr;)
};

}  // namespace emulator
