"""The contract's own suite on compiled loops, at any size; and what is particular to them."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from sparsetangent.kernels.numba import NumbaKernels
from sparsetangent.kernels.numpy import NumpyKernels
from tests.conftest import _library
from tests.kernels import reference as ref
from tests.kernels.test_contract import *  # noqa: F403

pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")


@pytest.fixture
def xp() -> Any:
    yield from _library("numpy")


@pytest.fixture
def kernels() -> NumbaKernels:
    return NumbaKernels(smallest=0)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "longdouble"]
)
@pytest.mark.parametrize("size", [3, 40, 10**5, 2**40])
def test_many_entries(kernels, dtype, size):
    rng = np.random.default_rng(8)
    n = 5000
    ids = np.where(rng.random(n) < 0.1, size, rng.integers(0, size, n) // (1 if size < 10**5 else 7))
    rows = ref.values(rng, (n, 3), dtype)
    distinct, inverse = kernels.unique_inverse(ids, size)
    want = sorted(set(ids.tolist()) - {size})
    assert distinct.tolist() == want
    places = {i: k for k, i in enumerate(want)}
    assert inverse.tolist() == [places.get(i, len(want)) for i in ids.tolist()]
    merged, sums = kernels.coalesce(ids, rows, size)
    assert merged.tolist() == want
    expected = ref.loop_add(np.zeros((len(want), 3), rows.dtype), inverse, rows)
    np.testing.assert_allclose(sums, expected, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_ids_of_either_width_and_any_layout(kernels):
    rng = np.random.default_rng(9)
    for ids in (rng.integers(0, 50, 3000).astype(np.int32)[::2], rng.integers(0, 50, 3000)[::-1]):
        rows = rng.integers(-9, 9, (2 * len(ids), 8)).astype(">f4")[::2, ::2]
        want = ref.loop_add(np.zeros((50, 4), np.float32), ids, rows.astype(np.float32))
        np.testing.assert_array_equal(kernels.densify(ids, rows, 50), want)


SWITCH = """
import sys, numpy as np, sparsetangent as st
t = st.IndexedSlices(np.arange(5000) % 7, np.random.default_rng(0).normal(size=(5000, 4)), (9, 4))
t.densify()
print(type(st.backend.backend_of(t.values).kernels).__name__, "numba" in sys.modules)
"""


@pytest.mark.parametrize(("value", "said"), [("0", "NumpyKernels False"), ("1", "NumbaKernels True")])
def test_switch(value, said):
    environment = {**os.environ, "SPARSETANGENT_NUMBA": value}
    done = subprocess.run([sys.executable, "-c", SWITCH], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == said, done.stderr


@pytest.mark.parametrize("kernels", [NumpyKernels(), NumbaKernels(smallest=0)], ids=["numpy", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "longdouble"])
@pytest.mark.parametrize("size", [1, 4, 60, 2**40])
def test_product_of_others(kernels, dtype, size):
    rng = np.random.default_rng(size % 97)
    for n, inner in ((0, (2,)), (1, ()), (70, (3,)), (300, (2, 2)), (40, (0,))):
        ids = np.where(rng.random(n) < 0.1, size, rng.integers(0, min(size, 60), n))
        rows = ref.values(rng, (n, *inner), dtype)
        rows[rng.random(rows.shape) < 0.05] = 0
        want = np.ones_like(rows)
        for i in range(n):
            for j in range(n):
                if i != j and ids[i] == ids[j] and ids[i] < size:
                    want[i] *= rows[j]
        kept = rows.copy()
        got = kernels.product_of_others(ids, rows, size)
        inside = ids < size
        assert got.dtype == rows.dtype and got.shape == rows.shape
        np.testing.assert_allclose(got[inside], want[inside], rtol=1e-4 if np.dtype(dtype).itemsize <= 8 else 1e-12)
        np.testing.assert_array_equal(rows, kept)
    with pytest.raises(IndexError, match="id -1 at position 1"):
        kernels.product_of_others(np.array([0, -1]), np.ones((2, 1)), 3)


def test_folds_of_many_rows_with_nan(kernels):
    rng = np.random.default_rng(3)
    for dtype in ("bool", "int8", "uint64", "float32", "float64"):
        ids, rows = rng.integers(0, 50, 2000), ref.values(rng, (2000, 3), dtype)
        if rows.dtype.kind == "f":
            rows[rng.random(rows.shape) < 0.01] = np.nan
            rows[rng.random(rows.shape) < 0.01] = -np.inf
        for op, fold in (("min", np.minimum), ("max", np.maximum), ("mul", np.multiply)):
            dst = ref.values(rng, (50, 3), dtype)
            want = dst.copy()
            for i, row in zip(ids.tolist(), rows, strict=True):
                want[i] = fold(want[i], row)
            np.testing.assert_allclose(kernels.scatter_reduce(op, dst, ids, rows), want, rtol=1e-4)


@pytest.mark.parametrize("kernels", [NumpyKernels(), NumbaKernels(smallest=0)], ids=["numpy", "numba"])
@pytest.mark.parametrize(("n", "size", "inner"), [(900, 3, (2,)), (70_000, 40, (3,)), (70_001, 40, ()), (5000, 1, (1,))])
def test_sums_in_blocks_are_sums(kernels, n, size, inner):
    """Few blocks or many, each in one go or all at once; the error grows with the root of the repeats."""
    rng = np.random.default_rng(n)
    ids = rng.integers(0, size, n)
    rows = (1e4 + rng.random((n, *inner))).astype(np.float32)
    want = ref.loop_add(np.zeros((size, *inner)), ids, rows.astype(np.float64))
    got = kernels.densify(ids, rows, size)
    np.testing.assert_allclose(got, want, rtol=5e-6)
