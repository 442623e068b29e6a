// Rows moved by id. Elements are never looked at, so these kernels know only the width of a pack (1, 2, 4, 8 or 16 bytes)
// and five widths with two id types serve every dtype.

// out[i] = src[ids[i]], zeros for padding and for bad ids.
//
// Mapping: a thread a pack, rows along y; four rows a thread, their ids loaded first and then their packs, so that four
//   loads are under way at once.
// Bytes:   n (id + 2 rows). A row that recurs is read from the cache.
// Order:   every output is written once, by one thread.
template <class W, class I>
__global__ void __launch_bounds__(256)
    gather_rows(void* to, const void* from, const I* ids, i64 n, i64 packs, i64 size, int* flag) {
  W* out = static_cast<W*>(to);
  const W* src = static_cast<const W*>(from);
  const int BATCH = 4;
  const i64 step = row_stride();
  for (i64 first = first_row(); first < n; first += step * BATCH) {
    i64 id[BATCH];
    bool inside[BATCH];
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
      const i64 i = first + j * step;
      id[j] = i < n ? (i64)ids[i] : size;
      inside[j] = names_row(id[j], size, flag);
    }
    for (i64 x = first_pack(); x < packs; x += pack_stride()) {
      W row[BATCH];
#pragma unroll
      for (int j = 0; j < BATCH; j++) row[j] = inside[j] ? src[id[j] * packs + x] : W{};
#pragma unroll
      for (int j = 0; j < BATCH; j++)
        if (first + j * step < n) out[(first + j * step) * packs + x] = row[j];
    }
  }
}

// dst[ids[i]] = rows[i]; padding and bad ids are skipped. The ids do not repeat.
//
// Mapping: a thread a pack, rows along y.
// Bytes:   n (id + 2 rows).
// Order:   every row is written by one thread a pack. If ids repeat after all, one of the rows wins, whole or in parts.
template <class W, class I>
__global__ void __launch_bounds__(256)
    put_rows(void* to, const void* from, const I* ids, i64 n, i64 packs, i64 size, int* flag) {
  W* dst = static_cast<W*>(to);
  const W* rows = static_cast<const W*>(from);
  for (i64 i = first_row(); i < n; i += row_stride()) {
    const i64 id = (i64)ids[i];
    if (!names_row(id, size, flag)) continue;
    for (i64 x = first_pack(); x < packs; x += pack_stride()) dst[id * packs + x] = rows[i * packs + x];
  }
}

// positions[ids[i]] = i, for ids that do not repeat: the inverse map through which a dense array is gathered.
//
// Mapping: a thread an id.
// Bytes:   n (id + 8).
template <class I>
__global__ void __launch_bounds__(256) invert_ids(i64* positions, const I* ids, i64 n, i64 size, int* flag) {
  for (i64 i = first_item(); i < n; i += item_stride())
    if (names_row((i64)ids[i], size, flag)) positions[(i64)ids[i]] = i;
}
