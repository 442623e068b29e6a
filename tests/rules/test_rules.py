"""Reads and their adjoints against literal loops: values, the adjoint law, second derivatives, chained cotangents, errors."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import Fill, IndexedSlices, OneHot, Zero, rules
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all


def floats(xp):
    return "float32" if xp.backend_name in ("torch", "jax32") else "float64"


def random(xp, shape, seed=0):
    return oracle.as_backend(xp, np.random.default_rng(seed).standard_normal(shape), getattr(xp, floats(xp)))


def dense(x):
    return oracle.loop_densify(x) if isinstance(x, sp.Tangent) else oracle.to_numpy(x)


def scatter_loop(dy, shape, key):
    """The adjoint of ``x[key]`` by a loop over what NumPy reads from the positions of all elements."""
    positions = np.arange(int(np.prod(shape))).reshape(shape)[key]
    result = np.zeros(int(np.prod(shape)), np.asarray(dy).dtype)
    for position, value in zip(np.ravel(positions), np.ravel(dy), strict=True):
        result[position] += value
    return result.reshape(shape)


@st.composite
def keys(draw, shape):
    """Any key that NumPy accepts for a shape: integers, slices, Ellipsis, None, masks and integer arrays, mixed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entries = draw(st.sampled_from([(2,), (3,), (2, 2), (1,), (0,)]))
    items, axis = [], 0
    while axis < len(shape):
        size = shape[axis]
        kinds = ["slice", "slice", "none"] + (["int", "array"] if size else []) + ["mask", "stop"]
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "none":
            items.append(None)
            continue
        if kind == "slice":
            bounds = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            items.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "int":
            items.append(int(rng.integers(-size, size)))
        elif kind == "array":
            broadcast = entries if draw(st.booleans()) else tuple(1 if n != 0 else n for n in entries)
            items.append(rng.integers(-size, size, broadcast))
        elif any(isinstance(i, np.ndarray) for i in items):
            continue  # a mask brings a length of its own, which seldom broadcasts with index arrays
        else:
            rank = draw(st.integers(1, len(shape) - axis))
            mask = rng.random(shape[axis : axis + rank]) < 0.5
            entries = (1,)
            count = int(mask.sum())
            items.append(mask)
            axis += rank - 1
            if count != 1:
                axis += 1
                break
        axis += 1
    if draw(st.booleans()) and items:
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return tuple(items)


def as_key(xp, key):
    return tuple(xp.asarray(i) if isinstance(i, np.ndarray) else i for i in key)


@st.composite
def shaped_keys(draw):
    shape = draw(strategies.shapes(1, 3, 4))
    return shape, draw(keys(shape))


def readable(shape, key):
    try:
        return np.zeros(shape)[key].shape
    except IndexError:
        return None


def test_getitem_and_its_adjoint_for_every_key(xp):
    def body(pair):
        shape, key = pair
        if readable(shape, key) is None:
            return
        x = random(xp, shape)
        y = rules.getitem(x, as_key(xp, key))
        expected = oracle.to_numpy(x)[key]
        assert y.shape == expected.shape and np.allclose(oracle.to_numpy(y), expected)
        dy = random(xp, expected.shape, 1)
        dx = rules.getitem_vjp(dy, shape, as_key(xp, key))
        assert isinstance(dx, IndexedSlices) and dx.shape == shape
        assert np.allclose(dense(dx), scatter_loop(oracle.to_numpy(dy), shape, key), atol=1e-5)

    for_all(xp, body, shaped_keys(), examples=400)


def test_indexing_tangents_with_every_key(xp):
    def body(data):
        t, key = data
        if readable(t.shape, key) is None:
            return
        result = t[as_key(xp, key)]
        expected = oracle.loop_densify(t)[key]
        assert result.shape == expected.shape, (key, result.shape, expected.shape)
        assert np.allclose(dense(result), expected, atol=1e-4)

    real = strategies.dtypes_of(xp, ("float32", "float64"))
    pairs = strategies.tangents(xp, strategies.shapes(1, 3), real).flatmap(lambda t: keys(t.shape).map(lambda k: (t, k)))
    for_all(xp, body, pairs, examples=400)


def test_chained_cotangents(xp):
    """A compact cotangent goes through an adjoint as its dense array does."""

    def body(data):
        (shape, key), seed = data
        read = readable(shape, key)
        if read is None or not read:
            return
        rng = np.random.default_rng(seed)
        cotangents = [Fill(random(xp, ()), read), Zero(read, like=random(xp, ()))]
        if read[0]:
            ids = rng.integers(0, read[0], 3)
            cotangents.append(IndexedSlices(xp.asarray(ids), random(xp, (3, *read[1:])), read))
        if len(read) > 1 and read[-1]:
            ids = rng.integers(0, read[-1], 2)
            cotangents.append(IndexedSlices(xp.asarray(ids), random(xp, (2, *read[:-1])), read, axis=-1))
        for dy in cotangents:
            dx = rules.getitem_vjp(dy, shape, as_key(xp, key))
            assert np.allclose(dense(dx), scatter_loop(dense(dy), shape, key), atol=1e-4)

    for_all(xp, body, st.tuples(shaped_keys(), st.integers(0, 1000)), examples=100)


