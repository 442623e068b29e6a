"""What only NumPy arrays do: memory that cannot or must not be written, and SciPy loaded late."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from sparsetangent.kernels import numpy as module
from sparsetangent.kernels.numpy import NumpyKernels
from tests.kernels import reference as ref

kernels = NumpyKernels()

WRITES = {
    "scatter_add": lambda dst, ids, rows: kernels.scatter_add(dst, ids, rows),
    "put": lambda dst, ids, rows: kernels.put(dst, ids, rows),
    "scatter_reduce": lambda dst, ids, rows: kernels.scatter_reduce("mul", dst, ids, rows),
}


@pytest.mark.parametrize("call", sorted(WRITES))
@pytest.mark.parametrize("inner", [(), (2,), (2000,)])
def test_read_only_dst(call, inner):
    dst = np.arange(3 * int(np.prod(inner)), dtype=float).reshape(3, *inner)
    before = dst.copy()
    dst.flags.writeable = False
    with pytest.raises(ValueError, match="dst is read-only"):
        WRITES[call](dst, np.array([1]), np.full((1, *inner), 7.0))
    np.testing.assert_array_equal(dst, before)


@pytest.mark.parametrize("call", sorted(WRITES))
@pytest.mark.parametrize("strides", [(0, 8), (8, 0), (0, 0)])
def test_dst_that_overlaps_itself(call, strides):
    base = np.array([1.0, 2.0, 3.0])
    dst = np.lib.stride_tricks.as_strided(base, (3, 2), strides, writeable=True)
    with pytest.raises(ValueError, match="dst overlaps itself"):
        WRITES[call](dst, np.array([1]), np.ones((1, 2)))
    assert base.tolist() == [1, 2, 3]


@pytest.mark.parametrize("call", sorted(WRITES))
def test_rows_of_another_shape(call):
    # np.add.at would spread the one row over all ids.
    for shape in ((1, 2), (3,), (3, 1), (3, 3)):
        dst = np.zeros((4, 2))
        with pytest.raises(ValueError, match="do not go with rows of shape"):
            WRITES[call](dst, np.array([0, 1, 2]), np.ones(shape))
        assert not dst.any()


def test_stride_zero_axes_of_size_one_are_written():
    dst = np.broadcast_to(np.zeros((4, 1)), (4, 1)).copy()
    dst = np.lib.stride_tricks.as_strided(dst, (4, 1), (8, 0), writeable=True)
    assert kernels.scatter_add(dst, np.array([2]), np.array([[5.0]]))[2, 0] == 5


@pytest.mark.parametrize("d", [2, 900])
def test_foreign_byte_order(d):
    rng = np.random.default_rng(4)
    ids, rows = rng.integers(0, 3, 5).astype(">i8"), rng.normal(size=(5, d)).astype(">f4")
    dense = kernels.densify(ids, rows, 3)
    assert dense.dtype == rows.dtype
    want = ref.loop_add(np.zeros((3, d)), ids, rows.astype(float))
    np.testing.assert_allclose(dense, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(IndexError, match="id 3 at position 0"):
        kernels.densify(ids * 0 + 4 - 1, rows, 2)


def test_infinite_complex_numbers():
    # One times inf is nan + nan j in complex arithmetic: a product by complex ones would spoil them.
    rows = np.full((3, 900), complex(np.inf, 1.0))
    dense = kernels.densify(np.array([0, 1, 1]), rows, 2)
    assert (dense.real == np.inf).all()
    assert dense.imag[:, 0].tolist() == [1, 2]


@pytest.mark.parametrize("size", [10, 300, 2**16 + 5, 2**33, 2**50])
def test_radix_sort(size):
    ids = np.random.default_rng(size % 97).integers(0, size, 1000)
    ids[[3, 5]] = ids[4]
    np.testing.assert_array_equal(module._stable_order(ids, size), np.argsort(ids, kind="stable"))


def test_scatter_add_takes_no_memory_of_the_size_of_dst():
    dst = np.zeros((200_000, 16), np.float32)
    ids = np.random.default_rng(0).integers(0, 200_000, 500)
    rows = np.ones((500, 16), np.float32)
    for call in WRITES.values():
        call(dst, ids, rows)
        tracemalloc.start()
        call(dst, ids, rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < dst.nbytes / 10


def test_gather_of_a_broadcast_source_reads_only_the_rows():
    src = np.broadcast_to(np.array([3.0]), (2**50,))
    assert kernels.gather(src, np.array([7, 2**50, 2**49])).tolist() == [3, 0, 3]


def test_scipy_is_loaded_by_the_first_kernel_that_needs_it():
    code = """
import sys, numpy as np
from sparsetangent.kernels.numpy import NumpyKernels
k, ids = NumpyKernels(), np.array([1, 1])
k.densify(ids, np.ones((2, 3)), 4); k.coalesce(ids, np.ones((2, 3)), 2**40); k.scatter_add(np.ones((4, 3)), ids, np.ones((2, 3)))
assert not any(name.startswith("scipy") for name in sys.modules)
k.densify(ids, np.ones((2, 1000)), 4)
assert "scipy.sparse" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("loop", ["there", "moved"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "longdouble"]
)
def test_many_rows_added_in_place(dtype, loop, monkeypatch):
    """Beyond the sizes at which `ufunc.at` is quickest: SciPy's loop where it is, and a merge where it is not or cannot be used."""
    if loop == "moved":
        for module in ("numpy", "product"):
            monkeypatch.setattr(f"sparsetangent.kernels.{module}.product_loop", lambda: None)
    rng = np.random.default_rng(4)
    factors = (
        [1, -1] if dtype == "uint16" else [1, -1, 3] if dtype in ("int8", "int64") else [1, 0] if dtype == "bool" else [1, -0.5]
    )
    for size, n in ((900, 800), (5, 800)):
        for alpha in factors + ([0.5j] if dtype == "complex64" else []):
            ids = np.where(rng.random(n) < 0.1, size, rng.integers(0, size, n)).astype(np.int32 if n % 3 else np.int64)
            rows, whole = ref.values(rng, (n, 4), dtype), ref.values(rng, (size, 8), dtype)
            for dst in (whole[:, :4].copy(), whole[:, ::2]):
                want = dst.astype(np.float32 if dtype == "float16" else dtype)
                for i, row in zip(ids.tolist(), rows.astype(want.dtype), strict=True):
                    if i < size and dtype == "bool":
                        want[i] |= row & bool(alpha)
                    elif i < size:
                        want[i] += (row * np.asarray(alpha).astype(want.dtype)).astype(want.dtype)
                assert NumpyKernels().scatter_add(dst, ids, rows, alpha) is dst
                np.testing.assert_allclose(dst, want.astype(dtype), rtol=4e-3 if dtype == "float16" else 1e-4, atol=1e-3)


def test_rows_in_the_memory_of_what_they_are_added_to():
    whole = np.random.default_rng(0).standard_normal((600, 4))
    want = whole.copy()
    want[:] += whole[::-1]
    NumpyKernels().scatter_add(whole, np.arange(600), whole[::-1])
    np.testing.assert_array_equal(whole, want)
