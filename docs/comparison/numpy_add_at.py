"""NumPy: ``ufunc.at``, fancy assignment and ``reduceat``, which gradients are often written with."""

from typing import Any

import numpy as np
from harness import Case, main

import sparsetangent as st


def at(target: np.ndarray, ids: list[int], values: Any) -> np.ndarray:
    """The target after ``np.add.at``."""
    np.add.at(target, ids, np.asarray(values))
    return target


def fancy(target: np.ndarray, ids: list[int], values: Any) -> np.ndarray:
    """The target after a fancy in-place addition."""
    target[ids] += np.asarray(values)
    return target


def plus(target: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """The target after the dense in-place addition."""
    target += dense
    return target


def ours(target: np.ndarray, ids: list[int], values: Any) -> np.ndarray:
    """The target after `add_into`."""
    return st.add_into(target, st.IndexedSlices(np.asarray(ids), np.asarray(values), target.shape))


def locked(n: int) -> np.ndarray:
    """A read-only array of zeros."""
    out = np.zeros(n)
    out.flags.writeable = False
    return out


HALF = np.ones(3000, np.float16)
UNEVEN = np.append(np.float32(1e8), np.ones(1000, np.float32))

CASES = [
    Case("a read-only target", "at(locked(3), [0], [1.0])", "plus(locked(3), np.array([1.0, 0, 0]))", "ours(locked(3), [0], [1.0])",
         "It is written. Public report: numpy/numpy#17871."),
    Case("floats into an integer target", "at(np.zeros(1, int), [0, 0], [0.6, 0.6])", "plus(np.zeros(1, int), np.array([1.2]))",
         "ours(np.zeros(1, int), [0, 0], [0.6, 0.6])", "Each is cut to an integer; `+=` refuses."),
    Case("3000 ones of float16 in one row", "at(np.zeros(1, np.float16), [0] * 3000, HALF)", "np.array([3000.0])",
         "ours(np.zeros(1, np.float16), [0] * 3000, HALF)", "Sums of 16-bit numbers are rounded after each addition."),
    Case("1e8 and 1000 ones of float32 in one row", "at(np.zeros(1, np.float32), [0] * 1001, UNEVEN)", "np.array([100001000.0])",
         "st.IndexedSlices(np.zeros(1001, int), UNEVEN, (1,)).densify()", "Added one by one, each 1 is lost."),
    Case("x[ids] += rows with a repeated id", "fancy(np.zeros(3), [1, 1], [2.0, 5.0])", "np.array([0.0, 7, 0])",
         "ours(np.zeros(3), [1, 1], [2.0, 5.0])", "Documented: the last row wins. `np.add.at` sums."),
    Case("sums of segments, of which the second is empty", "np.add.reduceat(np.arange(4.0), [0, 2, 2])",
         "np.array([0.0 + 1, 0, 2 + 3])", "st.rules.segment('add', np.arange(4.0), np.array([0, 2, 2, 4]))",
         "Documented: an empty segment gives its first element."),
    Case("np.add.at with a repeated id", "at(np.zeros(3), [1, 1], [2.0, 5.0])", "np.array([0.0, 7, 0])", "ours(np.zeros(3), [1, 1], [2.0, 5.0])"),
    Case("an id out of range", "at(np.zeros(3), [0, 7], [1.0, 1.0])", "fancy(np.zeros(3), [7], [1.0])", "ours(np.zeros(3), [0, 7], [1.0, 1.0])"),
]  # fmt: skip

if __name__ == "__main__":
    main("NumPy", ["numpy"], CASES, globals())
