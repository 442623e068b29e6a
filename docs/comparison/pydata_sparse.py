"""PyData sparse: COO arrays with fill values."""

from typing import Any

import numpy as np
import sparse
from harness import Case, main

import sparsetangent as st


def coo(ids: list[Any], values: Any, shape: tuple[int, ...]) -> sparse.COO:
    """A COO array; `ids` is one list an axis."""
    return sparse.COO(np.array(ids), np.array(values), shape=shape)


def slices(ids: list[int], values: Any, shape: tuple[int, ...]) -> st.IndexedSlices:
    """A tangent that stores the first axis."""
    return st.IndexedSlices(np.array(ids), np.array(values), shape)


def dense_add(ids: list[int], values: Any, size: int) -> np.ndarray:
    """The truth of a scatter-add, entry by entry."""
    out = np.zeros(size)
    for i, value in zip(ids, values, strict=True):
        out[i] += value
    return out


def added(t: Any) -> np.ndarray:
    """A dense array to which `t` is added in place."""
    out = np.ones(5)
    out += t
    return out


T, D, U = coo([[1, 3, 1]], [3.0, -2.0, -1.0], (5,)), np.array([0.0, 2, 0, -2, 0]), slices([1, 3, 1], [3.0, -2.0, -1.0], (5,))
ROWS = np.random.default_rng(0).standard_normal((3, 64))
T_ROWS = sparse.COO(np.array([np.repeat([7, 42, 5], 64), np.tile(np.arange(64), 3)]), ROWS.ravel(), shape=(1000, 64))
x = st.namespace(np)
HALF = np.ones(3000, np.float16)

CASES = [
    Case("numbers held by 3 rows of a table of 1000 by 64",
         "T_ROWS.data.size + T_ROWS.coords.size", "3 * 64 + 3", "(lambda t: t.values.size + t.indices.size)(slices([7, 42, 5], ROWS, (1000, 64)))",
         "Two coordinates for each number; there are no dense axes.", counts=True),
    Case("the id -1", "coo([[-1]], [1.0], (3,))", "dense_add([-1], [1.0], 3)", "slices([-1], [1.0], (3,))"),
    Case("add to a dense array in place", "added(T)", "added(D)", "added(U)"),
    Case("norm by numpy.linalg", "np.linalg.norm(T)", "np.linalg.norm(D)", "np.linalg.norm(U)"),
    Case("two axes of 2**50 rows", "coo([[3], [5]], [1.0], (2**50, 2**50)).data", "np.array([1.0])",
         "st.IndexedSlices((np.array([3]), np.array([5])), np.array([1.0]), (2**50, 2**50), axis=(0, 1)).values"),
    Case("matrix product after adding 1", "(coo([[0], [1]], [2.0], (2, 2)) + 1) @ np.eye(2)", "np.array([[1.0, 3], [1, 1]])",
         "(slices([0], [[0.0, 2.0]], (2, 2)) + 1) @ np.eye(2)", "Refused for fill values other than 0; ours is dense after the addition."),
    Case("join two arrays with different fill values", "sparse.concatenate([T, T + 1])", "np.concatenate([D, D + 1])", "x.concat([U, U + 1])",
         "Ours is dense after the addition."),
    Case("an id out of range", "coo([[5]], [1.0], (3,))", "dense_add([5], [1.0], 3)", "slices([5], [1.0], (3,))"),
    Case("a float id", "coo([[1.5]], [1.0], (3,))", "np.zeros(3)[[1.5]]", "slices([1.5], [1.0], (3,))"),
    Case("uint8 200 and 100 at one place, widened", "coo([[0, 0]], np.array([200, 100], np.uint8), (1,)).astype(int)", "np.array([44])",
         "slices([0, 0], np.array([200, 100], np.uint8), (1,)).astype(np.int64)"),
    Case("cast to int of 0.6 twice", "coo([[1, 1]], [0.6, 0.6], (3,)).astype(int)", "np.array([0, 1.2, 0]).astype(int)",
         "slices([1, 1], [0.6, 0.6], (3,)).astype(np.int64)"),
    Case("3000 ones of float16 in one row", "coo([[0] * 3000], HALF, (1,))", "np.array([3000.0])", "slices([0] * 3000, HALF, (1,))"),
    Case("maximum of negative numbers and zeros", "coo([[1]], [-2.0], (3,)).max()", "np.array([0.0, -2, 0]).max()",
         "x.max(slices([1], [-2.0], (3,)))"),
    Case("argmin", "sparse.argmin(T)", "np.argmin(D)", "x.argmin(U)"),
    Case("sort", "sparse.sort(T)", "np.sort(D)", "x.sort(U)"),
    Case("product", "T.prod()", "D.prod()", "x.prod(U)"),
    Case("variance", "T.var()", "D.var()", "x.var(U)"),
    Case("abs", "abs(T)", "np.abs(D)", "abs(U)"),
    Case("square", "np.square(T)", "D**2", "x.square(U)"),
    Case("exp", "np.exp(T)", "np.exp(D)", "x.exp(U)", "Theirs stays sparse, with the fill value 1; ours is dense, with a warning."),
    Case("plus a number", "T + 1", "D + 1", "U + 1", "Theirs stays sparse, with the fill value 1; ours is dense, with a warning."),
    Case("comparison", "T == T", "D == D", "U == U"),
    Case("where", "sparse.where(T > 0, T, 0)", "np.where(D > 0, D, 0)", "x.where(U > 0, U, 0.0)"),
    Case("backwards slice", "T[::-1]", "D[::-1]", "U[::-1]"),
    Case("rows by a list of ids", "T[[1, 1]]", "D[[1, 1]]", "U[[1, 1]]"),
    Case("times an array that broadcasts it", "T[None] * np.ones((3, 1))", "D[None] * np.ones((3, 1))", "U[None] * np.ones((3, 1))"),
]  # fmt: skip

if __name__ == "__main__":
    main("PyData sparse", ["sparse"], CASES, globals())