@st.composite
def reads(draw):
    """A shape, an axis, and ids of any rank for it."""
    shape = draw(strategies.shapes(1, 3, 4))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    ids_shape = draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,), (2, 0)])) if size else (0,)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return shape, axis, rng.integers(-size, size, ids_shape) if size else np.zeros((0,), int)


def test_take_its_adjoint_and_the_second_derivative(xp):
    def body(read):
        shape, axis, ids = read
        x, index = random(xp, shape), xp.asarray(ids)
        y = rules.take(x, index, axis)
        expected = np.take(oracle.to_numpy(x), ids, axis)
        assert y.shape == expected.shape and (oracle.to_numpy(y) == expected).all()
        dy = random(xp, expected.shape, 1)
        dx = rules.take_vjp(dy, shape, index, axis)
        assert dx.axis == (axis % len(shape),) and dx.stored == ids.size
        key = (slice(None),) * (axis % len(shape)) + (ids,)
        assert np.allclose(dense(dx), scatter_loop(oracle.to_numpy(dy), shape, key), atol=1e-5)
        # <scatter dy, x> == <dy, gather x>
        left, right = (dense(dx) * oracle.to_numpy(x)).sum(), (oracle.to_numpy(dy) * expected).sum()
        assert np.isclose(left, right, rtol=1e-3, atol=1e-4)
        # The adjoint of take_vjp reads: the second derivative of a take is a take.
        again = rules.take(dx, index, axis)
        assert np.allclose(dense(again), np.take(dense(dx), ids, axis), atol=1e-5)

    for_all(xp, body, reads(), examples=200)


def test_take_along_axis(xp):
    def body(data):
        shape, axis, seed = data
        axis %= len(shape)
        rng = np.random.default_rng(seed)
        size = shape[axis]
        ids_shape = tuple(
            (int(rng.integers(0, 4)) if size else 0) if a == axis else (1 if rng.random() < 0.3 else n)
            for a, n in enumerate(shape)
        )
        ids = rng.integers(-size, size, ids_shape) if size else np.zeros(ids_shape, int)
        x, index = random(xp, shape), xp.asarray(ids)
        target = tuple(ids_shape[a] if a == axis else n for a, n in enumerate(shape))
        expected = np.take_along_axis(oracle.to_numpy(x), np.broadcast_to(ids, target), axis)
        y = rules.take_along_axis(x, index, axis)
        assert y.shape == expected.shape and (oracle.to_numpy(y) == expected).all()
        dy = random(xp, expected.shape, 1)
        dx = rules.take_along_axis_vjp(dy, shape, index, axis)
        result = np.zeros(shape)
        for place in np.ndindex(*target):
            source = list(place)
            source[axis] = np.broadcast_to(ids, target)[place] % max(size, 1)
            result[tuple(source)] += oracle.to_numpy(dy)[place]
        assert np.allclose(dense(dx), result, atol=1e-5)

    cases = strategies.shapes(1, 3).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, len(s) - 1), st.integers(0, 10**6)))
    for_all(xp, body, cases, examples=150)


@pytest.mark.parametrize("padding_idx", [None, 0, -1, 2])
@pytest.mark.parametrize("by_freq", [False, True])
def test_embedding(xp, padding_idx, by_freq):
    rng = np.random.default_rng(5)
    for ids_shape in ((4,), (2, 3), (), (0,)):
        ids = rng.integers(0, 5, ids_shape)
        weight = random(xp, (5, 3))
        y = rules.embedding(weight, xp.asarray(ids), padding_idx=padding_idx)
        assert (oracle.to_numpy(y) == oracle.to_numpy(weight)[ids]).all()
        dy = random(xp, (*ids_shape, 3), 1)
        dw = rules.embedding_vjp(dy, (5, 3), xp.asarray(ids), padding_idx=padding_idx, scale_grad_by_freq=by_freq)
        expected = np.zeros((5, 3))
        flat, rows = ids.reshape(-1), oracle.to_numpy(dy).reshape(-1, 3)
        for i, row in zip(flat, rows, strict=True):
            if padding_idx is None or i != padding_idx % 5:
                expected[i] += row / ((flat == i).sum() if by_freq else 1)
        assert dw.axis == (0,) and np.allclose(dense(dw), expected, atol=1e-6)
        if padding_idx is not None:
            assert dw.stored == (flat != padding_idx % 5).sum()


