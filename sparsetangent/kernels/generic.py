"""Kernels from functions of the array API standard alone, for any conforming library.

Nothing is assigned through integer arrays and no boolean mask is written. Repeats are summed by a stable sort and a tree fold:
neighbours inside a run of equal ids are combined, halving the runs until ids are unique (n log n work, exact on integers,
rounding like a pairwise sum). A difference of cumulative sums would lose the digits of small runs and spread one inf to all,
and a one-hot product would take n * size memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat

from .base import Array, DType, Namespace, ReduceOp

__all__ = ["GenericKernels"]


class GenericKernels:
    """The kernel contract (`Kernels`) on standard functions. Other backends derive from it and replace what they do better."""

    mutable = False

    def __init__(self, xp: Namespace, name: str | None = None) -> None:
        self.xp = xp
        self.name = name or xp.__name__.rpartition("array_api_compat.")[2]

    # What can be known of an array

    def concrete(self, x: Array) -> bool:
        return True

    def synchronous(self, x: Array) -> bool:
        return True

    def index_dtype(self, x: Array) -> DType:
        return self.xp.int64

    def accumulator(self, dtype: DType) -> DType:
        return self.xp.float32 if str(dtype).rpartition(".")[2] in ("float16", "bfloat16") else dtype

    def bounds(self, ids: Array) -> tuple[int, int]:
        return int(self.xp.min(ids)), int(self.xp.max(ids))

    # Reads

    def gather(self, src: Array, ids: Array) -> Array:
        size = int(src.shape[0])
        ids, inside = self._checked(ids, size)
        if inside is None:
            return self.xp.take(src, ids, axis=0)
        if size == 0:
            return self.xp.zeros((ids.shape[0], *src.shape[1:]), dtype=src.dtype, device=_device(src))
        return self._where_rows(inside, self.xp.take(src, self._clipped(ids, inside), axis=0), None)

    # Sums

    def densify(self, ids: Array, rows: Array, size: int) -> Array:
        zeros = self.xp.zeros((size, *rows.shape[1:]), dtype=rows.dtype, device=_device(rows))
        return self.scatter_reduce("add", zeros, ids, rows, include_self=False)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1) -> Array:
        return self.scatter_reduce("add", dst, ids, rows if alpha == 1 else rows * alpha)

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        distinct, inverse = self.unique_inverse(ids, size, length)
        return distinct, self.densify(inverse, rows, int(distinct.shape[0]))

    # Placing

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        ids, _ = self._checked(unique_ids, int(dst.shape[0]))
        order = self.xp.argsort(ids, stable=True)
        return self._placed(dst, self.xp.take(ids, order, axis=0), self.xp.take(rows, order, axis=0), lambda _, new: new)

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        xp = self.xp
        ids, inside = self._checked(ids, size)
        if not self.concrete(ids):
            return self._static_unique(ids, inside, size, ids.shape[0] if length is None else length)
        values, inverse = xp.unique_inverse(ids)
        inverse = xp.reshape(inverse, ids.shape)
        if inside is not None:
            values = values[:-1]
        return self._sized(values, inverse, size, length)

    def _sized(self, values: Array, inverse: Array, size: int, length: int | None) -> tuple[Array, Array]:
        """Fill distinct ids up to `length` with padding."""
        xp, m = self.xp, int(values.shape[0])
        if length is None or length == m:
            return values, inverse
        if m > length:
            raise ValueError(f"size={length} entries were asked for, but there are {m} distinct ids")
        fill = xp.full((length - m,), size, dtype=values.dtype, device=_device(values))
        last = xp.asarray(length, dtype=inverse.dtype, device=_device(inverse))
        return xp.concat([values, fill]), xp.where(inverse < m, inverse, last)

    def _static_unique(self, ids: Array, inside: Array | None, size: int, length: int) -> tuple[Array, Array]:
        """`unique_inverse` in static shapes: ranks of a stable sort, then one search for each place."""
        xp, dtype, device = self.xp, ids.dtype, _device(ids)
        if ids.shape[0] == 0:
            return xp.full((length,), size, dtype=dtype, device=device), ids
        if inside is not None:
            ids = xp.where(inside, ids, xp.asarray(size, dtype=dtype, device=device))
        order = xp.argsort(ids, stable=True)
        ascending = xp.take(ids, order, axis=0)
        new = xp.concat([xp.zeros((1,), dtype=dtype, device=device), xp.astype(ascending[1:] != ascending[:-1], dtype)])
        rank = xp.cumulative_sum(new, dtype=dtype)
        inverse = xp.take(rank, xp.argsort(order, stable=True), axis=0)
        first = xp.searchsorted(rank, xp.arange(length, dtype=dtype, device=device))
        held = xp.take(ascending, xp.where(first < ids.shape[0], first, xp.zeros_like(first)), axis=0)
        last = xp.asarray(size, dtype=dtype, device=device)
        distinct = xp.where(first < ids.shape[0], held, last)
        padding = (ids >= size) | (inverse >= length)
        return distinct, xp.where(padding, xp.asarray(length, dtype=dtype, device=device), inverse)

    # Folds

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        xp, dtype = self.xp, dst.dtype
        size, n = int(dst.shape[0]), int(ids.shape[0])
        ids, inside = self._checked(ids, size)
        if n == 0 or size == 0:
            return xp.asarray(dst, copy=True)
        if inside is not None:
            ids = xp.where(inside, ids, xp.asarray(size, dtype=ids.dtype, device=_device(ids)))
        order = xp.argsort(ids, stable=True)
        ids = xp.take(ids, order, axis=0)
        held = xp.int8 if dtype == xp.bool else self.accumulator(dtype)
        combine = self._combine("max" if op == "add" and dtype == xp.bool else op)
        rows = xp.astype(xp.take(rows, order, axis=0), held, copy=False)
        counts = xp.ones((n,) + (1,) * (rows.ndim - 1), dtype=held, device=_device(rows)) if op == "mean" else None
        distinct, folded = self._fold(ids, rows, combine)
        base = xp.astype(dst, held, copy=False)
        if counts is not None:
            _, many = self._fold(ids, counts, combine)
            folded = (self._at(base, distinct) + folded) / (many + 1) if include_self else folded / many
            include_self = False
        place = combine if include_self else lambda _, new: new
        return xp.astype(self._placed(base, distinct, folded, place), dtype, copy=False)

    def segment_reduce(self, op: ReduceOp, rows: Array, starts: Array) -> Array:
        xp = self.xp
        segments, n = int(starts.shape[0]) - 1, int(rows.shape[0])
        identity = xp.full((segments, *rows.shape[1:]), self._identity(op, rows.dtype), dtype=rows.dtype, device=_device(rows))
        if n == 0 or segments == 0:
            return identity
        position = xp.arange(n, dtype=starts.dtype, device=_device(rows))
        ids = xp.searchsorted(starts, position, side="right") - 1
        return self.scatter_reduce(op, identity, ids, rows, include_self=False)

    def _identity(self, op: ReduceOp, dtype: DType) -> Any:
        xp = self.xp
        if op in ("add", "mean", "mul"):
            return 1 if op == "mul" else 0
        if dtype == xp.bool:
            return op == "min"
        if str(dtype).rpartition(".")[2].startswith(("int", "uint")):
            return int(xp.iinfo(dtype).max) if op == "min" else int(xp.iinfo(dtype).min)
        return float("inf") if op == "min" else -float("inf")

    def _combine(self, op: ReduceOp) -> Callable[[Array, Array], Array]:
        xp = self.xp
        return {"add": xp.add, "mean": xp.add, "mul": xp.multiply, "min": xp.minimum, "max": xp.maximum}[op]  # type: ignore[no-any-return]

    def _fold(self, ids: Array, rows: Array, combine: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
        """Fold runs of equal ascending ids. Where values can be seen the runs halve; else a doubling scan of static shape."""
        xp = self.xp
        if not self.concrete(ids):
            return self._scan(ids, rows, combine)
        dtype, device = self.index_dtype(ids), _device(ids)
        while True:
            n = int(ids.shape[0])
            same = ids[1:] == ids[:-1]
            if not bool(xp.any(same)):
                return ids, rows
            # The place inside its run: the distance to the run's first element.
            place = xp.arange(n, dtype=dtype, device=device) - xp.astype(xp.searchsorted(ids, ids), dtype)
            keep = xp.nonzero(place % 2 == 0)[0]
            nothing = xp.zeros((1,), dtype=xp.bool, device=device)
            paired = xp.take(xp.concat([same, nothing]), keep, axis=0)
            partner = xp.where(paired, keep + 1, keep)
            left = xp.take(rows, keep, axis=0)
            rows = self._where_rows(paired, combine(left, xp.take(rows, partner, axis=0)), left)
            ids = xp.take(ids, keep, axis=0)

    def _scan(self, ids: Array, rows: Array, combine: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
        """Every row becomes the fold of itself and what follows in its run; the first of each run is what `_placed` finds."""
        xp, n = self.xp, int(ids.shape[0])
        shift = 1
        while shift < n:
            same = ids[shift:] == ids[:-shift]
            joined = self._where_rows(same, combine(rows[:-shift, ...], rows[shift:, ...]), rows[:-shift, ...])
            rows = xp.concat([joined, rows[-shift:, ...]])
            shift *= 2
        return ids, rows

    def _placed(self, dst: Array, ids: Array, rows: Array, place: Callable[[Array, Array], Array]) -> Array:
        """`dst` with ``place(dst[i], row)`` where ascending `ids` name i (the first of equal ones), by one search for each place."""
        xp, size = self.xp, int(dst.shape[0])
        if ids.shape[0] == 0 or size == 0:
            return xp.asarray(dst, copy=True)
        every = xp.arange(size, dtype=ids.dtype, device=_device(ids))
        at = xp.searchsorted(ids, every)
        at = xp.where(at < ids.shape[0], at, xp.zeros_like(at))
        hit = xp.take(ids, at, axis=0) == every
        return self._where_rows(hit, place(dst, xp.take(rows, at, axis=0)), dst)

    def _at(self, src: Array, ids: Array) -> Array:
        """Rows of `src`, any row for padding (which is then never placed)."""
        return self.xp.take(src, self._clipped(ids, ids < src.shape[0]), axis=0)

    # Bounds

    def _checked(self, ids: Array, size: int) -> tuple[Array, Array | None]:
        """The ids, and a mask of those that are no padding (None if all are); an `IndexError` for anything else out of range."""
        if ids.shape[0] == 0:
            return ids, None
        if self.concrete(ids) and self.synchronous(ids):
            least, greatest = self.bounds(ids)
            if least < 0 or greatest > size:
                raise IndexError(self._describe(ids, size))
            return ids, None if greatest < size else ids < size
        return ids, (ids >= 0) & (ids < size)

    def _describe(self, ids: Array, size: int) -> str:
        bad = self.xp.astype((ids < 0) | (ids > size), self.xp.int8)
        position = int(self.xp.argmax(bad))
        return f"id {int(ids[position])} at position {position} is out of range for an axis of size {size}"

    def _clipped(self, ids: Array, inside: Array) -> Array:
        return self.xp.where(inside, ids, self.xp.zeros_like(ids))

    def _where_rows(self, mask: Array, rows: Array, other: Array | None) -> Array:
        """Rows where `mask` holds, else those of `other` (None: zeros)."""
        xp = self.xp
        mask = xp.reshape(mask, (-1, *(1,) * (rows.ndim - 1)))
        zeros = xp.zeros((1,) * rows.ndim, dtype=rows.dtype, device=_device(rows)) if other is None else other
        return xp.where(mask, rows, zeros)


def _device(x: Array) -> Any:
    """Where to make new arrays beside `x`; None for NumPy, and for tracers, which have no device."""
    if array_api_compat.is_numpy_array(x) or array_api_compat.is_jax_array(x):
        return None
    return array_api_compat.device(x)
