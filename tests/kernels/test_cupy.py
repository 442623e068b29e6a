"""The logic of the CuPy kernels with NumPy in CuPy's place; on a GPU (``-m gpu``) the contract's suite runs on CuPy itself."""

import importlib
import sys
from types import ModuleType

import array_api_compat.numpy
import numpy as np
import pytest

from tests.kernels import reference as ref
from tests.kernels.test_contract import check

# What CUDA can add atomically, says CuPy's documentation.
ATOMIC = ("int32", "uint32", "uint64", "float32", "float64")


def scatter_add(dst, ids, rows):
    assert dst.dtype.name in ATOMIC
    assert dst.dtype == rows.dtype
    assert not np.may_share_memory(dst, rows)
    np.add.at(dst, ids % dst.shape[0], rows)  # CuPy wraps


@pytest.fixture(scope="module")
def kernels():
    with pytest.MonkeyPatch.context() as patch:
        cupyx = ModuleType("cupyx")
        cupyx.scatter_add = scatter_add
        patch.setitem(sys.modules, "cupy", np)
        patch.setitem(sys.modules, "cupyx", cupyx)
        patch.setitem(sys.modules, "array_api_compat.cupy", array_api_compat.numpy)
        patch.setattr(array_api_compat, "cupy", array_api_compat.numpy, raising=False)
        patch.delitem(sys.modules, "sparsetangent.kernels.cupy", raising=False)
        yield importlib.import_module("sparsetangent.kernels.cupy").CupyKernels()
    sys.modules.pop("sparsetangent.kernels.cupy", None)


def examples(dtypes=ref.DTYPES["cupy"]):
    rng = np.random.default_rng(7)
    for dtype in dtypes:
        for n, size, inner in ((0, 3, (2,)), (7, 3, ()), (30, 40, (2, 3)), (7, 0, (2,)), (5, 4, (0,))):
            ids = rng.integers(0, size + 1, n)
            yield dtype, ids, ref.values(rng, (n, *inner), dtype), ref.values(rng, (size, *inner), dtype)


def test_sums(kernels):
    for dtype, ids, rows, dst in examples():
        size = dst.shape[0]
        check(kernels.densify(ids, rows, size), ref.loop_add(np.zeros_like(dst), ids, rows), dtype)
        want = ref.loop_add(dst, ids, rows)
        assert kernels.scatter_add(dst, ids, rows) is dst
        check(dst, want, dtype)


def test_gather_and_put(kernels):
    for dtype, ids, rows, dst in examples():
        check(kernels.gather(dst, ids), ref.loop_gather(dst, ids), dtype)
        order = np.concatenate([np.arange(dst.shape[0])[::-1], np.full(9, dst.shape[0])])[: len(ids)]
        want = dst.copy()
        want[order[order < dst.shape[0]]] = rows[order < dst.shape[0]]
        assert kernels.put(dst, order, rows) is dst
        check(dst, want, dtype)


@pytest.mark.parametrize("op", ref.OPS)
@pytest.mark.parametrize("include_self", [True, False])
def test_folds(kernels, op, include_self):
    for dtype, ids, rows, dst in examples(tuple(d for d in ref.DTYPES["cupy"] if op in ref.ops_of(d))):
        want = ref.loop_reduce(op, dst, ids, rows, include_self)
        assert kernels.scatter_reduce(op, dst, ids, rows, include_self) is dst
        check(dst, want, dtype, exact=op != "mean" and "complex" not in dtype)


def test_bad_ids_are_padding(kernels):
    ids, rows = np.array([1, -1, 99, 1]), np.array([[1.0], [2.0], [3.0], [4.0]])
    assert kernels.densify(ids, rows, 3).tolist() == [[0], [5], [0]]
    assert kernels.gather(np.ones((3, 1)), ids).tolist() == [[1], [0], [0], [1]]
    assert kernels.put(np.zeros((3, 1)), np.array([-1, 2, 7, 0]), rows).tolist() == [[4], [0], [2]]
    assert kernels.put(np.ones((3, 1)), np.array([-1, 3, 7, 9]), rows).tolist() == [[1], [1], [1]]
    distinct, inverse = kernels.unique_inverse(ids, 3)
    assert (distinct.tolist(), inverse.tolist()) == ([1], [0, 1, 1, 0])
    assert not kernels.synchronous(ids)


def test_rows_that_overlap_dst(kernels):
    dst = np.arange(5, dtype=np.float32)
    assert kernels.scatter_add(dst, np.array([1, 2, 3, 4]), dst[:-1]).tolist() == [0, 1, 3, 5, 7]
