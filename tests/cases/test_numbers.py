"""Cases of numbers: accumulation in short types, casts, integers, infinities and nans."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import from_dense, namespace
from tests.cases.support import array, case, dense, dtype_of, ids, same, slices


@pytest.mark.parametrize(
    "dtype, count, value",
    [
        case("C50", "tenstorrent/tt-metal#36341", "float16", 3000, 1.0),
        case("C50", "tenstorrent/tt-metal#36341", "bfloat16", 1000, 1.0, form="bfloat16"),
        case("C50", "tenstorrent/tt-metal#36341", "float16", 3000, 0.75, form="fractions"),
        pytest.param("bfloat16", 300, 1.0, id="torch-300-ones"),
        pytest.param("bfloat16", 300, -1.5, id="torch-300-fractions"),
    ],
)
def test_half_types_are_summed_in_float32(xp, dtype, count, value):
    if not hasattr(xp, dtype):
        return
    t = slices(xp, [0] * count, [value] * count, (1,), dtype)
    zero = array(xp, [0.0], dtype)
    sums = (t, t.coalesce(), t + zero, sp.add_n([t]), sp.add_into(zero, t), namespace(t.values).sum(t))
    for total in sums:
        assert total.dtype == dtype_of(xp, dtype)
        assert float(np.ravel(dense(sp.densify(total)))[0]) == count * value


@pytest.mark.parametrize("width", [1, 3])
def test_small_terms_survive_beside_a_large_one(xp, width):
    """C51, pytorch/pytorch#84471: 1000 ones after 1e8 in float32."""
    rows = np.repeat([[1e8], *[[1.0]] * 1000], width, axis=1)
    t = slices(xp, [0] * 1001, rows, (1, width), "float32")
    np.testing.assert_allclose(dense(t.coalesce().densify()), [[100001000.0] * width], rtol=1e-6)
    np.testing.assert_allclose(dense(t.densify()), [[100001000.0] * width], rtol=1e-6)


def test_a_floating_tangent_is_not_summed_in_integers(xp):
    """C119, scipy/scipy#24989: before or after merging the cast gives different numbers."""
    t = slices(xp, [0, 0, 1], [0.6, 0.6, 1.2], (2,))
    nx = t.__array_namespace__()
    for axis in (None, 0):
        with pytest.raises(TypeError):
            nx.sum(t, axis=axis, dtype=dtype_of(xp, "int64"))
    same(t.astype(dtype_of(xp, "int64")), [1, 1])  # a narrowing cast merges first


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8", "float32", "float64"])
def test_adding_at_points_in_every_dtype(xp, dtype):
    """C121, PaddlePaddle/Paddle#21986."""
    x = array(xp, [[1, 1, 1], [2, 2, 2]], dtype)
    t = slices(xp, ([1, 0], [1, 1]), [5, 3], (2, 3), dtype, axis=(0, 1))
    for total in (t + x, sp.add_into(array(xp, [[1, 1, 1], [2, 2, 2]], dtype), t)):
        assert total.dtype == x.dtype
        same(total, [[1, 4, 1], [2, 7, 2]])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "float16", "complex128"])
def test_every_occurrence_counts(xp, dtype):
    """C124, cupy/cupy#1658."""
    if not hasattr(xp, dtype):
        return
    rows = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    t = slices(xp, [0, 0, 1], rows, (2, 3), dtype)
    for total in (t, t + array(xp, np.zeros((2, 3)), dtype), sp.add_into(array(xp, np.zeros((2, 3)), dtype), t)):
        same(total, [[3, 5, 7], [6, 7, 8]])


def test_structural_zeros_are_strong_in_a_product(xp):
    """C54, scipy/scipy#7532: nan beside a row that is not stored stays out, by design; the dense product has it."""
    left, t = array(xp, [[np.nan, 1.0, 0.0], [0.0, 2.0, 0.0]]), slices(xp, [1], [[1.0, 2.0]], (3, 2))
    nx = t.__array_namespace__()
    same(nx.matmul(left, t), [[1, 2], [2, 4]])
    same(nx.matmul(t.T, xp.matrix_transpose(left)), [[1, 2], [2, 4]])
    same(left @ t.densify(), [[np.nan, np.nan], [2, 4]])
    stored = slices(xp, [0, 1], [[0.0, 0.0], [1.0, 2.0]], (3, 2))  # a zero that is stored is a number like any other
    same(nx.matmul(left, stored), [[np.nan, np.nan], [2, 4]])


def test_nan_is_not_zero(xp):
    """C57, scipy/scipy#16365."""
    t = from_dense(array(xp, [[np.nan], [0.0], [1.0]]))
    assert dense(t.indices).tolist() == [0, 2]
    same(t, [[np.nan], [0], [1]])


def test_infinities_stay_in_their_own_row(xp):
    """An infinite row must not reach the others, as it does in differences of cumulative sums."""
    t = slices(xp, [1, 2, 1], [[np.inf], [1.5], [2.0]], (3, 1))
    for u in (t, t.coalesce(), t + slices(xp, [0], [[0.5]], (3, 1)) - slices(xp, [0], [[0.5]], (3, 1))):
        same(u, [[0], [np.inf], [1.5]])
    with np.errstate(invalid="ignore" if xp.backend_name in ("numpy", "array_api_strict") else "warn"):
        same(t - t, [[0], [np.nan], [0]])
    same(t.retain(ids(xp, [2])), [[0], [0], [1.5]])
