"""Cases of ids: out of range, negative, narrow, floating, and offsets beyond 32 bits."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import IndexedSlices, OneHot
from tests.cases.support import array, case, dense, ids, random, same, slices

DTYPES = ["float32", "int32", "float16", "float64", "int64", "bool", "complex64"]


def test_a_target_of_length_0(xp):
    """C25, cupy/cupy#10245."""
    with pytest.raises(IndexError):
        slices(xp, [6, 5, 1], [1.5, 2.5, 3.5], (0,))
    assert slices(xp, [], [], (0,)).densify().shape == (0,)
    same(slices(xp, [1, 1], [2.0, 3.0], (2,)), [0, 5])  # still usable


@pytest.mark.parametrize("dtype", DTYPES)
def test_bad_ids_raise_for_every_dtype(xp, dtype):
    """C26, tensorflow/tensorflow#13687; torch's COO constructor takes such ids and `to_dense` then corrupts memory."""
    if not hasattr(xp, dtype):
        return
    for bad in ([0, 9], [0, 8], [-9, 0]):
        with pytest.raises(IndexError, match="out of range for axis 0 of size 8"):
            slices(xp, bad, [1, 2], (8,), dtype)
        with pytest.raises(IndexError):
            sp.rules.take(array(xp, np.arange(8), dtype), ids(xp, bad))


@pytest.mark.parametrize(
    "given, depth, bad",
    [case("C29", "tensorflow/tensorflow#11727", [3, 4, -1], 4, 4), case("C30", "pytorch/pytorch#45352", [1, 2, -1, 8], 4, -1)],
)
def test_one_hot_out_of_range(xp, given, depth, bad):
    with pytest.raises(IndexError, match=rf"holds {bad} .*size {depth}"):
        OneHot(ids(xp, given), depth)
    dropped = OneHot(ids(xp, given), depth, mode="drop", dtype=array(xp, 0.0).dtype)
    expected = np.asarray(given)[:, None] == np.arange(depth)
    same(dropped, expected)
    w = random((depth, 3))
    same(dropped @ array(xp, w), expected @ w)
    gradient = sp.rules.one_hot_matmul_vjp(array(xp, random((len(given), 3))), dropped, (depth, 3))
    assert np.allclose(dense(gradient), expected.T @ random((len(given), 3)), atol=1e-6)


def test_negatives_count_from_the_end(xp):
    """C35, jax-ml/jax#17387: one rule for the type, indexing and `take`."""
    given = [0, 1, -1, -1]
    same(slices(xp, given, [1.0, 1.0, 1.0, 1.0], (4,)), [1, 1, 0, 2])
    dy = [1.5, -2.0, 0.25, 4.0]
    for gradient in (
        slices(xp, given, dy, (4,)),
        sp.rules.take_vjp(array(xp, dy), (4,), ids(xp, given)),
        sp.rules.getitem_vjp(array(xp, dy), (4,), ids(xp, given)),
    ):
        same(gradient, [1.5, -2.0, 0, 4.25])
    x = slices(xp, [3, 0], [5.0, 7.0], (4,))
    same(x[ids(xp, given)], [7, 0, 5, 5])


def test_negative_ids_in_a_sum(xp):
    """C37, numpy/numpy#24147."""
    base = array(xp, [1.0, 2.0, 3.0])
    t = slices(xp, [-1, 0, -1], [1.0, 1.0, 1.0], (3,))
    for total in (t + base, sp.add_n([base, t]), sp.add_into(array(xp, [1.0, 2.0, 3.0]), t)):
        same(total, [2, 2, 5])


def test_the_id_dtype_does_not_set_the_offset_dtype(xp):
    """C42, pytorch/pytorch#188467: flat offset 2147580963 from int32 coordinates."""
    shape, place = (46342, 46342), 46341
    index = ids(xp, [place], "int32")
    t = IndexedSlices((index, index), array(xp, [2.5]), shape, axis=(0, 1))
    for u in (t, t.coalesce(), t + t - t, t * 1.0):
        merged = u.coalesce()
        assert [int(c[0]) for c in merged.coords] == [place, place]
        assert float(u[place, place]) == 2.5 and float(u[0, place]) == 0
    nx = t.__array_namespace__()
    if xp.backend_name == "jax32":
        with pytest.raises(ValueError):
            nx.reshape(t, (-1,))
        return
    assert int(nx.reshape(t, (-1,)).indices[0]) == 2147580963


def test_reshape_beyond_32_bits(xp):
    """C43, scipy/scipy#8912."""
    t = slices(xp, ([49999], [49998]), [1.5], (50000, 50000), axis=(0, 1))
    moved = t.__array_namespace__().reshape(t, (25000, 100000))
    assert [int(c[0]) for c in moved.coords] == [24999, 99998] and float(moved[24999, 99998]) == 1.5


@pytest.mark.parametrize(
    "given, dtype, rows, size",
    [
        case("C46", "openxla/xla#48718", [200], "uint8", [1000.0], 300),
        case("C126", "data-apis/array-api#864", [65535, 0], "uint16", [1.0, 2.0], 65536),
        case("C46", "openxla/xla#48718", [-128, 127], "int8", [1.5, 2.5], 300, form="signed"),
    ],
)
def test_narrow_ids(xp, given, dtype, rows, size):
    """The containers of C126 too: arrays, lists and tuples."""
    expected = np.zeros(size)
    expected[given] = rows
    for container in (ids(xp, given, dtype) if hasattr(xp, dtype) else ids(xp, given), given, tuple(given)):
        t = IndexedSlices(container, array(xp, rows), (size,))
        same(t, expected)
        same(sp.rules.take(array(xp, expected), container), rows)


def test_ids_past_the_precision_of_float32(xp):
    """C48, apache/mxnet#9190."""
    t = slices(xp, [16777217], [1.5], (20000000,))
    assert int(t.indices[0]) == 16777217 and float(t[16777217]) == 1.5 and float(t[16777216]) == 0
    with pytest.raises(TypeError, match="integer dtype"):
        IndexedSlices(array(xp, [16777217], "float32"), array(xp, [1.5]), (20000000,))


@pytest.mark.parametrize("given", [[1.9999999], [], [2.0]])
def test_floating_ids_are_refused(xp, given):
    """C118, jax-ml/jax#25484."""
    floating = array(xp, given, "float32")
    for use in (
        lambda: OneHot(floating, 4),
        lambda: IndexedSlices(floating, array(xp, given), (4,)),
        lambda: sp.rules.take(array(xp, random((4,))), floating),
        lambda: sp.rules.embedding(array(xp, random((4, 2))), floating),
    ):
        with pytest.raises(TypeError, match="integer dtype"):
            use()
