// The deterministic fold of rows over sorted keys: sums, products, maxima, minima and means.
//
// Atomics lose twice: their order, and so the rounding, changes from run to run; and ids that repeat often queue at one
// address. Here the work is cut by position, never by key: each group of threads owns `chunk` sorted positions and folds
// them in order in registers. A run of equal keys that lies inside one chunk is stored. The parts of a run that crosses a
// border go to `carry`, at most two a chunk, and the same kernel folds those, until one chunk is left. The number of levels is
// known on the host from n alone, and so is every sum's bracketing: equal inputs give equal bits on every card, in every
// schedule, and the time does not depend on how ids repeat.

// ---------------------------------------------------------------------------------------------------------------- operations

// Each operation has `fold` on held values. Integers wrap, so their sums and products are taken on unsigned types, which
// serve the signed ones too; 16-bit ones would be promoted to int, whose overflow is undefined.
template <class A>
__device__ __forceinline__ A added(A a, A b) {
  return a + b;
}
__device__ __forceinline__ bool added(bool a, bool b) { return a || b; }
__device__ __forceinline__ u8 added(u8 a, u8 b) { return (u8)((u32)a + b); }
__device__ __forceinline__ u16 added(u16 a, u16 b) { return (u16)((u32)a + b); }
template <class R>
__device__ __forceinline__ Complex<R> added(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}

