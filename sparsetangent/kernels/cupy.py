"""Kernels for CuPy arrays: what CuPy offers where it is right, standard functions where it is not.

Not yet run on a GPU. CuPy's ``maximum.at`` and ``minimum.at`` round float64 to float32 and drop nan, there is no ``multiply.at``, and
`scatter_add` lacks bool, the narrow integers, half types and complex; those go through the generic sort and fold. Nothing here reads a
value on the host: bad ids are dropped, and the check at construction raises for them later (`check_errors`).
"""

from __future__ import annotations

import array_api_compat.cupy
import cupy
import cupyx

from .base import Array
from .generic import GenericKernels

__all__ = ["CupyKernels"]

# The dtypes for which CuPy's atomic scatter-add is right.
_ATOMIC = ("float32", "float64", "int32", "int64", "uint32", "uint64")


class CupyKernels(GenericKernels):
    """CuPy's gather and atomic scatter-add; sort and fold for the rest."""

    mutable = True

    def __init__(self) -> None:
        super().__init__(array_api_compat.cupy, "cupy")

    def synchronous(self, x: Array) -> bool:
        return False

    def densify(self, ids: Array, rows: Array, size: int) -> Array:
        if rows.dtype.name not in _ATOMIC:
            return super().densify(ids, rows, size)
        return self.scatter_add(cupy.zeros((size, *rows.shape[1:]), rows.dtype), ids, rows)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1) -> Array:
        if dst.dtype.name not in _ATOMIC:
            dst[...] = super().scatter_add(dst, ids, rows, alpha)
            return dst
        if dst.shape[0] == 0 or ids.shape[0] == 0:
            return dst
        ids, inside = self._checked(ids, dst.shape[0])
        rows = rows if alpha == 1 else rows * dst.dtype.type(alpha)
        if inside is not None:
            # CuPy wraps what is out of range; a zero added to row 0 changes nothing.
            ids, rows = self._clipped(ids, inside), self._where_rows(inside, rows, None)
        cupyx.scatter_add(dst, ids, rows)
        return dst

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        dst[...] = super().put(dst, unique_ids, rows)
        return dst
