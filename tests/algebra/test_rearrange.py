"""Functions that flatten: the last stored axis may vanish in that, and an array is left."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent.testing import oracle


@pytest.fixture
def t(xp):
    """A tangent stored along an axis of size 1, so that any reshape may drop it; a place is held twice."""
    return st.IndexedSlices(xp.asarray([0, 0]), xp.asarray([[[1, 5], [-2, 3]], [[4, -9], [0, 8]]]), (2, 2, 1), axis=2)


X = np.array([[[5], [-4]], [[-2], [11]]])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions_in_the_flat_array(t, name, keepdims):
    found = getattr(st.namespace(t), name)(t, keepdims=keepdims)
    assert oracle.to_numpy(found).tolist() == getattr(np, name)(X, keepdims=keepdims).tolist()


@pytest.mark.parametrize(
    "name, arguments", [("repeat", (2,)), ("repeat", (np.array([1, 0, 2, 1]),)), ("roll", (3,)), ("tile", ((2, 1),))]
)
def test_the_flat_array_moved(xp, t, name, arguments):
    given = [xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    moved = getattr(st.namespace(t), name)(t, *given)
    assert oracle.to_numpy(st.densify(moved)).tolist() == getattr(np, name)(X, *arguments).tolist()


@pytest.mark.parametrize("k", [-(2**70), -3, -2, 0, 1, 3, 2**70])
def test_diagonals_far_out(xp, k):
    made = st.namespace(xp).eye(2, 3, k=k)
    expected = [[float(j - i == k) for j in range(3)] for i in range(2)]
    assert oracle.to_numpy(made.densify()).tolist() == expected


def test_flat_arrays_joined(t):
    joined = st.namespace(t).concat([t, t], axis=None)
    assert oracle.to_numpy(st.densify(joined)).tolist() == np.concatenate([X, X], axis=None).tolist()
