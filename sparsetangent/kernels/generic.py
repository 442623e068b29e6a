"""Kernels from functions of the array API standard alone, for any conforming library.

Nothing is assigned through integer arrays and no boolean mask is written. Repeats are summed by a stable sort and a tree fold:
neighbours inside a run of equal ids are combined, halving the runs until ids are unique (n log n work, exact on integers,
rounding like a pairwise sum). A difference of cumulative sums would lose the digits of small runs and spread one inf to all,
and a one-hot product would take n * size memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat

from .base import Array, DType, Namespace, ReduceOp
from .step import Step

__all__ = ["GenericKernels"]

Combine = Callable[[Array, Array], Array]

_COMBINE: dict[ReduceOp, str] = {"add": "add", "mean": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}
_HALF = frozenset({"float16", "bfloat16"})


class GenericKernels:
    """The kernel contract (`Kernels`) on standard functions. Other backends derive from it and replace what they do better.

    Parameters
    ----------
    xp : module
        The array API namespace.
    name : str, optional
        The short name for messages; by default the namespace's.
    """

    mutable = False

    def __init__(self, xp: Namespace, name: str | None = None) -> None:
        self.xp = xp
        self.name = name or xp.__name__.rpartition("array_api_compat.")[2]

    # What can be known of an array

    def concrete(self, x: Array) -> bool:
        return True

    def seen(self, x: Array) -> Array | None:
        return x if self.concrete(x) else None

    def synchronous(self, x: Array) -> bool:
        return True

    def index_dtype(self, x: Array) -> DType:
        return self.xp.int64

    def accumulator(self, dtype: DType) -> DType:
        return self.xp.float32 if str(dtype).rpartition(".")[2] in _HALF else dtype

    def bounds(self, ids: Array) -> tuple[int, int]:
        return int(self.xp.min(ids)), int(self.xp.max(ids))

    def check_errors(self) -> None:
        """Nothing is ever recorded: faults raise at once."""

    # Reads

    def gather(self, src: Array, ids: Array) -> Array:
        size = int(src.shape[0])
        ids, inside = self._checked(ids, size)
        if inside is None:
            return self.xp.take(src, ids, axis=0)
        if size == 0:
            return self.xp.zeros((ids.shape[0], *src.shape[1:]), dtype=src.dtype, device=self.device_for(src))
        return self._where_rows(inside, self.xp.take(src, self._clipped(ids, inside), axis=0))

    # Sums

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        zeros = self.xp.zeros((size, *rows.shape[1:]), dtype=rows.dtype, device=self.device_for(rows))
        if unique:
            return self.put(zeros, ids, rows)
        return GenericKernels.scatter_reduce(self, "add", zeros, ids, rows, include_self=False)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1, *, in_order: bool = False) -> Array:
        # The standard has no scatter whose order could be kept, so repeats are merged in any case.
        held = self.accumulator(dst.dtype)
        rows = self._scaled(self.xp.astype(rows, held, copy=False), alpha)
        return GenericKernels.scatter_reduce(self, "add", dst, ids, rows)

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        distinct, inverse = self.unique_inverse(ids, size, length)
        return distinct, self.densify(inverse, rows, int(distinct.shape[0]))

    # Placing

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        ids, rows = self._entries(unique_ids, rows, int(dst.shape[0]))
        order = self.xp.argsort(ids, stable=True)
        return self._placed(dst, self.xp.take(ids, order, axis=0), self.xp.take(rows, order, axis=0))

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        xp = self.xp
        ids, inside = self._checked(ids, size)
        if inside is not None:
            ids = xp.where(inside, ids, self._constant(size, ids))
        if not self.concrete(ids):
            return self._static_unique(ids, size, int(ids.shape[0]) if length is None else length)
        distinct, inverse = xp.unique_inverse(ids)
        if inside is not None and int(distinct[-1]) == size:
            distinct = distinct[:-1]
        return self._sized(distinct, xp.reshape(inverse, ids.shape), size, length)

    def _sized(self, distinct: Array, inverse: Array, size: int, length: int | None) -> tuple[Array, Array]:
        """Fill distinct ids up to `length` with padding; the position of padding goes from their number to `length`."""
        xp, m = self.xp, int(distinct.shape[0])
        if length is None or length == m:
            return distinct, inverse
        if m > length:
            raise ValueError(f"size={length} entries were asked for, but there are {m} distinct ids")
        fill = xp.full((length - m,), size, dtype=distinct.dtype, device=self.device_for(distinct))
        return xp.concat([distinct, fill]), xp.where(inverse < m, inverse, self._constant(length, inverse))

    def _static_unique(self, ids: Array, size: int, length: int) -> tuple[Array, Array]:
        """`unique_inverse` in static shapes: ranks of a stable sort, then one search for each place."""
        xp, dtype, device, n = self.xp, self.index_dtype(ids), self.device_for(ids), int(ids.shape[0])
        if n == 0:
            return xp.full((length,), size, dtype=ids.dtype, device=device), xp.astype(ids, dtype, copy=False)
        order = xp.argsort(ids, stable=True)
        ascending = xp.take(ids, order, axis=0)
        new = xp.concat([xp.zeros((1,), dtype=dtype, device=device), xp.astype(ascending[1:] != ascending[:-1], dtype)])
        rank = xp.cumulative_sum(new, dtype=dtype)
        inverse = xp.take(rank, xp.argsort(order, stable=True), axis=0)
        first = xp.searchsorted(rank, xp.arange(length, dtype=dtype, device=device))
        held = xp.take(ascending, xp.where(first < n, first, xp.zeros_like(first)), axis=0)
        distinct = xp.where(first < n, held, self._constant(size, ids))
        padding = (ids >= size) | (inverse >= length)
        return distinct, xp.where(padding, self._constant(length, inverse), inverse)

    # Optimizer steps

    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> Array | None:
        """One step of an optimizer in place on the rows named by `ids`, where `rows`, in the accumulator's dtype, sum to the gradient.

        None, and nothing done, where there is no loop for it: the step is then made of reads, arithmetic and writes.
        """
        return None

    # Folds

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        xp, dtype = self.xp, dst.dtype
        self._check_op(op, dtype)
        ids, rows = self._entries(ids, rows, int(dst.shape[0]))
        if ids.shape[0] == 0 or dst.shape[0] == 0:
            return xp.astype(dst, dst.dtype, copy=True)
        order = xp.argsort(ids, stable=True)
        ids = xp.take(ids, order, axis=0)
        # The standard has no arithmetic on bools: as 0 and 1 their or is a max, their and a product.
        held = xp.int8 if dtype == xp.bool else self.accumulator(dtype)
        combine: Combine = getattr(xp, "maximum" if op == "add" and dtype == xp.bool else _COMBINE[op])
        rows = xp.astype(xp.take(rows, order, axis=0), held, copy=False)
        distinct, folded = self._fold(ids, rows, combine)
        if include_self:
            folded = combine(xp.astype(self._at(dst, distinct), held, copy=False), folded)
        if op == "mean":
            folded = folded / self._counts(ids, distinct, folded, include_self)
        return self._placed(dst, distinct, xp.astype(folded, dtype, copy=False))

    def segment_reduce(self, op: ReduceOp, rows: Array, starts: Array) -> Array:
        xp = self.xp
        self._check_op(op, rows.dtype)
        segments, n = int(starts.shape[0]) - 1, int(rows.shape[0])
        identity = xp.full(
            (segments, *rows.shape[1:]), self._identity(op, rows.dtype), dtype=rows.dtype, device=self.device_for(rows)
        )
        if n == 0 or segments == 0:
            return identity
        position = xp.arange(n, dtype=starts.dtype, device=self.device_for(rows))
        ids = xp.searchsorted(starts, position, side="right") - 1
        return self.scatter_reduce(op, identity, ids, rows, include_self=False)

    def _check_op(self, op: ReduceOp, dtype: DType) -> None:
        if op in ("add", "mul"):
            return
        is_complex = self._is(dtype, "complex floating")
        if op == "mean" and not (is_complex or self._is(dtype, "real floating")):
            raise TypeError(f"a mean needs a floating or complex dtype, not {dtype}")
        if op in ("min", "max") and is_complex:
            raise TypeError(f"complex numbers have no order, so no {op}")

    def _is(self, dtype: DType, kind: str) -> bool:
        """`isdtype` of what sums are held in: bfloat16 as NumPy's extension type is unknown to it."""
        return bool(self.xp.isdtype(self.accumulator(dtype), kind))

    def _identity(self, op: ReduceOp, dtype: DType) -> Any:
        if op in ("add", "mean", "mul"):
            return dtype == self.xp.bool if op == "mul" and dtype == self.xp.bool else int(op == "mul")
        if dtype == self.xp.bool:
            return op == "min"
        if self._is(dtype, "integral"):
            info = self.xp.iinfo(dtype)
            return int(info.max if op == "min" else info.min)
        return float("inf") if op == "min" else -float("inf")

    def _fold(self, ids: Array, rows: Array, combine: Combine) -> tuple[Array, Array]:
        """Fold runs of equal ascending ids. Where values can be seen the runs halve; else a doubling scan of static shape."""
        xp, n, device = self.xp, int(ids.shape[0]), self.device_for(ids)
        if not self.concrete(ids):
            return self._scan(ids, rows, combine)
        dtype = self.index_dtype(ids)
        # The place inside its run: the distance to the run's first element.
        place = xp.arange(n, dtype=dtype, device=device) - xp.astype(xp.searchsorted(ids, ids), dtype, copy=False)
        none = xp.zeros((1,), dtype=dtype, device=device)
        while bool(xp.any(place > 0)):
            keep = xp.nonzero(place % 2 == 0)[0]
            paired = xp.take(xp.concat([place[1:], none]), keep, axis=0) > 0
            left = xp.take(keep, xp.nonzero(paired)[0], axis=0)
            merged = combine(xp.take(rows, left, axis=0), xp.take(rows, left + 1, axis=0))
            # No row without a partner is combined with anything: that could overflow, and warn, for nothing.
            nth = xp.cumulative_sum(xp.astype(paired, dtype), dtype=dtype) + (rows.shape[0] - 1)
            rows = xp.take(xp.concat([rows, merged]), xp.where(paired, nth, xp.astype(keep, dtype, copy=False)), axis=0)
            ids, place = xp.take(ids, keep, axis=0), xp.take(place, keep, axis=0) // 2
        return ids, rows

    def _scan(self, ids: Array, rows: Array, combine: Combine) -> tuple[Array, Array]:
        """Every row becomes the fold of itself and what follows in its run; the first of each run is what `_placed` finds."""
        xp, n = self.xp, int(ids.shape[0])
        shift = 1
        while shift < n:
            same = ids[shift:] == ids[:-shift]
            joined = self._where_rows(same, combine(rows[:-shift, ...], rows[shift:, ...]), rows[:-shift, ...])
            rows = xp.concat([joined, rows[-shift:, ...]])
            shift *= 2
        return ids, rows

    def _counts(self, ids: Array, distinct: Array, like: Array, include_self: bool) -> Array:
        """How many of the ascending `ids` are each of `distinct`, shaped and typed to divide `like`."""
        xp = self.xp
        many = xp.searchsorted(ids, distinct, side="right") - xp.searchsorted(ids, distinct) + int(include_self)
        return xp.astype(xp.reshape(many, (-1, *(1,) * (like.ndim - 1))), like.dtype)

    def _placed(self, dst: Array, ids: Array, rows: Array) -> Array:
        """`dst` with the row of each of the ascending `ids` (the first of equal ones), by one search for each place."""
        xp, size, n = self.xp, int(dst.shape[0]), int(ids.shape[0])
        if n == 0 or size == 0:
            return xp.astype(dst, dst.dtype, copy=True)
        every = xp.arange(size, dtype=ids.dtype, device=self.device_for(ids))
        at = xp.searchsorted(ids, every)
        at = xp.where(at < n, at, xp.zeros_like(at))
        return self._where_rows(xp.take(ids, at, axis=0) == every, xp.take(rows, at, axis=0), dst)

    def _at(self, src: Array, ids: Array) -> Array:
        """Rows of `src`, any row for padding (which is then never placed)."""
        return self.xp.take(src, self._clipped(ids, ids < src.shape[0]), axis=0)

    # Bounds

    def _checked(self, ids: Array, size: int) -> tuple[Array, Array | None]:
        """The ids as int32 or int64, and a mask of those that are no padding, None if all are.

        The `IndexError` for ids out of range is raised here; where values cannot be seen, or only by waiting for a device,
        they are outside the mask.
        """
        ids = self._widened(ids)
        if ids.shape[0] == 0:
            return ids, None
        if self.concrete(ids) and self.synchronous(ids):
            least, greatest = self.bounds(ids)
            if least < 0 or greatest > size:
                raise IndexError(self._describe(ids, size))
            return ids, None if greatest < size else ids < size
        return ids, (ids >= 0) & (ids < size)

    def _widened(self, ids: Array) -> Array:
        """Libraries index by int32 and int64 at most, and `size` must fit the dtype."""
        wide = ids.dtype in (self.xp.int32, self.xp.int64)
        return ids if wide else self.xp.astype(ids, self.index_dtype(ids))

    def _entries(self, ids: Array, rows: Array, size: int) -> tuple[Array, Array]:
        """Checked entries without padding; where shapes are static it stays, with everything out of range, as `size`."""
        ids, inside = self._checked(ids, size)
        if inside is None:
            return ids, rows
        if not self.concrete(ids):
            return self.xp.where(inside, ids, self._constant(size, ids)), rows
        (kept,) = self.xp.nonzero(inside)
        return self.xp.take(ids, kept, axis=0), self.xp.take(rows, kept, axis=0)

    def _describe(self, ids: Array, size: int) -> str:
        bad = self.xp.astype((ids < 0) | (ids > size), self.xp.int8)
        position = int(self.xp.argmax(bad))
        return f"id {int(ids[position])} at position {position} is out of bounds for an axis of size {size}"

    def _clipped(self, ids: Array, inside: Array) -> Array:
        return self.xp.where(inside, ids, self.xp.zeros_like(ids))

    def _redirected(self, dst: Array, ids: Array, inside: Array, rows: Array) -> tuple[Array, Array]:
        """Entries to place in static shapes: padding repeats the first entry that is none, or else what row 0 holds.

        So every id is in range and equal ids place equal rows, which is safe in any order, and `dst` is not copied.
        """
        xp = self.xp
        first = xp.reshape(xp.argmax(xp.astype(inside, xp.int8)), (1,))
        found = xp.take(inside, first, axis=0)
        row = self._where_rows(found, xp.take(rows, first, axis=0), dst[:1, ...])
        rows = self._where_rows(inside, rows, row)
        return xp.where(inside, ids, xp.where(found, xp.take(ids, first, axis=0), xp.zeros_like(first))), rows

    # Small things

    def device_for(self, x: Array) -> Any:
        return array_api_compat.device(x)

    def _scaled(self, rows: Array, alpha: complex) -> Array:
        """``alpha * rows`` in the dtype of `rows`. Bools are added or not; unsigned integers are negated by wrapping."""
        xp, dtype = self.xp, rows.dtype
        if isinstance(alpha, int | float | complex):
            if alpha == 1:
                return rows
            if dtype == xp.bool:
                return rows if alpha else xp.zeros_like(rows)
            if alpha == -1:
                return xp.negative(rows)
        # NumPy's float64 scalars are Python floats too, but not weak ones.
        weak: Any = alpha
        if isinstance(alpha, float | complex):
            weak = float(alpha) if isinstance(alpha, float) else complex(alpha)
        scaled = rows * weak
        if scaled.dtype != dtype:
            raise TypeError(f"alpha={alpha!r} would make {scaled.dtype} of rows of {dtype}")
        return scaled

    def _constant(self, value: int, like: Array) -> Array:
        return self.xp.asarray(value, dtype=like.dtype, device=self.device_for(like))

    def _where_rows(self, mask: Array, rows: Array, other: Array | None = None) -> Array:
        """Rows where `mask` holds, else those of `other` (None: zeros)."""
        xp = self.xp
        mask = xp.reshape(mask, (-1, *(1,) * (rows.ndim - 1)))
        zeros = xp.zeros((1,) * rows.ndim, dtype=rows.dtype, device=self.device_for(rows)) if other is None else other
        return xp.where(mask, rows, zeros)
