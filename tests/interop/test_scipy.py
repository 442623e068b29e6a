"""SciPy's sparse arrays there and back; CuPy's with a stand-in, since they need a GPU."""

import array_api_compat.numpy as xp
import numpy as np
import pytest
import scipy
import scipy.sparse
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Zero
from sparsetangent.interop.scipy import from_scipy, to_coo, to_csr
from sparsetangent.testing import oracle, strategies
from sparsetangent.testing.oracle import loop_densify
from tests.helpers import for_all
from tests.interop import stand_ins
from tests.interop.support import NUMPY, assert_identical, stored

HELD = [d for d in strategies.dtypes_of(xp) if np.dtype(d).name not in ("float16", "bfloat16")]
"""The dtypes that SciPy has."""
AXES = 4 if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15) else 2


def test_coo_holds_the_same_entries_in_the_same_order():
    def check(t):
        x = to_coo(t)
        frame = t._frame()
        assert (x.shape, x.dtype) == (t.shape, t.dtype)
        wanted = [e for e in stored(frame, range(t.ndim)) if e[0][0] < t.shape[0]]  # the rest is padding
        assert list(zip(*(c.tolist() for c in x.coords), strict=True)) == [place for place, _ in wanted]
        np.testing.assert_array_equal(x.data, np.array([v for _, v in wanted], t.dtype))
        assert oracle.close(x.toarray(), loop_densify(t), rtol=1e-5, atol=1e-6)  # SciPy sums in an order of its own
        back = from_scipy(x)
        np.testing.assert_array_equal(loop_densify(back), loop_densify(t))
        assert (back.unique, back._frame().ordered) == 2 * (bool(x.has_canonical_format),)
        assert_identical(from_scipy(to_coo(back)), back)

    for_all(NUMPY, check, strategies.tangents(xp, strategies.shapes(1, AXES), HELD), examples=150)


def test_a_tangent_with_every_axis_stored_comes_back_as_it_was():
    def check(t):
        t = IndexedSlices(t.coords, t.values, t.shape, axis=t.axis)
        assert_identical(from_scipy(to_coo(t)), t)
        merged = t.coalesce()
        back = from_scipy(to_coo(merged))
        assert_identical(back, merged)
        assert back.unique and back._frame().ordered

    both = strategies.indexed_slices(xp, strategies.shapes(2, 2), HELD, axes=(0, 1), special=True)
    for_all(NUMPY, check, both, examples=60)


@hs.composite
def matrices(draw):
    """COO arrays with repeats, in any order."""
    rows, columns = draw(hs.integers(1, 4)), draw(hs.integers(1, 4))
    n = draw(hs.integers(0, 6))
    ids = (np.array(draw(hs.lists(hs.integers(0, size - 1), min_size=n, max_size=n)), np.int32) for size in (rows, columns))
    values = np.array(
        draw(hs.lists(hs.integers(-5, 5), min_size=n, max_size=n)), draw(hs.sampled_from(["int8", "float64", "complex64"]))
    )
    return scipy.sparse.coo_array((values, tuple(ids)), shape=(rows, columns))


def test_arrays_of_scipy_come_back_as_they_were():
    def check(x):
        back = to_coo(from_scipy(x))
        assert back.has_canonical_format == x.has_canonical_format
        for a, b in zip((*x.coords, x.data), (*back.coords, back.data), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        order = np.argsort(x.coords[0], kind="stable")
        starts = np.searchsorted(x.coords[0][order], np.arange(x.shape[0] + 1))
        csr = scipy.sparse.csr_array((x.data[order], x.coords[1][order], starts), shape=x.shape)  # repeats, unsorted
        again = to_csr(from_scipy(csr))
        assert again.has_canonical_format == csr.has_canonical_format
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(again, part), getattr(csr, part))
        np.testing.assert_array_equal(to_csr(from_scipy(x)).toarray(), x.toarray())
        x.sum_duplicates()
        assert x.has_canonical_format and to_coo(from_scipy(x)).has_canonical_format
        assert to_csr(from_scipy(x)).has_canonical_format

    for_all(NUMPY, check, matrices(), examples=100)


