"""Kernels for NumPy arrays (and, through shared memory, for torch tensors on the CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import array_api_compat.numpy
import numpy as np

from .base import Array, ReduceOp
from .block_steps import is_a_sum, is_steppable, step_blocks
from .generic import _COMBINE, _HALF, GenericKernels
from .product import add_product, as_numbers, product_loop
from .step import Step

__all__ = ["NumpyKernels"]

# Up to this many elements ufunc.at (10 to 15 ns each) beats a sort.
_SMALL = 1500
# And up to this many the loop under SciPy's product, so that small sums do not import SciPy.
_FEW_SUMS = 300
# Rows of one id that are summed one after the other; the sums of such runs are added in pairs.
RUN = 16
# Up to this many ids Python's set tells sooner than a sort whether any repeats.
_FEW_IDS = 64
# A table over the axis beats sorting while the axis is at most this many times longer than the ids (10^3 to 10^6 ids:
# level at 8; at 1, three times faster).
_TABLE_RATIO = 8
# Digits of a radix sort: NumPy's stable sort of 16-bit integers is one, and there is none for wider types.
_DIGIT = 16
_FEW = 256

_UNSIGNED: dict[Any, Any] = {np.dtype(np.int32): np.dtype(np.uint32), np.dtype(np.int64): np.dtype(np.uint64)}
_FLOAT32 = np.dtype(np.float32)


# A sum of entries is no operation of the caller's: that inf - inf is nan shows in the result, as in the dense array.
_QUIET = np.errstate(invalid="ignore", over="ignore")


class NumpyKernels(GenericKernels):
    """Sums as a product with SciPy's sparse matrix of ones, 28 times faster than `np.add.at` on wide rows."""

    mutable = True

    def __init__(self) -> None:
        super().__init__(array_api_compat.numpy, "numpy")

    def accumulator(self, dtype: Any) -> Any:
        # The name takes 2 us to make, and only the half types are two bytes and no integers.
        is_half = dtype.itemsize == 2 and dtype.kind not in "iu" and dtype.name in _HALF
        return _FLOAT32 if is_half else dtype

    def bounds(self, ids: Array) -> tuple[int, int]:
        if ids.size <= 64:  # Python's own loop is ahead of two reductions
            few = ids.ravel().tolist()
            return min(few), max(few)
        return int(ids.min()), int(ids.max())

    # Reads and placing

    def gather(self, src: Array, ids: Array) -> Array:
        ids, inside = self._checked(ids, src.shape[0])
        if inside is None:
            # `take` copies a strided source whole; fancy indexing reads only the rows.
            return src.take(ids, axis=0) if src.flags.c_contiguous else src[ids]
        rows = np.zeros((ids.shape[0], *src.shape[1:]), src.dtype)
        rows[inside] = src[ids[inside]]
        return rows

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        ids, rows = self._writing(dst, unique_ids, rows)
        dst[ids] = rows
        return dst

    # Sums

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        ids, rows = self._entries(ids, rows, size)
        if unique:
            placed = np.zeros((size, *rows.shape[1:]), rows.dtype)
            placed[ids] = rows
            return placed
        return self._sums(ids, rows.astype(self.accumulator(rows.dtype), copy=False), size).astype(rows.dtype, copy=False)

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        distinct, inverse = self.unique_inverse(ids, size, length)
        return distinct, self.densify(inverse, rows, distinct.shape[0])

    @_QUIET
    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1, *, in_order: bool = False) -> Array:
        ids, rows = self._writing(dst, ids, rows)
        held, factor = self.accumulator(dst.dtype), 1.0
        rows = rows.astype(held, copy=False)
        # A factor costs nothing on the way; but a complex one times a complex inf is nan.
        if dst.dtype.kind == "f" and isinstance(alpha, int | float):
            factor = float(alpha)
        else:
            rows = self._scaled(rows, alpha)
        exact = held.kind not in "fc"
        if held == dst.dtype and (in_order or exact) and self._add_as_they_come(dst, ids, rows, factor):
            return dst
        self._add_merged(dst, ids, rows, factor)
        return dst

    def _add_as_they_come(self, dst: Array, ids: Array, rows: Array, factor: float) -> bool:
        """``dst[ids[i]] += factor * rows[i]`` in the order of the rows; False, and nothing done, where merging is the quicker way."""
        if self._is_straight(dst, rows):
            self._add(dst, ids, rows, factor)
        elif rows.ndim > 1 and prod(dst.shape[1:]) == 1 and dst.flags.c_contiguous:
            np.add.at(dst.reshape(-1), ids, _times(rows.reshape(-1), factor))
        elif _is_quick(rows):
            np.add.at(dst, ids, _times(rows, factor))
        else:
            return False
        return True

    def _is_straight(self, dst: Array, rows: Array) -> bool:
        """Whether SciPy's loop can add rows where they belong, and is the quickest way for so many."""
        few = _is_quick(rows, _FEW_SUMS) or prod(rows.shape[1:]) == 1
        return not few and bool(dst.flags.c_contiguous) and dst.dtype.isnative and product_loop() is not None

    def _add(self, dst: Array, ids: Array, rows: Array, factor: float, chosen: Array | None = None) -> None:
        """``dst[ids] += factor * rows`` for a contiguous `dst`, of the entries where `chosen` holds."""
        words = as_numbers(rows)
        table = dst.reshape(dst.shape[0], prod(dst.shape[1:])).view(words.dtype)
        add_product(table, ids, words, factor, chosen)

    def _add_merged(self, dst: Array, ids: Array, rows: Array, factor: float) -> None:
        """``dst[ids] += factor * rows``, where the rows of one id are summed before `dst` takes them up.

        Memory is taken for the rows alone: a product would make an array like `dst`. An id that is met once is added where it belongs.
        """
        n = ids.shape[0]
        if n <= _FEW_IDS and len(set(ids.tolist())) == n:
            self._add_distinct(dst, ids, _times(rows, factor))
            return
        distinct, inverse = self._distinct(ids, dst.shape[0], padded=False)
        if rows.dtype == dst.dtype and self._is_straight(dst, rows):
            counts = np.bincount(inverse)
            repeated = counts > 1
            again = repeated.take(inverse)
            self._add(dst, ids, rows, factor, ~again if again.any() else None)
            rank = np.cumsum(repeated) - 1
            distinct, inverse, rows = distinct[repeated], rank.take(inverse[again]), rows[again]
        self._add_distinct(dst, distinct, _times(self._sums(inverse, rows, distinct.shape[0]), factor))

    def _add_distinct(self, dst: Array, distinct: Array, sums: Array) -> None:
        """``dst[distinct] += sums``, rounded once where `sums` are of a wider dtype."""
        dst[distinct] = np.add(dst[distinct], sums, dtype=sums.dtype).astype(dst.dtype, copy=False)

    @_QUIET
    def _sums(self, ids: Array, rows: Array, size: int) -> Array:
        """Sums of rows by ids, which are in range, in the dtype of the rows."""
        n, inner = ids.shape[0], rows.shape[1:]
        if inner and prod(inner) == 1:
            return self._sums(ids, rows.reshape(n), size).reshape(size, *inner)
        if not inner and rows.dtype == _FLOAT32:
            return np.bincount(ids, rows, size).astype(rows.dtype)  # which sums in float64
        if rows.dtype.kind not in "fc" or n <= RUN:
            return self._in_sequence(ids, rows, size)
        crowded = np.bincount(ids) > RUN
        if not crowded.any():
            return self._in_sequence(ids, rows, size)
        # Runs of rows are summed where the rows lie, and only those of crowded ids in pairs.
        order = _stable_order(ids, size)
        ascending = ids.take(order)
        opens = _places(ascending) % RUN == 0
        run = np.empty(n, np.int64)
        run[order] = np.cumsum(opens) - 1
        owners = ascending[opens]
        runs = self._in_sequence(run, rows, owners.shape[0])
        several = crowded.take(owners)
        sums = np.zeros((size, *inner), rows.dtype)
        sums[owners[~several]] = runs[~several]
        sums[np.flatnonzero(crowded)] = _fold_runs(owners[several], runs[several], np.add)
        return sums

    def _in_sequence(self, ids: Array, rows: Array, size: int) -> Array:
        inner = rows.shape[1:]
        if _is_quick(rows, _FEW_SUMS):
            sums = np.zeros((size, *inner), rows.dtype)
            np.add.at(sums, ids, rows)
            return sums
        return self._product(ids, rows, size)

    def _product(self, ids: Array, rows: Array, size: int) -> Array:
        """Sums of rows by ids, which are in range: the product of a matrix of ones."""
        flat = as_numbers(rows)
        sums = np.zeros((size, flat.shape[1]), flat.dtype)
        sums = add_product(sums, ids, flat, 1)
        return sums.view(rows.dtype.newbyteorder("=")).reshape((size, *rows.shape[1:]))

    # Distinct ids

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        ids, inside = self._checked(ids, size)
        distinct, inverse = self._distinct(ids, size, padded=inside is not None)
        return self._sized(distinct, inverse, size, length)

    def _distinct(self, ids: Array, size: int, *, padded: bool) -> tuple[Array, Array]:
        """The distinct ids of checked ones, and the place of each, padding's being their number."""
        if size <= _TABLE_RATIO * ids.shape[0]:
            return _unique_by_table(ids, size)
        distinct, inverse = _unique_by_sort(ids, size)
        return distinct[:-1] if padded else distinct, inverse

    # Optimizer steps

    @np.errstate(all="ignore")
    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> Array | None:
        held = self.accumulator(dst.dtype)
        if not is_steppable(step, dst, states, held) or rows.shape != (*ids.shape, *dst.shape[1:]):
            return None
        if is_a_sum(step) and held == dst.dtype:
            return self.scatter_add(dst, ids, rows, -step.rate)
        distinct, sums = self.coalesce(ids, rows.astype(held, copy=False), dst.shape[0])  # a new array
        step_blocks(step, dst, states, distinct, sums)
        return dst

    # Folds

    @_QUIET
    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        self._check_op(op, dst.dtype)
        if op == "add" and include_self:
            return self.scatter_add(dst, ids, rows)
        ids, rows = self._writing(dst, ids, rows)
        distinct, inverse = self.unique_inverse(ids, dst.shape[0])
        held = self.accumulator(dst.dtype)
        folded = self._folded(op, inverse, rows.astype(held, copy=False), distinct.shape[0])
        if include_self:
            folded = getattr(np, _COMBINE[op])(dst[distinct], folded, dtype=held)
        if op == "mean":
            counts = np.bincount(inverse, minlength=distinct.shape[0]) + include_self
            folded = folded / counts.reshape(-1, *(1,) * (rows.ndim - 1)).astype(held)
        dst[distinct] = folded.astype(dst.dtype, copy=False)
        return dst

    def _folded(self, op: ReduceOp, inverse: Array, rows: Array, groups: int) -> Array:
        """Each group's fold; every group has a row, so what the folds start from is never seen."""
        if op in ("add", "mean"):
            return self._sums(inverse, rows, groups)
        combine = getattr(np, _COMBINE[op])
        if _is_quick(rows):
            folded = np.full((groups, *rows.shape[1:]), self._identity(op, rows.dtype), rows.dtype)
            combine.at(folded, inverse, rows)
            return folded
        order = _stable_order(inverse, groups)
        return _fold_runs(inverse.take(order), rows[order], combine)

    @np.errstate(all="ignore")
    def product_of_others(self, ids: Array, rows: Array, size: int) -> Array | None:
        """For each row the product of the other rows of its id, 1 where there is none: a derivative of a product.

        No part of the contract; None where a backend has no way that is quicker than a scan with standard functions.
        """
        ids, _ = self._checked(ids, size)
        return self._others(ids, rows, size) if rows.size else rows

    def _others(self, ids: Array, rows: Array, size: int) -> Array:
        order = _stable_order(ids, size + 1)
        first = _run_starts(ids.take(order))
        starts = np.flatnonzero(first)
        lengths = np.diff(starts, append=ids.shape[0])
        place = np.arange(ids.shape[0]) - np.repeat(starts, lengths)
        behind = np.repeat(lengths, lengths) - 1 - place
        (some,) = np.nonzero(place + behind)  # a row alone has no others
        products, at = np.ones_like(rows), order[some]
        sequence = rows[at]
        before = _product_before(sequence, place[some])
        products[at] = before * _product_before(sequence[::-1], behind[some][::-1])[::-1]
        return products

    def device_for(self, x: Array) -> Any:
        return None

    # Checks

    def _checked(self, ids: Array, size: int) -> tuple[Array, Array | None]:
        if ids.dtype not in _UNSIGNED:
            ids = ids.astype(np.int64)
        if ids.shape[0]:
            # Negative ids are the greatest of all as unsigned ones: one pass instead of two.
            greatest = int(np.maximum.reduce(ids.view(_UNSIGNED[ids.dtype])))
            if greatest > size:
                raise IndexError(self._describe(ids, size))
            if greatest == size:
                return ids, ids < size
        return ids, None

    def _entries(self, ids: Array, rows: Array, size: int) -> tuple[Array, Array]:
        ids, inside = self._checked(ids, size)
        return (ids, rows) if inside is None else (ids[inside], rows[inside])

    def _writing(self, dst: Array, ids: Array, rows: Array) -> tuple[Array, Array]:
        """Checked entries to write into `dst`, copied if they lie in its memory.

        `np.add.at` writes into read-only arrays, and spreads a single row over all; a write into an array that overlaps itself
        has no defined result.
        """
        if not dst.flags.writeable:
            raise ValueError("dst is read-only")
        if 0 in dst.strides and dst.size and any(step == 0 and n > 1 for step, n in zip(dst.strides, dst.shape, strict=True)):
            raise ValueError("dst overlaps itself: an axis has stride 0")
        if rows.shape != (*ids.shape, *dst.shape[1:]):
            raise ValueError(f"{ids.shape[0]} ids for dst of shape {dst.shape} do not go with rows of shape {rows.shape}")
        if np.may_share_memory(dst, ids):
            ids = ids.copy()
        if np.may_share_memory(dst, rows):
            rows = rows.copy()
        return self._entries(ids, rows, dst.shape[0])


