"""PyData's sparse arrays there and back."""

import array_api_compat.numpy as xp
import numpy as np
import pytest

sparse = pytest.importorskip("sparse", reason="PyData's sparse is not installed")

from sparsetangent import IndexedSlices, Zero  # noqa: E402  (after the skip)
from sparsetangent.interop.pydata import from_coo, to_coo  # noqa: E402
from sparsetangent.testing import strategies  # noqa: E402
from sparsetangent.testing.oracle import loop_densify, relative_tolerance  # noqa: E402
from tests.helpers import for_all  # noqa: E402
from tests.interop.support import NUMPY, assert_identical  # noqa: E402


def test_it_stands_for_the_same_array():
    def check(t):
        x = to_coo(t)
        assert (x.shape, x.dtype, x.fill_value) == (t.shape, t.dtype, 0)
        flat = np.ravel_multi_index(x.coords, t.shape) if t.ndim and t.size else np.arange(x.nnz)
        assert (np.diff(flat) > 0).all()  # what COO relies on
        eps = relative_tolerance(x.data)
        np.testing.assert_allclose(x.todense(), loop_densify(t), rtol=eps, atol=eps)
        back = from_coo(x)
        assert back.unique and back._frame().ordered
        again = to_coo(back)
        np.testing.assert_array_equal(again.coords, x.coords)
        np.testing.assert_array_equal(again.data, x.data)
        assert_identical(from_coo(again), back)

    for_all(
        NUMPY,
        check,
        strategies.tangents(xp, dtypes=[d for d in strategies.dtypes_of(xp) if np.dtype(d).name != "bfloat16"]),
        examples=150,
    )


def test_a_merged_tangent_comes_back_as_it_was():
    def check(t):
        merged = IndexedSlices(t.coords, t.values, t.shape, axis=t.axis).coalesce()
        assert_identical(from_coo(to_coo(merged)), merged, index_dtypes=False)

    for_all(NUMPY, check, strategies.indexed_slices(xp, strategies.shapes(2, 2), axes=(0, 1), special=True), examples=60)


def test_sums_of_repeats_are_ours():
    t = IndexedSlices(np.zeros(3000, int), np.ones(3000, np.float16), (2,))
    assert to_coo(t).data.tolist() == [3000.0]  # one by one in float16: 2048
    assert to_coo(IndexedSlices([0, 0], np.array([True, True]), (2,))).data.tolist() == [True]
    assert to_coo(IndexedSlices([0, 0], np.array([200, 100], np.uint8), (2,))).data.tolist() == [44]


def test_other_formats_and_large_shapes():
    dense = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    for x in (sparse.GCXS(dense), sparse.DOK(sparse.COO(dense)), sparse.COO(dense)):
        np.testing.assert_array_equal(loop_densify(from_coo(x)), dense)
    t = IndexedSlices(np.array([2**50 - 1]), np.ones((1, 2)), (2**50, 2))
    assert from_coo(to_coo(t)).coords[0].tolist() == [2**50 - 1] * 2 and to_coo(Zero((2**50, 2))).nnz == 0
    padded = IndexedSlices(np.array([2, 2]), np.array([1.0, 2.0]), (3,)).coalesce(size=4)
    assert to_coo(padded).coords.tolist() == [[2]]


def test_errors():
    with pytest.raises(TypeError, match="t must be a tangent of NumPy arrays, not ndarray"):
        to_coo(np.ones(2))
    with pytest.raises(TypeError, match="x must be an array of PyData's sparse, not ndarray"):
        from_coo(np.ones(2))
    with pytest.raises(ValueError, match=r"fill value 0, not 1\.5"):
        from_coo(sparse.COO(np.array([[0]]), np.array([2.0]), shape=(3,), fill_value=1.5))
    x = sparse.COO(np.array([[0, 1]]), np.array([2.0, 3.0]), shape=(3,))
    x.coords[0, 1] = 9
    with pytest.raises(IndexError, match="holds 9 at position 1"):
        from_coo(x)
    x.coords[0, 1] = 0
    with pytest.raises(ValueError, match="claimed to be unique"):
        from_coo(x)
    x.coords[0, :] = 1, 0
    with pytest.raises(ValueError, match="claimed to be sorted"):
        from_coo(x)


def test_arrays_of_another_library():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="tangent of NumPy arrays, not IndexedSlices.*torch"):
        to_coo(IndexedSlices(torch.tensor([1]), torch.tensor([2.0]), (3,)))
