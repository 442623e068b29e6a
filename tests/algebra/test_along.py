"""Sorting along a stored axis, against NumPy on the dense array."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import IndexedSlices
from sparsetangent.testing import oracle

AXES = ((0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2))


def random_tangent(xp, rng, axes, shape, values):
    """Entries with repeats; their rows are drawn from `values`."""
    n = int(rng.integers(0, 9)) if all(shape[a] for a in axes) else 0
    ids = tuple(xp.asarray(rng.integers(0, shape[a], n)) for a in axes)
    rows = rng.choice(values, (n, *(m for a, m in enumerate(shape) if a not in axes)))
    return IndexedSlices(ids, xp.asarray(rows), shape, axis=axes)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_along_a_stored_axis(xp, descending):
    rng = np.random.default_rng(3)
    for axes in AXES[: 3 if xp.backend_name.startswith("jax") else None]:
        for shape in ((5, 2, 4), (3, 0, 2), (1, 3, 2)):
            t = random_tangent(xp, rng, axes, shape, [-2.0, -0.5, 0.0, 1.0, 4.0, np.nan, np.inf, -np.inf])
            with np.errstate(invalid="ignore"):
                dense = oracle.loop_densify(t)
            for axis in axes:
                with np.errstate(invalid="ignore"):  # inf - inf of two summands
                    result = st.namespace(xp.module).sort(t, axis=axis, descending=descending)
                expected = np.sort(dense, axis=axis)
                assert isinstance(result, IndexedSlices)
                with st.densify_policy("allow"):
                    got = oracle.to_numpy(result.densify())
                assert np.array_equal(got, np.flip(expected, axis) if descending else expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_sort_of_integers_along_a_stored_axis(xp, dtype):
    values = np.array([3, 0, 7, 5] if dtype == "uint8" else [3, 0, -7, 5])
    t = IndexedSlices(xp.asarray([4, 1, 4, 0]), xp.astype(xp.asarray(values), getattr(xp, dtype)), (6,))
    dense = oracle.loop_densify(t)
    assert oracle.to_numpy(st.namespace(xp.module).sort(t).densify()).tolist() == sorted(dense.tolist())


def test_sort_of_more_rows_than_can_be_addressed(xp64):
    t = IndexedSlices(xp64.asarray([3, 2**50 - 1, 3, 7]), xp64.asarray([1.0, -2.0, 3.0, 0.5]), (2**50,))
    result = st.namespace(xp64.module).sort(t)
    with st.densify_policy("raise"):
        assert [float(result[i]) for i in (0, 1, -2, -1)] == [-2.0, 0.0, 0.5, 4.0]


def test_the_zeroth_power_of_a_matrix_is_an_identity(xp):
    nx = st.namespace(xp.module)
    t = IndexedSlices(xp.asarray([1, 1]), xp.asarray(np.random.default_rng(0).standard_normal((2, 2, 3, 3))), (4, 2, 3, 3))
    with st.densify_policy("raise"):
        result = nx.linalg.matrix_power(t, 0)
    assert isinstance(result, IndexedSlices) and result.stored == 3
    assert np.array_equal(oracle.loop_densify(result), np.broadcast_to(np.eye(3), (4, 2, 3, 3)))
