"""Distinct ids and where each entry stands among them: by a sort, or, where the axis is short, by a bitmap of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..base import Array
from .instances import id_instance
from .launcher import Launcher
from .sorted_fold import sort_ids

__all__ = ["Distinct", "by_bitmap", "by_sort", "pays_off"]

# An axis this many times longer than the ids costs more to scan as a bitmap than the ids do to sort.
_RATIO = 1000
_LONGEST = 2**31

Count = Callable[[Array], int]
"""Reads the number of distinct ids, the last of a running count; called only if the caller gave no length."""


class Distinct(NamedTuple):
    """`ids` ascend, filled up with the size of the axis. `inverse` is the place of every entry, in the caller's order.

    `count` is the true number of distinct ids, one element on the device. A sort also gives `places`, which is `inverse` in
    sorted order, and that order.
    """

    ids: Array
    inverse: Array
    count: Array
    places: Array | None = None
    order: Array | None = None


def pays_off(n: int, size: int) -> bool:
    """Whether a bitmap of the axis is cheaper than a sort of the ids. Its cost grows with the axis, so there is a bound."""
    return size <= _LONGEST and size < _RATIO * n


def by_sort(launcher: Launcher, ids: Array, size: int, length: int | None, read: Count) -> Distinct:
    xp, n, flag = launcher.device.xp, int(ids.shape[0]), launcher.device.flag()
    keys, order = sort_ids(launcher, ids, size)
    heads = xp.empty(n, dtype=np.int64)
    launcher.items("mark_heads", n, heads, keys, n, size)
    counts = xp.cumsum(heads)
    capacity = read(counts) if length is None else length
    distinct = xp.full(capacity, size, dtype=ids.dtype)
    inverse, places = xp.empty(n, dtype=ids.dtype), xp.empty(n, dtype=np.int64)
    name = id_instance("emit_runs", ids.dtype.name)
    launcher.items(name, n, distinct, inverse, places, keys, order, counts, n, size, capacity, flag)
    return Distinct(distinct, inverse, counts[-1:], places, order)


def by_bitmap(launcher: Launcher, ids: Array, size: int, length: int | None, read: Count) -> Distinct:
    xp, n, flag = launcher.device.xp, int(ids.shape[0]), launcher.device.flag()
    words = size // 32 + 1
    kind = ids.dtype.name
    bits = xp.zeros(words, dtype=np.uint32)
    launcher.items(id_instance("mark_rows", kind), n, bits, ids, n, size, flag)
    counts = xp.empty(words, dtype=np.int64)
    launcher.items("count_bits", words, counts, bits, words)
    counts = xp.cumsum(counts)
    capacity = read(counts) if length is None else length
    distinct = xp.full(capacity, size, dtype=ids.dtype)
    launcher.items(id_instance("emit_distinct", kind), words, distinct, bits, counts, words, capacity, flag)
    inverse = xp.empty(n, dtype=ids.dtype)
    launcher.items(id_instance("rank_ids", kind), n, inverse, ids, bits, counts, n, size, capacity, flag)
    return Distinct(distinct, inverse, counts[-1:])
