"""SciPy: sparse arrays in COO and CSR form."""

from typing import Any

import numpy as np
from harness import Case, main
from scipy import sparse

import sparsetangent as st


def coo(ids: list[int], values: Any, shape: tuple[int, int]) -> sparse.coo_array:
    """A COO array of entries in the first column."""
    return sparse.coo_array((np.array(values), (np.array(ids), np.zeros(len(ids), int))), shape=shape)


def slices(ids: list[int], values: Any, shape: tuple[int, int]) -> st.IndexedSlices:
    """The same as a tangent that stores both axes."""
    return st.IndexedSlices((np.array(ids), np.zeros(len(ids), int)), np.array(values), shape, axis=(0, 1))


def csr() -> sparse.csr_array:
    """Row 1 holds column 0 twice: a CSR array that is not canonical."""
    return sparse.csr_array((np.array([3.0, -1.0, -2.0]), np.array([0, 0, 1]), np.array([0, 0, 2, 3])), shape=(3, 2))


def dense_add(ids: list[int], values: Any, size: int) -> np.ndarray:
    """The truth of a scatter-add in one column, entry by entry."""
    out = np.zeros((size, 1))
    for i, value in zip(ids, values, strict=True):
        out[i, 0] += value
    return out


D = np.array([[0.0, 0], [2, 0], [0, -2]])
U = st.IndexedSlices((np.array([1, 1, 2]), np.array([0, 0, 1])), np.array([3.0, -1.0, -2.0]), (3, 2), axis=(0, 1))
x = st.namespace(np)
BYTES = np.array([200, 100], np.uint8)
UNEVEN = np.append(np.float32(1e8), np.ones(1000, np.float32))
CAST = "The entries are cast, and then merged. Right after `sum_duplicates()`."

CASES = [
    Case("uint8 200 and 100 at one place, widened", "coo([0, 0], BYTES, (1, 1)).astype(int)", "np.array([[44]])",
         "slices([0, 0], BYTES, (1, 1)).astype(np.int64)", CAST + " Without the cast, `toarray()` gives 44."),
    Case("cast to int of 0.6 twice", "coo([1, 1], [0.6, 0.6], (3, 1)).astype(int)", "np.array([[0], [1.2], [0]]).astype(int)",
         "slices([1, 1], [0.6, 0.6], (3, 1)).astype(np.int64)", CAST),
    Case("cast to bool of 1 and -1 at one place", "coo([1, 1], [1.0, -1.0], (3, 1)).astype(bool)", "np.zeros((3, 1), bool)",
         "slices([1, 1], [1.0, -1.0], (3, 1)).astype(np.bool_)", CAST),
    Case("where a CSR array that holds one place twice is not zero", "np.stack(csr().nonzero())", "np.stack(np.nonzero(D))",
         "np.stack(x.nonzero(U))", "One place is listed twice."),
    Case("1e8 and 1000 ones of float32 in one place", "coo([0] * 1001, UNEVEN, (1, 1)).tocsr()", "np.array([[100001000.0]])",
         "slices([0] * 1001, UNEVEN, (1, 1)).coalesce()", "Added one by one, each 1 is lost."),
    Case("float16", "coo([0, 0], np.ones(2, np.float16), (1, 1))", "np.array([[2.0]])", "slices([0, 0], np.ones(2, np.float16), (1, 1))",
         "Documented."),
    Case("the id -1", "coo([-1], [1.0], (3, 1))", "dense_add([-1], [1.0], 3)", "slices([-1], [1.0], (3, 1))"),
    Case("add two arrays with 2**50 rows", "(lambda t: (t + t).data)(coo([2**40], [1.0], (2**50, 2)))", "np.array([2.0])",
         "(lambda t: (t + t).coalesce().values)(slices([2**40], [1.0], (2**50, 2)))", "The row pointers of CSR are as long as the axis."),
    Case("plus a number", "csr() + 1", "D + 1", "U + 1"),
    Case("numpy.maximum with 0", "np.maximum(csr(), 0)", "np.maximum(D, 0)", "np.maximum(U, 0)", "`t.maximum(0)` is right."),
    Case("numpy.exp", "np.exp(csr())", "np.exp(D)", "np.exp(U)", "Ours is dense, with a warning."),
    Case("an id out of range", "coo([5], [1.0], (3, 1))", "dense_add([5], [1.0], 3)", "slices([5], [1.0], (3, 1))"),
    Case("abs", "abs(csr())", "np.abs(D)", "abs(U)"),
    Case("power", "csr().power(2)", "D**2", "x.square(U)"),
    Case("sqrt", "abs(csr()).sqrt()", "np.sqrt(np.abs(D))", "x.sqrt(abs(U))"),
    Case("product of entries", "csr() * csr()", "D * D", "U * U"),
    Case("norm", "sparse.linalg.norm(csr())", "np.linalg.norm(D)", "x.linalg.vector_norm(U)"),
    Case("maximum", "csr().max()", "D.max()", "x.max(U)"),
    Case("place of the minimum", "csr().argmin()", "D.argmin()", "x.argmin(U)"),
    Case("comparison with a number", "csr() > 0", "D > 0", "U > 0"),
    Case("number of non-zeros", "csr().count_nonzero()", "np.count_nonzero(D)", "x.count_nonzero(U)"),
    Case("times an array that broadcasts it", "csr() * np.ones((3, 1))", "D * np.ones((3, 1))", "U * np.ones((3, 1))"),
    Case("plus an array", "csr() + np.ones((3, 2))", "D + np.ones((3, 2))", "U + np.ones((3, 2))"),
]  # fmt: skip

if __name__ == "__main__":
    main("SciPy", ["scipy"], CASES, globals())
