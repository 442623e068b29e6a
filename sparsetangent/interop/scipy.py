"""SciPy's sparse arrays, and CuPy's, which have the same interface."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..backend import backend_of
from ..kernels.base import Array
from ..types import Frame, IndexedSlices, Tangent
from .coordinates import everything_stored, from_coordinates

__all__ = ["from_scipy", "to_coo", "to_csr"]

# The library of a tangent's arrays -> where its sparse arrays live, and their names. CuPy has matrices only, of two axes.
_SPARSE = {"numpy": ("scipy.sparse", "coo_array", "csr_array"), "cupy": ("cupyx.scipy.sparse", "coo_matrix", "csr_matrix")}


def to_coo(t: Tangent) -> Any:
    """A tangent as a COO array: every axis stored, the entries in the same order, repeats among them.

    Parameters
    ----------
    t : Tangent
        Of NumPy or CuPy arrays, with at least one axis (CuPy: two).

    Returns
    -------
    scipy.sparse.coo_array or cupyx.scipy.sparse.coo_matrix
        Of the shape and dtype of `t`. ``has_canonical_format`` is True if `t` is known to be sorted and without repeats. The indices of
        CuPy's are int32.

    Raises
    ------
    TypeError
        If `t` is no tangent of NumPy or CuPy arrays.
    ValueError
        If the neighbour has no such dtype (SciPy: float16, bfloat16; CuPy: integers too) or shape (SciPy before 1.15 and CuPy:
        more than two axes).

    Notes
    -----
    ``to_coo(t).toarray() == t.densify()``. Padding is left out.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> from sparsetangent.interop.scipy import to_coo
    >>> to_coo(st.IndexedSlices(np.array([1, 1]), np.array([[1, 2], [3, 4]]), (3, 2))).toarray().tolist()
    [[0, 0], [4, 6], [0, 0]]
    >>> to_coo(st.Zero((2**50, 3))).nnz
    0
    """
    frame, module, coo, _ = _entries(t)
    if not frame.axes:
        raise ValueError("a tangent without axes has no sparse array")
    x = getattr(module, coo)((frame.values, frame.ids), shape=frame.shape)
    x.has_canonical_format = frame.unique and frame.ordered
    return x


def to_csr(t: Tangent) -> Any:
    """A tangent of two axes as a CSR array: entries by rows, in the same order within a row, repeats kept.

    Parameters
    ----------
    t : Tangent
        Of NumPy or CuPy arrays, with two axes.

    Returns
    -------
    scipy.sparse.csr_array or cupyx.scipy.sparse.csr_matrix
        ``sum_duplicates()`` merges repeats, in place.

    Raises
    ------
    TypeError
        If `t` is no tangent of NumPy or CuPy arrays.
    ValueError
        If `t` has not two axes, or SciPy has no such dtype.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> from sparsetangent.interop.scipy import to_csr
    >>> x = to_csr(st.IndexedSlices(([2, 0, 2], [1, 1, 0]), np.array([1.0, 2.0, 3.0]), (3, 2), axis=(0, 1)))
    >>> x.indptr.tolist(), x.indices.tolist(), x.data.tolist()
    ([0, 1, 1, 3], [1, 1, 0], [2.0, 1.0, 3.0])
    >>> to_csr(st.OneHot(np.array([1, 0]), 2, dtype=np.int8)).toarray().tolist()
    [[0, 1], [1, 0]]
    """
    frame, module, _, csr = _entries(t)
    if len(frame.shape) != 2:
        raise ValueError(f"a CSR array has two axes, not the {len(frame.shape)} of shape {frame.shape}")
    xp = frame.backend.xp
    rows, columns = frame.ids
    order = xp.argsort(rows, stable=True)
    starts = xp.searchsorted(rows[order], xp.arange(frame.shape[0] + 1, dtype=rows.dtype))
    if frame.n <= xp.iinfo(columns.dtype).max:
        starts = xp.astype(starts, columns.dtype)
    x = getattr(module, csr)((frame.values[order], columns[order], starts), shape=frame.shape)
    if frame.unique and frame.ordered:
        x.has_canonical_format = True
    return x


def from_scipy(x: Any) -> IndexedSlices:
    """A sparse array or matrix as `IndexedSlices` with every axis stored: the same entries in the same order, explicit zeros and all.

    Parameters
    ----------
    x : sparse array or matrix of SciPy or CuPy
        Of any format; other formats than COO go through ``tocoo``.

    Returns
    -------
    IndexedSlices
        On the arrays of `x` where it is COO. Its indices are checked; if it claims canonical format, which is verified, `unique` and
        sorted.

    Raises
    ------
    TypeError
        If `x` is no sparse array.
    IndexError
        If an index is out of range.
    ValueError
        If `x` claims canonical format and is not in it.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from sparsetangent.interop.scipy import from_scipy
    >>> from_scipy(scipy.sparse.csr_array(np.array([[0.0, 5.0], [7.0, 0.0]]))).coords[1].tolist()
    [1, 0]
    >>> from_scipy(scipy.sparse.coo_array(([1, 2], ([0, 0], [1, 1])), shape=(2, 3))).densify().tolist()
    [[0, 3, 0], [0, 0, 0]]
    """
    if not hasattr(x, "tocoo"):
        raise TypeError(f"x must be a sparse array or matrix of SciPy or CuPy, not {type(x).__name__}")
    # Read before the conversion, which loses it; by columns or blocks, canonical order is another one.
    canonical = x.format in ("coo", "csr") and bool(x.has_canonical_format)
    coo = x.tocoo(copy=False)
    ids: tuple[Array, ...] = tuple(coo.coords) if hasattr(coo, "coords") else (coo.row, coo.col)
    return from_coordinates(ids, coo.data, coo.shape, unique=canonical, ordered=canonical)


def _entries(t: Tangent) -> tuple[Frame, Any, str, str]:
    """The entries of a tangent, the module of its sparse arrays, and their names there."""
    if not isinstance(t, Tangent):
        raise TypeError(f"t must be a tangent, not {type(t).__name__}")
    library = backend_of(t._frame().values).name
    if library not in _SPARSE:
        raise TypeError(
            f"t must be of NumPy or CuPy arrays, not of {library}; convert it first (sparsetangent.interop.convert)"
        )
    module, coo, csr = _SPARSE[library]
    frame = everything_stored(t)
    if library == "numpy" and (name := frame.values.dtype.name) in ("float16", "bfloat16"):
        raise ValueError(f"t is of dtype {name}, which SciPy's sparse arrays do not have; cast it first")
    return frame, import_module(module), coo, csr
