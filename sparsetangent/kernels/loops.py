"""Loops over rows, compiled by Numba at their first use and kept in its cache. Raw memory: `NumbaKernels` checks what goes in.

Every loop tests an id before it touches a row at it, since a caller may overwrite the ids while the loop runs. Numbers are plain
floats and unsigned integers, contiguous: complex numbers come as pairs, signed integers as unsigned ones of equal width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .numpy import RUN

__all__ = [
    "add_groups",
    "add_multiples",
    "add_numbers",
    "add_rows",
    "add_single_rows",
    "compiled",
    "distinct_by_sort",
    "distinct_by_table",
    "fold_greatest",
    "fold_least",
    "fold_product",
    "fold_rows",
    "grouped",
    "groups",
    "in_order",
    "or_rows",
    "product_of_others",
    "repeats",
]

# A table over the axis finds equal ids sooner than a hash up to this many places for each id.
_TABLE_RATIO = 16
_DIGIT = 11
_MASK = (1 << _DIGIT) - 1


def compiled(loop: Any) -> Any:
    """A loop that Numba compiles at its first call, and keeps on disk where it can."""
    # Division by zero is no concern here, and NumPy's model of it spares a test an element.
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(loop)
    except RuntimeError:  # no directory for the cache can be written
        return njit(nogil=True, error_model="numpy")(loop)


@compiled
def add_rows(dst: Any, ids: Any, rows: Any) -> None:
    """``dst[ids[i]] += rows[i]`` in the order of the rows."""
    n, d, size = rows.shape[0], rows.shape[1], dst.shape[0]
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            for j in range(d):
                dst[k, j] += rows[i, j]


@compiled
def add_multiples(dst: Any, ids: Any, rows: Any, factor: Any) -> None:
    """``dst[ids[i]] += factor * rows[i]``."""
    n, d, size = rows.shape[0], rows.shape[1], dst.shape[0]
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            for j in range(d):
                dst[k, j] += factor * rows[i, j]


@compiled
def or_rows(dst: Any, ids: Any, rows: Any) -> None:
    """``dst[ids[i]] |= rows[i]``."""
    n, d, size = rows.shape[0], rows.shape[1], dst.shape[0]
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            for j in range(d):
                dst[k, j] |= rows[i, j]


@compiled
def distinct_by_table(ids: Any, size: int) -> Any:
    """The distinct ids, ascending, and the place of every entry among them, by a mark for each place of the axis."""
    n = ids.shape[0]
    rank = np.zeros(size, ids.dtype)
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            rank[k] = 1
    count = 0
    for k in range(size):
        count += rank[k]
    distinct = np.empty(count, ids.dtype)
    at = 0
    for k in range(size):
        if rank[k]:
            distinct[at] = k
            rank[k] = at
            at += 1
    inverse = np.empty(n, ids.dtype)
    for i in range(n):
        k = ids[i]
        inverse[i] = rank[k] if 0 <= k < size else count
    return distinct, inverse


@compiled
def in_order(ids: Any, size: int) -> Any:
    """The ids ascending, and where each was, by a radix sort, which is stable: the cost does not grow with the axis."""
    n = ids.shape[0]
    keys, places = ids.copy(), np.arange(n, dtype=np.int32)
    other_keys, other_places = np.empty_like(keys), np.empty_like(places)
    counts = np.empty(1 << _DIGIT, np.int64)
    shift = 0
    while (size >> shift) > 0:
        counts[:] = 0
        for i in range(n):
            counts[(keys[i] >> shift) & _MASK] += 1
        total = 0
        for digit in range(1 << _DIGIT):
            here = counts[digit]
            counts[digit] = total
            total += here
        for i in range(n):
            digit = (keys[i] >> shift) & _MASK
            at = counts[digit]
            counts[digit] = at + 1
            other_keys[at], other_places[at] = keys[i], places[i]
        keys, other_keys, places, other_places = other_keys, keys, other_places, places
        shift += _DIGIT
    return keys, places


# What was overwritten while these ran may be out of order or range; it cannot be out of memory.


@compiled
def distinct_by_sort(ids: Any, size: int) -> Any:
    """As `distinct_by_table`, where the axis is long."""
    n = ids.shape[0]
    keys, places = in_order(ids, size)
    inverse, distinct, count = np.empty(n, ids.dtype), np.empty(n, ids.dtype), 0
    for i in range(n):
        k = keys[i]
        if not 0 <= k < size:
            inverse[places[i]] = -1
            continue
        if count == 0 or distinct[count - 1] != k:
            distinct[count] = k
            count += 1
        inverse[places[i]] = count - 1
    for i in range(n):
        if inverse[i] < 0:
            inverse[i] = count
    return distinct[:count].copy(), inverse


@compiled
def groups(ids: Any, size: int) -> Any:
    """The distinct ids, ascending; where the entries of each begin, and where the last end; and the entries, in that order."""
    keys, places = in_order(ids, size)
    n, count, end = ids.shape[0], 0, 0
    distinct, starts = np.empty(n, ids.dtype), np.empty(n + 1, np.int64)
    for i in range(n):
        k = keys[i]
        if not 0 <= k < size:  # padding comes last
            break
        if count == 0 or distinct[count - 1] != k:
            distinct[count], starts[count] = k, i
            count += 1
        end = i + 1
    starts[count] = end
    return distinct[:count], starts[: count + 1], places


@compiled
def repeats(ids: Any, size: int) -> Any:
    """How often each place of the axis is named (0, 1 or 2 for more), and the entries whose id is named more than once."""
    n, count = ids.shape[0], 0
    times, again = np.zeros(size, np.uint8), np.empty(n, np.int32)
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            times[k] += np.uint8(times[k] < 2)
    for i in range(n):
        k = ids[i]
        again[count] = i
        count += 0 <= k < size and times[k] > 1
    return times, again[:count].copy()


@compiled
def add_numbers(dst: Any, ids: Any, rows: Any, factor: Any) -> None:
    """``dst[ids[i]] += factor * rows[i]`` for rows of one number, those of each id summed in float64 first."""
    n, size, count = rows.shape[0], dst.shape[0], 0
    known, sums, distinct = np.zeros(size, np.int32), np.empty(n, np.float64), np.empty(n, ids.dtype)
    for i in range(n):
        k = ids[i]
        if 0 <= k < size:
            place = known[k]
            if place == 0:
                distinct[count], sums[count] = k, rows[i, 0]
                count += 1
                known[k] = count
            else:
                sums[place - 1] += rows[i, 0]
    for g in range(count):
        dst[distinct[g], 0] += factor * np.float32(sums[g])


@compiled
def add_single_rows(dst: Any, ids: Any, times: Any, rows: Any, factor: Any) -> None:
    """``dst[ids[i]] += factor * rows[i]`` for the ids that `repeats` found once."""
    n, d = rows.shape
    for i in range(n):
        k = ids[i]
        if 0 <= k < dst.shape[0] and times[k] == 1:
            for j in range(d):
                dst[k, j] += factor * rows[i, j]


@compiled
def grouped(ids: Any, size: int) -> Any:
    """As `groups`, with the ids in the order in which they are first met: without a sort, so rows are read almost as they lie."""
    n, count = ids.shape[0], 0
    group, distinct, starts = np.empty(n, np.int32), np.empty(n, ids.dtype), np.zeros(n + 1, np.int64)
    if size <= _TABLE_RATIO * n:
        known = np.zeros(size, np.int32)  # the group of an id, counted from 1
        for i in range(n):
            k = ids[i]
            group[i] = -1
            if 0 <= k < size:
                if known[k] == 0:
                    distinct[count] = k
                    count += 1
                    known[k] = count
                group[i] = known[k] - 1
                starts[known[k]] += 1
    else:
        bits = 2
        while (1 << bits) < 2 * n:
            bits += 1
        known, mask, shift = np.zeros(1 << bits, np.int32), (1 << bits) - 1, np.uint64(64 - bits)
        for i in range(n):
            k = ids[i]
            group[i] = -1
            if 0 <= k < size:
                at = np.int64((np.uint64(k) * np.uint64(0x9E3779B97F4A7C15)) >> shift)  # Fibonacci hashing (Knuth, 6.4)
                while known[at] and distinct[known[at] - 1] != k:
                    at = (at + 1) & mask
                if known[at] == 0:
                    distinct[count] = k
                    count += 1
                    known[at] = count
                group[i] = known[at] - 1
                starts[known[at]] += 1
    for g in range(count):
        starts[g + 1] += starts[g]
    places, free = np.empty(starts[count], np.int32), starts[:count].copy()
    for i in range(n):
        g = group[i]
        if g >= 0:
            places[free[g]] = i
            free[g] += 1
    return distinct[:count], starts[: count + 1], places


@compiled
def fold_rows(total: Any, rows: Any, places: Any, start: int, stop: int) -> None:
    """`total` becomes the sum of the rows at ``places[start:stop]``: runs of 16 in sequence, and the runs in pairs, as a counter carries."""
    d, runs, levels = rows.shape[1], 0, 1
    while (RUN << levels) < stop - start:
        levels += 1
    waiting = np.empty((levels if stop - start > RUN else 0, d), rows.dtype)
    for first in range(start, stop, RUN):
        place = places[first]
        for j in range(d):
            total[j] = rows[place, j]
        for e in range(first + 1, min(first + RUN, stop)):
            place = places[e]
            for j in range(d):
                total[j] += rows[place, j]
        if stop - start <= RUN:
            return
        level = 0
        while (runs >> level) & 1:
            for j in range(d):
                total[j] = waiting[level, j] + total[j]
            level += 1
        runs += 1
        if level < levels:
            for j in range(d):
                waiting[level, j] = total[j]
    found = False
    for level in range(levels):
        if (runs >> level) & 1:
            for j in range(d):
                total[j] = waiting[level, j] + total[j] if found else waiting[level, j]
            found = True


@compiled
def add_groups(dst: Any, at: Any, starts: Any, places: Any, rows: Any, factor: Any) -> None:
    """``dst[at[g]] += factor * (the sum of group g)``, the groups as `grouped` gives them."""
    d, total = rows.shape[1], np.empty(rows.shape[1], rows.dtype)
    for g in range(at.shape[0]):
        k, start, stop = at[g], starts[g], starts[g + 1]
        if 0 <= k < dst.shape[0] and stop - start == 1:
            place = places[start]
            for j in range(d):
                dst[k, j] += factor * rows[place, j]
        elif 0 <= k < dst.shape[0] and stop > start:
            fold_rows(total, rows, places, start, stop)
            for j in range(d):
                dst[k, j] += factor * total[j]


@compiled
def fold_least(dst: Any, ids: Any, rows: Any) -> None:
    """``dst[ids[i]] = minimum(dst[ids[i]], rows[i])``; nan stays, and spreads."""
    n, d = rows.shape
    for i in range(n):
        k = ids[i]
        if 0 <= k < dst.shape[0]:
            for j in range(d):
                a, b = dst[k, j], rows[i, j]
                dst[k, j] = a if a <= b or a != a else b


@compiled
def fold_greatest(dst: Any, ids: Any, rows: Any) -> None:
    """``dst[ids[i]] = maximum(dst[ids[i]], rows[i])``; nan stays, and spreads."""
    n, d = rows.shape
    for i in range(n):
        k = ids[i]
        if 0 <= k < dst.shape[0]:
            for j in range(d):
                a, b = dst[k, j], rows[i, j]
                dst[k, j] = a if a >= b or a != a else b


@compiled
def fold_product(dst: Any, ids: Any, rows: Any) -> None:
    """``dst[ids[i]] *= rows[i]``."""
    n, d = rows.shape
    for i in range(n):
        k = ids[i]
        if 0 <= k < dst.shape[0]:
            for j in range(d):
                dst[k, j] *= rows[i, j]


@compiled
def product_of_others(ids: Any, rows: Any, groups: int) -> Any:
    """For each row the product of those before it and those behind it that have its id."""
    n, d = rows.shape
    products, met = np.ones_like(rows), np.ones((groups, d), rows.dtype)
    for i in range(n):
        k = ids[i]
        if 0 <= k < groups:
            for j in range(d):
                products[i, j] = met[k, j]
                met[k, j] *= rows[i, j]
    met[:] = 1
    for i in range(n - 1, -1, -1):
        k = ids[i]
        if 0 <= k < groups:
            for j in range(d):
                products[i, j] *= met[k, j]
                met[k, j] *= rows[i, j]
    return products