template <class A>
__device__ __forceinline__ A multiplied(A a, A b) {
  return a * b;
}
__device__ __forceinline__ bool multiplied(bool a, bool b) { return a && b; }
__device__ __forceinline__ u8 multiplied(u8 a, u8 b) { return (u8)((u32)a * b); }
__device__ __forceinline__ u16 multiplied(u16 a, u16 b) { return (u16)((u32)a * b); }
template <class R>
__device__ __forceinline__ Complex<R> multiplied(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class A>
__device__ __forceinline__ A divided(A a, i64 count) {
  return a / (A)count;
}
template <class R>
__device__ __forceinline__ Complex<R> divided(Complex<R> a, i64 count) {
  return {a.re / (R)count, a.im / (R)count};
}

struct Sum {
  template <class A>
  __device__ static A fold(A a, A b) {
    return added(a, b);
  }
};
struct Mean : Sum {};
struct Product {
  template <class A>
  __device__ static A fold(A a, A b) {
    return multiplied(a, b);
  }
};
// NaN propagates: `x != x` holds for NaN alone.
struct Max {
  template <class A>
  __device__ static A fold(A a, A b) {
    return a != a || a >= b ? a : b;
  }
};
struct Min {
  template <class A>
  __device__ static A fold(A a, A b) {
    return a != a || a <= b ? a : b;
  }
};

// What is stored for a folded run, given what the target holds there (`before`, if it takes part) and the length of the run.
// Only a sum is scaled: alpha scales the rows, and `alpha * sum` costs one multiplication a run.
template <class Op>
struct Finish {
  template <class A>
  __device__ static A apply(A folded, A alpha, bool combine, A before, i64) {
    return combine ? Op::fold(before, folded) : folded;
  }
};
template <>
struct Finish<Sum> {
  template <class A>
  __device__ static A apply(A folded, A alpha, bool combine, A before, i64) {
    return combine ? added(before, multiplied(alpha, folded)) : folded;
  }
};
template <>
struct Finish<Mean> {
  template <class A>
  __device__ static A apply(A folded, A alpha, bool combine, A before, i64 length) {
    return combine ? divided(added(before, folded), length + 1) : divided(folded, length);
  }
};

template <class Op>
struct CountsRows {
  static const bool value = false;
};
template <>
struct CountsRows<Mean> {
  static const bool value = true;
};

// ------------------------------------------------------------------------------------------------------------------- kernel

// The arguments of `fold_sorted`, under one name for the functions that it consists of.
//
// A key k >= 0 says that its row belongs to run k. A key ~k < 0 occurs among carries only: no row here, but run k passes
// through, so the carries on both sides are parts of one run.
template <class In, class A, class Out>
struct Fold {
  Out* out;              // (size, packs): the target, indexed by key
  const i64* keys;       // (n,) ascending
  const i64* order;      // (n,) where the row of each position is; null: at the position
  const In* rows;        // (n, packs)
  const i64* lengths;    // (n,) rows that each row stands for; null: one each. Means only
  i64 n, chunk, packs, size;
  bool combine;          // whether what the target holds takes part
  A alpha;
  A* carry;              // (2 * chunks, packs)
  i64* carry_keys;       // (2 * chunks,)
  i64* carry_lengths;    // (2 * chunks,). Means only
};

__device__ __forceinline__ i64 run_of(i64 key) { return key < 0 ? ~key : key; }

// The run that a thread is folding: one pack of it.
template <class A, int V>
struct Run {
  i64 key;
  bool open_left;  // it began in an earlier chunk
  bool held;       // whether a row was folded yet
  i64 length;
  Pack<A, V> folded;

  __device__ void begin(i64 run, bool open) {
    key = run;
    open_left = open;
    held = false;
    length = 0;
  }
};

template <class Op, class In, class A, int V>
__device__ __forceinline__ void fold_row(Run<A, V>& run, const Pack<In, V>& row, i64 length) {
#pragma unroll
  for (int j = 0; j < V; j++) {
    const A value = widen(row.v[j]);
    run.folded.v[j] = run.held ? Op::fold(run.folded.v[j], value) : value;
  }
  run.held = true;
  if (CountsRows<Op>::value) run.length += length;
}

template <class Op, int V, class In, class A, class Out>
__device__ __forceinline__ void store_run(const Fold<In, A, Out>& f, const Run<A, V>& run, i64 x) {
  if (!run.held || run.key < 0 || run.key >= f.size) return;  // padding is run `size`
  Out* row = f.out + run.key * f.packs * V;
  Pack<Out, V> before = {}, after;
  if (f.combine) before = load<Out, V>(row, x);
#pragma unroll
  for (int j = 0; j < V; j++) {
    const A old = widen(before.v[j]);
    after.v[j] = Narrow<Out>::from(Finish<Op>::apply(run.folded.v[j], f.alpha, f.combine, old, run.length));
  }
  store<Out, V>(row, x, after);
}

// A run of which other chunks have parts: to the left carry of the chunk if it came in from the left, else to the right one.
template <class Op, int V, class In, class A, class Out>
__device__ __forceinline__ void carry_run(const Fold<In, A, Out>& f, const Run<A, V>& run, i64 slot, i64 x, i64* key) {
  *key = run.held ? run.key : ~run.key;
  if (!run.held) return;
  store<A, V>(f.carry + slot * f.packs * V, x, run.folded);
  if (CountsRows<Op>::value && x == 0) f.carry_lengths[slot] = run.length;
}

// So many positions are loaded at once: a load that waits for the one before costs its whole latency.
const int BATCH = 4;

template <class In, int V>
struct Batch {
  i64 key[BATCH], length[BATCH];
  Pack<In, V> row[BATCH];
};

template <class Op, class In, class A, class Out, int V>
__device__ __forceinline__ void load_batch(Batch<In, V>& batch, const Fold<In, A, Out>& f, i64 first, i64 end, i64 x) {
#pragma unroll
  for (int j = 0; j < BATCH; j++) batch.key[j] = first + j < end ? f.keys[first + j] : -1;
#pragma unroll
  for (int j = 0; j < BATCH; j++) {
    if (batch.key[j] < 0) continue;  // no row here
    const i64 at = f.order ? f.order[first + j] : first + j;
    batch.row[j] = load<In, V>(f.rows + at * f.packs * V, x);
    if (CountsRows<Op>::value) batch.length[j] = f.lengths ? f.lengths[first + j] : 1;
  }
}

// Element `at` of registers. An index that is not known at compile time would send the array to memory; selects do not.
template <class T>
__device__ __forceinline__ T picked(const T (&values)[BATCH], int at) {
  T value = values[0];
#pragma unroll
  for (int j = 1; j < BATCH; j++)
    if (at == j) value = values[j];
  return value;
}

template <class Op, int V, class In, class A, class Out>
__device__ __forceinline__ void fold_chunk(const Fold<In, A, Out>& f, i64 chunk_number, i64 x) {
  const i64 begin = chunk_number * f.chunk, end = begin + f.chunk < f.n ? begin + f.chunk : f.n;
  const i64 slot = 2 * chunk_number;
  Run<A, V> run;
  run.begin(run_of(f.keys[begin]), begin > 0 && run_of(f.keys[begin - 1]) == run_of(f.keys[begin]));
  i64 left = ~run.key;  // the key of the left carry: nothing, until the first run turns out to be open
  for (i64 first = begin; first < end; first += BATCH) {
    Batch<In, V> batch;
    load_batch<Op>(batch, f, first, end, x);
    const int count = end - first < BATCH ? (int)(end - first) : BATCH;
#pragma unroll 1
    for (int j = 0; j < count; j++) {  // one copy of the code: unrolled, it takes four times as long to compile
      const i64 key = picked(batch.key, j);
      if (run_of(key) != run.key) {
        if (run.open_left) carry_run<Op>(f, run, slot, x, &left);
        else store_run<Op>(f, run, x);
        run.begin(run_of(key), false);
      }
      if (key >= 0) fold_row<Op>(run, picked(batch.row, j), CountsRows<Op>::value ? picked(batch.length, j) : 0);
    }
  }
  i64 right = ~run.key;
  const bool open_right = end < f.n && run_of(f.keys[end]) == run.key;
  if (run.open_left) carry_run<Op>(f, run, slot, x, &left);
  else if (open_right) carry_run<Op>(f, run, slot + 1, x, &right);
  else store_run<Op>(f, run, x);
  if (x == 0) {
    f.carry_keys[slot] = left;
    f.carry_keys[slot + 1] = right;
  }
}

// out[k] = the fold of the rows whose key is k, for every k that occurs; other rows of `out` are left as they are.
//
// Mapping: a group of threads a chunk, along y; packs of a row along x. Every thread of a group reads the same keys.
// Bytes:   n (8 key + 8 order + row) read, the named rows written (and read, if they take part); carries add 2 / chunk of that.
// Order:   fixed by n and the keys alone. No atomics, no synchronisation, no shared memory.
// The second bound allows 128 registers: left alone, the compiler aims at 64 and spills.
template <class Op, class In, class A, class Out, int V>
__global__ void __launch_bounds__(256, 2)
    fold_sorted(Out* out, const i64* keys, const i64* order, const In* rows, const i64* lengths, i64 n, i64 chunk, i64 packs,
                i64 size, i32 combine, A alpha, A* carry, i64* carry_keys, i64* carry_lengths) {
  const Fold<In, A, Out> fold = {out,  keys, order,        rows,  lengths, n,          chunk,
                                 packs, size, combine != 0, alpha, carry,   carry_keys, carry_lengths};
  for (i64 c = first_row(); c * chunk < n; c += row_stride())
#pragma unroll 1
    for (i64 x = first_pack(); x < packs; x += pack_stride()) fold_chunk<Op, V>(fold, c, x);
}
