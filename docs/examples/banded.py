"""A tangent type of your own: a banded matrix, kept as its diagonals.

It is the cotangent of a matrix that is read along a few diagonals only (a convolution with a short kernel, a finite-difference
operator). The three members that every type gives are `shape`, `dtype` and `to_slices`; the rest of this file only makes it
faster, and can be left out. ``tests/test_docs_examples.py`` proves the type with the kit alone:

    sparsetangent.testing.laws.check_all(Banded(...))

Run it: ``python docs/examples/banded.py``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparsetangent as st
from sparsetangent.registry import Scalar, implements


class Banded(st.Tangent):
    """``dense[i, i + offsets[k]] = diagonals[k, i]`` wherever that is inside the matrix, and zero elsewhere.

    Parameters
    ----------
    diagonals : Array
        Shape ``(len(offsets), rows)``, one line for each diagonal; what falls outside the matrix is ignored.
    offsets : sequence of int
        Which diagonals: 0 the main one, positive above it. An offset that repeats sums.
    columns : int
        The number of columns.
    """

    __slots__ = ("columns", "diagonals", "offsets")

    def __init__(self, diagonals: Any, offsets: Sequence[int], columns: int) -> None:
        if diagonals.ndim != 2 or diagonals.shape[0] != len(offsets):
            raise ValueError(f"diagonals must have shape ({len(offsets)}, rows), not {tuple(diagonals.shape)}")
        self.diagonals, self.offsets, self.columns = diagonals, tuple(offsets), columns

    # What every type gives

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.diagonals.shape[1]), self.columns

    @property
    def dtype(self) -> Any:
        return self.diagonals.dtype

    def to_slices(self) -> st.IndexedSlices:
        """Coordinates and values of the places inside the matrix."""
        xp = st.namespace(self.diagonals)
        row = xp.arange(self.shape[0])
        rows, columns, values = [row[:0]], [row[:0]], [xp.reshape(self.diagonals, (-1,))[:0]]
        for line, offset in enumerate(self.offsets):
            first = min(max(0, -offset), self.shape[0])
            last = min(self.shape[0], self.columns - offset)
            inside = slice(first, max(first, last))
            rows.append(row[inside])
            columns.append(row[inside] + offset)
            values.append(self.diagonals[line, inside])
        ids = xp.concat(rows), xp.concat(columns)
        return st.IndexedSlices(ids, xp.concat(values), self.shape, axis=(0, 1))

    # For copy, deepcopy and pickle: __slots__ and immutability leave them to us

    def __reduce__(self) -> Any:
        return Banded, (self.diagonals, self.offsets, self.columns)


# What the type does better than its slices: registered under the standard's names, for the operators and every namespace


@implements("permute_dims", Banded)
def permute_dims(x: Banded, /, axes: Sequence[int]) -> Any:
    """The transpose has the diagonals at the opposite offsets, each moved along by its own."""
    if tuple(axes) not in ((1, 0), (-1, 0), (1, -2), (-1, -2)) or x.shape[0] != x.columns:
        return st.namespace(x).permute_dims(x.to_slices(), axes)
    xp = st.namespace(x.diagonals)
    lines = [xp.roll(x.diagonals[k, ...], offset) for k, offset in enumerate(x.offsets)]
    moved = xp.stack(lines) if lines else x.diagonals
    return Banded(moved, tuple(-offset for offset in x.offsets), x.columns)


@implements("negative", Banded)
def negative(x: Banded, /) -> Banded:
    """Linear, so the diagonals are negated as they are."""
    return Banded(st.namespace(x.diagonals).negative(x.diagonals), x.offsets, x.columns)


@implements("multiply", Banded, Scalar)
def multiply(x: Banded, factor: complex, /) -> Any:
    """A multiple, where a factor does not change how repeated offsets add up: in the dtype of the floats."""
    xp = st.namespace(x.diagonals)
    product = x.diagonals * factor if xp.isdtype(x.dtype, ("real floating", "complex floating")) else None
    if product is None or len(set(x.offsets)) != len(x.offsets):
        return x.to_slices() * factor
    return Banded(product, x.offsets, x.columns)


def main() -> None:
    """The gradient of ``sum(A[i, i] * x[i] + A[i, i + 1] * x[i + 1])`` with respect to A, and a step with it."""
    import numpy as np

    x = np.array([1.0, 2.0, 3.0, 4.0])
    gradient = Banded(np.stack([x, np.append(x[1:], 0.0)]), (0, 1), 4)
    print(gradient)
    print(gradient.densify())
    matrix = np.ones((4, 4))
    matrix -= 0.1 * gradient  # two diagonals of the array are written, the rest is not touched
    print(matrix)
    print(st.global_norm([gradient, gradient.T]))


if __name__ == "__main__":
    main()