def _is_quick(rows: Array, few: int = _SMALL) -> bool:
    """Whether ufunc.at is the fastest way: for few elements, and in one dimension (1.1 ns an element) but for bools."""
    return bool(rows.size <= few or (rows.ndim == 1 and rows.dtype != np.bool))


def _unique_by_table(ids: Array, size: int) -> tuple[Array, Array]:
    """Mark and rank every place of the axis. Padding has a place of its own."""
    seen = np.zeros(size + 1, np.bool)
    seen[ids] = True
    seen[size] = False
    distinct = np.flatnonzero(seen)
    rank = np.empty(size + 1, ids.dtype)
    rank[distinct] = np.arange(distinct.shape[0], dtype=ids.dtype)
    rank[size] = distinct.shape[0]
    return distinct.astype(ids.dtype, copy=False), rank.take(ids)


def _unique_by_sort(ids: Array, size: int) -> tuple[Array, Array]:
    """`np.unique` with inverse, by a faster sort (10^5 ids: 1.2 ms instead of 5.7); padding comes out as an id."""
    order = _stable_order(ids, size + 1)
    ascending = ids.take(order)
    first = _run_starts(ascending)
    inverse = np.empty(ids.shape[0], ids.dtype)
    inverse[order] = np.cumsum(first, dtype=ids.dtype) - 1
    return ascending[first], inverse


