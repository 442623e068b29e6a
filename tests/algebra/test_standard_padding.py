"""Functions of the standard on tangents with padding, as static shapes leave them, and under jax.jit."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent.registry import TABLE
from sparsetangent.testing import laws, oracle, standard, strategies
from tests.conftest import _library
from tests.helpers import for_all

JITTED = {
    "argmax": lambda nx, x: nx.argmax(x, axis=0),
    "var": lambda nx, x: nx.var(x, axis=0),
    "std": lambda nx, x: nx.std(x, axis=1),
    "where": lambda nx, x: nx.where(x > 0, x, 0),
    "diagonal": lambda nx, x: nx.linalg.diagonal(x, offset=-1),
    "triu": lambda nx, x: nx.triu(x),
}


def test_padding_is_inert():
    (xp,) = _library("numpy")

    def body(t):
        slices = t.to_slices()
        padded = slices.coalesce(size=slices.stored + 2) if slices.coords else slices
        for name in TABLE:
            for operation in standard.OPERATIONS[name](t.shape):
                laws.check_law(operation.apply, padded, note=operation.name)

    floats = strategies.dtypes_of(xp, ("float64", "complex64", "bool"))
    for_all(xp, body, strategies.indexed_slices(xp, dtypes=floats), examples=25)


@pytest.mark.parametrize("name", sorted(JITTED))
def test_under_jit(name):
    jax = pytest.importorskip("jax")
    ids, rows = jax.numpy.asarray([2, 0, 2, 3]), np.asarray([[1.5, 0.0], [-2.0, 3.0], [0.25, -1.0], [0.0, 0.0]], np.float32)
    nx = st.namespace(jax.numpy)

    def function(rows):
        return st.densify(JITTED[name](nx, st.IndexedSlices(ids, rows, (4, 2))))

    dense = jax.numpy.asarray(oracle.loop_densify(st.IndexedSlices(np.asarray(ids), rows, (4, 2))))
    expected = st.densify(JITTED[name](nx, dense))
    assert np.allclose(oracle.to_numpy(jax.jit(function)(rows)), oracle.to_numpy(expected), atol=1e-6)
