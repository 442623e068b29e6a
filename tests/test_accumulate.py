"""`Accumulator`: the sum of dense arrays, whatever arrives; its cost, its storage, and that it touches nothing it was given."""

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Accumulator, Fill, IndexedSlices, OneHot, Zero
from sparsetangent.backend import backend_of
from sparsetangent.testing import laws, oracle, strategies
from tests.helpers import for_all

ROWS = 2**50


def random_slices(xp, rng, n, shape, dtype=None):
    ids = rng.integers(0, shape[0], n)
    values = oracle.as_backend(xp, rng.standard_normal((n, *shape[1:])), dtype or xp.float32)
    return IndexedSlices(xp.asarray(ids), values, shape)


@hs.composite
def additions(draw, xp):
    """Gradients of one shape: tangents of every type, arrays and None, in one dtype or several."""
    shape = draw(strategies.shapes())
    names = ["float32", "float64", "float16", "bfloat16", "complex64", "int32", "uint8"]
    dtypes = strategies.dtypes_of(xp, names)
    if draw(hs.booleans()):
        dtypes = [draw(hs.sampled_from(dtypes))]
    fixed = hs.just(shape)
    items = []
    for _ in range(draw(hs.integers(1, 5 if xp.backend_name.startswith("jax") else 7))):
        kind = draw(hs.sampled_from(["slices", "slices", "slices", "any", "array", None]))
        if kind == "array":
            items.append(draw(strategies.arrays(xp, shape, draw(hs.sampled_from(dtypes)))))
        elif kind == "any" and shape:
            items.append(draw(strategies.tangents(xp, fixed, dtypes)))
        else:
            items.append(kind and draw(strategies.indexed_slices(xp, fixed, dtypes)))
    return shape, items, draw(hs.booleans()), draw(hs.booleans())


def test_sums(xp):
    def body(case):
        shape, items, copy, look = case
        total, expected, magnitude = Accumulator(shape if copy else None), None, 1.0
        for item in items:
            before = laws._bytes_of(item)
            try:
                if item is not None:
                    dense = laws.dense_oracle(item) if isinstance(item, st.Tangent) else item
                    expected = dense if expected is None else expected + dense
                    magnitude += laws._magnitude([dense])
            except TypeError:  # no promotion between these two
                with pytest.raises(TypeError):
                    total.add(item)
                return
            total.add(item, copy=copy)
            if look:
                total.value()
            assert laws._bytes_of(item) == before
        value = total.value()
        if expected is None:
            assert value is None if not copy else isinstance(value, Zero)
            return
        eps = max(
            oracle.relative_tolerance(x if not isinstance(x, st.Tangent) else x.densify()) for x in items if x is not None
        )
        oracle.assert_same(value, expected, rtol=2 * eps, atol=2 * eps * magnitude)
        if isinstance(value, IndexedSlices) and value.axis:
            places = list(zip(*(oracle.to_numpy(c).tolist() for c in value.coords), strict=True))
            assert len(places) == len(set(places)) or len({i.axis for i in items if isinstance(i, IndexedSlices)}) > 1

    for_all(xp, body, additions(xp), examples=80)


def test_later_additions_change_no_value_given_out(xp):
    rng = np.random.default_rng(3)
    for make in (
        lambda: random_slices(xp, rng, 5, (50, 2)),
        lambda: oracle.as_backend(xp, rng.standard_normal((50, 2)), xp.float32),
    ):
        total = Accumulator()
        seen = []
        for _ in range(4):
            total.add(make())
            seen.append((total.value(), oracle.to_numpy(st.densify(total.value())).copy()))
        for value, then in seen:
            assert np.array_equal(oracle.to_numpy(st.densify(value)), then)


def test_the_buffers_are_its_own():
    """What the caller overwrites later takes no part where a copy was asked for; nothing of the caller's is ever written."""
    rng = np.random.default_rng(0)
    ids, rows, dense = np.array([3, 3, 1]), rng.standard_normal((3, 2)), rng.standard_normal((6, 2))
    expected = 4 * dense
    np.add.at(expected, ids, 4 * rows)
    total = Accumulator()
    for _ in range(4):
        given = IndexedSlices(ids.copy(), rows.copy(), (6, 2)), dense.copy()
        for t in given:
            total.add(t, copy=True)
        given[0].indices[...], given[0].values[...], given[1][...] = 0, np.nan, np.nan
    assert np.allclose(total.value(), expected)
    total.value()[...] = np.nan
    assert np.allclose(total.value(), expected)
    frozen = np.ones((6, 2))
    frozen.flags.writeable = False
    total.add(frozen)
    total.add(frozen)
    assert np.allclose(total.value(), expected + 2)


