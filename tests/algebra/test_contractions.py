"""Matrix products of every pairing of types and arrays, against the dense product."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent
from sparsetangent import IndexedSlices, OneHot, Zero
from sparsetangent.testing import oracle, strategies
from sparsetangent.testing.laws import check_law
from tests.helpers import for_all


@st.composite
def matrices(draw, xp, first, second, dtypes):
    """Operands whose shapes contract: vectors, matrices, and batches that broadcast."""
    side = st.sampled_from([0, 1, 2, 3])
    m, k, n = draw(side), draw(side), draw(side)
    batch = draw(st.sampled_from([(), (2,), (1,), (2, 1)]))
    other = draw(st.sampled_from([(), batch, tuple(1 for _ in batch)]))
    a = draw(st.sampled_from([(k,), (m, k), (*batch, m, k)]))
    b = draw(st.sampled_from([(k,), (k, n), (*other, k, n)]))
    return tuple(
        draw(strategies.tangents(xp, st.just(shape), dtypes) if kind == "tangent" else strategies.arrays(xp, shape, dtypes[0]))
        for kind, shape in ((first, a), (second, b))
    )


@pytest.mark.parametrize("first, second", [("tangent", "array"), ("array", "tangent"), ("tangent", "tangent")])
def test_matmul(xp, first, second):
    def body(pair):
        if not any(isinstance(x, OneHot) and x.weak for x in pair):
            check_law(lambda nx, a, b: nx.matmul(a, b), *pair, note="matmul")

    for name in ("float32", "float64", "int32", "complex64"):
        for dtype in strategies.dtypes_of(xp, (name,)):
            for_all(xp, body, matrices(xp, first, second, [dtype]), examples=60)


def test_operators_in_both_orders(xp):
    t = IndexedSlices(xp.asarray([2, 0, 2]), xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (4, 2))
    w = xp.asarray([[1.0, 0.5, 2.0], [3.0, -1.0, 0.0]])
    dense = oracle.loop_densify(t)
    assert isinstance(t @ w, IndexedSlices)
    assert np.allclose(oracle.loop_densify(t @ w), dense @ oracle.to_numpy(w))
    v = xp.asarray([[1.0, 2.0, 3.0, 4.0]])
    if xp.backend_name != "array_api_strict":
        assert np.allclose(oracle.to_numpy(v @ t), oracle.to_numpy(v) @ dense)
    assert np.allclose(oracle.to_numpy(t.T @ t), dense.T @ dense)
    assert np.allclose(oracle.loop_densify(t @ t.T), dense @ dense.T)
    assert (t @ t.T).axis == (0, 1)


def test_a_one_hot_times_an_array_is_a_gather(xp):
    w = xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    rows = OneHot(xp.asarray([[2, 0]]), 3) @ w
    assert not isinstance(rows, sparsetangent.Tangent)
    assert oracle.to_numpy(rows).tolist() == [[[5, 6], [1, 2]]] and rows.dtype == w.dtype
    assert oracle.to_numpy(OneHot(xp.asarray([2, -1]), 3, mode="drop") @ w).tolist() == [[5, 6], [0, 0]]


def test_zero_absorbs(xp):
    assert isinstance(Zero((2**50, 3), xp=xp.module) @ xp.zeros((3, 2)), Zero)


def test_errors(xp):
    t = IndexedSlices(xp.asarray([0]), xp.zeros((1, 4)), (3, 4))
    with pytest.raises(ValueError, match="4 and 3"):
        t @ xp.zeros((3, 2))
    with pytest.raises(ValueError, match="at least one axis"):
        t @ xp.asarray(1.0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "uint64", "bool"])
def test_constants_contract_over_more_places_than_the_dtype_counts(xp, dtype):
    """The number of equal products wraps as their sum does."""
    refused = {"jax32": "uint64", "array_api_strict": "bool"}
    if not hasattr(xp, dtype) or refused.get(xp.backend_name) == dtype:
        return
    many, held = 70000, getattr(xp, dtype)
    a = sparsetangent.Fill(xp.asarray(1, dtype=held), (2, many))
    b = sparsetangent.Fill(xp.asarray(1, dtype=held), (many, 3))
    product = oracle.to_numpy(sparsetangent.densify(a @ b))
    with np.errstate(over="ignore"):
        expected = np.asarray(many != 0) if dtype == "bool" else np.asarray(many).astype(dtype)
    assert product.dtype == np.dtype(dtype)
    assert np.array_equal(product, np.full((2, 3), expected))
    huge = sparsetangent.Fill(xp.asarray(1, dtype=held), (2, 2**30))
    if dtype == "bool":
        assert oracle.to_numpy(sparsetangent.densify(huge @ huge.T)).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers_contract_everywhere(xp, dtype):
    """torch multiplies matrices of signed integers only, wide ones."""
    if not hasattr(xp, dtype) or (dtype == "uint64" and xp.backend_name == "jax32"):
        return
    rng = np.random.default_rng(2)
    limit = np.iinfo(dtype).max
    rows, w = rng.integers(0, limit, (3, 4), dtype), rng.integers(0, limit, (4, 2), dtype)
    t = IndexedSlices(xp.asarray([2, 0, 2]), oracle.as_backend(xp, rows, getattr(xp, dtype)), (5, 4))
    dense = np.zeros((5, 4), dtype)
    for i, row in zip((2, 0, 2), rows, strict=True):
        dense[i] += row
    result = t @ oracle.as_backend(xp, w, getattr(xp, dtype))
    assert isinstance(result, IndexedSlices)
    assert result.dtype == getattr(xp, dtype)
    assert np.array_equal(oracle.to_numpy(result.densify()), dense @ w)
