"""`global_norm` and `clip_by_global_norm` against one loop over the dense elements in extended precision."""

import math

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero, clip_by_global_norm, global_norm
from sparsetangent.testing import laws, oracle, strategies
from tests.helpers import for_all

ROWS = 2**50


def dense(x):
    return oracle.loop_densify(x) if isinstance(x, Tangent) else oracle.to_numpy(x)


def norm_of(items):
    """The norm of all elements, one by one."""
    total = np.longdouble(0)
    for x in items:
        for element in dense(x).reshape(-1) if x is not None else ():
            total += np.abs(np.clongdouble(element)) ** 2
    return float(np.sqrt(total))


@hs.composite
def gradients(draw, xp, names=("float16", "bfloat16", "float32", "float64", "complex64", "complex128")):
    dtypes = strategies.dtypes_of(xp, names)
    items = []
    for _ in range(draw(hs.integers(0, 4))):
        kind = draw(hs.sampled_from(["tangent", "tangent", "array", None]))
        if kind == "tangent":
            items.append(draw(strategies.tangents(xp, dtypes=dtypes)))
        else:
            items.append(kind and draw(strategies.arrays(xp, draw(strategies.shapes()), draw(hs.sampled_from(dtypes)))))
    return items


def test_the_norm_of_mixed_gradients(xp):
    def body(items):
        before = [laws._bytes_of(x) for x in items]
        norm = global_norm(items)
        assert norm.shape == ()
        wanted = norm_of(items)
        rtol = max(
            [
                4e-6,
                *(oracle.relative_tolerance(x if not isinstance(x, Tangent) else x.densify()) for x in items if x is not None),
            ]
        )
        assert math.isclose(float(norm), wanted, rel_tol=rtol, abs_tol=1e-12)
        assert before == [laws._bytes_of(x) for x in items]
        wide = [x.dtype for x in items if x is not None]
        if wide:
            assert str(norm.dtype).rpartition(".")[2].replace("'>", "") in ("float32", "float64")

    for_all(xp, body, gradients(xp, ("float16", "float32", "float64", "complex64", "int32", "bool", "uint8")), examples=80)


def test_clipping_is_that_of_the_dense_arrays(xp):
    def body(case):
        items, share = case
        norm = norm_of(items)
        limit = share * norm
        clipped, found = clip_by_global_norm(items, limit)
        assert math.isclose(float(found), norm, rel_tol=1e-2, abs_tol=1e-12)
        for given, result in zip(items, clipped, strict=True):
            if given is None:
                assert result is None
                continue
            assert type(result) is type(given) or isinstance(given, OneHot) or given.shape == () or 0 in given.shape
            assert result.dtype == given.dtype and tuple(result.shape) == tuple(given.shape)
            eps = max(2 * oracle.relative_tolerance(st.densify(given)), 2e-5)
            scale = 1 + np.abs(dense(given).astype(np.complex128)).sum()
            assert oracle.close(dense(result), dense(given) * min(share, 1.0), rtol=4 * eps, atol=eps * scale)
            if share > 1.5:
                assert result is given

    names = ("float16", "float32", "float64", "complex64")
    for_all(xp, body, hs.tuples(gradients(xp, names), hs.sampled_from([0.0, 0.001, 0.5, 2.0])), examples=60)


def test_repeated_rows_count_as_their_sum(xp):
    """TensorFlow's norm of these rows is 9.539; "clipped to 1" it has norm 1.114."""
    rows = xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    t = IndexedSlices(xp.asarray([1, 1, 3]), rows, (5, 2))
    assert math.isclose(float(global_norm([t])), math.sqrt(4**2 + 6**2 + 5**2 + 6**2), rel_tol=1e-6)
    (clipped,), _ = clip_by_global_norm([t], 1.0)
    assert math.isclose(norm_of([clipped]), 1.0, rel_tol=1e-6)


