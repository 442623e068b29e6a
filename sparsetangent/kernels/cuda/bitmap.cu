// The distinct ids without a sort: a bit for every row of the axis, and an id's rank among the bits that are set.
//
// Worth it while the axis is not much longer than the ids; the launcher sorts where it is.

// A read that may be stale but is never torn or hoisted. A stale 0 only costs an atomic that was not needed.
__device__ __forceinline__ u32 relaxed_load(const u32* place) {
#ifdef CUDA_ON_CPU
  return __atomic_load_n(place, __ATOMIC_RELAXED);
#else
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(place)) : "memory");
  return v;
#endif
}

// Sets the bit of every id. Testing before setting makes a hot id cost one atomic, not n.
//
// Mapping: a thread an id. Bytes: n ids, and a bit a row of the axis.
// Order:   of no consequence: bits are or-ed.
template <class I>
__global__ void __launch_bounds__(256) mark_rows(u32* bits, const I* ids, i64 n, i64 size, int* flag) {
  for (i64 i = first_item(); i < n; i += item_stride()) {
    const i64 id = (i64)ids[i];
    if (!names_row(id, size, flag)) continue;
    u32* word = bits + (id >> 5);
    const u32 bit = 1u << (id & 31);
    if (!(relaxed_load(word) & bit)) atomicOr(word, bit);
  }
}

// counts[w] = the bits set in word w.
//
// Mapping: a thread a word. Bytes: 12 a word.
__global__ void __launch_bounds__(256) count_bits(i64* counts, const u32* bits, i64 words) {
  for (i64 w = first_item(); w < words; w += item_stride()) counts[w] = __popc(bits[w]);
}

// The distinct ids, ascending, from the running count of bits. Those that pass `capacity` set a flag.
//
// Mapping: a thread a word. Bytes: 12 a word, and the distinct ids.
// Order:   every id is written once.
template <class I>
__global__ void __launch_bounds__(256)
    emit_distinct(I* distinct, const u32* bits, const i64* counts, i64 words, i64 capacity, int* flag) {
  for (i64 w = first_item(); w < words; w += item_stride()) {
    i64 place = w ? counts[w - 1] : 0;
    for (u32 rest = bits[w]; rest; rest &= rest - 1, place++) {
      if (place < capacity) distinct[place] = (I)(w * 32 + __ffs((int)rest) - 1);
      else atomicOr(flag, TOO_MANY_IDS);
    }
  }
}

// inverse[i] = the rank of ids[i] among the distinct ids; `capacity` for padding, bad ids, and ranks past it.
//
// Mapping: a thread an id. Bytes: n (id + rank); the words and counts come from the cache.
template <class I>
__global__ void __launch_bounds__(256)
    rank_ids(I* inverse, const I* ids, const u32* bits, const i64* counts, i64 n, i64 size, i64 capacity, int* flag) {
  for (i64 i = first_item(); i < n; i += item_stride()) {
    const i64 id = (i64)ids[i];
    i64 rank = capacity;
    if (names_row(id, size, flag)) {
      const i64 w = id >> 5;
      const u32 below = bits[w] & ((1u << (id & 31)) - 1u);
      rank = (w ? counts[w - 1] : 0) + __popc(below);
    }
    inverse[i] = (I)(rank < capacity ? rank : capacity);
  }
}