def test_embedding_errors(xp):
    weight = random(xp, (4, 2))
    for bad in (-1, 4, -100):
        with pytest.raises(IndexError, match=f"ids holds {bad} at position 1.*0 <= id < 4"):
            rules.embedding(weight, xp.asarray([0, bad]))
        with pytest.raises(IndexError, match=f"ids holds {bad}"):
            rules.embedding_vjp(random(xp, (2, 2)), (4, 2), xp.asarray([0, bad]))
    with pytest.raises(ValueError, match="padding_idx 4"):
        rules.embedding(weight, xp.asarray([0]), padding_idx=4)


def test_one_hot_matmul(xp):
    ids = np.array([[2, 0, 2], [1, 1, 3]])
    for t in (OneHot(xp.asarray(ids), 4), OneHot(xp.asarray(ids), 4, dtype=getattr(xp, floats(xp)))):
        w = random(xp, (4, 3))
        y = rules.one_hot_matmul(t, w)
        assert np.allclose(oracle.to_numpy(y), oracle.to_numpy(w)[ids])
        dy = random(xp, (2, 3, 3), 1)
        dw = rules.one_hot_matmul_vjp(dy, t, (4, 3))
        assert dw.stored == 6 and np.allclose(dense(dw), scatter_loop(oracle.to_numpy(dy), (4, 3), (ids,)), atol=1e-6)
    vector = rules.one_hot_matmul_vjp(random(xp, (2, 3), 1), t, (4,))
    assert vector.shape == (4,)
    general = IndexedSlices(xp.asarray([1, 1]), random(xp, (2, 4)), (3, 4))
    dy = random(xp, (3, 2), 2)
    assert np.allclose(dense(rules.one_hot_matmul_vjp(dy, general, (4, 2))), dense(general).T @ dense(dy), atol=1e-5)
    with pytest.raises(ValueError, match="4 places"):
        rules.one_hot_matmul_vjp(dy, t, (5, 2))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (), (2, 1)])
def test_sum(xp, axis, keepdims):
    shape = (2, 3, 4)
    x = random(xp, shape)
    y = rules.sum(x, axis, keepdims)
    expected = oracle.to_numpy(x).sum(axis, keepdims=keepdims)
    assert np.allclose(oracle.to_numpy(y), expected, atol=1e-5)
    axes = tuple(range(3)) if axis is None else tuple(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    cotangents = [random(xp, expected.shape, 1)]
    if expected.shape:
        cotangents += [Fill(random(xp, ()), expected.shape), Zero(expected.shape, like=x)]
        cotangents.append(IndexedSlices(xp.asarray([0, 0]), random(xp, (2, *expected.shape[1:])), expected.shape))
    for dy in cotangents:
        dx = rules.sum_vjp(dy, shape, axis, keepdims)
        assert isinstance(dx, sp.Tangent) and dx.shape == shape
        assert np.allclose(dense(dx), np.broadcast_to(dense(dy).reshape(kept), shape), atol=1e-6)
    assert isinstance(rules.sum_vjp(random(xp, ()), shape), Fill)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.sum_vjp(random(xp, (7,)), shape, axis, keepdims)


@pytest.mark.parametrize("small", [(3,), (2, 1), (1, 1), (2, 3), ()])
def test_broadcast_to(xp, small):
    x = random(xp, small)
    assert np.allclose(oracle.to_numpy(rules.broadcast_to(x, (2, 3))), np.broadcast_to(oracle.to_numpy(x), (2, 3)))
    for dy in (random(xp, (2, 3), 1), IndexedSlices(xp.asarray([1, 1]), random(xp, (2, 3), 2), (2, 3))):
        dx = rules.broadcast_to_vjp(dy, small)
        expected = np.zeros(small)
        for place in np.ndindex(2, 3):
            source = tuple(0 if n == 1 else i for i, n in zip(place[2 - len(small) :], small, strict=True))
            expected[source] += dense(dy)[place]
        assert dx.shape == small and np.allclose(dense(dx), expected, atol=1e-5)
    with pytest.raises(ValueError, match="broadcast"):
        rules.broadcast_to_vjp(random(xp, (2, 3)), (4,))


def test_errors(xp):
    x = random(xp, (4, 2))
    with pytest.raises(IndexError, match=r"holds 9.*axis 0 of size 4"):
        rules.take(x, xp.asarray([9]))
    with pytest.raises(TypeError, match="ids must have an integer dtype"):
        rules.take(x, xp.asarray([0.5]))
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.take_vjp(x, (4, 2), xp.asarray([0]))
    with pytest.raises(ValueError, match="as many as"):
        rules.take_along_axis(x, xp.asarray([0]))
    with pytest.raises(IndexError, match="too many indices: 3 for 2"):
        rules.getitem(x, (0, 0, 0))
    with pytest.raises(IndexError, match="one ellipsis"):
        rules.getitem(x, (..., 0, ...))
    with pytest.raises(IndexError, match="mask"):
        rules.getitem(x, xp.asarray([True, False]))
    with pytest.raises(IndexError, match="'a'"):
        rules.getitem(x, "a")
