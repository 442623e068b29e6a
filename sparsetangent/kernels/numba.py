"""Kernels for NumPy arrays with compiled loops: what `NumpyKernels` does, faster where there is much to do.

Numba is imported at the first call that is large enough to gain by it; a loop is compiled once for a dtype, and kept on disk.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from .base import Array
from .numpy import NumpyKernels, as_numbers

__all__ = ["NumbaKernels"]

# Calling a compiled loop costs as much as 1000 ids take in NumPy's own table.
_SMALL = 1000
# A table over the axis beats the radix sort while the axis is at most this many times longer than the ids.
_TABLE_RATIO = 2


class NumbaKernels(NumpyKernels):
    """`NumpyKernels`, with loops for sums and distinct ids. (NumPy's own `take` reads rows as fast as a loop.)

    Parameters
    ----------
    smallest : int
        Fewer entries than this go NumPy's way.
    """

    def __init__(self, *, smallest: int = _SMALL) -> None:
        super().__init__()
        self._smallest = smallest

    def _product(self, ids: Array, rows: Array, size: int) -> Array:
        words = _words(rows)
        if words is None or ids.shape[0] < self._smallest:
            return super()._product(ids, rows, size)
        sums = np.zeros((size, words.shape[1]), words.dtype)
        _add(sums, ids, words, rows.dtype)
        return sums.view(rows.dtype.newbyteorder("=")).reshape((size, *rows.shape[1:]))

    def _add_distinct(self, dst: Array, distinct: Array, sums: Array) -> None:
        plain = dst.flags.c_contiguous and dst.dtype == sums.dtype and dst.dtype.isnative
        words = _words(sums) if plain and distinct.shape[0] >= self._smallest else None
        if words is None:
            super()._add_distinct(dst, distinct, sums)
        else:
            _add(dst.reshape(dst.shape[0], prod(dst.shape[1:])).view(words.dtype), distinct, words, dst.dtype)

    def _distinct(self, ids: Array, size: int, *, padded: bool) -> tuple[Array, Array]:
        n = ids.shape[0]
        if n < self._smallest or n >= 2**31:
            return super()._distinct(ids, size, padded=padded)
        loops = _loops()
        find = loops.distinct_by_table if size <= _TABLE_RATIO * n else loops.distinct_by_sort
        distinct, inverse = find(np.ascontiguousarray(ids), size)
        return distinct, inverse


def _words(rows: Array) -> Array | None:
    """Rows as a table of what the loops add: floats, or unsigned integers, which wrap as signed ones do. None: no loop has these."""
    kind, width = rows.dtype.kind, rows.dtype.itemsize
    if not (kind in "biu" or (kind == "f" and width in (4, 8)) or (kind == "c" and width in (8, 16))):
        return None
    numbers = as_numbers(rows)
    return numbers.view(f"u{width}") if kind in "biu" else numbers


def _add(dst: Array, ids: Array, words: Array, dtype: Any) -> None:
    loops = _loops()
    (loops.or_rows if dtype == np.bool else loops.add_rows)(dst, np.ascontiguousarray(ids), words)


@cache
def _loops() -> Any:
    from . import loops

    return loops