@pytest.mark.parametrize("format", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format(format, kind):
    dense = np.array([[0.0, 2.5, 3.0], [4.0, 0.0, -1.0]])
    x = getattr(scipy.sparse, f"{format}_{kind}")(dense)
    np.testing.assert_array_equal(loop_densify(from_scipy(x)), dense)


def test_explicit_zeros_and_shared_memory():
    x = scipy.sparse.coo_array((np.array([0.0, 3.0]), (np.array([1, 0], np.int32), np.array([0, 0], np.int32))), shape=(2, 2))
    t = from_scipy(x)
    assert t.stored == 2 and np.shares_memory(t.values, x.data) and np.shares_memory(t.coords[0], x.coords[0])
    assert np.shares_memory(to_coo(t).data, x.data)


def test_padding_is_left_out():
    t = IndexedSlices(np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0]), (3,)).coalesce(size=6)
    x = to_coo(t)
    assert x.coords[0].tolist() == [0, 2] and x.data.tolist() == [2.0, 4.0] and x.has_canonical_format
    dropped = OneHot(np.array([1, 9, 0]), 2, dtype=np.float64, mode="drop")
    assert to_csr(dropped).toarray().tolist() == [[0, 1], [0, 0], [1, 0]]


def test_nothing_of_the_dense_shape_is_made():
    rows = 2**50
    t = IndexedSlices(np.array([rows - 1, 7]), np.ones((2, 3)), (rows, 3))
    assert from_scipy(to_coo(t)).shape == (rows, 3) and to_coo(Zero((rows, 2))).nnz == 0
    assert to_coo(t).coords[0].max() == rows - 1


def test_errors():
    x = scipy.sparse.coo_array((np.ones(2), (np.array([0, 1]), np.array([0, 1]))), shape=(2, 2))
    with pytest.raises(TypeError, match="t must be a tangent, not ndarray"):
        to_coo(np.ones((2, 2)))
    with pytest.raises(TypeError, match="x must be a sparse array or matrix of SciPy or CuPy, not ndarray"):
        from_scipy(np.ones((2, 2)))
    with pytest.raises(ValueError, match="without axes"):
        to_coo(Fill(np.float64(1), ()))
    with pytest.raises(ValueError, match=r"two axes, not the 1 of shape \(3,\)"):
        to_csr(Zero((3,)))
    with pytest.raises(ValueError, match="float16"):
        to_coo(IndexedSlices(np.array([0]), np.ones(1, np.float16), (2,)))
    x.coords[0][1] = 5  # as a careless owner may
    with pytest.raises(IndexError, match="holds 5 at position 1, out of range for axis 0 of size 2"):
        from_scipy(x)
    x.coords[0][1] = -1
    with pytest.raises(IndexError, match="holds -1"):
        from_scipy(x)
    x.coords[0][:], x.coords[1][:] = 1, 1
    x.has_canonical_format = True
    with pytest.raises(ValueError, match="claimed to be unique, and repeat"):
        from_scipy(x)


def test_arrays_of_another_library():
    torch = pytest.importorskip("torch")
    t = IndexedSlices(torch.tensor([1]), torch.tensor([2.0]), (3,))
    with pytest.raises(TypeError, match="not of torch; convert it first"):
        to_coo(t)
    assert to_coo(st.interop.convert(t, np)).toarray().tolist() == [0.0, 2.0, 0.0]


@pytest.fixture
def cupy():
    with stand_ins.cupy():
        yield


@pytest.mark.usefixtures("cupy")
def test_cupy_by_a_stand_in():
    rng = np.random.default_rng(0)
    ids, values = rng.integers(0, 4, 6), rng.normal(size=(6, 3))
    t = IndexedSlices(ids.view(stand_ins.OnCard), values.view(stand_ins.OnCard), (4, 3))
    x = to_coo(t)
    assert isinstance(x, stand_ins.CooMatrix) and not x.has_canonical_format
    assert x.row.tolist() == np.repeat(ids, 3).tolist() and x.col.tolist() == [0, 1, 2] * 6
    assert x.data.tolist() == values.reshape(-1).tolist()
    wanted = np.zeros((4, 3))
    for i, row in zip(ids, values, strict=True):
        wanted[i] += row
    back = from_scipy(x)
    assert isinstance(back.values, stand_ins.OnCard) and back.axis == (0, 1)
    dense = np.zeros((4, 3))
    for i, j, v in zip(*map(np.asarray, (*back.coords, back.values)), strict=True):
        dense[i, j] += v
    np.testing.assert_allclose(dense, wanted)
    csr = to_csr(t)
    for i in range(4):
        row = np.zeros(3)
        for k in range(csr.indptr[i], csr.indptr[i + 1]):
            row[csr.indices[k]] += csr.data[k]
        np.testing.assert_allclose(row, wanted[i])
