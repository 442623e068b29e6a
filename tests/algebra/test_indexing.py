"""Keys that are tangents themselves, and values of every dtype, against NumPy on the dense arrays."""

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all


@hs.composite
def masked(draw, xp):
    """A tangent, and a tangent of bools over its leading axes."""
    t = draw(strategies.tangents(xp, strategies.shapes(min_dims=1)))
    many = draw(hs.integers(1, t.ndim))
    return t, draw(strategies.indexed_slices(xp, hs.just(t.shape[:many]), [xp.bool]))


def test_a_mask_that_is_a_tangent_is_never_made_dense(xp):
    def body(pair):
        t, mask = pair
        with st.densify_policy("raise"):
            result = t[mask]
        expected = oracle.loop_densify(t)[oracle.loop_densify(mask)]
        assert oracle.close(oracle.to_numpy(st.densify(result)), expected, rtol=1e-6, atol=1e-6)
        assert result.dtype == t.dtype

    for_all(xp, body, masked(xp))


def test_a_mask_of_a_huge_axis(xp64):
    t = st.IndexedSlices(xp64.asarray([5, 2**49, 5]), xp64.asarray([1.5, 2.0, 3.0]), (2**50,))
    assert oracle.to_numpy(st.densify(t[t != 0])).tolist() == [4.5, 2.0]


@hs.composite
def indexed(draw, xp):
    """A tangent, and a tangent of indices for its first axis."""
    t = draw(strategies.tangents(xp, strategies.shapes(min_dims=1).filter(lambda s: s[0])))
    batch = draw(strategies.shapes(max_dims=2))
    ids = np.random.default_rng(draw(hs.integers(0, 99))).integers(-t.shape[0], t.shape[0], batch)
    axes = draw(hs.sampled_from([(), *((a,) for a in range(len(batch))), tuple(range(len(batch)))]))
    return t, st.from_dense(xp.asarray(ids), axis=axes)


def test_indices_that_are_a_tangent(xp):
    def body(pair):
        t, ids = pair
        with st.densify_policy("allow"):
            read, taken = t[ids], st.namespace(t).take(t, ids, axis=0) if ids.ndim == 1 else None
        expected = oracle.loop_densify(t)[oracle.loop_densify(ids)]
        for result in (read, taken) if ids.ndim == 1 else (read,):
            assert tuple(result.shape) == expected.shape
            assert oracle.close(oracle.to_numpy(st.densify(result)), expected, rtol=1e-6, atol=1e-6)

    for_all(xp, body, indexed(xp))


def test_indices_that_are_a_tangent_ask_the_policy():
    t = st.IndexedSlices(np.array([1]), np.array([2.5]), (3,))
    ids = st.IndexedSlices(np.array([0]), np.array([1]), (2,))
    with st.densify_policy("raise"), pytest.raises(st.DensifyError, match="getitem has no compact answer"):
        t[ids]


def test_reads_of_stored_rows_in_every_dtype(xp):
    """torch's own take refuses wide unsigned integers."""
    rows = np.random.default_rng(1).integers(0, 2, (3, 2))
    ids, others = [2, 0, 1], [0, 0, 1]
    expected = np.zeros((3, 2, 2))
    for i, j, row in zip(ids, others, rows, strict=True):
        expected[i, j] = row
    names = [
        n for n in strategies.DTYPES if strategies.dtypes_of(xp, (n,)) or (n.startswith("uint") and "torch" in xp.__name__)
    ]
    for name in names:
        values = oracle.as_backend(xp, rows, getattr(xp, name))
        t = st.IndexedSlices((xp.asarray(ids), xp.asarray(others)), values, (3, 2, 2), axis=(0, 1))
        for key in (2, (slice(None), 0)):
            assert oracle.close(oracle.to_numpy(st.densify(t[key])), expected[key], rtol=0, atol=0), name


@pytest.mark.parametrize("mask", [np.zeros((0,), bool), np.zeros((0, 0), bool), np.zeros((0, 3), bool), np.zeros((2, 0), bool)])
def test_an_empty_axis_of_a_mask_goes_with_any_axis(xp, mask):
    x = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])
    t = st.from_dense(xp.asarray(x), axis=1)
    result = t[xp.asarray(mask)]
    assert result.shape == x[mask].shape
    assert result.dtype == t.dtype
    with pytest.raises(IndexError, match="does not fit axis 1 of size 3"):
        t[xp.asarray(np.zeros((2, 2), bool))]


def test_an_axis_out_of_range_is_the_error_of_every_library(xp):
    """NumPy's is a ValueError and an IndexError, torch's the one, JAX's the other."""
    t = st.Zero((2, 3), like=xp.asarray([1.0]))
    nx = st.namespace(t)
    for error in (ValueError, IndexError):
        with pytest.raises(error, match="axis 4 is out of range for 3 axes"):
            nx.expand_dims(t, axis=4)
