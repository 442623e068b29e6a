// Optimizer steps on the rows that a gradient names: parameter, state and gradient in one pass.
//
// Everything is computed in the held type (float for the half types), in which states are kept; the parameter is rounded once.

// What a step may use; each takes what its formula names. `correction1` is 1 / (1 - beta1**t), `correction2` the same of beta2.
template <class A>
struct Hyper {
  A rate, weight_decay, beta1, beta2, epsilon, correction1, correction2;
};

// A step takes a parameter, its gradient and up to two states, which it changes in place, and gives the new parameter.
struct Sgd {
  static const int states = 0;
  template <class A>
  __device__ static A apply(A p, A g, A&, A&, const Hyper<A>& h) {
    return p - h.rate * g;
  }
};
struct Momentum {
  static const int states = 1;
  template <class A>
  __device__ static A apply(A p, A g, A& velocity, A&, const Hyper<A>& h) {
    velocity = h.beta1 * velocity + g;
    return p - h.rate * velocity;
  }
};
struct Adagrad {
  static const int states = 1;
  template <class A>
  __device__ static A apply(A p, A g, A& squares, A&, const Hyper<A>& h) {
    squares += g * g;
    return p - h.rate * g / (sqrt(squares) + h.epsilon);
  }
};
// Lazy: the moments of rows that the gradient does not name do not decay.
struct LazyAdam {
  static const int states = 2;
  template <class A>
  __device__ static A apply(A p, A g, A& mean, A& square, const Hyper<A>& h) {
    mean = h.beta1 * mean + (A(1) - h.beta1) * g;
    square = h.beta2 * square + (A(1) - h.beta2) * g * g;
    return p - h.rate * (mean * h.correction1) / (sqrt(square * h.correction2) + h.epsilon);
  }
};

// One pack of a row: parameter and states at `at`, gradient at `from`.
template <class Step, class T, class A, int V>
__device__ __forceinline__ void step_pack(T* param, A* state1, A* state2, i64 at, const T* rows, i64 from, const Hyper<A>& h) {
  const Pack<T, V> gradient = load<T, V>(rows, from);
  Pack<T, V> p = load<T, V>(param, at);
  Pack<A, V> s1 = {}, s2 = {};
  if (Step::states > 0) s1 = load<A, V>(state1, at);
  if (Step::states > 1) s2 = load<A, V>(state2, at);
#pragma unroll
  for (int j = 0; j < V; j++) {
    const A before = widen(p.v[j]);
    const A g = widen(gradient.v[j]) + h.weight_decay * before;
    p.v[j] = Narrow<T>::from(Step::apply(before, g, s1.v[j], s2.v[j], h));
  }
  store<T, V>(param, at, p);
  if (Step::states > 0) store<A, V>(state1, at, s1);
  if (Step::states > 1) store<A, V>(state2, at, s2);
}

// One step on the rows named by `ids`, which do not repeat; padding and bad ids are skipped.
//
// Mapping: a thread a pack, rows along y.
// Bytes:   n (id + gradient + twice the parameter and each state); with float32 12 D, 20 D or 28 D for no, one or two states.
// Order:   every row is written by one thread a pack.
template <class Step, class T, class A, class I, int V>
__global__ void __launch_bounds__(256)
    update_rows(T* param, A* state1, A* state2, const I* ids, const T* rows, i64 n, i64 packs, i64 size, A rate, A weight_decay,
                A beta1, A beta2, A epsilon, A correction1, A correction2, int* flag) {
  const Hyper<A> h = {rate, weight_decay, beta1, beta2, epsilon, correction1, correction2};
  for (i64 i = first_row(); i < n; i += row_stride()) {
    const i64 id = (i64)ids[i];
    if (!names_row(id, size, flag)) continue;
#pragma unroll 1  // a row is rarely longer than the block is wide
    for (i64 x = first_pack(); x < packs; x += pack_stride())
      step_pack<Step, T, A, V>(param, state1, state2, id * packs + x, rows, i * packs + x, h);
  }
}

// Row-wise Adagrad: one accumulator a row, which gathers the mean square of its gradient.
//
// Mapping: a warp a row (blocks are 32 wide), lanes strided over the packs.
// Bytes:   n (id + 8 + 12 D) with float32; the second reading of the gradient and the parameter comes from the cache.
// Order:   each lane adds its packs in order, then a tree of shuffles: fixed by the width of the row alone.
template <class T, class A, class I, int V>
__global__ void __launch_bounds__(256, 2)  // else the compiler aims at fewer registers on some cards, and spills
    update_rows_rowwise(T* param, A* squares, const I* ids, const T* rows, i64 n, i64 packs, i64 size, A rate, A weight_decay,
                        A epsilon, int* flag) {
  const int lane = threadIdx.x;
  for (i64 i = first_row(); i < n; i += row_stride()) {
    const i64 id = (i64)ids[i];
    if (!names_row(id, size, flag)) continue;  // the same for the whole warp
    A sum = 0;
    for (i64 x = lane; x < packs; x += 32) {
      const Pack<T, V> g = load<T, V>(rows, i * packs + x), p = load<T, V>(param, id * packs + x);
#pragma unroll
      for (int j = 0; j < V; j++) {
        const A value = widen(g.v[j]) + weight_decay * widen(p.v[j]);
        sum += value * value;
      }
    }
#pragma unroll
    for (int bits = 16; bits; bits >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    const A total = squares[id] + sum / (A)(packs * V);
    __syncwarp();  // every lane has read the accumulator before one writes it
    if (lane == 0) squares[id] = total;
    const A step = rate / (sqrt(total) + epsilon);
#pragma unroll 1
    for (i64 x = lane; x < packs; x += 32) {
      const Pack<T, V> g = load<T, V>(rows, i * packs + x);
      Pack<T, V> p = load<T, V>(param, id * packs + x);
#pragma unroll
      for (int j = 0; j < V; j++) {
        const A before = widen(p.v[j]);
        p.v[j] = Narrow<T>::from(before - step * (widen(g.v[j]) + weight_decay * before));
      }
      store<T, V>(param, id * packs + x, p);
    }
  }
}
