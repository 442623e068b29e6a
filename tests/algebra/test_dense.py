"""`densify(out=)`, `add_into`, `from_dense`, `add_n`: what is written, and that nothing is when something is wrong."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import Fill, IndexedSlices, OneHot, Zero
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all


def writable(xp):
    return xp.backend_name in ("numpy", "torch", "cupy")


@pytest.fixture
def t(xp):
    return IndexedSlices(xp.asarray([1, -1, 1]), xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=xp.float32), (4, 2))


def test_densify_into(xp, t):
    out = xp.full((4, 2), 9.0, dtype=xp.float32)
    if not writable(xp):
        with pytest.raises(TypeError, match="immutable|read-only"):
            t.densify(out=out)
        return
    assert t.densify(out=out) is out
    assert oracle.to_numpy(out).tolist() == [[0, 0], [6, 8], [0, 0], [3, 4]]
    for bad in (xp.zeros((4, 3), dtype=xp.float32), xp.zeros((4, 2), dtype=xp.float64)):
        with pytest.raises((ValueError, TypeError), match=r"out must have shape \(4, 2\)"):
            t.densify(out=bad)


def test_add_into_every_layout(xp):
    def body(t):
        start = np.asarray(np.random.default_rng(0).integers(-3, 3, t.shape))
        if isinstance(t, OneHot) and t.weak:
            return
        target = oracle.as_backend(xp, start, t.dtype)
        expected = oracle.to_numpy(target).copy()
        dense = oracle.loop_densify(t)
        expected = expected | dense if dense.dtype == bool else (expected + dense).astype(dense.dtype)
        result = sp.add_into(target, t)
        assert result is target or not writable(xp)
        assert oracle.close(oracle.to_numpy(result), expected, rtol=4e-2, atol=1e-1 if "16" in str(t.dtype) else 1e-3)

    for_all(xp, body, strategies.tangents(xp), examples=120)


@pytest.mark.parametrize("alpha", [-1, 2, 0.5])
def test_alpha(xp, t, alpha):
    table = xp.full((4, 2), 10.0, dtype=xp.float32)
    result = sp.add_into(table, t, alpha)
    assert oracle.to_numpy(result).tolist() == (10 + alpha * oracle.loop_densify(t)).tolist()


@pytest.mark.parametrize(
    ("dtype", "given", "axis"),
    [("float32", "float32", 0), ("complex64", "float32", 0), ("float32", "int32", (0, 1)), ("int32", "int16", ())],
)
def test_alpha_without_axes(xp, dtype, given, axis):
    rng = np.random.default_rng(11)
    shape, axes = (4, 3), axis if isinstance(axis, tuple) else (axis,)
    ids = tuple(xp.asarray(rng.integers(0, shape[a], 5).tolist()) for a in axes)
    values = rng.integers(-9, 9, (5, *(n for a, n in enumerate(shape) if a not in axes)))
    t = IndexedSlices(ids, oracle.as_backend(xp, values, getattr(xp, dtype)), shape, axis=axes)
    before, alpha = rng.integers(-9, 9, shape), oracle.as_backend(xp, np.asarray(-3), getattr(xp, given))
    result = sp.add_into(oracle.as_backend(xp, before, t.dtype), t, alpha)
    assert result.dtype == t.dtype
    assert oracle.to_numpy(result).tolist() == (before - 3 * oracle.loop_densify(t)).tolist()


def test_wrong_alpha_without_axes(xp, t):
    table = xp.full((4, 2), 10.0, dtype=xp.float32)
    for wrong, message in ((xp.asarray([2.0]), "shape"), (xp.asarray(True), "alpha"), (xp.asarray(1j), "alpha")):
        with pytest.raises(TypeError, match=message):
            sp.add_into(table, t, wrong)
    assert oracle.to_numpy(table).tolist() == np.full((4, 2), 10.0).tolist()


def test_in_place_operators(xp, t):
    table = xp.full((4, 2), 10.0, dtype=xp.float32)
    same = table
    if xp.backend_name == "array_api_strict":
        with pytest.raises(TypeError):
            table += t
        return
    table += t
    assert oracle.to_numpy(table).tolist() == (10 + oracle.loop_densify(t)).tolist()
    table -= t
    assert oracle.to_numpy(table).tolist() == np.full((4, 2), 10.0).tolist()
    assert (table is same) == writable(xp)


def test_only_the_stored_rows_of_a_table_on_disk_are_written(tmp_path):
    table = np.memmap(tmp_path / "table", np.float32, "w+", shape=(2**24, 4))
    t = IndexedSlices(np.array([5, 2**24 - 1, 5]), np.arange(12, dtype=np.float32).reshape(3, 4), table.shape)
    sp.add_into(table, t)
    table.flush()
    assert (tmp_path / "table").stat().st_blocks * 512 < 2**20
    assert table[5].tolist() == [8, 10, 12, 14] and table[2**24 - 1].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_targets_of_any_layout(axis, order):
    rng = np.random.default_rng(4)
    shape = (3, 4, 5)
    axes = axis if isinstance(axis, tuple) else (axis,)
    ids = tuple(rng.integers(0, shape[a], 6) for a in axes)
    inner = tuple(n for a, n in enumerate(shape) if a not in axes)
    t = IndexedSlices(ids, rng.standard_normal((6, *inner)), shape, axis=axes)
    whole = rng.standard_normal((6, 8, 10)) if order == "strided" else rng.standard_normal(shape)
    target = whole[::2, ::2, ::2] if order == "strided" else np.asarray(whole, order=order)
    expected = target + oracle.loop_densify(t)
    untouched = whole.copy()
    assert sp.add_into(target, t) is target
    assert np.allclose(target, expected)
    if order == "strided":
        assert (whole[1::2] == untouched[1::2]).all()


def test_wrong_targets_are_left_as_they_are(xp, t):
    cases = {
        "shape": (xp.zeros((4, 3), dtype=xp.float32), ValueError, r"\(4, 2\).*\(4, 3\)"),
        "fewer axes": (xp.zeros((2,), dtype=xp.float32), ValueError, r"\(4, 2\).*\(2,\)"),
        "integers": (xp.zeros((4, 2), dtype=xp.int32), TypeError, "float32.*int32"),
        "bools": (xp.zeros((4, 2), dtype=xp.bool), TypeError, "float32.*bool"),
    }
    for target, error, message in cases.values():
        before = oracle.to_numpy(target).copy()
        with pytest.raises(error, match=message):
            sp.add_into(target, t)
        assert (oracle.to_numpy(target) == before).all()
    with pytest.raises(TypeError, match="alpha"):
        sp.add_into(xp.zeros((4, 2), dtype=xp.float32), t, "2")
    with pytest.raises(TypeError, match=r"alpha=1j"):
        sp.add_into(xp.zeros((4, 2), dtype=xp.float32), t, 1j)
    with pytest.raises(TypeError, match="dense must be an array"):
        sp.add_into([0.0], t)


def test_read_only_and_overlapping_targets():
    t = IndexedSlices(np.array([0]), np.array([[0.0, 1.0, 0.0]]), (2, 3))
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(3), (2, 3), (0, 8))
    for target, message in ((frozen, "read-only"), (overlapping, "overlaps itself")):
        before = target.copy()
        with pytest.raises(ValueError, match=message):
            sp.add_into(target, t)
        with pytest.raises(ValueError, match=message):
            target += t
        with pytest.raises(ValueError, match=message):
            t.densify(out=target)
        assert (target == before).all()


def test_a_smaller_tangent_broadcasts_into_the_target(xp):
    row = IndexedSlices(xp.asarray([1]), xp.asarray([2.0]), (3,))
    result = sp.add_into(xp.zeros((2, 3)), row)
    assert oracle.to_numpy(result).tolist() == [[0, 2, 0], [0, 2, 0]]


def test_from_dense_keeps_what_is_not_zero(xp):
    x = xp.asarray([[0.0, 0.0], [0.0, 5.0], [float("nan"), 0.0], [0.0, 0.0]])
    t = sp.from_dense(x)
    assert oracle.to_numpy(t.indices).tolist() == [1, 2] and t.unique
    assert oracle.close(oracle.to_numpy(t.densify()), oracle.to_numpy(x), rtol=0, atol=0)
    negative = xp.asarray([0.0, -0.0])
    assert oracle.to_numpy(sp.from_dense(negative).indices).tolist() == [1]
    with pytest.raises(ValueError, match="axis"):
        sp.from_dense(x, axis=2)


def test_from_dense_round_trip(xp):
    def body(data):
        t, axis = data
        dense = oracle.as_backend(xp, oracle.loop_densify(t), t.dtype)
        back = sp.from_dense(dense, axis=axis)
        oracle.assert_same(back, dense)

    pairs = strategies.tangents(xp, strategies.shapes(1, 3)).flatmap(
        lambda t: st.lists(st.integers(0, t.ndim - 1), unique=True).map(lambda axes: (t, tuple(axes)))
    )
    for_all(xp, body, pairs, examples=80)


def test_a_stored_negative_zero_stays_one(xp):
    """Where no place repeats nothing is added to it, in any order of the entries; an implicit zero is +0."""
    rng = np.random.default_rng(4)
    dense = rng.choice([-0.0, 0.0, 1.5, -2.0], (6, 5))
    nx, x = sp.namespace(xp.module), xp.asarray(dense)
    for axis in (0, 1, (0, 1), ()):
        t = sp.from_dense(x, axis=axis)
        order = xp.asarray(rng.permutation(t.stored))
        coords = tuple(xp.take(i, order, axis=0) for i in t.coords)
        values = xp.take(t.values, order, axis=0)
        shuffled = IndexedSlices(coords[0] if isinstance(axis, int) else coords, values, t.shape, axis=axis, unique=True)
        for u in (t, shuffled):
            for result, expected in (
                (u.densify(), dense),
                (u.coalesce(), dense),
                (nx.permute_dims(u, (1, 0)), dense.T),
                (nx.maximum(u, u), dense),
                (u[1:4], dense[1:4]),
                (nx.linalg.outer(u[2, :] if axis != () else u[2], xp.asarray([2.0, 0.0])), np.outer(dense[2], [2.0, 0.0])),
            ):
                assert np.array_equal(np.signbit(oracle.to_numpy(sp.densify(result))), np.signbit(expected))
            assert np.array_equal(oracle.to_numpy(sp.densify(nx.signbit(u))), np.signbit(dense))


def test_add_n(xp):
    def body(items):
        dense = sum(oracle.loop_densify(x) if isinstance(x, sp.Tangent) else oracle.to_numpy(x) for x in items)
        result = sp.add_n([None, *items, None])
        assert isinstance(result, sp.Tangent) == all(isinstance(x, sp.Tangent) for x in items)
        actual = oracle.loop_densify(result) if isinstance(result, sp.Tangent) else oracle.to_numpy(result)
        assert oracle.close(actual, dense, rtol=1e-4, atol=1e-3)

    floats = strategies.dtypes_of(xp, ("float32",))
    shape = strategies.shapes(1, 2)
    lists = shape.flatmap(
        lambda s: st.lists(
            st.one_of(
                strategies.indexed_slices(xp, st.just(s), floats),
                strategies.fills(xp, st.just(s), floats),
                strategies.zeros(xp, st.just(s), floats),
                strategies.arrays(xp, s, floats[0]),
            ),
            min_size=1,
            max_size=5,
        )
    )
    for_all(xp, body, lists, examples=60)


def test_add_n_edges(xp, t):
    assert sp.add_n([]) is None and sp.add_n([None]) is None and sp.add_n([t]) is t
    with pytest.raises(ValueError, match="one shape"):
        sp.add_n([t, IndexedSlices([], xp.zeros((0, 3), dtype=xp.float32), (4, 3))])
    assert isinstance(sp.add_n([Zero((2,), xp=xp.module), Zero((2,), xp=xp.module)]), Zero)
    array = xp.zeros((4, 2), dtype=xp.float32)
    sp.add_n([array, t])
    assert (oracle.to_numpy(array) == 0).all()


def test_half_types_are_summed_in_float32(xp):
    for name in ("float16", "bfloat16"):
        if not hasattr(xp, name) or xp.backend_name == "array_api_strict":
            continue
        count = 3000 if name == "float16" else 1000
        rows = xp.full((count,), 1.0, dtype=getattr(xp, name))
        t = IndexedSlices(xp.asarray([0] * count), rows, (1,))
        assert float(t.densify()[0]) == count == float(t.coalesce().values[0])
        assert float(sp.add_n([t, t]).densify()[0]) == 2 * count
        assert float(sp.namespace(t).sum(t)) == count
        assert float(sp.add_into(xp.zeros((1,), dtype=getattr(xp, name)), t)[0]) == count


def test_fill_densifies_to_a_writable_array():
    dense = Fill(np.asarray(2.0), (2, 3)).densify()
    dense[0, 0] = 5.0
    assert dense.tolist() == [[5, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize(("dtype", "size"), [("int8", 200), ("int16", 40000), ("uint8", 300)])
def test_sums_of_a_broadcast_axis_wrap(xp, dtype, size):
    one = sp.IndexedSlices(xp.asarray([1, 1]), oracle.as_backend(xp, np.asarray([[3], [2]]), getattr(xp, dtype)), (3, 1))
    stretched = sp.namespace(one).broadcast_to(one, (3, size))
    got = sp.namespace(one).sum(stretched, axis=1, dtype=one.dtype)
    want = np.asarray([0, 5 * size, 0]).astype(dtype)
    assert oracle.to_numpy(sp.densify(got)).tolist() == want.tolist()


@pytest.mark.parametrize("factor", [float("inf"), float("-inf")])
def test_an_infinite_factor_meets_the_sum(xp, factor):
    t = sp.IndexedSlices(xp.asarray([1, 1, 2]), xp.asarray([3.0, -2.0, -1.0]), (4,))
    assert oracle.to_numpy((t * factor).densify()).tolist() == [0, factor, -factor, 0]
    assert oracle.to_numpy((factor * t).densify()).tolist() == [0, factor, -factor, 0]


def test_a_cast_is_that_of_the_sum(xp):
    t = sp.IndexedSlices(xp.asarray([1, 1]), oracle.as_backend(xp, np.asarray([200, 100]), xp.uint8), (3,))
    assert oracle.to_numpy(t.astype(xp.int32).densify()).tolist() == [0, 44, 0]


@pytest.mark.parametrize("key", [slice(4, 0, -1), slice(3, None, -2), slice(-2, 1, -1)])
def test_backward_slices_of_a_stored_axis(xp, key):
    t = sp.IndexedSlices(xp.asarray([0, 4, 3, 4, 1]), xp.asarray([1.0, 2.0, 3.0, 4.0, 5.0]), (6,))
    assert oracle.to_numpy(sp.densify(t[key])).tolist() == np.asarray([1.0, 5, 0, 3, 6, 0])[key].tolist()