def test_neither_overflow_nor_underflow(xp):
    assert math.isclose(float(global_norm([xp.asarray([1e-30] * 4, dtype=xp.float32)])), 2e-30, rel_tol=1e-6)
    assert math.isclose(
        float(global_norm([xp.asarray([3e30], dtype=xp.float32), xp.asarray([4e30], dtype=xp.float32)])), 5e30, rel_tol=1e-6
    )
    if xp.backend_name != "jax32":
        big = IndexedSlices(xp.asarray([0, 0, 2]), xp.asarray([1e200, 2e200, 4e200], dtype=xp.float64), (3,))
        assert math.isclose(float(global_norm([big])), 5e200, rel_tol=1e-12)
        small = xp.asarray([3e-200, 4e-200], dtype=xp.float64)
        assert math.isclose(float(global_norm([small])), 5e-200, rel_tol=1e-12)
        (clipped,), norm = clip_by_global_norm([big], 5.0)
        assert np.allclose(dense(clipped), [3, 0, 4])
    for dtype in strategies.dtypes_of(xp, ["float16", "bfloat16"]):
        ten = IndexedSlices(xp.asarray(list(range(10))), xp.asarray([300.0] * 10, dtype=dtype), (20,))
        for item in (ten, ten.densify()):
            norm = global_norm([item])
            assert norm.dtype == xp.float32 and math.isclose(float(norm), 948.683, rel_tol=1e-3)
        (clipped,), _ = clip_by_global_norm([ten], 1e-3)
        assert clipped.dtype == dtype and np.allclose(dense(clipped)[:10], 1e-3 / math.sqrt(10), rtol=1e-2)
        many = IndexedSlices(xp.zeros((3000,), dtype=xp.int32), xp.ones((3000,), dtype=dtype), (2,))
        assert float(global_norm([many])) == 3000


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_norms_that_are_not_finite(xp, bad):
    """The norm says so, and clipping gives nan everywhere: never 0, which would hide the overflow."""
    t = IndexedSlices(xp.asarray([1, 2]), xp.asarray([[bad], [1.0]], dtype=xp.float32), (3, 1))
    array = xp.ones((2,), dtype=xp.float32)
    for limit in (6.0, 0.0, float("inf")):
        (clipped, other, nothing, zero), norm = clip_by_global_norm([t, array, None, Zero((2,), like=array)], limit)
        assert math.isnan(float(norm)) if np.isnan(bad) else float(norm) == np.inf
        assert np.isnan(dense(clipped)).all() and clipped.shape == (3, 1) and clipped.dtype == xp.float32
        assert np.isnan(dense(other)).all() and nothing is None and np.isnan(dense(zero)).all()
    both = xp.asarray([np.inf, np.nan, 1e30], dtype=xp.float32)
    assert math.isnan(float(global_norm([both]))) and math.isnan(float(global_norm([array, both[:1], both[1:]])))
    huge = xp.asarray([3e38, 3e38], dtype=xp.float32)
    assert float(global_norm([huge])) == np.inf


def test_empty_and_zero(xp):
    for nothing in ([], [None], None, {}, {"a": [None, ()]}, iter([])):
        norm = global_norm(nothing)
        assert norm.shape == () and float(norm) == 0 and norm.dtype == np.float64
    zero = Zero((ROWS,) if xp.backend_name != "jax32" else (7,), xp=xp.module, dtype=xp.float32)
    empty = xp.zeros((0, 3), dtype=xp.float32)
    assert float(global_norm([zero, empty])) == 0 and global_norm([zero]).dtype == xp.float32
    for limit in (0, 1.0):
        (a, b), norm = clip_by_global_norm([zero, empty], limit)
        assert a is zero and b is empty and float(norm) == 0
    whole = Zero((2,), xp=xp.module, dtype=xp.int32)
    (kept, scaled), _ = clip_by_global_norm([whole, xp.asarray([3.0, 4.0])], 1.0)
    assert kept is whole and np.allclose(dense(scaled), [0.6, 0.8])


