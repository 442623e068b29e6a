// From ids to sorted keys: what stands before and after the sort. The sort itself is the library's (stable, radix).

// keys[i] = ids[i] in the narrowest unsigned type that holds `size`, which padding and bad ids become.
//
// The narrower the key, the fewer passes a radix sort makes over it.
// Mapping: a thread an id. Bytes: n (id + key).
template <class I, class U>
__global__ void __launch_bounds__(256) narrow_keys(U* keys, const I* ids, i64 n, i64 size, int* flag) {
  for (i64 i = first_item(); i < n; i += item_stride()) {
    const i64 id = (i64)ids[i];
    keys[i] = (U)(names_row(id, size, flag) ? id : size);
  }
}

// ascending[i] = keys[order[i]], widened to what the fold reads.
//
// Mapping: a thread a key. Bytes: n (8 + 8 + key).
template <class U>
__global__ void __launch_bounds__(256) ordered_keys(i64* ascending, const U* keys, const i64* order, i64 n) {
  for (i64 i = first_item(); i < n; i += item_stride()) ascending[i] = (i64)keys[order[i]];
}

// heads[i] = 1 where a run of equal keys begins, 0 elsewhere and on padding (keys equal to `size`, which sort last).
//
// Mapping: a thread a key. Bytes: n (8 + 8); the neighbour's key comes from the cache.
__global__ void __launch_bounds__(256) mark_heads(i64* heads, const i64* ascending, i64 n, i64 size) {
  for (i64 i = first_item(); i < n; i += item_stride())
    heads[i] = ascending[i] < size && (i == 0 || ascending[i - 1] != ascending[i]);
}

// From the running count of heads: the distinct ids, and for every entry its place among them, in both orders.
//
// `places` follows the sorted order and is the key of a fold whose rows are the distinct ids; `inverse` follows the caller's
// order. Padding, and what passes `capacity`, is at place `capacity`, which makes it padding of the fold.
// Mapping: a thread a key. Bytes: n (4 * 8), and the distinct ids.
// Order:   every output is written once (`order` is a permutation).
template <class I>
__global__ void __launch_bounds__(256) emit_runs(I* distinct, I* inverse, i64* places, const i64* ascending, const i64* order,
                                                 const i64* counts, i64 n, i64 size, i64 capacity, int* flag) {
  for (i64 i = first_item(); i < n; i += item_stride()) {
    const i64 key = ascending[i], place = counts[i] - 1;
    const bool head = key < size && (i == 0 || ascending[i - 1] != key);
    const bool held = key < size && place < capacity;
    if (head && held) distinct[place] = (I)key;
    if (head && !held) atomicOr(flag, TOO_MANY_IDS);
    places[i] = held ? place : capacity;
    inverse[order[i]] = (I)(held ? place : capacity);
  }
}

// keys[i] = the segment that row i lies in: the last one that starts at i or before.
//
// Mapping: a thread a row, a binary search in `starts`. Bytes: n * 8; the starts come from the cache.
template <class I>
__global__ void __launch_bounds__(256) segment_keys(i64* keys, const I* starts, i64 n, i64 segments) {
  for (i64 i = first_item(); i < n; i += item_stride()) {
    i64 low = 0, high = segments;  // starts[low] <= i < starts[high], or what stands for it at the ends
    while (high - low > 1) {
      const i64 middle = low + (high - low) / 2;
      if ((i64)starts[middle] <= i) low = middle;
      else high = middle;
    }
    keys[i] = low;
  }
}
