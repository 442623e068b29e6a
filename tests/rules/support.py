"""What the tests of rules share: arrays of the backend at hand from plain data, and comparison with NumPy float64 oracles."""

import numpy as np

import sparsetangent as sp
from sparsetangent.testing import oracle


def dtype_of(xp, name="float64"):
    """A dtype by name, with 32-bit parts in JAX without 64-bit types."""
    narrower = {"float64": "float32", "complex128": "complex64", "int64": "int32"}
    return getattr(xp, narrower.get(name, name) if xp.backend_name == "jax32" else name)


def array(xp, x, dtype="float64"):
    """Plain data as an array of the backend; index arrays and bools keep their kind."""
    x = np.asarray(x)
    name = {"i": "int64", "b": "bool"}.get(x.dtype.kind, "complex128" if x.dtype.kind == "c" else dtype)
    return oracle.as_backend(xp, x, dtype_of(xp, name))


def narrowest(xp):
    """The name of the narrowest floating dtype: there is no half type in the strict namespace."""
    return "float16" if hasattr(xp, "float16") else "float32"


def dense(x):
    return oracle.loop_densify(x) if isinstance(x, sp.Tangent) else oracle.to_numpy(x)


def same(actual, expected, *, rtol=None, atol=None, note=""):
    """Assert shape and value: to rounding in the dtype of what is there, nan to nan."""
    values, expected = dense(actual), np.asarray(expected)
    assert values.shape == expected.shape, f"{note}: shape {values.shape}, expected {expected.shape}"
    eps = {"float32": 2e-5, "complex64": 2e-5, "float16": 4e-3}.get(values.dtype.name, 1e-11)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            values, expected, rtol=eps if rtol is None else rtol, atol=eps if atol is None else atol, err_msg=str(note)
        )


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def coarse(rng, shape, *, zero=True):
    """Random values with ties, zeros and negatives, exact in every float: multiples of a half up to 1.5."""
    choices = [-1.5, -1.0, -0.5, 0.5, 1.0, 1.5] + [0.0, 0.0] * zero
    return rng.choice(choices, shape)


def cotangents(xp, shape):
    """A cotangent of each kind for a shape; on JAX, which compiles for each, an array and slices."""
    yield array(xp, normal(shape, 1))
    axes = range(len(shape))
    if xp.backend_name.startswith("jax"):
        axes = axes[-1:]
    else:
        yield sp.Fill(array(xp, normal((), 2)), shape)
        yield sp.Zero(shape, like=array(xp, normal(())))
    for axis in axes:
        if n := shape[axis]:
            rest = tuple(m for a, m in enumerate(shape) if a != axis)
            yield sp.IndexedSlices(array(xp, np.array([n - 1, 0, n - 1])), array(xp, normal((3, *rest), 3)), shape, axis=axis)
