"""Kernels for CuPy arrays: what CuPy offers where it is right, standard functions where it is not.

Not yet run on a GPU. CuPy's ``maximum.at`` and ``minimum.at`` round float64 to float32 and drop nan, there is no ``multiply.at``,
and `cupyx.scatter_add` lacks bool, the narrow integers and complex: those are added in a type that has atomics, or go through the
generic sort and fold. Nothing here waits for the device to check ids: bad ones are treated as padding, and the check at
construction raises for them later (`check_errors`).
"""

from __future__ import annotations

from typing import Any

import array_api_compat.cupy
import cupy
import cupyx

from .base import Array, DType, ReduceOp
from .generic import GenericKernels

__all__ = ["CupyKernels"]

# In which dtype `cupyx.scatter_add` adds each dtype: integers wrap to the same bits in a wider or an unsigned one, and the *or* of
# bools is a count that is not 0. Complex numbers are pairs of reals.
_ATOMIC: dict[str, str] = {
    "bool": "uint32",
    **dict.fromkeys(("int8", "int16", "int32"), "int32"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint32"),
    **dict.fromkeys(("int64", "uint64"), "uint64"),
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float32"),
    "float64": "float64",
}
_REAL = {"complex64": "float32", "complex128": "float64"}


class CupyKernels(GenericKernels):
    """CuPy's gather, unique and atomic scatter-add; sort and fold for the rest."""

    mutable = True

    def __init__(self) -> None:
        super().__init__(array_api_compat.cupy, "cupy")

    def synchronous(self, x: Array) -> bool:
        return False

    def accumulator(self, dtype: DType) -> DType:
        return cupy.dtype("float32") if dtype.name in ("float16", "bfloat16") else dtype

    def _device(self, x: Array) -> Any:
        return None  # CuPy allocates on the current device, as it does for its own operations

    def densify(self, ids: Array, rows: Array, size: int) -> Array:
        if rows.dtype.name in _REAL:
            real = _as_pairs(rows)
            return self.densify(ids, real, size).view(rows.dtype).reshape((size, *rows.shape[1:]))
        held = cupy.dtype(_ATOMIC[rows.dtype.name])
        sums = cupy.zeros((size, *rows.shape[1:]), held)
        self._add(sums, ids, rows.astype(held, copy=False))
        return sums != 0 if rows.dtype.kind == "b" else sums.astype(rows.dtype, copy=False)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1) -> Array:
        rows = self._scaled(rows.astype(self.accumulator(dst.dtype), copy=False), alpha)
        if cupy.may_share_memory(dst, rows):
            rows = rows.copy()
        if _ATOMIC.get(dst.dtype.name) == dst.dtype.name:
            self._add(dst, ids, rows)
            return dst
        # Summed apart, then added to what dst holds: half types are rounded once.
        distinct, sums = self.coalesce(ids, rows, dst.shape[0])
        old = self.gather(dst, distinct).astype(sums.dtype, copy=False)
        return self.put(dst, distinct, (old | sums if dst.dtype.kind == "b" else old + sums).astype(dst.dtype, copy=False))

    def _add(self, dst: Array, ids: Array, rows: Array) -> None:
        ids, inside = self._checked(ids, dst.shape[0])
        if dst.size == 0 or inside is None:
            return
        # CuPy wraps what is out of range; a zero added to row 0 changes nothing.
        ids, rows = self._clipped(ids, inside), self._where_rows(inside, rows)
        cupyx.scatter_add(dst, ids, rows)

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        ids, inside = self._checked(unique_ids, dst.shape[0])
        if dst.size == 0 or inside is None:
            return dst
        ids, rows = self._redirected(dst, ids, inside, rows)
        dst[ids] = rows
        return dst

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        if op == "add" and include_self:
            return self.scatter_add(dst, ids, rows)
        # The fold of each group first, so that memory is taken for the rows alone.
        distinct, inverse = self.unique_inverse(ids, dst.shape[0])
        held = self.gather(dst, distinct)
        return self.put(dst, distinct, super().scatter_reduce(op, held, inverse, rows, include_self))


def _as_pairs(rows: Array) -> Array:
    """Complex rows with a last axis of two reals."""
    return cupy.ascontiguousarray(rows).view(_REAL[rows.dtype.name]).reshape((*rows.shape, 2))
