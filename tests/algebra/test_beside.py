"""Tangents beside arrays whose elements leave a zero zero, and beside tangents without an implicit zero: compact, and right."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, Tangent
from sparsetangent.testing import oracle

# As NumPy's own functions warn where they divide by zero.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered:RuntimeWarning")

SHAPE = (6, 3)
ROWS = 2**50
# A function, whether the tangent stands on the left, an array beside it that leaves zeros, and one element of it that does not.
CASES = [
    ("floor_divide", True, [0.5, -2.0, 3.0], 0.0),
    ("floor_divide", True, [0.5, -2.0, 3.0], np.nan),
    ("remainder", True, [0.5, -2.0, 3.0], 0.0),
    ("remainder", True, [0.5, -2.0, 3.0], np.nan),
    ("pow", True, [0.5, 1.0, 3.0], 0.0),
    ("pow", True, [0.5, 1.0, 3.0], -1.0),
    ("equal", True, [1.5, np.nan, -2.0], 0.0),
    ("equal", False, [1.5, np.nan, -2.0], 0.0),
    ("less_equal", True, [-1.5, np.nan, -2.0], 0.0),
    ("less_equal", False, [1.5, np.nan, 2.0], 0.0),
    ("greater_equal", True, [1.5, np.nan, 2.0], -1.0),
    ("greater_equal", False, [-1.5, np.nan, -2.0], 0.0),
]
# Of these an array is looked through only if it is smaller than the result.
SMALLER = [
    ("maximum", True, [-1.5, 0.0, -2.0], 1.0),
    ("minimum", False, [1.5, 0.0, 2.0], -1.0),
    ("greater", True, [1.5, 0.0, 2.0], -1.0),
    ("less", True, [-1.5, 0.0, -2.0], 1.0),
    ("not_equal", False, [0.0, 0.0, 0.0], 1.0),
    ("hypot", True, [0.0, 0.0, 0.0], 1.0),
]


def example(xp):
    """Repeats, a negative id, a sum that is zero, and positive elements where powers need them."""
    rows = [[1.5, 2.0, 4.0], [0.25, 1.0, 3.0], [0.5, -2.0, 1.0]]
    return IndexedSlices(xp.asarray([1, -2, 1]), xp.asarray(rows), SHAPE)


def applied(xp, name, t, y, on_left):
    return getattr(st.namespace(xp.module), name)(*((t, y) if on_left else (y, t)))


def expected(name, dense, y, on_left):
    name = {"pow": "power", "equal": "equal"}.get(name, name)
    with np.errstate(all="ignore"):
        return getattr(np, name)(*((dense, y) if on_left else (y, dense)))


def check(xp, name, t, y, on_left, compact):
    dense = oracle.loop_densify(t)
    plain = np.asarray(oracle.loop_densify(y) if isinstance(y, Tangent) else oracle.to_numpy(y))
    result = applied(xp, name, t, y, on_left)
    assert isinstance(result, IndexedSlices) == compact
    with st.densify_policy("allow"):
        got = oracle.to_numpy(st.densify(result))
    assert oracle.close(got, expected(name, dense, plain, on_left), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name, on_left, values, other", CASES)
def test_arrays_of_the_full_shape(xp, name, on_left, values, other):
    rng = np.random.default_rng(1)
    y = rng.choice(values, SHAPE)
    t = example(xp)
    with st.densify_policy("raise"):
        check(xp, name, t, xp.asarray(y), on_left, compact=True)
    y[4, 1] = other  # where nothing is stored
    with st.densify_policy("raise"):
        check(xp, name, t, xp.asarray(y), on_left, compact=False)


@pytest.mark.parametrize("name, on_left, values, other", CASES + SMALLER)
def test_smaller_arrays_and_numbers_everywhere(xp, name, on_left, values, other):
    t = example(xp)
    value = next(v for v in values if v == v)
    with st.densify_policy("raise"):
        for y in (xp.asarray(values), xp.asarray([[value]]), xp.asarray(value), Fill(xp.asarray(value), SHAPE)):
            check(xp, name, t, y, on_left, compact=True)
        for y in (xp.asarray([values[0], values[2], other]), xp.asarray(other), Fill(xp.asarray(other), SHAPE)):
            with pytest.raises(st.DensifyError):
                applied(xp, name, t, y, on_left)
    with st.densify_policy("allow"):
        check(xp, name, t, xp.asarray([values[0], values[2], other]), on_left, compact=False)


def test_a_number_everywhere_beside_more_rows_than_can_be_addressed(xp64):
    t = IndexedSlices(xp64.asarray([3, ROWS - 1, 3]), xp64.asarray([[1.5, 2.0], [-1.0, 4.0], [2.0, 1.0]]), (ROWS, 2))
    with st.densify_policy("raise"):
        for y in (Fill(xp64.asarray(2.5), (ROWS, 2)), xp64.asarray(2.5), xp64.asarray([2.5, 2.5])):
            result = applied(xp64, "remainder", t, y, True)
            assert isinstance(result, IndexedSlices)
            assert np.allclose(oracle.to_numpy(result[3]), [1.0, 0.5]) and np.allclose(oracle.to_numpy(result[-1]), [1.5, 1.5])
            assert not oracle.to_numpy(result[7]).any()


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "equal", "less_equal", "greater_equal"])
def test_one_of_two_compacts_has_no_implicit_zero(xp, name):
    rng = np.random.default_rng(2)
    t, rows = example(xp), rng.choice([0.5, 2.0, 3.0], SHAPE)
    order = rng.permutation(6)
    full = IndexedSlices(xp.asarray([*order, 2]), xp.asarray(np.concatenate([rows[order], rows[2:3]])), SHAPE)
    with st.densify_policy("raise"):
        for on_left in (True, False):
            check(xp, name, t, full, on_left, compact=True)
        partly = full[xp.asarray([0, 1, 2, 3, 4, 4]), ...].retain([0, 1, 2, 3, 4])
        if name != "pow":
            with pytest.raises(st.DensifyError):
                applied(xp, name, t, partly, True)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "equal", "less_equal", "greater_equal"])
def test_a_number_beside_a_compact_without_implicit_zeros(xp, name):
    rows = np.random.default_rng(5).choice([0.5, 2.0, 3.0], SHAPE)
    order = [3, 0, 5, 1, 4, 2]
    full = IndexedSlices(xp.asarray([*order, 3]), xp.asarray(np.concatenate([rows[order], rows[3:4]])), SHAPE)
    with st.densify_policy("raise"):
        for y in (2.0, 0.5):
            for on_left in (True, False):
                check(xp, name, full, xp.asarray(y), on_left, compact=True)
                check(xp, name, full, xp.asarray([y, 3.0, 0.25]), on_left, compact=True)


def test_equal_of_bools_and_complex_numbers(xp):
    t = IndexedSlices(xp.asarray([1, 3, 1]), xp.astype(xp.asarray([1.0, 2.0, 0.5]), xp.complex64), (5,))
    yes = IndexedSlices(xp.asarray([1, 3, 1]), xp.asarray([True, True, False]), (5,))
    with st.densify_policy("raise"):
        for u, y, compact in ((t, [1.5, 2j, 1, 1, 3], True), (t, [1.5, 2j, 0, 1, 3], False), (yes, [True] * 5, True)):
            y = np.array(y, np.complex64 if u is t else bool)
            check(xp, "equal", u, xp.asarray(y), True, compact)
        check(xp, "equal", t, xp.asarray(np.complex64(1.5)), True, compact=True)
        with pytest.raises(st.DensifyError):
            applied(xp, "equal", yes, xp.asarray(False), True)


def test_whole_arrays_of_the_result_s_shape_cover_it(xp):
    whole = IndexedSlices((), xp.asarray([[1.0, -2.0, 0.0]]), (3,), axis=())
    small = IndexedSlices((), xp.asarray([[1.0]]), (1,), axis=())
    with st.densify_policy("raise"):
        result = st.namespace(xp.module).greater_equal(whole, small)
    assert oracle.to_numpy(st.densify(result)).tolist() == [True, False, False]


def test_integers(xp):
    t = IndexedSlices(xp.asarray([1, 3, 1]), xp.asarray([7, -5, 4]), (5,))
    dense = oracle.loop_densify(t)
    with st.densify_policy("raise"):
        for name, y in (("floor_divide", [3, -2, 3, 2, 1]), ("remainder", [3, -2, 3, 2, 1]), ("pow", [3, 2, 3, 2, 1])):
            result = applied(xp, name, t, xp.asarray(y), True)
            assert isinstance(result, IndexedSlices) and result.dtype == t.dtype
            assert np.array_equal(oracle.loop_densify(result), expected(name, dense, np.array(y), True))


def test_bounds_that_are_arrays(xp):
    t = example(xp)
    dense, nx = oracle.loop_densify(t), st.namespace(xp.module)
    low, high = np.array([-1.0, 0.0, -0.5]), np.array([[1.0], [0.5], [2.0], [0.0], [3.0], [1.0]])
    whole = np.broadcast_to(high, SHAPE).copy()
    with st.densify_policy("raise"):
        for least, most in ((low, None), (None, high), (low, high), (low, whole), (low[0], high[0, 0])):
            bounds = {"min": None if least is None else xp.asarray(least), "max": None if most is None else xp.asarray(most)}
            result = nx.clip(t, **bounds)
            assert isinstance(result, IndexedSlices)
            assert oracle.close(oracle.loop_densify(result), np.clip(dense, least, most), rtol=1e-6, atol=1e-6)
        filled = nx.clip(t, Fill(xp.asarray(-0.5), SHAPE), 1.0)
        assert isinstance(filled, IndexedSlices)
        assert oracle.close(oracle.loop_densify(filled), np.clip(dense, -0.5, 1.0), rtol=1e-6, atol=1e-6)
        with pytest.raises(st.DensifyError):
            nx.clip(t, xp.asarray(0.5), None)
    with st.densify_policy("allow"):
        moved = nx.clip(t, xp.asarray(low + 0.75), None)
        assert oracle.close(oracle.to_numpy(st.densify(moved)), np.clip(dense, low + 0.75, None), rtol=1e-6, atol=1e-6)


def test_one_number_and_whole_arrays_are_no_densification(xp):
    """Nothing grows: the dense answer takes no more than what is held."""
    slab = IndexedSlices((), xp.asarray([[1.0, 2.0], [0.5, 0.0]]), (2,), axis=())
    one = IndexedSlices(xp.asarray([0]), xp.asarray([2.0]), (1,))
    with st.densify_policy("raise"):
        nx = st.namespace(xp.module)
        assert np.allclose(oracle.to_numpy(nx.exp(slab)), np.exp([1.5, 2.0]))
        assert np.allclose(oracle.to_numpy(nx.exp(one)), np.exp([2.0]))
        wide = nx.broadcast_to(IndexedSlices((), xp.asarray([[1.0]]), (1,), axis=()), (5,))
        with pytest.raises(st.DensifyError):
            nx.exp(wide)
