"""``a + t`` is ``a + densify(t)`` to 2 units in the last place and the error of summing the repeats among themselves, on every path."""

import importlib

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from tests.helpers import for_all
from tests.kernels import reference as ref

PATHS = {
    "a + t": lambda a, t: st.namespace(a).add(a, t),
    "t + a": lambda a, t: t + a,
    "a - (-t)": lambda a, t: st.namespace(a).subtract(a, -t),
    "add_into": lambda a, t: st.add_into(a, t),
    "add_into, alpha": lambda a, t: st.add_into(a, -t, alpha=-1),
    "add_n": lambda a, t: st.add_n([a, t]),
    "add_n of pieces": lambda a, t: st.add_n([a, *_pieces(t)]),
    "Accumulator": lambda a, t: _accumulated(a, t),
    "scatter_into": lambda a, t: st.rules.scatter_into("add", a, t.values, t.indices),
    "update_rows": lambda a, t: st.update_rows(a, -t, st.steps.sgd(1.0))[0],
}
UNIT = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}


def _pieces(t):
    half = t.values.shape[0] // 2
    return [st.IndexedSlices(t.indices[part], t.values[part, ...], t.shape) for part in (slice(None, half), slice(half, None))]


def _accumulated(a, t):
    total = st.Accumulator()
    total.add(a)
    total.add(t)
    return total.value()


def sum_error(count, dtype):
    """The error of a sum of so many terms, relative to the sum of their magnitudes: 16 additions a level of a tree of 16 branches."""
    levels = 1
    while 16**levels < count:
        levels += 1
    return 16 * levels * UNIT["float32" if dtype in ("float16", "bfloat16") else dtype]


def check(got, base, ids, rows, dtype):
    """Against the loop in extended precision."""
    wide = np.clongdouble if "complex" in dtype else np.longdouble
    want, magnitude = ref.wide(base).astype(wide), np.zeros(base.shape)
    for i, row in zip(ids.tolist(), ref.wide(rows), strict=True):
        want[i] += row
        magnitude[i] += np.abs(row)
    counts = np.bincount(ids, minlength=base.shape[0])
    errors = np.array([sum_error(c, dtype) for c in counts.tolist()]).reshape(-1, 1)
    tiny = 2.0**-24 if dtype == "float16" else 2.0**-126
    allowed = 4 * UNIT[dtype] * np.abs(want) + errors * magnitude + tiny
    np.testing.assert_array_less(np.abs(ref.wide(ref.take(got)) - want).astype(float), allowed.astype(float))


@pytest.mark.parametrize("dtype", list(UNIT))
def test_law_of_sums_on_random_grids(xp, dtype):
    if xp.backend_name == "jax32" and dtype in ("float64", "complex128"):
        pytest.skip("JAX without x64 has no such dtype")
    if xp.backend_name == "array_api_strict" and dtype in ("float16", "bfloat16"):
        pytest.skip("array_api_strict has no half types")
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    # JAX compiles for every shape
    many = [0, 17, 300] if xp.backend_name.startswith("jax") else [0, 1, 2, 15, 16, 17, 32, 33, 64, 65, 200, 999, 1000, 2500]
    widths = [1, 4] if xp.backend_name.startswith("jax") else [1, 2, 4, 64]

    def body(n, d, seed):
        rng = np.random.default_rng(seed)
        size = int(rng.choice([6, 3000]))
        base = ref.narrow(rng.standard_normal((size, d)) * 10.0 ** rng.integers(-3, 4), dtype)
        rows = ref.narrow(rng.standard_normal((n, d)) * 10.0 ** rng.integers(-6, 1), dtype)
        ids = np.where(rng.random(n) < rng.choice([0, 0.5, 1]), 3, rng.integers(0, size, n))
        path = PATHS[str(rng.choice(list(PATHS)))]
        t = st.IndexedSlices(
            ref.give(xp, ids, "int32" if xp.backend_name == "jax32" else "int64"), ref.give(xp, rows, dtype), (size, d)
        )
        check(path(ref.give(xp, base.copy(), dtype), t), base, ids, rows, dtype)

    for_all(xp, body, hs.sampled_from(many), hs.sampled_from(widths), hs.integers(0, 2**32), examples=100)


@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.parametrize("d", [1, 4])
def test_many_small_entries_reach_one(xp, d, path):
    """C163: what is added is far below the last digit of what is there."""
    for n in (200, 20000):
        ids = np.append(np.zeros(n - 1, np.int32), np.int32(5))
        rows, base = np.full((n, d), 2e-8, np.float32), np.ones((10, d), np.float32)
        got = PATHS[path](ref.give(xp, base.copy()), st.IndexedSlices(ref.give(xp, ids), ref.give(xp, rows), (10, d)))
        want = np.float32(1 + 2e-8 * (n - 1))
        assert np.abs(ref.take(got)[0] - want).max() <= 2 * np.spacing(want)


def test_small_entries_add_up_beside_one(xp):
    """C162."""
    ids, rows, base = np.zeros(12500, np.int32), np.full((12500, 1), 0.01, np.float32), np.ones((8, 1), np.float32)
    for path in ("a + t", "Accumulator", "scatter_into"):
        t = st.IndexedSlices(ref.give(xp, ids), ref.give(xp, rows), (8, 1))
        got = float(ref.take(PATHS[path](ref.give(xp, base.copy()), t))[0, 0])
        assert abs(got - 126) <= 2 * np.spacing(np.float32(126))


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_a_sum_goes_on_beyond_the_digits_of_its_terms(name):
    """C161: 2**24 + 1 is no float32."""
    asarray = {"numpy": "asarray", "torch": "from_numpy", "jax": "asarray"}[name]
    module = pytest.importorskip("jax.numpy" if name == "jax" else name, reason=f"{name} is not installed")
    make, n = getattr(importlib.import_module(module.__name__), asarray), 14453120
    t = st.IndexedSlices(make(np.zeros(n, np.int32)), make(np.ones(n, np.float32)), (2,))
    assert (make(np.array([13305880, 0], np.float32)) + t).tolist() == [27759000, 0]


def test_numpy_and_compiled_loops_give_equal_bits():
    numba = pytest.importorskip("numba", reason="Numba is not installed")
    assert numba
    from sparsetangent.kernels.numba import NumbaKernels
    from sparsetangent.kernels.numpy import NumpyKernels

    plain, compiled, rng = NumpyKernels(), NumbaKernels(smallest=1), np.random.default_rng(7)
    for n in (1, 16, 17, 33, 300, 5000):
        for d in (1, 3, 20):
            for size in (4, 10**5):
                ids = np.where(rng.random(n) < 0.3, 1, rng.integers(0, size, n))
                rows, base = rng.standard_normal((n, d)), rng.standard_normal((size, d))
                for call in (
                    lambda k, i=ids, r=rows, b=base: k.scatter_add(b.copy(), i, r, -0.3),
                    lambda k, i=ids, r=rows, s=size: k.densify(i, r, s),
                    lambda k, i=ids, r=rows, s=size: k.coalesce(i, r, s)[1],
                ):
                    assert call(plain).tobytes() == call(compiled).tobytes()


def test_in_order_is_the_scatter_of_the_library(xp):
    ids, rows = np.zeros(2000, np.int32), np.full((2000, 1), 2e-8, np.float32)
    t = st.IndexedSlices(ref.give(xp, ids), ref.give(xp, rows), (2, 1))
    got = st.add_into(ref.give(xp, np.ones((2, 1), np.float32)), t, in_order=True)
    assert ref.take(got)[0, 0] == (1 if xp.backend_name != "array_api_strict" else np.float32(1 + 4e-5))
