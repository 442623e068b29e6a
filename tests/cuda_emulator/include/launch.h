// The entry points that the driver calls: launch a kernel, and describe its parameters.
#pragma once

namespace emulator {

struct Launch {
  dim3 grid, block;
  uint64_t seed;
};

// splitmix64, for shuffles that are the same on every machine.
inline uint64_t random_bits(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// 0: ascending; 1: descending; anything else: a shuffle.
template <class T>
void arrange(std::vector<T>& order, size_t count, uint64_t seed, uint64_t& state) {
  order.resize(count);
  for (size_t i = 0; i < count; i++) order[i] = T(seed == 1 ? count - 1 - i : i);
  if (seed < 2) return;
  for (size_t i = count; i > 1; i--) std::swap(order[i - 1], order[random_bits(state) % i]);
}

inline void number_threads(dim3 block) {
  unsigned i = 0;
  for (unsigned z = 0; z < block.z; z++)
    for (unsigned y = 0; y < block.y; y++)
      for (unsigned x = 0; x < block.x; x++) MACHINE.fiber[i++].thread = {x, y, z};
}

inline void run_blocks(const Launch& launch) {
  const dim3 grid = launch.grid;
  uint64_t state = launch.seed;
  std::vector<uint64_t> blocks;
  arrange(blocks, uint64_t(grid.x) * grid.y * grid.z, launch.seed, state);
  for (uint64_t block : blocks) {
    blockIdx = {unsigned(block % grid.x), unsigned(block / grid.x % grid.y), unsigned(block / grid.x / grid.y)};
    arrange(MACHINE.order, MACHINE.threads, launch.seed, state);
    run_block();
    if (MACHINE.failed) return;
  }
}

// nullptr, or what went wrong.
inline const char* run(void (*kernel)(void**), const Launch& launch, void** arguments) {
  Quiet quiet;
  MACHINE.kernel = kernel;
  MACHINE.arguments = arguments;
  MACHINE.failed = false;
  gridDim = launch.grid;
  blockDim = launch.block;
  MACHINE.threads = launch.block.x * launch.block.y * launch.block.z;
  if (MACHINE.threads == 0 || MACHINE.threads > MAX_THREADS) return "a block has 1 to 1024 threads";
  if (!launch.grid.x || !launch.grid.y || !launch.grid.z) return "a grid has at least one block";
  if (launch.grid.y > 65535 || launch.grid.z > 65535) return "a grid has at most 65535 blocks along y and z";
  number_threads(launch.block);
  IF_THREAD_SANITIZER(MACHINE.scheduler_handle = __tsan_get_current_fiber(); MACHINE.handles_used = 0;)
  release(&ORDERING.launch_begins);
  run_blocks(launch);
  acquire(&ORDERING.launch_ends);
  return MACHINE.failed ? MACHINE.message : nullptr;  // after a failure, fibers that never ended leak their stacks
}

// How a parameter is described to the driver: 'P' for a pointer, then the kind as NumPy names it, then the size in bytes.
template <class T>
void append_parameter(char* text) {
  using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
  const char* kind = std::is_void_v<Pointee>             ? "v"
                     : std::is_same_v<Pointee, bool>     ? "b"
                     : std::is_floating_point_v<Pointee> ? "f"
                     : std::is_unsigned_v<Pointee>       ? "u"
                     : std::is_integral_v<Pointee>       ? "i"
                                                         : "V";
  size_t size = 0;
  if constexpr (!std::is_void_v<Pointee>) size = sizeof(Pointee);
  sprintf(text + strlen(text), "%s%s%zu ", std::is_pointer_v<T> ? "P" : "", kind, size);
}

// The driver's bytes have no alignment of their own.
template <class T>
T read(const void* bytes) {
  T value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

template <auto Kernel>
struct Instance;
template <class... Args, void (*Kernel)(Args...)>
struct Instance<Kernel> {
  static void call(void** arguments) { call_with(arguments, std::index_sequence_for<Args...>{}); }

  template <size_t... I>
  static void call_with(void** arguments, std::index_sequence<I...>) {
    Kernel(read<Args>(arguments[I])...);
  }
  static const char* signature() {
    static char text[512] = {};
    if (!text[0]) (append_parameter<Args>(text), ...);
    return text;
  }
};

}  // namespace emulator
