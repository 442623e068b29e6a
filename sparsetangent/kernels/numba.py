"""Kernels for NumPy arrays with compiled loops: what `NumpyKernels` does, faster where there is much to do.

Numba is imported at the first call that is large enough to gain by it; a loop is compiled once for a dtype, and kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from .base import Array, ReduceOp
from .block_steps import is_a_sum, is_steppable
from .numpy import _QUIET, NumpyKernels
from .product import as_numbers
from .step import STATES, Step

__all__ = ["NumbaKernels"]

# Calling a compiled loop costs as much as 1000 ids take in NumPy's own table.
_SMALL = 1000
# A table over the axis beats the radix sort while the axis is at most this many times longer than the ids.
_TABLE_RATIO = 2
# A byte for each place of the axis finds the ids that repeat sooner than a hash up to this many places for each id.
_MARKS = 64


class NumbaKernels(NumpyKernels):
    """`NumpyKernels`, with loops for sums and distinct ids. (NumPy's own `take` reads rows as fast as a loop.)

    Parameters
    ----------
    smallest : int
        Fewer entries than this go NumPy's way.
    """

    def __init__(self, *, smallest: int = _SMALL) -> None:
        super().__init__()
        self.smallest = smallest

    def _product(self, ids: Array, rows: Array, size: int) -> Array:
        words = _words(rows)
        if words is None or ids.shape[0] < self.smallest:
            return super()._product(ids, rows, size)
        sums = np.zeros((size, words.shape[1]), words.dtype)
        _add(sums, ids, words, rows.dtype)
        return sums.view(rows.dtype.newbyteorder("=")).reshape((size, *rows.shape[1:]))

    def _add(self, dst: Array, ids: Array, rows: Array, factor: float, chosen: Array | None = None) -> None:
        words = _words(rows)
        if words is None or chosen is not None or ids.shape[0] < self.smallest:
            super()._add(dst, ids, rows, factor, chosen)
        else:
            _add(_table(dst).view(words.dtype), ids, words, dst.dtype, factor)

    @_QUIET
    def _sums(self, ids: Array, rows: Array, size: int) -> Array:
        if not self._has_groups(ids, rows) or prod(rows.shape[1:]) == 1:
            return super()._sums(ids, rows, size)
        sums = np.zeros((size, *rows.shape[1:]), rows.dtype.newbyteorder("="))
        _add_groups(sums, ids, rows, 1)
        return sums

    def _add_merged(self, dst: Array, ids: Array, rows: Array, factor: float) -> None:
        plain = dst.flags.c_contiguous and dst.dtype == rows.dtype and dst.dtype.isnative
        if plain and self._has_groups(ids, rows):
            _add_groups(dst, ids, rows, factor)
        else:
            super()._add_merged(dst, ids, rows, factor)

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if (
            length is not None
            or size <= _TABLE_RATIO * ids.shape[0]
            or prod(rows.shape[1:]) == 1
            or not self._has_groups(ids, rows)
        ):
            return super().coalesce(ids, rows, size, length)
        ids, _ = self._checked(ids, size)
        loops, words = _loops(), as_numbers(rows)
        distinct, starts, places = loops.groups(np.ascontiguousarray(ids), size)
        sums = np.zeros((distinct.shape[0], words.shape[1]), words.dtype)
        loops.add_groups(sums, np.arange(distinct.shape[0]), starts, places, words, words.dtype.type(1))
        return distinct.copy(), sums.view(rows.dtype.newbyteorder("=")).reshape((distinct.shape[0], *rows.shape[1:]))

    def _has_groups(self, ids: Array, rows: Array) -> bool:
        """Whether there is a loop that sums rows by id for these, and enough of them."""
        return self.smallest <= ids.shape[0] < 2**31 and _is_plain(rows.dtype, "fc")

    def _add_distinct(self, dst: Array, distinct: Array, sums: Array) -> None:
        plain = dst.flags.c_contiguous and dst.dtype == sums.dtype and dst.dtype.isnative
        words = _words(sums) if plain and distinct.shape[0] >= self.smallest else None
        if words is None:
            super()._add_distinct(dst, distinct, sums)
        else:
            _add(_table(dst).view(words.dtype), distinct, words, dst.dtype)

    def _distinct(self, ids: Array, size: int, *, padded: bool) -> tuple[Array, Array]:
        n = ids.shape[0]
        if n < self.smallest or n >= 2**31:
            return super()._distinct(ids, size, padded=padded)
        loops = _loops()
        find = loops.distinct_by_table if size <= _TABLE_RATIO * n else loops.distinct_by_sort
        distinct, inverse = find(np.ascontiguousarray(ids), size)
        return distinct, inverse

    def _folded(self, op: ReduceOp, inverse: Array, rows: Array, groups: int) -> Array:
        if op not in _FOLDS or not _is_plain(rows.dtype, "biuf") or rows.shape[0] < self.smallest:
            return super()._folded(op, inverse, rows, groups)
        folded = np.full((groups, prod(rows.shape[1:])), self._identity(op, rows.dtype), rows.dtype)
        bits = np.uint8 if rows.dtype == np.bool else rows.dtype
        getattr(_loops(), _FOLDS[op])(folded.view(bits), np.ascontiguousarray(inverse), _table(rows).view(bits))
        return folded.reshape((groups, *rows.shape[1:]))

    def _others(self, ids: Array, rows: Array, size: int) -> Array:
        if not _is_plain(rows.dtype, "fc") or rows.shape[0] < self.smallest:
            return super()._others(ids, rows, size)
        distinct, inverse = self._distinct(ids, size, padded=bool((ids == size).any()))
        products = _loops().product_of_others(np.ascontiguousarray(inverse), _table(rows), distinct.shape[0])
        return products.reshape(rows.shape)

    @_QUIET
    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> Array | None:
        held, n = self.accumulator(dst.dtype), ids.shape[0]
        fits = is_steppable(step, dst, states, held) and rows.shape == (n, *dst.shape[1:])
        if not fits or not self.smallest <= n < 2**31 or (is_a_sum(step) and held == dst.dtype):
            return super().update_rows(step, dst, states, ids, rows)
        ids, _ = self._checked(ids, dst.shape[0])
        rows = rows.astype(held, copy=any(np.may_share_memory(rows, x) for x in (dst, *states)))
        distinct, starts, places = _loops().groups(np.ascontiguousarray(ids), dst.shape[0])
        entries = distinct, starts, places, _table(rows)
        if held == dst.dtype:
            _step(step, _table(dst), distinct, states, *entries)
            return dst
        named = self.gather(dst, distinct).astype(held)
        _step(step, _table(named), np.arange(distinct.shape[0], dtype=distinct.dtype), states, *entries)
        return self.put(dst, distinct, named.astype(dst.dtype))


# The loop of each fold; the product of bools, which are 0 and 1, is one of numbers.
_FOLDS: dict[str, str] = {"min": "fold_least", "max": "fold_greatest", "mul": "fold_product"}


def _is_plain(dtype: Any, kinds: str) -> bool:
    """Whether Numba has the dtype, which is of one of the `kinds`."""
    widths = {"f": (4, 8), "c": (8, 16)}.get(dtype.kind, (1, 2, 4, 8))
    return dtype.kind in kinds and dtype.isnative and dtype.itemsize in widths


def _table(rows: Array) -> Array:
    """Rows as a contiguous matrix, the same memory if they are contiguous."""
    return np.ascontiguousarray(rows).reshape(rows.shape[0], prod(rows.shape[1:]))


def _step(step: Step, p: Array, at: Array, states: Sequence[Array], *entries: Array) -> None:
    """The loop of a rule; everything that it computes with is of the dtype of `p`."""
    tables = [x if kind == "row" else _table(x) for x, kind in zip(states, STATES[step.rule], strict=True)]
    numbers = (step.rate, step.weight_decay, *_NUMBERS[step.rule](step))
    if step.rule == "rowwise_adagrad":
        numbers = (*numbers, p.shape[1])
    getattr(_row_steps(), step.rule)(p, at, *tables, *entries, np.empty(p.shape[1], p.dtype), *map(p.dtype.type, numbers))


# What a loop takes beside rate and decay. Complements and corrections are computed as Python floats, as a step on arrays does.
_NUMBERS: dict[str, Callable[[Step], tuple[float, ...]]] = {
    "sgd": lambda step: (),
    "momentum": lambda step: (step.beta1,),
    "adagrad": lambda step: (step.epsilon,),
    "rowwise_adagrad": lambda step: (step.epsilon,),
    "adam": lambda step: (
        step.epsilon,
        *(x for b in (step.beta1, step.beta2) for x in (b, 1 - b, 1 - b**step.count)),
    ),
}


def _words(rows: Array) -> Array | None:
    """Rows as a table of what the loops add: floats, or unsigned integers, which wrap as signed ones do. None: no loop has these."""
    kind, width = rows.dtype.kind, rows.dtype.itemsize
    if not (kind in "biu" or (kind == "f" and width in (4, 8)) or (kind == "c" and width in (8, 16))):
        return None
    numbers = as_numbers(rows)
    return numbers.view(f"u{width}") if kind in "biu" else numbers


def _add_groups(dst: Array, ids: Array, rows: Array, factor: float) -> None:
    """``dst[ids] += factor * rows`` for a contiguous `dst`, the rows of each id summed first."""
    loops, words, ids, size = _loops(), as_numbers(rows), np.ascontiguousarray(ids), dst.shape[0]
    table, factor = _table(dst).view(words.dtype), words.dtype.type(factor)
    if size > _MARKS * ids.shape[0]:
        loops.add_groups(table, *loops.grouped(ids, size), words, factor)
        return
    if words.shape[1] == 1 and words.dtype == np.float32:
        loops.add_numbers(table, ids, words, factor)
        return
    times, again = loops.repeats(ids, size)
    loops.add_single_rows(table, ids, times, words, factor)
    distinct, starts, places = loops.grouped(ids.take(again), size)
    loops.add_groups(table, distinct, starts, again.take(places), words, factor)


def _add(dst: Array, ids: Array, words: Array, dtype: Any, factor: float = 1) -> None:
    loops, ids = _loops(), np.ascontiguousarray(ids)
    if dtype == np.bool:
        loops.or_rows(dst, ids, words)
    elif factor == 1:
        loops.add_rows(dst, ids, words)
    else:
        loops.add_multiples(dst, ids, words, words.dtype.type(factor))


@cache
def _loops() -> Any:
    from . import loops

    return loops


@cache
def _row_steps() -> Any:
    from . import row_steps

    return row_steps
