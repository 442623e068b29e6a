"""The COO arrays of PyData's sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import sparse

from ..algebra.frames import coalesce
from ..types import IndexedSlices, Tangent
from .coordinates import everything_stored, from_coordinates

__all__ = ["from_coo", "to_coo"]


def to_coo(t: Tangent) -> sparse.COO:
    """A tangent as a COO array: every axis stored, sorted, repeats merged, as COO wants its entries.

    Parameters
    ----------
    t : Tangent
        Of NumPy arrays, any shape and dtype.

    Returns
    -------
    sparse.COO
        Of the shape and dtype of `t`, with fill value 0. Entries that are zero stay.

    Raises
    ------
    TypeError
        If `t` is no tangent of NumPy arrays.

    Notes
    -----
    ``to_coo(t).todense() == t.densify()``. Padding is left out.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> from sparsetangent.interop.pydata import to_coo
    >>> x = to_coo(st.IndexedSlices(np.array([1, 1]), np.array([1.0, 2.0]), (3,)))
    >>> x.coords.tolist(), x.data.tolist()
    ([[1]], [3.0])
    >>> to_coo(st.Zero((2, 3))).nnz
    0
    """
    if not isinstance(t, Tangent) or not isinstance(t._frame().values, np.ndarray):
        raise TypeError(f"t must be a tangent of NumPy arrays, not {t if isinstance(t, Tangent) else type(t).__name__}")
    frame = coalesce(everything_stored(t))
    ids = np.stack(frame.ids) if frame.ids else np.zeros((0, frame.n), np.intp)
    return sparse.COO(
        ids, frame.values, shape=frame.shape, has_duplicates=False, sorted=True, fill_value=frame.values.dtype.type(0)
    )


def from_coo(x: Any) -> IndexedSlices:
    """A sparse array as `IndexedSlices` with every axis stored: the same entries in the same order.

    Parameters
    ----------
    x : sparse.SparseArray
        With fill value 0. Other formats than COO are converted.

    Returns
    -------
    IndexedSlices
        `unique` and sorted, which is verified.

    Raises
    ------
    TypeError
        If `x` is no array of ``sparse``.
    ValueError
        If its fill value is not 0, or it is not what it claims.

    Examples
    --------
    >>> import numpy as np, sparse
    >>> from sparsetangent.interop.pydata import from_coo
    >>> from_coo(sparse.COO(np.array([[2, 0]]), np.array([1.0, 5.0]), shape=(3,))).values.tolist()
    [5.0, 1.0]
    >>> from_coo(sparse.COO(np.zeros((2, 0), int), np.zeros(0), shape=(4, 2))).shape
    (4, 2)
    """
    if not isinstance(x, sparse.SparseArray):
        raise TypeError(f"x must be an array of PyData's sparse, not {type(x).__name__}")
    if not np.equal(x.fill_value, 0):
        raise ValueError(f"x must have the fill value 0, not {x.fill_value}")
    coo = x.asformat("coo")
    return from_coordinates(tuple(coo.coords), coo.data, coo.shape, unique=True, ordered=True)
