"""The kernel contract, the same for every backend, against literal loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

from sparsetangent.kernels.base import Kernels
from tests.helpers import for_all
from tests.kernels import reference as ref

HUGE = 2**50

# inf - inf and overflow warn where NumPy adds them, as its own operations do.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")


def check(got, want, dtype, exact=True):
    """Equal shape and dtype, and equal values: bit for bit, or to the last digits of the dtype."""
    got = ref.take(got)
    want = ref.narrow(np.asarray(want), dtype)
    assert got.shape == want.shape
    if exact:
        np.testing.assert_array_equal(got, want)
    else:
        eps = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "complex64": 1e-6}.get(dtype, 1e-14)
        np.testing.assert_allclose(got, want, rtol=2 * eps, atol=eps)


def same_dtype(got, like):
    assert got.dtype == like.dtype


@pytest.fixture
def kernels(xp):
    return ref.kernels_of(xp)


def test_attributes(xp, kernels):
    typed: Kernels = kernels
    x, ids = xp.zeros((3,), dtype=xp.float32), xp.asarray([4, 0, 2], dtype=xp.int32)
    assert typed.name in xp.backend_name
    assert typed.concrete(x)
    assert typed.synchronous(x) == (typed.name != "cupy")
    assert typed.bounds(ids) == (0, 4)
    assert typed.index_dtype(x) == (xp.int32 if xp.backend_name == "jax32" else xp.int64)
    assert typed.accumulator(x.dtype) == xp.float32
    assert typed.accumulator(ids.dtype) == xp.int32


def test_gather(xp, kernels):
    def body(case):
        src = case.more(case.size)
        got = kernels.gather(ref.give(xp, src, case.dtype), ref.give(xp, case.ids))
        same_dtype(got, ref.give(xp, src, case.dtype))
        check(got, ref.loop_gather(src, case.ids), case.dtype)

    for_all(xp, body, ref.cases(xp, special=True), examples=200)


@pytest.mark.parametrize("special", [False, True])
def test_densify(xp, kernels, special):
    def body(case):
        rows = ref.give(xp, case.rows, case.dtype)
        got = kernels.densify(ref.give(xp, case.ids), rows, case.size)
        same_dtype(got, rows)
        zeros = np.zeros((case.size, *case.rows.shape[1:]), case.rows.dtype)
        check(got, ref.loop_add(zeros, case.ids, case.rows), case.dtype)

    for_all(xp, body, ref.cases(xp, special=special), examples=200)


@pytest.mark.parametrize("alpha", [1, -1, 2])
def test_scatter_add(xp, kernels, alpha):
    def body(case):
        dst, before = ref.give(xp, case.more(case.size), case.dtype), case.more(case.size)
        got = kernels.scatter_add(dst, ref.give(xp, case.ids), ref.give(xp, case.rows, case.dtype), alpha)
        same_dtype(got, dst)
        with np.errstate(all="ignore"):
            rows = case.rows if case.dtype == "bool" else case.rows * np.asarray(alpha).astype(case.rows.dtype)
        check(got, ref.loop_add(before, case.ids, rows), case.dtype)
        if kernels.mutable:
            assert got is dst
        else:
            np.testing.assert_array_equal(ref.take(dst), before)

    for_all(xp, body, ref.cases(xp), examples=120)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("op", ref.OPS)
def test_scatter_reduce(xp, kernels, op, include_self):
    dtypes = tuple(d for d in ref.DTYPES[xp.backend_name] if op in ref.ops_of(d))

    def body(case):
        dst, before = ref.give(xp, case.more(case.size), case.dtype), case.more(case.size)
        ids, rows = ref.give(xp, case.ids[:30]), ref.give(xp, case.rows[:30], case.dtype)
        got = kernels.scatter_reduce(op, dst, ids, rows, include_self)
        same_dtype(got, dst)
        want = ref.loop_reduce(op, before, case.ids[:30], case.rows[:30], include_self)
        check(got, want, case.dtype, exact=op != "mean" and "complex" not in case.dtype)
        assert got is dst or not kernels.mutable

    for_all(xp, body, ref.cases(xp, dtypes), examples=100)


@pytest.mark.parametrize("op", ref.OPS)
def test_folds_of_many_rows(xp, kernels, op):
    # Runs of every length up to some hundreds: other ways than for few elements.
    rng = np.random.default_rng(11)
    n = 900
    ids = np.sort(rng.zipf(1.3, n) % 50).astype(np.int32)[rng.permutation(n)]
    rows, before = ref.values(rng, (n, 4), "float32"), ref.values(rng, (50, 4), "float32")
    if op == "mul":
        rows = np.sign(rows) * rng.choice([0.5, 1, 2], rows.shape).astype(np.float32)
    for include_self in (True, False):
        got = kernels.scatter_reduce(op, ref.give(xp, before.copy()), ref.give(xp, ids), ref.give(xp, rows), include_self)
        check(got, ref.loop_reduce(op, before, ids, rows, include_self), "float32", exact=op != "mean")


@pytest.mark.parametrize("op", ref.OPS)
def test_nan_propagates(xp, kernels, op):
    ids = xp.asarray([0, 0, 1, 1, 2])
    for place in (0, 1):
        rows = np.array([[5.0, 1.0], [6.0, 2.0], [7.0, 3.0], [8.0, 4.0], [9.0, 5.0]])
        rows[place, 0] = np.nan
        got = ref.take(kernels.scatter_reduce(op, xp.zeros((4, 2)), ids, xp.asarray(rows, dtype=xp.zeros(1).dtype), False))
        assert np.isnan(got[0, 0])
        assert np.isfinite(got).sum() == 7


def without_repeats(case, seed):
    """As many ids as a case has, padding for those that an axis of its size has no room for."""
    ids = np.random.default_rng(seed).permutation(case.size)[: len(case.ids)].astype(case.ids.dtype)
    return np.concatenate([ids, np.full(len(case.ids) - len(ids), case.size, case.ids.dtype)])


def test_densify_of_ids_that_do_not_repeat(xp, kernels):
    def body(case, seed):
        ids, rows = without_repeats(case, seed), np.array(case.rows)
        if "float" in case.dtype:
            rows[rows == 0.5] = -0.0
        given = ref.give(xp, rows, case.dtype)
        got = kernels.densify(ref.give(xp, ids), given, case.size, unique=True)
        same_dtype(got, given)
        want = np.zeros((case.size, *rows.shape[1:]), rows.dtype)
        for i, row in zip(ids, rows, strict=True):
            if i != case.size:
                want[i] = row
        check(got, want, case.dtype)
        if "float" in case.dtype:
            np.testing.assert_array_equal(np.signbit(ref.take(got)), np.signbit(want))

    for_all(xp, body, ref.cases(xp, special=True), st.integers(0, 99), examples=120)


def test_put(xp, kernels):
    def body(case, seed):
        ids = without_repeats(case, seed)
        dst, before = ref.give(xp, case.more(case.size), case.dtype), case.more(case.size)
        got = kernels.put(dst, ref.give(xp, ids), ref.give(xp, case.rows, case.dtype))
        want = before.copy()
        for i, row in zip(ids, case.rows, strict=True):
            if i != case.size:
                want[i] = row
        same_dtype(got, dst)
        check(got, want, case.dtype)
        assert got is dst or not kernels.mutable

    for_all(xp, body, ref.cases(xp, special=True), st.integers(0, 99), examples=120)


@pytest.mark.parametrize("extra", [None, 0, 2])
def test_unique_inverse_and_coalesce(xp, kernels, extra):
    def body(case):
        distinct, inverse = ref.loop_unique(case.ids, case.size)
        length = None if extra is None else len(distinct) + extra
        m = len(distinct) if length is None else length
        places = [m if i == len(distinct) else i for i in inverse]
        padded = distinct + [case.size] * (m - len(distinct))
        ids, rows = ref.give(xp, case.ids), ref.give(xp, case.rows, case.dtype)
        got, got_inverse = kernels.unique_inverse(ids, case.size, length)
        assert ref.take(got).tolist() == padded
        assert ref.take(got_inverse).tolist() == places
        same_dtype(got, ids)
        merged, sums = kernels.coalesce(ids, rows, case.size, length)
        assert ref.take(merged).tolist() == padded
        same_dtype(sums, rows)
        start = np.zeros((m, *case.rows.shape[1:]), case.rows.dtype)
        check(sums, ref.loop_add(start, np.array(places, int), case.rows), case.dtype)

    for_all(xp, body, ref.cases(xp, special=True), examples=120)


def test_length_too_short(xp, kernels):
    ids = xp.asarray([4, 1, 7, 1])
    rows = xp.asarray([1.0, 2.0, 3.0, 4.0])
    for call in (lambda: kernels.unique_inverse(ids, 8, 2), lambda: kernels.coalesce(ids, rows, 8, 2)):
        with pytest.raises(ValueError, match="3 distinct|more distinct ids"):
            assert ref.take(call()[0]).tolist() == [1, 4]  # on a device, which drops the rest
            kernels.check_errors()


@pytest.mark.parametrize("op", ref.OPS)
def test_segment_reduce(xp, kernels, op):
    def body(case, cuts):
        n = min(len(case.rows), 30)
        rows = case.rows[:n]
        starts = np.array(sorted([0, *(min(c, n) for c in cuts), n]))
        got = kernels.segment_reduce(op, ref.give(xp, rows, case.dtype), xp.asarray(starts))
        for k, (a, b) in enumerate(pairwise(starts)):
            if a == b:
                want = np.full(rows.shape[1:], _identity(op, case.dtype))
            else:
                want = ref.loop_reduce(op, rows[a : a + 1], np.zeros(b - a, int), rows[a:b], False)[0]
            check(got[k, ...], want, case.dtype, exact=op != "mean" and "complex" not in case.dtype)

    dtypes = tuple(d for d in ref.DTYPES[xp.backend_name] if op in ref.ops_of(d))
    cuts = st.lists(st.integers(0, 30), min_size=0, max_size=4)
    if xp.backend_name.startswith("jax"):
        cuts = st.sampled_from([[0, 3], [2, 2]])
    for_all(xp, body, ref.cases(xp, dtypes), cuts, examples=60)


def _identity(op, dtype):
    if op not in ("min", "max"):
        return op == "mul"
    if dtype == "bool":
        return op == "min"
    if "int" in dtype:
        info = np.iinfo(dtype)
        return info.max if op == "min" else info.min
    return np.inf if op == "min" else -np.inf


@pytest.mark.parametrize("op", ["min", "max"])
def test_complex_numbers_have_no_order(xp, kernels, op):
    x = xp.ones((1,), dtype=xp.complex64)
    with pytest.raises(TypeError, match="order"):
        kernels.scatter_reduce(op, x, xp.asarray([0]), x)
    with pytest.raises(TypeError, match="order"):
        kernels.segment_reduce(op, x, xp.asarray([0, 1]))


def test_mean_of_integers(xp, kernels):
    with pytest.raises(TypeError, match="mean needs"):
        kernels.scatter_reduce("mean", xp.asarray([1]), xp.asarray([0]), xp.asarray([1]))


def test_alpha_keeps_the_dtype(xp, kernels):
    with pytest.raises(TypeError):
        kernels.scatter_add(xp.asarray([1]), xp.asarray([0]), xp.asarray([1]), 0.5)
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    got = kernels.scatter_add(x, xp.asarray([1]), xp.asarray([4.0], dtype=xp.float32), np.float64(0.5))
    assert got.dtype == xp.float32
    assert ref.take(got).tolist() == [1.0, 4.0]


def mutable_only(kernels):
    if not kernels.mutable:
        pytest.skip("arrays of this library are not written in place")


# Ids out of range

CALLS = {
    "gather": lambda k, dst, ids, rows: k.gather(dst, ids),
    "densify": lambda k, dst, ids, rows: k.densify(ids, rows, dst.shape[0]),
    "scatter_add": lambda k, dst, ids, rows: k.scatter_add(dst, ids, rows),
    "put": lambda k, dst, ids, rows: k.put(dst, ids, rows),
    "densify, unique": lambda k, dst, ids, rows: k.densify(ids, rows, dst.shape[0], unique=True),
    "unique_inverse": lambda k, dst, ids, rows: k.unique_inverse(ids, dst.shape[0]),
    "coalesce": lambda k, dst, ids, rows: k.coalesce(ids, rows, dst.shape[0]),
    "max": lambda k, dst, ids, rows: k.scatter_reduce("max", dst, ids, rows),
    "mean": lambda k, dst, ids, rows: k.scatter_reduce("mean", dst, ids, rows, False),
}


@pytest.mark.parametrize("bad", [-1, -8, 9, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("call", sorted(CALLS))
def test_bad_id_raises_and_nothing_is_written(xp, kernels, call, bad):
    rng = np.random.default_rng(5)
    # Some backends go another way for few entries than for many.
    for n in (4,) if xp.backend_name.startswith("jax") else (4, 3000):
        ids = np.arange(n, dtype=np.int32) % 8
        ids[3] = bad
        before = rng.normal(size=(8, 2)).astype(np.float32)
        rows = rng.normal(size=(n, 2)).astype(np.float32)
        dst = ref.give(xp, before.copy())
        if not kernels.synchronous(dst):
            check_fault_on_a_device(xp, kernels, call, before, ids, rows)
            continue
        with pytest.raises(IndexError, match=f"id {bad} at position 3 is out of bounds for an axis of size 8"):
            CALLS[call](kernels, dst, ref.give(xp, ids), ref.give(xp, rows))
        np.testing.assert_array_equal(ref.take(dst), before)


def check_fault_on_a_device(xp, kernels, call, before, ids, rows):
    """The entry is padding, the others are not, and the next `check_errors` raises: once."""
    if call in ("unique_inverse", "coalesce"):  # they wait for the device anyway
        with pytest.raises(IndexError, match="out of range"):
            CALLS[call](kernels, ref.give(xp, before), ref.give(xp, ids), ref.give(xp, rows))
        return
    size = len(before)
    bad = (ids < 0) | (ids > size)
    # A put of repeated ids has no defined result.
    kept = np.sort(np.unique(ids, return_index=True)[1]) if call in ("put", "densify, unique") else np.arange(len(ids))
    ids, bad, rows = ids[kept], bad[kept], rows[kept]
    given = (ref.give(xp, before.copy()), ref.give(xp, ids), ref.give(xp, rows))
    padded = np.where(bad, size, ids).astype(ids.dtype)
    wanted = CALLS[call](kernels, ref.give(xp, before.copy()), ref.give(xp, padded), ref.give(xp, rows))
    kernels.check_errors()
    np.testing.assert_array_equal(ref.take(CALLS[call](kernels, *given)), ref.take(wanted))
    with pytest.raises(IndexError, match="out of range"):
        kernels.check_errors()
    kernels.check_errors()


def test_ids_overwritten_between_calls(xp, kernels):
    mutable_only(kernels)
    held = np.array([1, 2, 0])
    ids, rows = ref.give(xp, held), ref.give(xp, np.array([1.0, 2.0, 3.0]))
    distinct, inverse = kernels.unique_inverse(ids, 3)
    for mine in (ids, distinct, inverse):
        mine[1] = 10**12
        for name in ("gather", "densify", "scatter_add", "put", "coalesce", "max"):
            with pytest.raises(IndexError, match="id 1000000000000 at position 1|out of range"):
                CALLS[name](kernels, ref.give(xp, np.zeros(3)), mine, rows)
                kernels.check_errors()


@pytest.mark.parametrize("name", ref.INTEGERS)
def test_every_integer_dtype_of_ids(xp, kernels, name):
    if xp.backend_name == "jax32" and "64" in name:
        pytest.skip("JAX without x64 has no such arrays")
    ids = ref.give(xp, np.array([3, 100, 3], dtype=name))
    rows = ref.give(xp, np.array([1.0, 2.0, 4.0], np.float32))
    dense = ref.take(kernels.densify(ids, rows, 200))
    assert (dense[3], dense[100], dense.sum()) == (5, 2, 7)
    distinct, inverse = kernels.unique_inverse(ids, 200, 3)
    assert ref.take(distinct).tolist() == [3, 100, 200]
    assert ref.take(inverse).tolist() == [0, 1, 0]
    assert ref.take(kernels.gather(ref.give(xp, np.arange(200, dtype=np.float32)), ids)).tolist() == [3, 100, 3]


def test_axis_beyond_the_address_space(xp, kernels):
    if xp.backend_name == "jax32":
        pytest.skip("int32 cannot count so far")
    ids = ref.give(xp, np.array([HUGE - 1, 5, HUGE - 1, HUGE, 2**33]))
    rows = ref.give(xp, np.arange(10.0).reshape(5, 2))
    distinct, inverse = kernels.unique_inverse(ids, HUGE)
    assert ref.take(distinct).tolist() == [5, 2**33, HUGE - 1]
    assert ref.take(inverse).tolist() == [2, 0, 2, 3, 1]
    distinct, sums = kernels.coalesce(ids, rows, HUGE, 4)
    assert ref.take(distinct).tolist() == [5, 2**33, HUGE - 1, HUGE]
    assert ref.take(sums).tolist() == [[2, 3], [8, 9], [4, 6], [0, 0]]
    with pytest.raises(IndexError, match="size 1125899906842624|out of range"):
        kernels.coalesce(ids + 1, rows, HUGE)


# Numbers


@pytest.mark.parametrize(("name", "count"), [("float16", 3000), ("bfloat16", 1000)])
def test_half_types_are_summed_in_single(xp, kernels, name, count):
    if name not in ref.DTYPES[xp.backend_name]:
        pytest.skip("the library has no such dtype")
    # Some of either sign, so that the sum is no lucky number of equal terms.
    rows = np.where(np.arange(count) % 3 == 0, 3.0, 0.0).astype(np.float32)[:, None]
    ids = np.zeros(count, np.int64 if xp.backend_name != "jax32" else np.int32)
    rows, ids = ref.give(xp, rows if name == "bfloat16" else rows.astype(name), name), ref.give(xp, ids)
    want = {"float16": 3000.0, "bfloat16": 1000.0}[name]
    zero = ref.give(xp, np.zeros((2, 1), np.float32 if name == "bfloat16" else name), name)
    assert ref.take(kernels.densify(ids, rows, 2)).tolist() == [[want], [0]]
    assert ref.take(kernels.coalesce(ids, rows, 2)[1]).tolist() == [[want]]
    assert ref.take(kernels.scatter_add(zero, ids, rows))[0, 0] == want


def test_equal_bits_every_time(xp, kernels):
    rng = np.random.default_rng(3)
    n = 200 if xp.backend_name.startswith("jax") else 3000
    ids = ref.give(xp, rng.integers(0, 7, n).astype(np.int32))
    rows = ref.give(xp, (rng.normal(size=(n, 5)) * 10.0 ** rng.integers(-6, 6, (n, 1))).astype(np.float32))
    first, again = (ref.take(kernels.densify(ids, rows, 7)) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    first, again = (ref.take(kernels.coalesce(ids, rows, 7)[1]) for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_small_groups_beside_large_and_infinite_ones(xp, kernels):
    # A difference of cumulative sums would lose 1e-6 beside 1e8, and give nan to all after an inf.
    rows = np.array([1e8, 1e8, 1e-6, 2e-6, np.inf, 1.0, 2.0], np.float32)
    ids = np.array([0, 0, 1, 1, 2, 3, 3], np.int32)
    got = ref.take(kernels.densify(ref.give(xp, ids), ref.give(xp, rows), 4))
    np.testing.assert_allclose(got, [2e8, 3e-6, np.inf, 3.0], rtol=1e-6)


# Memory


def test_rows_that_overlap_dst(xp, kernels):
    mutable_only(kernels)
    for n in (4, 2000):
        before = np.random.default_rng(2).integers(0, 9, (n + 1, 3)).astype(np.float64)
        ids = np.arange(1, n + 1)
        calls = {
            "scatter_add": lambda d, i, r: kernels.scatter_add(d, i, r),
            "put": lambda d, i, r: kernels.put(d, i, r),
            "max": lambda d, i, r: kernels.scatter_reduce("max", d, i, r),
        }
        for name, call in calls.items():
            dst = ref.give(xp, before.copy())
            call(dst, ref.give(xp, ids), dst[:-1])
            want = {
                "scatter_add": ref.loop_add(before, ids, before[:-1]),
                "put": np.concatenate([before[:1], before[:-1]]),
                "max": ref.loop_reduce("max", before, ids, before[:-1], True),
            }[name]
            np.testing.assert_array_equal(ref.take(dst), want)


def test_ids_that_overlap_dst(xp, kernels):
    mutable_only(kernels)
    shared = ref.give(xp, np.array([1, 2, 0, 1]))
    kernels.scatter_add(shared, shared, ref.give(xp, np.array([10, 20, 30, 40])))
    assert ref.take(shared).tolist() == [31, 52, 20, 1]


def test_a_strided_dst(xp, kernels):
    mutable_only(kernels)
    whole = ref.give(xp, np.zeros((6, 4)))
    dst = whole[::2, 1:3]
    ids, rows = ref.give(xp, np.array([2, 0, 2])), ref.give(xp, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    kernels.scatter_add(dst, ids, rows)
    kernels.put(dst, ref.give(xp, np.array([1])), ref.give(xp, np.array([[8.0, 9.0]])))
    want = np.zeros((6, 4))
    want[0, 1:3], want[2, 1:3], want[4, 1:3] = [3, 4], [8, 9], [6, 8]
    np.testing.assert_array_equal(ref.take(whole), want)


def test_results_are_new_arrays(xp, kernels):
    mutable_only(kernels)
    src, ids = ref.give(xp, np.arange(3.0)), ref.give(xp, np.arange(3))
    for got in (kernels.gather(src, ids), kernels.densify(ids, src, 3), kernels.coalesce(ids, src, 3)[1]):
        got[0] = 9
        assert ref.take(src).tolist() == [0, 1, 2]