def test_a_buffer_that_is_overwritten_while_entries_wait():
    """Sorted and unique ids are merged as they are, so nothing but the copy stands between the sum and the buffer."""
    total, ids, rows = Accumulator(), np.arange(5), np.zeros(5)
    for k in range(7):
        ids[...], rows[...] = np.arange(5) + k % 2, k
        total.add(IndexedSlices(ids, rows, (1000,), unique=True), copy=True)
        ids[...], rows[...] = 999, np.nan
    value = total.value()
    assert value.indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert value.values.tolist() == [12, 21, 21, 21, 21, 9]


@pytest.mark.parametrize("distinct", [1, 3, 200])
def test_merging_is_linear_in_what_is_added(monkeypatch, distinct):
    kernels = backend_of(np.zeros(1)).kernels
    merged, original = [], kernels.coalesce

    def counting(ids, rows, size, length=None):
        merged.append(ids.shape[0])
        return original(ids, rows, size, length)

    monkeypatch.setattr(kernels, "coalesce", counting)
    rng = np.random.default_rng(1)
    places = rng.integers(0, ROWS, distinct)
    total, added, seen = Accumulator(), 0, set()
    expected = dict.fromkeys(places.tolist(), 0.0)
    for n in rng.integers(0, 12, 400):
        ids, rows = rng.choice(places, n), rng.standard_normal((n, 1))
        total.add(IndexedSlices(ids, rows, (ROWS, 1)))
        added += n
        seen |= set(ids.tolist())
        for i, row in zip(ids.tolist(), rows[:, 0], strict=True):
            expected[i] += row
        assert total.stored <= 2 * len(seen)
        assert sum(merged) <= 2 * added
    result = total.value()
    assert result.indices.tolist() == sorted(seen)
    assert np.allclose(result.values[:, 0], [expected[i] for i in sorted(seen)])


def test_it_turns_dense_when_compact_costs_more(xp):
    rng = np.random.default_rng(2)
    total, expected = Accumulator(), np.zeros((20, 3))
    for _ in range(12):
        t = random_slices(xp, rng, 4, (20, 3))
        total.add(t)
        expected += oracle.loop_densify(t)
        assert total.nbytes <= 2 * t.dense_nbytes
    assert "dense" in repr(total) and not isinstance(total.value(), st.Tangent)
    assert np.allclose(oracle.to_numpy(total.value()), expected, atol=1e-5)
    few = Accumulator()
    for _ in range(30):
        few.add(IndexedSlices(xp.asarray([3]), t.values[:1, ...], (20, 3)))
    assert few.value().stored == 1


def test_half_types_are_held_in_float32(xp):
    count = 260 if xp.backend_name.startswith("jax") else 3000
    for dtype in strategies.dtypes_of(xp, ["float16", "bfloat16"]):
        for shape in ((4, 1), (1000, 1)):
            total, t = Accumulator(), IndexedSlices(xp.asarray([2]), xp.ones((1, 1), dtype=dtype), shape)
            for _ in range(count):
                total.add(t)
            assert total.value().dtype == dtype
            assert float(st.densify(total.value())[2, 0]) == float(xp.asarray(float(count), dtype=dtype))


def test_structure(xp64):
    """2**50 rows: slices, one-hots, fills and zeros stay what they are."""
    total = Accumulator((ROWS, 2), like=xp64.zeros((), dtype=xp64.float32))
    assert isinstance(total.value(), Zero) and total.value().shape == (ROWS, 2)
    for k in range(9):
        rows = xp64.ones((2, 2), dtype=xp64.float32)
        total.add(IndexedSlices(xp64.asarray([k % 3, ROWS - 1]), rows, (ROWS, 2)))
    assert oracle.to_numpy(total.value().indices).tolist() == [0, 1, 2, ROWS - 1]
    assert oracle.to_numpy(total.value().values)[:, 0].tolist() == [3, 3, 3, 9]
    hot = Accumulator()
    for _ in range(3):
        hot.add(OneHot(xp64.asarray([5, 2, 5]), ROWS, dtype=xp64.float32))
    assert hot.value().shape == (3, ROWS) and hot.value().stored == 3
    flat = Accumulator()
    for _ in range(3):
        flat.add(Fill(xp64.asarray(2.0), (ROWS, 2)))
    assert isinstance(flat.value(), Fill) and float(flat.value().value) == 6