def test_structure(xp64):
    """2**50 rows: no densify, and the types stay."""
    t = IndexedSlices(xp64.asarray([3, ROWS - 1, 3]), xp64.asarray([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0]]), (ROWS, 2))
    fill = Fill(xp64.asarray(2.0), (2**48,))
    hot = OneHot(xp64.asarray([5, 2, 5]), ROWS)
    zero = Zero((ROWS, ROWS), like=t)
    items = {"t": t, "fill": fill, "hot": hot, "zero": zero}
    norm = float(global_norm(items))
    assert math.isclose(norm, math.sqrt(9 + 16 + 9 + 16 + 4 * 2**48 + 3), rel_tol=1e-6)
    clipped, _ = clip_by_global_norm(items, norm / 2)
    assert [type(clipped[k]) for k in items] == [IndexedSlices, Fill, IndexedSlices, Zero]
    assert np.allclose(oracle.to_numpy(st.densify(clipped["t"][3])), [1.5, 2])
    assert math.isclose(float(clipped["fill"].value), 1.0, rel_tol=1e-6)
    infinite, _ = clip_by_global_norm([t * math.inf], 1.0)
    assert isinstance(infinite[0], Fill) and infinite[0].shape == (ROWS, 2)


def test_items_are_visited_once(xp):
    arrays = [xp.asarray([3.0]), xp.asarray([4.0])]
    assert float(global_norm(iter(arrays))) == 5
    clipped, norm = clip_by_global_norm(iter(arrays), 2.5)
    assert isinstance(clipped, list) and float(norm) == 5 and [float(x[0]) for x in clipped] == [1.5, 2.0]


def test_structures_come_back(xp):
    items = {"a": (xp.asarray([3.0]), None), "b": [IndexedSlices(xp.asarray([1]), xp.asarray([4.0]), (2,))]}
    clipped, _ = clip_by_global_norm(items, xp.asarray(2.5))
    assert list(clipped) == ["a", "b"] and isinstance(clipped["a"], tuple) and clipped["a"][1] is None
    assert dense(clipped["b"][0]).tolist() == [0, 2]
    single, norm = clip_by_global_norm(xp.asarray([3.0, 4.0]), 1)
    assert float(norm) == 5 and np.allclose(dense(single), [0.6, 0.8])


def test_errors(xp):
    array = xp.asarray([1.0])
    for bad in (-1.0, float("nan"), -math.inf):
        with pytest.raises(ValueError, match="max_norm must be a number from 0 on"):
            clip_by_global_norm([array], bad)
    with pytest.raises(TypeError, match="int32 cannot be clipped"):
        clip_by_global_norm([array, xp.asarray([1], dtype=xp.int32)], 1.0)
    with pytest.raises(TypeError, match=r"leaf at \['a'\]\[1\] is no array, tangent or None but str"):
        global_norm({"a": [array, "x"]})
    if xp.backend_name != "numpy":
        with pytest.raises(TypeError, match="different libraries"):
            global_norm([array, np.ones(2)])


def test_under_jit():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    def clip(ids, rows, other, limit):
        return clip_by_global_norm([IndexedSlices(ids, rows, (5, 1)), other, None], limit)

    ids, rows, other = jnp.asarray([1, 1, 3]), jnp.asarray([[1.0], [2.0], [4.0]]), jnp.asarray([12.0])
    for limit in (6.5, 13.0, 20.0):
        (t, array, nothing), norm = jax.jit(clip)(ids, rows, other, limit)
        assert nothing is None and np.isclose(norm, 13)
        share = min(1, limit / 13)
        assert np.allclose(dense(t)[:, 0], [0, 3 * share, 0, 4 * share, 0]) and np.allclose(array, 12 * share)
    (t, array, _), norm = jax.jit(clip)(ids, rows * np.inf, other, 1.0)
    assert np.isinf(norm) and np.isnan(dense(t)[[1, 3]]).all() and np.isnan(array).all()


def test_clipping_is_differentiable_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ids = torch.tensor([1, 1, 3])

    def compact(rows):
        (t,), _ = clip_by_global_norm([IndexedSlices(ids, rows, (5, 1))], 2.0)
        return t.densify()

    def plain(rows):
        x = torch.zeros(5, 1, dtype=rows.dtype).index_add(0, ids, rows)
        return x * (2.0 / torch.linalg.vector_norm(x)).clamp(max=1.0)

    rows = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    ours, theirs = (torch.autograd.functional.jacobian(f, rows) for f in (compact, plain))
    torch.testing.assert_close(ours, theirs)
