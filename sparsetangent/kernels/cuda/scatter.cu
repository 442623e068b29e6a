// Scatter-add by atomics: the fast path for those who do not need equal bits.

// Adds a pack to memory. One vector instruction for four floats from sm_90 on, else one reduction an element. No value comes
// back, so the hardware adds in the cache and nothing waits.
template <class T, int V>
struct AtomicPack {
  __device__ static void add(T* place, const Pack<T, V>& value) {
#pragma unroll
    for (int j = 0; j < V; j++) atomicAdd(place + j, value.v[j]);
  }
};
#if __CUDA_ARCH__ >= 900
template <>
struct AtomicPack<float, 4> {
  __device__ static void add(float* place, const Pack<float, 4>& value) {
#ifdef CUDA_ON_CPU
    atomicAdd(reinterpret_cast<float4*>(place), make_float4(value.v[0], value.v[1], value.v[2], value.v[3]));
#else
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(place)), "f"(value.v[0]), "f"(value.v[1]), "f"(value.v[2]), "f"(value.v[3])
                 : "memory");
#endif
  }
};
#endif

// dst[ids[i]] += alpha * rows[i]; padding and bad ids are skipped.
//
// Mapping: a thread a pack, rows along y.
// Bytes:   n (id + row) read, n rows added in the L2 cache.
// Order:   none. Sums differ in their last bits from run to run, and rows with the same id queue at their addresses.
template <class T, class I, int V>
__global__ void __launch_bounds__(256)
    scatter_add_rows(T* dst, const I* ids, const T* rows, i64 n, i64 packs, i64 size, T alpha, int* flag) {
  for (i64 i = first_row(); i < n; i += row_stride()) {
    const i64 id = (i64)ids[i];
    if (!names_row(id, size, flag)) continue;
    for (i64 x = first_pack(); x < packs; x += pack_stride()) {
      Pack<T, V> row = load<T, V>(rows + i * packs * V, x);
#pragma unroll
      for (int j = 0; j < V; j++) row.v[j] *= alpha;
      AtomicPack<T, V>::add(dst + (id * packs + x) * V, row);
    }
  }
}