def _stable_order(ids: Array, bound: int) -> Array:
    """A stable argsort of ids in ``[0, bound)``, by 16-bit digits from the lowest: 5 times faster than by comparison."""
    if ids.shape[0] < _FEW:
        return np.argsort(ids, kind="stable")
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, (bound - 1).bit_length(), _DIGIT):
        digit = (ids >> shift).astype(np.uint16).take(order)
        order = order.take(np.argsort(digit, kind="stable"))
    return order


def _run_starts(ascending: Array) -> Array:
    """A mask of the first of each run of equal elements."""
    first = np.ones(ascending.shape[0], np.bool)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first


def _places(ids: Array) -> Array:
    """The place of each element in its run of equal elements."""
    starts = np.flatnonzero(_run_starts(ids))
    return np.arange(ids.shape[0]) - np.repeat(starts, np.diff(starts, append=ids.shape[0]))


def _times(rows: Array, factor: float) -> Array:
    return rows if factor == 1 else rows * rows.dtype.type(factor)


def _fold_runs(ids: Array, rows: Array, combine: Any) -> Array:
    """The tree fold of `GenericKernels._fold` with assignment; `reduceat` goes column by column, half as fast on wide rows."""
    place = _places(ids)
    while place.any():
        keep = np.flatnonzero(place % 2 == 0)
        paired = np.flatnonzero(np.append(place[1:], 0)[keep])
        left = rows[keep]
        left[paired] = combine(left[paired], rows[keep[paired] + 1])
        rows, place = left, place[keep] // 2
    return rows


def _product_before(rows: Array, place: Array) -> Array:
    """The product of the rows before each one in its run, in which it has a place: a doubling scan of what it still reaches."""
    product = np.ones_like(rows)
    at, shift = np.flatnonzero(place), 1
    product[at] = rows[at - 1]
    while (at := at[place[at] > shift]).size:
        product[at] *= product[at - shift]
        shift *= 2
    return product
