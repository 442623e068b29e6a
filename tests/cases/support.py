"""What the cases share: arrays of the backend at hand from plain data, and comparison with the right values in NumPy."""

from typing import Any

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent.testing import oracle

_NARROWER = {"float64": "float32", "complex128": "complex64", "int64": "int32", "uint64": "uint32"}


def case(number: str, source: str, *values: Any, form: str = "") -> Any:
    """A parameter set named by the case's id and the public report that it was re-made from."""
    return pytest.param(*values, id=f"{number}-{source}" + (f"-{form}" if form else ""))


def dtype_of(xp: Any, name: str) -> Any:
    """A dtype by name; the 32-bit one in JAX without 64-bit types."""
    return getattr(xp, _NARROWER.get(name, name) if xp.backend_name == "jax32" else name)


def array(xp: Any, data: Any, dtype: str = "float64") -> Any:
    return oracle.as_backend(xp, np.array(data, None if dtype == "bfloat16" else dtype), dtype_of(xp, dtype))


def ids(xp: Any, data: Any, dtype: str = "int64") -> Any:
    return array(xp, data, dtype)


def slices(xp: Any, index: Any, rows: Any, shape: tuple[int, ...], dtype: str = "float64", **keywords: Any) -> sp.IndexedSlices:
    """`IndexedSlices` of plain data; a tuple of index lists for several axes."""
    given = tuple(ids(xp, i) for i in index) if isinstance(index, tuple) else ids(xp, index)
    return sp.IndexedSlices(given, array(xp, rows, dtype), shape, **keywords)


def random(shape: tuple[int, ...], seed: int = 7) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def dense(x: Any) -> Any:
    """The NumPy array that a tangent or array stands for; for stored entries, `densify` and a literal loop must agree."""
    if not isinstance(x, sp.Tangent):
        return oracle.to_numpy(x)
    densified = oracle.to_numpy(x.densify())
    np.testing.assert_allclose(densified, oracle.loop_densify(x), rtol=1e-6, atol=1e-6)
    return densified


def same(x: Any, expected: Any) -> None:
    """Assert shape and value: to 1e-12 in double precision, 1e-6 in single, exactly in integers and bools."""
    actual, expected = dense(x), np.asarray(expected)
    assert actual.shape == expected.shape
    rtol = {"float64": 1e-12, "complex128": 1e-12, "float32": 1e-6, "complex64": 1e-6}.get(actual.dtype.name, 0)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


def writable(xp: Any) -> bool:
    """Whether arrays of the backend are written in place."""
    return xp.backend_name in ("numpy", "torch", "cupy")
