"""Padding, diagonals, choice, means and densify against NumPy and loops, with arrays and tangents on either side."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import Fill, IndexedSlices, OneHot, Zero, rules
from sparsetangent.testing import strategies
from tests.helpers import for_all
from tests.rules.support import array, dense, dtype_of, normal, same


def cotangents(xp, shape):
    """A cotangent of each kind for a shape; on JAX, which compiles for each, an array and slices."""
    yield array(xp, normal(shape, 1))
    axes = range(len(shape))
    if xp.backend_name.startswith("jax"):
        axes = axes[-1:]
    else:
        yield Fill(array(xp, normal((), 2)), shape)
        yield Zero(shape, like=array(xp, normal(())))
    for axis in axes:
        if n := shape[axis]:
            rest = tuple(m for a, m in enumerate(shape) if a != axis)
            yield IndexedSlices(array(xp, np.array([n - 1, 0, n - 1])), array(xp, normal((3, *rest), 3)), shape, axis=axis)


@pytest.mark.parametrize(
    "shape, widths",
    [((3,), 2), ((3,), (0, 1)), ((2, 3), (1, 0)), ((2, 3), ((1, 2), (0, 3))), ((2, 0), 1), ((), 3), ((2, 3), ((0, 0), (0, 0)))],
)
def test_pad(xp64, shape, widths):
    xp = xp64
    x = normal(shape)
    expected = np.pad(x, widths if shape else 0)
    same(rules.pad(array(xp, x), widths), expected)
    same(rules.pad(array(xp, x), widths, 1.5), np.pad(x, widths if shape else 0, constant_values=1.5))
    whole = np.pad(np.arange(1, x.size + 1).reshape(shape), widths if shape else 0)
    for dy in cotangents(xp, expected.shape):
        dx = rules.pad_vjp(dy, shape, widths)
        same(dx, np.array([dense(dy)[whole == i + 1].item() for i in range(x.size)]).reshape(shape))
        if isinstance(dy, IndexedSlices) and shape:
            same(rules.pad(dx, widths), np.pad(dense(dx), widths))
            same(rules.pad(dx, widths, 2), np.pad(dense(dx), widths, constant_values=2))


def test_pad_keeps_structure(xp):
    t = IndexedSlices(array(xp, np.array([3])), array(xp, normal((1, 2))), (2**20, 2))
    padded = rules.pad(t, ((5, 5), (0, 0)))
    assert isinstance(padded, IndexedSlices) and padded.stored == 1 and padded.shape == (2**20 + 10, 2)
    assert rules.pad_vjp(padded, t.shape, ((5, 5), (0, 0))).stored == 1


def test_pad_errors(xp):
    x = array(xp, normal((2, 3)))
    for widths in ((1, 2, 3), ((1, 2),), ((1, 2), (3,))):
        with pytest.raises(ValueError, match="widths must be a number, a pair, or a pair for each of 2 axes"):
            rules.pad(x, widths)
    with pytest.raises(ValueError, match="must not be negative"):
        rules.pad(x, -1)
    with pytest.raises(TypeError, match="value=1j"):
        rules.pad(x, 1, 1j)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.pad_vjp(x, (2, 3), 1)


@pytest.mark.parametrize(
    "shape, axes", [((3, 3), (0, 1)), ((2, 4), (1, 0)), ((2, 3, 4), (0, -1)), ((3, 2, 4), (2, 0)), ((0, 3), (0, 1))]
)
@pytest.mark.parametrize("offset", [0, 1, -1, 9])
def test_diagonal(xp64, shape, axes, offset):
    xp = xp64
    x = normal(shape)
    expected = np.diagonal(x, offset, *axes)
    same(rules.diagonal(array(xp, x), offset, *axes), expected)
    positions = np.diagonal(np.arange(x.size).reshape(shape), offset, *axes)
    for dy in cotangents(xp, expected.shape):
        dx = rules.diagonal_vjp(dy, shape, offset, *axes)
        result = np.zeros(x.size)
        result[positions] = dense(dy)
        assert isinstance(dx, IndexedSlices)
        same(dx, result.reshape(shape))
        same(rules.diagonal(dx, offset, *axes), dense(dy))
    with pytest.raises(ValueError, match="must differ"):
        rules.diagonal(array(xp, x), 0, 1, 1)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.diagonal_vjp(array(xp, normal((7, 7))), shape, offset, *axes)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), ()), ((3,), (2, 1), (1, 3)), ((), (2,), (2,)), ((0, 3), (3,), (0, 1))]
)
def test_where(xp64, shapes):
    xp = xp64
    condition, x, y = np.random.default_rng(1).random(shapes[0]) < 0.5, normal(shapes[1]), normal(shapes[2], 1)
    mask = array(xp, condition)
    expected = np.where(condition, x, y)
    same(rules.where(mask, array(xp, x), array(xp, y)), expected)
    for dy in cotangents(xp, expected.shape):
        for reverse, chosen, shape in ((rules.where_vjp_x, condition, shapes[1]), (rules.where_vjp_y, ~condition, shapes[2])):
            full = np.where(chosen, dense(dy), 0)
            result = np.zeros(shape)
            for place in np.ndindex(*full.shape):
                source = tuple(0 if n == 1 else i for i, n in zip(place[full.ndim - len(shape) :], shape, strict=True))
                result[source] += full[place]
            same(reverse(dy, mask, shapes[1], shapes[2]), result)


def test_where_keeps_nan_out(xp64):
    xp = xp64
    dy, mask = array(xp, [np.nan, 2.0, np.inf]), array(xp, np.array([False, True, False]))
    same(rules.where_vjp_x(dy, mask, (3,), (3,)), [0, 2, 0])
    t = IndexedSlices(array(xp, np.array([0, 1])), array(xp, [np.nan, 2.0]), (3,))
    chosen = rules.where_vjp_x(t, mask, (3,), (3,))
    assert isinstance(chosen, IndexedSlices)
    same(chosen, [0, 2, 0])
    with pytest.raises(TypeError, match="condition must be bool"):
        rules.where(dy, dy, dy)
    with pytest.raises(ValueError, match="broadcast"):
        rules.where(mask, array(xp, normal((2,))), dy)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.where_vjp_y(dy, mask, (2, 3), ())
    with sp.densify_policy("allow"):
        same(rules.where(mask, t, 5.0), [5, 2, 5])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mean(xp64, axis, keepdims):
    xp = xp64
    x = normal((2, 3, 4))
    expected = x.mean(axis, keepdims=keepdims)
    same(rules.mean(array(xp, x), axis, keepdims), expected, atol=1e-6)
    axes = tuple(range(3)) if axis is None else tuple(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    count = x.size / np.size(expected)
    for dy in cotangents(xp, expected.shape):
        dx = rules.mean_vjp(dy, x.shape, axis, keepdims)
        assert isinstance(dx, sp.Tangent)
        same(dx, np.broadcast_to(dense(dy).reshape(kept), x.shape) / count)
    assert rules.mean_vjp(array(xp, normal((2,))), (2, 0), 1).shape == (2, 0)
    assert isinstance(rules.mean_vjp(array(xp, normal(())), (2, 3)), Fill)


def test_densify_and_its_cotangent(xp):
    """<densify_vjp(dy, t), values> == <dy, densify(t)>, and each stored element reads its own place."""
    real = [dtype_of(xp)]

    def body(data):
        t, seed = data
        dy = normal(t.shape, seed)
        slices = t.to_slices()
        expected = np.zeros(slices.values.shape)
        for entry in range(slices.stored):
            place = [slice(None)] * t.ndim
            for axis, ids in zip(slices.axis, slices.coords, strict=True):
                place[axis] = int(ids[entry])
            inside = all(not isinstance(i, int) or i < n for i, n in zip(place, t.shape, strict=True))
            expected[entry] = dy[tuple(place)] if inside else 0
        result = rules.densify_vjp(array(xp, dy), t)
        same(result, dy.sum() if isinstance(t, Fill) else expected, atol=1e-5)
        same(rules.densify(t), dense(t))

    cases = st.tuples(strategies.tangents(xp, strategies.shapes(), real), st.integers(0, 100))
    for_all(xp, body, cases, examples=60)


def test_densify_of_other_operands(xp64):
    xp = xp64
    x = array(xp, normal((4, 3)))
    assert rules.densify(x) is x and rules.densify_vjp(x, x) is x
    t = IndexedSlices(array(xp, np.array([1, 3, 1])), array(xp, normal((3, 3))), (4, 3))
    for dy in cotangents(xp, (4, 3)):
        same(rules.densify_vjp(dy, t), dense(dy)[[1, 3, 1]])
        same(rules.densify_vjp(dy, OneHot(array(xp, np.array([2, 0, 1, 1])), 3)), dense(dy)[range(4), [2, 0, 1, 1]])
        same(rules.densify_vjp(dy, Fill(array(xp, normal(())), (4, 3))), dense(dy).sum(), atol=1e-5)
    padded = t.coalesce(size=4)
    same(rules.densify_vjp(x, padded), [*dense(x)[[1, 3]], [0] * 3, [0] * 3])
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.densify_vjp(array(xp, normal((3, 4))), t)


def test_reverses_of_huge_arrays_stay_compact(xp64):
    """Nothing of 2**50 rows is made; the first rows are those of the same rule on eight."""
    xp, rows = xp64, 2**50
    dy = array(xp, normal((3, 2)))
    ids, offsets = array(xp, np.array([1, 7, 1])), array(xp, np.array([0, 2]))
    table = IndexedSlices(ids, dy, (rows, 2))
    small = np.zeros((8, 2))
    for i, row in zip([1, 7, 1], dense(dy), strict=True):
        small[i] += row
    bag = rules.embedding_bag_vjp_weight(dy[:2, ...], (rows, 2), ids, offsets)
    same(bag[:8], dense(rules.embedding_bag_vjp_weight(dy[:2, ...], (8, 2), ids, offsets)))
    same(rules.pad_vjp(table, (rows - 1, 2), ((1, 0), (0, 0)))[:7], small[1:])
    same(rules.pad(table, ((1, 0), (0, 0)))[1:9], small)
    same(rules.diagonal_vjp(dy[:2, 0], (rows, 2))[:2], np.diag(dense(dy)[:2, 0]))
    same(rules.mean_vjp(dy[:1, ...], (rows, 2), 0, True)[:2], np.stack([dense(dy)[0]] * 2) / rows, rtol=1e-11, atol=0)
    same(rules.where_vjp_x(table, array(xp, np.array([True, False])), (rows, 2), ())[:8], small * [1, 0])
    same(rules.densify_vjp(table, IndexedSlices(ids, dy, (rows, 2))), small[[1, 7, 1]])
    for op in ("add", "sub", "mul", "div"):
        dx = rules.scatter_vjp(op, table, dy, ids, rows)
        same(dx, dense(rules.scatter_vjp(op, array(xp, small), dy, ids, 8)))


def test_ids_out_of_range_under_jit_are_dropped_in_value_and_gradient():
    jax = pytest.importorskip("jax")
    from tests.conftest import Library

    xp = Library("jax32" if not jax.config.jax_enable_x64 else "jax", jax.numpy)
    src, dy, ids = array(xp, normal((4, 2))), array(xp, normal((3, 2), 1)), array(xp, np.array([0, 5, -1, -9]))
    kept = np.array([0, 2])
    into = np.array([0, 2])
    for op in ("add", "mul", "mean", "max"):
        y = jax.jit(lambda s, i, op=op: rules.scatter(op, s, i, 3))(src, ids)
        same(y, dense(rules.scatter(op, src[kept], array(xp, into), 3)))
        dx = jax.jit(lambda dy, s, i, op=op: rules.scatter_vjp(op, dy, s, i, 3))(dy, src, ids)
        expected = np.zeros((4, 2))
        expected[kept] = dense(rules.scatter_vjp(op, dy, src[kept], array(xp, into), 3))
        same(dx, expected)
    table, bags = array(xp, normal((3, 2), 2)), array(xp, np.array([[0, 2], [7, 1]]))
    y = jax.jit(lambda w, i: rules.embedding_bag(w, i))(table, bags)
    same(y, [dense(table)[[0, 2]].mean(0), dense(table)[1]])
    dw = jax.jit(lambda dy, i: rules.embedding_bag_vjp_weight(dy, (3, 2), i))(dy[:2], bags)
    same(dw, [dense(dy)[0] / 2, dense(dy)[1], dense(dy)[0] / 2])
    labels = array(xp, np.array([0, 4, 1, -1]))
    logits = array(xp, normal((4, 3), 3))
    loss = jax.jit(rules.cross_entropy)(logits, labels)
    assert (dense(loss) != 0).tolist() == [True, False, True, False]
