"""The deterministic route: sort the ids, then fold the rows in that order, level by level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base import Array, ReduceOp
from .arrays import row_elements, scalar
from .geometry import fold_levels, key_dtype, value_elements
from .instances import HELD, fold_type, id_instance, narrow_instance
from .launcher import Launcher

__all__ = ["Sorted", "fold", "sort_ids"]


class Sorted(NamedTuple):
    """Ids in ascending order, all in ``[0, size]``, and where each of them stood."""

    keys: Array
    order: Array


def sort_ids(launcher: Launcher, ids: Array, size: int) -> Sorted:
    """A stable sort of ids as the narrowest unsigned integers that hold them: a radix sort takes one pass a byte."""
    xp, n, key = launcher.device.xp, int(ids.shape[0]), key_dtype(size)
    narrow = xp.empty(n, dtype=key)
    launcher.items(narrow_instance(ids.dtype.name, key), n, narrow, ids, n, size, launcher.device.flag())
    order = xp.argsort(narrow, stable=True).astype(np.int64, copy=False)
    keys = xp.empty(n, dtype=np.int64)
    launcher.items(id_instance("ordered_keys", key), n, keys, narrow, order, n)
    return Sorted(keys, order)


def fold(
    launcher: Launcher,
    op: ReduceOp,
    out: Array,
    keys: Array,
    order: Array | None,
    rows: Array,
    *,
    combine: bool = False,
    alpha: complex = 1,
) -> None:
    """Write to ``out[k]`` the fold of the rows whose key is k, for every key in range that occurs.

    With `combine` what `out` holds takes part: as one more element, or, for a sum, as what ``alpha * sum`` is added to. Rows of
    `out` that no key names are left as they are. `keys` ascend; position i of them stands for row ``order[i]`` (or row i).
    """
    kind = fold_type(op, rows.dtype.name)
    elements = row_elements(rows)
    if rows.shape[0] == 0 or elements == 0:
        return
    xp, address = launcher.device.xp, launcher.device.address
    held = HELD.get(kind.dtype, kind.dtype)
    count = value_elements(kind.dtype, elements, address(out), address(rows))
    packs = elements // count
    if kind.dtype != rows.dtype.name:  # signed integers, which sums and products treat as unsigned ones
        out, rows = out.view(kind.dtype), rows.view(kind.dtype)
    factor = scalar(bool(alpha) if kind.dtype == "bool" else alpha, held)
    lengths = None
    for level, (n, chunk, chunks) in enumerate(fold_levels(int(rows.shape[0]))):
        # One chunk is the last level: nothing is open, so no rows are carried (the keys are written all the same).
        carry = xp.empty((2 * chunks if chunks > 1 else 0, elements), dtype=held)
        carry_keys = xp.empty(2 * chunks, dtype=np.int64)
        carry_lengths = xp.empty(2 * chunks, dtype=np.int64) if op == "mean" else None
        target = (out, keys, order, rows, lengths, n, chunk, packs, int(out.shape[0]), np.int32(combine), factor)
        launcher.rows(kind.instance(level > 0, count), chunks, packs, *target, carry, carry_keys, carry_lengths)
        keys, order, rows, lengths = carry_keys, None, carry, carry_lengths
