"""Sums of rows as the product of a sparse matrix of ones, by the loop under SciPy's: 28 times faster than `np.add.at` on wide rows."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from .base import Array

__all__ = ["add_product", "as_numbers", "product_loop"]

_REAL: dict[Any, Any] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
    np.dtype(np.clongdouble): np.dtype(np.longdouble),
}


def as_numbers(rows: Array) -> Array:
    """Rows as a contiguous table of plain numbers; complex ones as pairs, since a complex one times a complex inf is nan."""
    flat = np.ascontiguousarray(rows, rows.dtype.newbyteorder("=")).reshape(rows.shape[0], prod(rows.shape[1:]))
    return flat.view(_REAL.get(flat.dtype, flat.dtype))


@cache
def product_loop() -> Any:
    """The loop under SciPy's product of a sparse matrix and an array, which adds to what is there; None where it has moved."""
    try:
        from scipy.sparse._sparsetools import csc_matvecs
    except ImportError:
        return None
    return csc_matvecs


# Entries that SciPy's loop is given at a time: their ids, factors and starts stay in the cache.
_CHUNK = 2**15


@cache
def _starts(dtype: Any) -> Array:
    return np.arange(_CHUNK + 1, dtype=dtype)


def add_product(dst: Array, ids: Array, rows: Array, factor: float, chosen: Array | None = None) -> Array:
    """`dst` with ``factor * rows`` added at ids, of the entries where `chosen` holds, and in place if it can be.

    Ids must be in range: SciPy does not check them, and would crash. An entry that is not chosen is an empty column of the matrix.
    """
    (n, width), size = rows.shape, dst.shape[0]
    dtype = np.int32 if size < 2**31 else np.int64
    loop = product_loop()
    if loop is None:
        from scipy.sparse import csc_array

        weights = np.full(n, factor, rows.dtype)
        return dst + csc_array((weights, ids, np.arange(n + 1)), shape=(size, n)) @ rows
    factors, starts, flat = np.full(min(n, _CHUNK), factor, rows.dtype), _starts(dtype), dst.reshape(-1)
    for first in range(0, n, _CHUNK):
        some = np.ascontiguousarray(ids[first : first + _CHUNK], dtype)
        m = some.shape[0]
        columns = starts[: m + 1]
        if chosen is not None:
            here = chosen[first : first + m]
            columns, some = np.append(dtype(0), np.cumsum(here, dtype=dtype)), some[here]
        loop(size, m, width, columns, some, factors[:m], rows[first : first + m].reshape(-1), flat)
    return dst
