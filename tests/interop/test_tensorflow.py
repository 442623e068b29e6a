"""TensorFlow's IndexedSlices there and back: TensorFlow itself where it is installed, and a stand-in elsewhere."""

import array_api_compat.numpy as xp
import numpy as np
import pytest

from sparsetangent import Fill, IndexedSlices, Zero
from sparsetangent.interop.tensorflow import from_indexed_slices, to_indexed_slices
from sparsetangent.testing import strategies
from sparsetangent.testing.oracle import loop_densify
from tests.helpers import for_all
from tests.interop import stand_ins
from tests.interop.support import NUMPY, assert_identical


@pytest.fixture(autouse=True)
def tf():
    with stand_ins.tensorflow() as module:
        yield module


def slices(tf, values, indices, dense_shape=None):
    return tf.IndexedSlices(*(x if x is None else tf.convert_to_tensor(x) for x in (values, indices, dense_shape)))


def test_there_and_back():
    def check(t):
        x = to_indexed_slices(t)
        assert x.dense_shape.numpy().tolist() == list(t.shape)
        np.testing.assert_array_equal(x.indices.numpy(), t.indices)
        np.testing.assert_array_equal(x.values.numpy(), t.values)
        assert_identical(from_indexed_slices(x), IndexedSlices(t.indices, t.values, t.shape))  # it has no flags

    for_all(NUMPY, check, strategies.indexed_slices(xp, strategies.shapes(1), axes=(0,), special=True), examples=100)


def test_types_without_a_stored_axis_are_given_by_rows():
    for t, count in (
        (Fill(np.float32(2), (3, 2)), 3),
        (Zero((2**50, 2)), 0),
        (IndexedSlices((), np.ones((2, 3)), (3,), axis=()), 6),
    ):
        x = to_indexed_slices(t)
        assert len(x.indices.numpy()) == count == len(x.values.numpy())
        if t.size < 100:
            np.testing.assert_array_equal(loop_densify(from_indexed_slices(x)), loop_densify(t))


def test_padding_is_left_out():
    x = to_indexed_slices(IndexedSlices(np.array([2, 2]), np.array([1.0, 2.0]), (3,)).coalesce(size=4))
    assert x.indices.numpy().tolist() == [2] and x.values.numpy().tolist() == [3.0]


def test_tangents_of_other_libraries():
    torch = pytest.importorskip("torch")
    x = to_indexed_slices(IndexedSlices(torch.tensor([1, 1]), torch.ones(2, 3), (4, 3)))
    assert x.indices.numpy().tolist() == [1, 1] and x.values.numpy().shape == (2, 3)


def test_errors(tf):
    with pytest.raises(TypeError, match="t must be a tangent, not ndarray"):
        to_indexed_slices(np.ones(2))
    with pytest.raises(ValueError, match=r"stores the first axis alone, not \(1,\) of shape \(3, 4\)"):
        to_indexed_slices(IndexedSlices(np.array([0]), np.ones((1, 3)), (3, 4), axis=1))
    with pytest.raises(ValueError, match="first axis alone"):
        to_indexed_slices(Fill(np.float32(1), ()))
    with pytest.raises(TypeError, match=r"x must be a tf\.IndexedSlices, not ndarray"):
        from_indexed_slices(np.ones(2))
    x = slices(tf, np.ones((2, 3)), [0, 5])
    with pytest.raises(ValueError, match="give shape="):
        from_indexed_slices(x)
    assert from_indexed_slices(x, (6, 3)).shape == (6, 3)
    with pytest.raises(IndexError, match="holds 5 at position 1"):
        from_indexed_slices(x, (4, 3))
    with pytest.raises(IndexError, match="holds -1 at position 0"):
        from_indexed_slices(slices(tf, np.ones((1, 3)), [-1]), (4, 3))
    with pytest.raises(ValueError, match="axis 0 is out of range for 0 axes"):
        from_indexed_slices(slices(tf, np.ones(1), [0]), ())
    x = slices(tf, np.ones((2, 3)), [0, 5], [6, 3])
    with pytest.raises(ValueError, match=r"shape \(7, 3\) is not the dense shape \(6, 3\)"):
        from_indexed_slices(x, (7, 3))
