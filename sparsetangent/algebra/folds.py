"""Fold a frame over axes: fold its dense axes, group by the ids that stay, fold in a 0 where fewer entries are stored than the
axes have. Sums are linear and act on the entries as they are; any other fold needs a frame without repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from ..backend import Backend, device_of
from ..dtypes import facts
from ..kernels.base import Array, ReduceOp
from ..types import Frame
from .frames import drop_axes
from .keys import make_keys, split_key

__all__ = ["MAX", "MIN", "PROD", "Reduction", "reduce_frame", "squeeze", "sum_frame"]


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
    if not axes:
        return frame
    xp, dense = frame.backend.xp, frame.dense_axes
    values = frame.values
    full = tuple(1 + dense.index(a) for a in axes if values.shape[1 + dense.index(a)] == frame.shape[a])
    if full:
        function = {"max": xp.max, "min": xp.min, "mul": xp.prod, "add": xp.sum}[fold.op]
        values = _fold_values(function, values, full, frame.backend)
    repeated = prod(
        frame.shape[a] for a in axes if values.shape[1 + dense.index(a)] != frame.shape[a] and 1 + dense.index(a) not in full
    )
    if repeated != 1:
        values = fold.repeat(values, repeated)
    return frame._replace(values=values, shape=tuple(1 if a in axes else n for a, n in enumerate(frame.shape)))


def _fold_values(function: Callable[..., Array], values: Array, axes: tuple[int, ...], backend: Backend) -> Array:
    """`function` over axes in the dtype of `values`, kept as size 1; bools by their *and* and *or*, half types in float32."""
    xp, dtype = backend.xp, values.dtype
    if dtype == xp.bool:
        function = {xp.max: xp.any, xp.sum: xp.any, xp.min: xp.all, xp.prod: xp.all}[function]
        return function(values, axis=axes, keepdims=True)
    if function in (xp.sum, xp.prod):
        held = backend.kernels.accumulator(dtype)
        values = xp.astype(values, held, copy=False)
        if function is xp.sum or len(axes) == 1:
            return xp.astype(
                function(values, axis=axes if len(axes) > 1 else axes[0], dtype=held, keepdims=True), dtype, copy=False
            )
        for a in axes:
            values = function(values, axis=a, dtype=held, keepdims=True)
        return xp.astype(values, dtype, copy=False)
    for a in axes:  # the standard lets max and min take a tuple, and torch's take one axis
        values = function(values, axis=a, keepdims=True)
    return values


def _fold_stored(frame: Frame, axes: tuple[int, ...], fold: Reduction) -> Frame:
    """Fold stored axes: entries that agree on the other stored axes meet, and missing ones count as 0."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    total = prod(frame.shape[a] for a in axes)
    kept = tuple(a for a in frame.axes if a not in axes)
    present = _present(frame)
    if kept:
        sizes = tuple(frame.shape[a] for a in kept)
        columns = tuple(frame.ids[frame.axes.index(a)] for a in kept)
        (key,), bound, flat = make_keys([columns], sizes, padded=frame.padded)
        keys, inverse = kernels.unique_inverse(key, bound)
        groups = int(keys.shape[0])
        ids = _group_ids(keys, inverse, columns, sizes, flat, frame)
    else:
        groups, ids = 1, ()
        dtype = kernels.index_dtype(frame.values)
        inverse = xp.zeros((frame.n,), dtype=dtype, device=device_of(frame.values))
        if present is not None:
            inverse = xp.where(present, inverse, xp.asarray(1, dtype=dtype, device=device_of(frame.values)))
    start = xp.zeros((groups, *frame.values.shape[1:]), dtype=frame.values.dtype, device=device_of(frame.values))
    values = kernels.scatter_reduce(fold.op, start, inverse, frame.values, False)
    ones = xp.ones((frame.n,), dtype=kernels.index_dtype(frame.values), device=device_of(frame.values))
    counts = kernels.densify(inverse, ones, groups)
    missing = xp.reshape(counts < total, (groups, *(1,) * (values.ndim - 1)))
    values = xp.where(missing, _with_zero(fold.op, values, frame.backend), values)
    shape = tuple(1 if a in axes else n for a, n in enumerate(frame.shape))
    folded = Frame(kept, ids, values, shape, True, bool(kept), frame.padded or (bool(kept) and not frame.concrete))
    return _make_dense(folded, axes)


def _group_ids(
    keys: Array, inverse: Array, columns: tuple[Array, ...], sizes: tuple[int, ...], flat: bool, frame: Frame
) -> tuple[Array, ...]:
    xp, kernels = frame.backend.xp, frame.backend.kernels
    if flat:
        ids = split_key(keys, sizes, padded=frame.padded or not frame.concrete)
    else:
        m = int(keys.shape[0])
        ids = tuple(
            kernels.scatter_reduce("max", xp.full((m,), n, dtype=c.dtype, device=device_of(c)), inverse, c, False)
            for c, n in zip(columns, sizes, strict=True)
        )
    return tuple(xp.astype(i, c.dtype, copy=False) for i, c in zip(ids, columns, strict=True))


def _make_dense(frame: Frame, axes: tuple[int, ...]) -> Frame:
    """Give `values` the size-1 axes that were folded away."""
    dense = tuple(a for a in range(len(frame.shape)) if a not in frame.axes)
    inner = list(frame.values.shape[1:])
    for a in sorted(axes):
        inner.insert(dense.index(a), 1)
    return frame._replace(values=frame.backend.xp.reshape(frame.values, (frame.values.shape[0], *inner)))


def _present(frame: Frame) -> Array | None:
    """Where entries are real, or None if all are."""
    if not frame.padded:
        return None
    return frame.ids[0] < frame.stored_sizes[0]


def _with_zero(op: ReduceOp, values: Array, backend: Backend) -> Array:
    """`values` with a 0 folded in."""
    xp = backend.xp
    zeros = xp.zeros_like(values)
    if op == "add":
        return values
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
    xp, dense, values = frame.backend.xp, frame.dense_axes, frame.values
    here = [a for a in axes if a not in frame.axes]
    full = tuple(1 + dense.index(a) for a in here if values.shape[1 + dense.index(a)] == frame.shape[a])
    repeated = prod(frame.shape[a] for a in here if 1 + dense.index(a) not in full)
    if full:
        values = _fold_values(xp.sum, values, full, frame.backend)
    if repeated != 1:
        # Times the count, in its own dtype: integers wrap as repeated addition does.
        count = (
            repeated
            if facts(frame.backend, values.dtype).kind in ("real", "complex")
            else _wrapped(repeated, values, frame.backend)
        )
        values = values * count if values.dtype != xp.bool else (values if repeated else xp.zeros_like(values))
    shape = tuple(1 if a in axes else n for a, n in enumerate(frame.shape))
    stored = tuple(a for a in frame.axes if a in axes)
    frame = frame._replace(values=values, shape=shape)
    if stored:
        frame = drop_axes(frame, stored, dense=True)._replace(unique=False, ordered=False)
    return frame if keepdims else squeeze(frame, axes)


def _wrapped(count: int, values: Array, backend: Backend) -> Array:
    bits = 8 * facts(backend, values.dtype).itemsize
    wrapped = count % 2**bits
    if facts(backend, values.dtype).kind == "signed" and wrapped >= 2 ** (bits - 1):
        wrapped -= 2**bits
    return backend.xp.asarray(wrapped, dtype=values.dtype, device=device_of(values))