def test_a_weak_one_hot_takes_the_dtype_of_the_others(xp):
    for order in (0, 1):
        items = [
            OneHot(xp.asarray([1, 1]), 3, axis=0),
            IndexedSlices(xp.asarray([2]), xp.ones((1, 2), dtype=xp.float32), (3, 2)),
        ]
        total = Accumulator()
        for t in items[::-1] if order else items:
            total.add(t)
        assert total.dtype == xp.float32
        assert oracle.to_numpy(st.densify(total.value())).tolist() == [[0, 0], [1, 1], [1, 1]]


def test_edges(xp):
    assert Accumulator().value() is None and Accumulator().shape is None and Accumulator().dtype is None
    empty = Accumulator((3,)).value()
    assert isinstance(empty, Zero) and empty.shape == (3,)
    like = Accumulator(like=xp.ones((2, 2), dtype=xp.float32))
    like.add(None)
    assert isinstance(like.value(), Zero) and like.value().dtype == xp.float32 and like.value().shape == (2, 2)
    like.add(Zero((2, 2), xp=xp.module, dtype=xp.float32))
    assert isinstance(like.value(), Zero)
    with pytest.raises(ValueError, match=r"\(2, 2\) cannot add a gradient of shape \(2,\)"):
        like.add(xp.ones((2,), dtype=xp.float32))
    with pytest.raises(TypeError, match="str"):
        like.add("x")
    with pytest.raises(TypeError, match="like must be"):
        Accumulator(like=3.0)
    if xp.backend_name != "numpy":
        with pytest.raises(TypeError, match="different libraries"):
            like.add(np.ones((2, 2)))
    assert isinstance(like.value(), Zero)
    number = Accumulator()
    for _ in range(3):
        number.add(xp.asarray(2.0))
        number.add(IndexedSlices((), xp.asarray([1.0, 2.0]), (), axis=()))
    assert float(number.value()) == 15
    assert "stored=0" in repr(Accumulator()) and "dense" in repr(number)


def test_under_jit():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    rng = np.random.default_rng(7)
    ids, rows, full = rng.integers(0, 9, (5, 3)), rng.standard_normal((5, 3, 2)), rng.standard_normal((9, 2))

    def total(ids, rows, full, shape):
        result = Accumulator()
        for i, row in zip(ids, rows, strict=True):
            result.add(IndexedSlices(i, row, shape))
        if full is not None:
            result.add(full)
        return st.densify(result.value())

    expected = np.zeros((9, 2))
    for i, row in zip(ids.reshape(-1), rows.reshape(-1, 2), strict=True):
        expected[i] += row
    for array, wanted in ((None, expected), (full, expected + full)):
        given = (jnp.asarray(ids), jnp.asarray(rows), None if array is None else jnp.asarray(array))
        np.testing.assert_allclose(jax.jit(total, static_argnums=3)(*given, (9, 2)), wanted, atol=1e-5)
    tangent = jax.jit(lambda i, r: _filled(i, r, (900, 2)).value())(jnp.asarray(ids), jnp.asarray(rows))
    assert isinstance(tangent, IndexedSlices) and np.allclose(oracle.loop_densify(tangent)[:9], expected, atol=1e-5)


def _filled(ids, rows, shape):
    total = Accumulator()
    for i, row in zip(ids, rows, strict=True):
        total.add(IndexedSlices(i, row, shape))
    return total


@pytest.mark.parametrize("shape", [(4, 1), (400, 1)])
def test_the_tape_of_torch_goes_through(shape):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ids = torch.tensor([[1, 1, 3], [0, 1, 2]])
    rows = torch.randn(2, 3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.arange(1.0, 5.0, dtype=torch.float64)
    total = st.densify(_filled([*ids, ids[0]], [*rows, rows[0]], shape).value())[:4, 0]
    ((total**2) @ weights).backward()
    dense = [total.detach()[i] * 2 * weights[i] for i in ids]
    torch.testing.assert_close(rows.grad[..., 0], torch.stack([2 * dense[0], dense[1]]))
