"""Coordinates as single integers, so that one sort or search serves any number of stored axes.

A key is the flat position ``(i0 * size1 + i1) * size2 + ...``. Before a product passes the index dtype, the keys so far (and,
if that is not enough, the next coordinate) are replaced by their ranks among all that take part, which keeps the lexicographic
order. Padding has the key `Keys.bound`, one more than any real key.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ..backend import backend_of, device_of
from ..kernels.base import Array, Kernels
from ..types.frame import Frame

__all__ = ["Keys", "coordinates_of", "frame_key", "make_keys", "split_key"]


class Keys(NamedTuple):
    """Keys of several groups of coordinates over the same axes, comparable with each other."""

    keys: tuple[Array, ...]
    bound: int
    """One more than the greatest key; the key of padding."""
    flat: bool
    """Whether keys are flat positions (else ranks, from which coordinates cannot be computed)."""


def frame_key(frame: Frame) -> Keys:
    """The keys of one frame's entries over its stored axes (at least one)."""
    return make_keys([frame.ids], frame.stored_sizes, padded=frame.padded)


def make_keys(groups: Sequence[tuple[Array, ...]], sizes: tuple[int, ...], *, padded: bool) -> Keys:
    """One key array for each group of coordinate arrays along axes of `sizes` (at least one)."""
    xp, kernels = backend_of(groups[0][0]).xp, backend_of(groups[0][0]).kernels
    if len(sizes) == 1:
        if len({g[0].dtype for g in groups}) == 1:
            return Keys(tuple(g[0] for g in groups), sizes[0], True)
        wide = kernels.index_dtype(groups[0][0])
        return Keys(tuple(xp.astype(g[0], wide) for g in groups), sizes[0], True)
    wide = kernels.index_dtype(groups[0][0])
    limit = int(xp.iinfo(wide).max)
    groups = [tuple(xp.astype(ids, wide, copy=False) for ids in group) for group in groups]
    padding = None
    if padded or any(_reaches_padding(kernels, ids, n) for group in groups for ids, n in zip(group, sizes, strict=True)):
        padding = [_is_padding(group, sizes) for group in groups]
        zero = xp.zeros((1,), dtype=wide, device=device_of(groups[0][0]))
        groups = [tuple(xp.where(p, zero, ids) for ids in g) for g, p in zip(groups, padding, strict=True)]
    keys, bound, flat = [group[0] for group in groups], sizes[0], True
    for position in range(1, len(sizes)):
        column, size = [group[position] for group in groups], sizes[position]
        if bound * size >= limit:
            (keys, bound), flat = _ranks(keys, bound, kernels), False
        if bound * size >= limit:
            column, size = _ranks(column, size, kernels)
        keys = [key * size + ids for key, ids in zip(keys, column, strict=True)]
        bound *= size
    if padding is not None:
        last = xp.full((1,), bound, dtype=wide, device=device_of(groups[0][0]))
        keys = [xp.where(p, last, key) for key, p in zip(keys, padding, strict=True)]
    return Keys(tuple(keys), bound, flat)


def split_key(key: Array, sizes: tuple[int, ...], *, padded: bool) -> tuple[Array, ...]:
    """The coordinates of flat positions; padding gets the size of every axis."""
    if len(sizes) == 1:
        return (key,)
    xp = backend_of(key).xp
    rest, coords = key, []
    for size in reversed(sizes[1:]):
        divisor = max(size, 1)
        coords.append(rest % divisor)
        rest = rest // divisor
    coords = [rest, *reversed(coords)]
    if padded:
        outside = key >= prod(sizes)
        coords = [
            xp.where(outside, xp.full((1,), n, dtype=key.dtype, device=device_of(key)), c)
            for c, n in zip(coords, sizes, strict=True)
        ]
    return tuple(coords)


def coordinates_of(
    distinct: Array, inverse: Array | None, columns: tuple[Array, ...], sizes: tuple[int, ...], *, flat: bool, padded: bool
) -> tuple[Array, ...]:
    """The coordinates of distinct keys, in the dtypes of the `columns` that the keys were made of."""
    xp, kernels = backend_of(distinct).xp, backend_of(distinct).kernels
    if flat:
        ids = split_key(distinct, sizes, padded=padded)
    else:
        # Ranks lose the coordinates. All entries of a key have the same ones, so their maximum is each of them.
        starts = (xp.full(distinct.shape, n, dtype=c.dtype, device=device_of(c)) for c, n in zip(columns, sizes, strict=True))
        ids = tuple(kernels.scatter_reduce("max", s, inverse, c, False) for s, c in zip(starts, columns, strict=True))
    return tuple(xp.astype(i, c.dtype, copy=False) for i, c in zip(ids, columns, strict=True))


def _ranks(columns: list[Array], bound: int, kernels: Kernels) -> tuple[list[Array], int]:
    """The rank of each value among the distinct values of all columns, and how many there are."""
    xp = backend_of(columns[0]).xp
    distinct, inverse = kernels.unique_inverse(xp.concat(columns), bound)
    inverse = xp.astype(inverse, columns[0].dtype, copy=False)
    ranks, start = [], 0
    for column in columns:
        ranks.append(inverse[start : start + column.shape[0]])
        start += column.shape[0]
    return ranks, max(int(distinct.shape[0]), 1)


def _reaches_padding(kernels: Kernels, ids: Array, size: int) -> bool:
    """Whether ids that the caller may have overwritten hold padding; an `IndexError` for anything else out of range.

    One axis needs no such look, since the kernels check their ids; several would be folded into a key that looks right.
    """
    if ids.shape[0] == 0 or not (kernels.concrete(ids) and kernels.synchronous(ids)):
        return bool(ids.shape[0] > 0)
    least, greatest = kernels.bounds(ids)
    if least < 0 or greatest > size:
        raise IndexError(f"indices hold {least if least < 0 else greatest}, out of range for an axis of size {size}")
    return greatest == size


def _is_padding(group: tuple[Array, ...], sizes: tuple[int, ...]) -> Array:
    outside = (group[0] < 0) | (group[0] >= sizes[0])
    for ids, size in zip(group[1:], sizes[1:], strict=True):
        outside = outside | (ids < 0) | (ids >= size)
    return outside
