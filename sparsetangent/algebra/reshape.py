"""Another shape over the same elements, by coordinate arithmetic on the axes that are stored."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from ..backend import device_of
from ..kernels.base import Array
from ..registry import implements
from ..types import Fill, Frame, Tangent, Zero
from ..types.indices import check_size
from .frames import expand, store
from .keys import make_keys, split_key
from .wrap import like, reshaped

__all__ = ["reshape"]


@implements("reshape", Tangent)
def reshape(x: Tangent, /, shape: Sequence[int], *, copy: bool | None = None) -> Any:
    """Another shape over the same elements. An axis block that mixes stored and dense axes is stored whole."""
    target = _inferred(shape, x.shape)
    if target == x.shape:
        return x
    if isinstance(x, (Fill, Zero)):
        frame = x._frame()
        values = frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *(1,) * len(target)))
        return like(x, frame._replace(values=values, shape=target))
    return reshaped(x, _reshape_frame(x._frame(), target))


def _inferred(shape: Sequence[int], old: tuple[int, ...]) -> tuple[int, ...]:
    wanted = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    known = prod([n for n in wanted if n != -1])
    if wanted.count(-1) == 1 and known and prod(old) % known == 0:
        wanted[wanted.index(-1)] = prod(old) // known
    if any(n < 0 for n in wanted) or prod(wanted) != prod(old):
        raise ValueError(f"cannot reshape a tangent of shape {old} into {tuple(shape)}")
    return tuple(wanted)


def _blocks(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The finest split of both shapes into runs of axes with equal products (no axis of size 0)."""
    blocks = []
    i = j = 0
    while i < len(old) or j < len(new):
        start = i, j
        left = right = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        blocks.append((tuple(range(start[0], i)), tuple(range(start[1], j))))
    return blocks


def _reshape_frame(frame: Frame, shape: tuple[int, ...]) -> Frame:
    xp = frame.backend.xp
    if prod(shape) == 0:
        return _empty_frame(frame, shape)
    blocks = _blocks(frame.shape, shape)
    mixed = [a for old, _ in blocks for a in old if any(b in frame.axes for b in old) and a not in frame.axes]
    frame = store(frame, mixed)
    axes: list[int] = []
    ids: list[Array] = []
    inner: list[int] = []
    whole: list[int] = []
    for old, new in blocks:
        if any(a in frame.axes for a in old):
            columns = tuple(frame.ids[frame.axes.index(a)] for a in old)
            sizes = tuple(frame.shape[a] for a in old)
            axes += new
            ids += _reshaped_coordinates(columns, sizes, tuple(shape[b] for b in new), frame)
        elif _is_one(frame, old):
            inner += [1] * len(new)
        else:
            whole += old
            inner += [shape[b] for b in new]
    values = xp.reshape(expand(frame, tuple(whole)).values, (frame.n, *inner))
    # Flat positions ascend with the coordinates inside a block, and blocks keep their order.
    return Frame(tuple(axes), tuple(ids), values, shape, frame.unique, frame.ordered, frame.padded and bool(axes))


def _reshaped_coordinates(
    columns: tuple[Array, ...], sizes: tuple[int, ...], new_sizes: tuple[int, ...], frame: Frame
) -> tuple[Array, ...]:
    """Coordinates along axes of `sizes` as coordinates along axes of `new_sizes`, over the same elements."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    for axis, size in enumerate(new_sizes):
        check_size(size, axis, frame.backend, frame.values)
    (key,), _, flat = make_keys([columns], sizes, padded=frame.padded)
    if flat:
        return split_key(key, new_sizes, padded=frame.padded) if new_sizes else ()
    if not frame.concrete:
        raise ValueError(f"positions among {prod(sizes)} elements do not fit {kernels.index_dtype(key)}, and ids are traced")
    # Flat positions pass the index dtype: Python's integers do not. Padding keeps to the end of every axis.
    rows = []
    for place in zip(*([int(i) for i in c] for c in columns), strict=True):
        position = 0
        for i, size in zip(place, sizes, strict=True):
            position = position * size + i
        row: list[int] = []
        for size in reversed(new_sizes):
            position, rest = divmod(position, size)
            row.insert(0, rest)
        rows.append(new_sizes if any(i >= n for i, n in zip(place, sizes, strict=True)) else row)
    dtype, device = kernels.index_dtype(key), device_of(key)
    return tuple(xp.asarray([row[k] for row in rows], dtype=dtype, device=device) for k in range(len(new_sizes)))


def _is_one(frame: Frame, axes: tuple[int, ...]) -> bool:
    """Whether dense axes are all held with size 1, so that they stay so in any shape."""
    return all(frame.values.shape[1 + frame.dense_axes.index(a)] == 1 for a in axes)


def _empty_frame(frame: Frame, shape: tuple[int, ...]) -> Frame:
    """A frame of a shape without elements, with its first axis stored."""
    xp = frame.backend.xp
    dtype, device = frame.backend.kernels.index_dtype(frame.values), device_of(frame.values)
    values = xp.zeros((0, *shape[1:]), dtype=frame.values.dtype, device=device)
    return Frame((0,), (xp.zeros((0,), dtype=dtype, device=device),), values, shape, True, True)
