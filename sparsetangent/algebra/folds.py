"""Fold a frame over axes: fold its dense axes, group by the ids that stay, fold in a 0 where fewer entries are stored than the
axes have. Sums are linear and act on the entries as they are; any other fold needs a frame without repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

from ..backend import Backend, device_of
from ..dtypes import facts
from ..kernels.base import Array, ReduceOp
from ..types import Frame
from .frames import drop_axes
from .keys import coordinates_of, make_keys

__all__ = ["MAX", "MIN", "PROD", "Reduction", "group_entries", "reduce_frame", "repeated", "squeeze", "sum_frame"]


class Reduction(NamedTuple):
    """How a reduction folds."""

    op: ReduceOp
    repeat: Callable[[Array, int], Array]
    """The fold of so many equal values."""


def _power(values: Array, count: int) -> Array:
    return values**count


def _same(values: Array, count: int) -> Array:
    return values


MAX = Reduction("max", _same)
MIN = Reduction("min", _same)
PROD = Reduction("mul", _power)


def reduce_frame(frame: Frame, axes: tuple[int, ...], fold: Reduction, keepdims: bool) -> Frame:
    """Fold a frame without repeats over `axes`, none of which has size 0, implicit zeros counted."""
    frame = _fold_dense(frame, tuple(a for a in axes if a not in frame.axes), fold)
    stored = tuple(a for a in axes if a in frame.axes)
    if stored:
        frame = _fold_stored(frame, stored, fold)
    return frame if keepdims else squeeze(frame, axes)


def _fold_dense(frame: Frame, axes: tuple[int, ...], fold: Reduction) -> Frame:
    """Fold dense axes to size 1."""
    xp, values = frame.backend.xp, frame.values
    held, repeats = _held_and_repeated(frame, axes)
    if held:
        function = {"max": xp.max, "min": xp.min, "mul": xp.prod}[fold.op]
        values = _fold_values(function, values, held, frame.backend)
    if repeats != 1:
        values = fold.repeat(values, repeats)
    return frame._replace(values=values, shape=_with_ones(frame.shape, axes))


def _held_and_repeated(frame: Frame, axes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Of dense `axes`, where in the values those stand that are held in full, and how often the others repeat a value."""
    places = {a: 1 + frame.dense_axes.index(a) for a in axes}
    held = tuple(i for a, i in places.items() if frame.values.shape[i] == frame.shape[a])
    return held, prod([frame.shape[a] for a, i in places.items() if i not in held])


def _with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def _fold_values(function: Callable[..., Array], values: Array, axes: tuple[int, ...], backend: Backend) -> Array:
    """`function` over axes in the dtype of `values`, kept as size 1; bools by their *and* and *or*, half types in float32."""
    xp, dtype = backend.xp, values.dtype
    if dtype == xp.bool:
        function = {xp.max: xp.any, xp.sum: xp.any, xp.min: xp.all, xp.prod: xp.all}[function]
    if function in (xp.sum, xp.prod):
        held = backend.kernels.accumulator(dtype)
        values, function = xp.astype(values, held, copy=False), partial(function, dtype=held)
    for a in axes:  # one at a time, which is all that some libraries take
        values = function(values, axis=a, keepdims=True)
    return xp.astype(values, dtype, copy=False)


def _fold_stored(frame: Frame, axes: tuple[int, ...], fold: Reduction) -> Frame:
    """Fold stored axes: entries that agree on the other stored axes meet, and missing ones count as 0."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    total = prod([frame.shape[a] for a in axes])
    kept = tuple(a for a in frame.axes if a not in axes)
    groups, ids, inverse = group_entries(frame, kept)
    start = xp.zeros((groups, *frame.values.shape[1:]), dtype=frame.values.dtype, device=device_of(frame.values))
    values = kernels.scatter_reduce(fold.op, start, inverse, frame.values, False)
    ones = xp.ones((frame.n,), dtype=kernels.index_dtype(frame.values), device=device_of(frame.values))
    counts = kernels.densify(inverse, ones, groups)
    missing = xp.reshape(counts < total, (groups, *(1,) * (values.ndim - 1)))
    values = xp.where(missing, _with_zero(fold.op, values, frame.backend), values)
    shape = _with_ones(frame.shape, axes)
    folded = Frame(kept, ids, values, shape, True, bool(kept), frame.padded or (bool(kept) and not frame.concrete))
    return _make_dense(folded, axes)


def group_entries(frame: Frame, kept: tuple[int, ...]) -> tuple[int, tuple[Array, ...], Array]:
    """How many groups of equal coordinates along `kept` there are, their coordinates, and the group of each entry."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    if kept:
        sizes = tuple(frame.shape[a] for a in kept)
        columns = tuple(frame.ids[frame.axes.index(a)] for a in kept)
        (key,), bound, flat = make_keys([columns], sizes, padded=frame.padded)
        keys, inverse = kernels.unique_inverse(key, bound)
        padded = frame.padded or not frame.concrete
        return int(keys.shape[0]), coordinates_of(keys, inverse, columns, sizes, flat=flat, padded=padded), inverse
    dtype, device = kernels.index_dtype(frame.values), device_of(frame.values)
    inverse = xp.zeros((frame.n,), dtype=dtype, device=device)
    if frame.padded:
        inverse = xp.astype(frame.ids[0] >= frame.stored_sizes[0], dtype)  # 1, which is padding beside one group
    return 1, (), inverse


def _make_dense(frame: Frame, axes: tuple[int, ...]) -> Frame:
    """Give `values` the size-1 axes that were folded away."""
    dense = tuple(a for a in range(len(frame.shape)) if a not in frame.axes)
    inner = list(frame.values.shape[1:])
    for a in sorted(axes):
        inner.insert(dense.index(a), 1)
    return frame.with_values(frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *inner)))


def _with_zero(op: ReduceOp, values: Array, backend: Backend) -> Array:
    """`values` with a 0 folded in."""
    xp = backend.xp
    zeros = xp.zeros_like(values)
    if op == "mul":
        # nan and inf times 0 are nan in the dense product too.
        return values & zeros if values.dtype == xp.bool else values * zeros
    if values.dtype == xp.bool:
        return values | zeros if op == "max" else values & zeros
    return (xp.maximum if op == "max" else xp.minimum)(values, zeros)


def squeeze(frame: Frame, axes: tuple[int, ...]) -> Frame:
    """Remove axes of size 1, dense in the frame."""
    inner = tuple(n for a, n in zip(frame.dense_axes, frame.values.shape[1:], strict=True) if a not in axes)
    return frame._replace(
        axes=tuple(a - sum(b < a for b in axes) for a in frame.axes),
        values=frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *inner)),
        shape=tuple(n for a, n in enumerate(frame.shape) if a not in axes),
    )


def sum_frame(frame: Frame, axes: tuple[int, ...], keepdims: bool) -> Frame:
    """The sum over axes in the dtype of the values: linear, so repeats may stay."""
    xp, values = frame.backend.xp, frame.values
    held, repeats = _held_and_repeated(frame, tuple(a for a in axes if a not in frame.axes))
    if held:
        values = _fold_values(xp.sum, values, held, frame.backend)
    if repeats != 1:
        values = repeated(values, repeats, frame.backend)
    shape = _with_ones(frame.shape, axes)
    stored = tuple(a for a in frame.axes if a in axes)
    frame = frame._replace(values=values, shape=shape)
    if stored:
        frame = drop_axes(frame, stored)._replace(unique=False, ordered=False)
    return frame if keepdims else squeeze(frame, axes)


def repeated(values: Array, count: int, backend: Backend) -> Array:
    """The sum of `count` equal values: integers wrap as repeated addition does, and bools are or-ed."""
    xp = backend.xp
    kind, itemsize = facts(backend, values.dtype)
    if kind == "bool":
        return values if count else xp.zeros_like(values)
    if kind in ("real", "complex"):
        return values * float(count)  # which may pass the integers of the library
    wrapped = count % 2 ** (8 * itemsize)
    if kind == "signed" and wrapped >= 2 ** (8 * itemsize - 1):
        wrapped -= 2 ** (8 * itemsize)
    return values * xp.asarray(wrapped, dtype=values.dtype, device=device_of(values))
