"""Two frames meet: match their entries on shared stored axes, and read dense axes at coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..types.frame import Frame
from .frames import align, blank_padding, broadcast_shapes, coalesce, pad_outside, store
from .keys import coordinates_of, make_keys

__all__ = ["Pairs", "lookup", "match", "match_coordinates", "pad_invalid", "product", "quotient", "read", "union"]


class Pairs(NamedTuple):
    """Positions of matching entries, left and right; `valid` is None, or a mask where shapes must stay static."""

    left: Array
    right: Array
    valid: Array | None


def match(left: Array, right: Array, *, concrete: bool, right_distinct: bool) -> Pairs:
    """All pairs ``(i, j)`` with ``left[i] == right[j]``, by ascending i.

    Where shapes must stay static there is one pair for each left entry if the right ones are distinct (ascending, as `coalesce`
    leaves them), else one for each combination.
    """
    backend = backend_of(left)
    xp = backend.xp
    n, m = int(left.shape[0]), int(right.shape[0])
    wide, device = backend.kernels.index_dtype(left), device_of(left)
    if m == 0 or n == 0:
        nothing = xp.zeros((0,), dtype=wide, device=device)
        return Pairs(nothing, nothing, None)
    if not concrete and not right_distinct:
        grid = xp.arange(n * m, dtype=wide, device=device)
        i, j = grid // m, grid % m
        return Pairs(i, j, xp.take(left, i, axis=0) == xp.take(right, j, axis=0))
    if right_distinct:
        found, hit = _found(right, left)
        if not concrete:
            return Pairs(xp.arange(n, dtype=wide, device=device), found, hit)
        (i,) = xp.nonzero(hit)
        return Pairs(i, xp.take(found, i, axis=0), None)
    order = xp.argsort(right, stable=True)
    ascending = xp.take(right, order, axis=0)
    first = _search(ascending, left)
    counts = _search(ascending, left, side="right") - first
    i = xp.repeat(xp.arange(n, dtype=wide, device=device), counts)
    start = xp.take(xp.cumulative_sum(counts) - counts, i, axis=0)
    offset = xp.arange(i.shape[0], dtype=wide, device=device) - start
    return Pairs(i, xp.take(order, xp.take(first, i, axis=0) + offset, axis=0), None)


def read(frame: Frame, at: Mapping[int, Array], entries: Array | None = None) -> Array:
    """The values of entries with the dense axes in `at` read at one position for each row of the result.

    Shape ``(n, *the other dense axes)``. Row k comes from entry ``entries[k]``, or from the only entry if `entries` is None.
    An axis of size 1 in the values stands for all its positions.
    """
    xp, kernels = frame.backend.xp, frame.backend.kernels
    values, dense = frame.values, frame.dense_axes
    read_axes = [a for a in at if values.shape[1 + dense.index(a)] != 1]
    drop = [1 + dense.index(a) for a in at]
    looked_up = [1 + dense.index(a) for a in read_axes]
    rest = [i for i in range(1, values.ndim) if i not in drop]
    if not at:
        return values if entries is None else kernels.gather(values, entries)
    if not read_axes:
        values = xp.reshape(values, (values.shape[0], *(values.shape[i] for i in rest)))
        return values if entries is None else kernels.gather(values, entries)
    sizes = tuple(frame.shape[a] for a in read_axes)
    coords = tuple(at[a] for a in read_axes)
    single = entries is None
    if not single:
        coords, sizes = (entries, *coords), (int(values.shape[0]), *sizes)
    (key,), bound, _ = make_keys([coords], sizes, padded=False)
    values = xp.permute_dims(values, (0, *looked_up, *(i for i in drop if i not in looked_up), *rest))
    return kernels.gather(xp.reshape(values, (bound, *(values.shape[1 + len(drop) :]))), key)


def product(a: Frame, b: Frame, operation: Callable[[Array, Array], Array]) -> Frame:
    """`operation` on the places that both frames store, for an operation linear in both (a product)."""
    a, b = _aligned(a, b)
    if _is_array(b):
        return _at_entries_of(a, b, operation)
    if _is_array(a):
        return _at_entries_of(b, a, lambda x, y: operation(y, x))
    a, b = coalesce(a), coalesce(b)
    shared = tuple(axis for axis in a.axes if axis in b.axes)
    pairs = match_coordinates(a, b, shared, shared)
    axes = tuple(sorted({*a.axes, *b.axes}))
    ids = {axis: backend_of(x).xp.take(x, pairs.left, axis=0) for axis, x in zip(a.axes, a.ids, strict=True)}
    ids |= {
        axis: backend_of(x).xp.take(x, pairs.right, axis=0) for axis, x in zip(b.axes, b.ids, strict=True) if axis not in ids
    }
    left = read(a, {axis: ids[axis] for axis in axes if axis not in a.axes}, pairs.left)
    right = read(b, {axis: ids[axis] for axis in axes if axis not in b.axes}, pairs.right)
    padded = a.padded or b.padded
    frame = pad_invalid(
        Frame(axes, tuple(ids[axis] for axis in axes), operation(left, right), a.shape, True, False, padded), pairs
    )
    # Where one stores more axes than the other, padding of one meets entries of the other and has coordinates of both.
    return blank_padding(frame) if padded and a.axes != b.axes else frame


def match_coordinates(a: Frame, b: Frame, a_axes: Sequence[int], b_axes: Sequence[int]) -> Pairs:
    """Matching entries of two coalesced frames on pairs of stored axes (all combinations if there are none)."""
    xp = a.backend.xp
    if a_axes:
        sizes = tuple(a.shape[axis] for axis in a_axes)
        groups = [tuple(f.ids[f.axes.index(axis)] for axis in axes) for f, axes in ((a, a_axes), (b, b_axes))]
        (left, right), _, _ = make_keys(groups, sizes, padded=a.padded or b.padded)
    else:
        dtype = a.backend.kernels.index_dtype(a.values)
        left, right = (xp.zeros((f.n,), dtype=dtype, device=device_of(f.values)) for f in (a, b))
    ascending = bool(b_axes) and tuple(b_axes) == b.axes
    return match(left, right, concrete=a.concrete and b.concrete, right_distinct=ascending)


def quotient(a: Frame, b: Frame, operation: Callable[[Array, Array], Array]) -> Frame:
    """`operation` on the places that the left frame stores, with the right one's values there, implicit zeros included."""
    a, b = _aligned(a, b)
    if _is_array(b):
        return _at_entries_of(a, b, operation)
    # Every axis that the divisor stores is stored in the numerator too, so one look-up finds the divisor's rows.
    a = store(a, b.axes)
    ids = dict(zip(a.axes, a.ids, strict=True))
    rows = lookup(b, {axis: ids[axis] for axis in b.axes}) if b.axes else _only(coalesce(b))
    found = b._replace(ids=tuple(ids[axis] for axis in b.axes), values=rows)
    elsewhere = {axis: ids[axis] for axis in a.axes if axis not in b.axes}
    divisor = read(found, elsewhere, _positions(a) if b.axes else None)
    return a.with_values(operation(a.values, _beside(a, divisor)))


def lookup(frame: Frame, at: Mapping[int, Array]) -> Array:
    """The rows of a frame at coordinates of all its stored axes, zeros where it stores none: shape ``(n, *dense axes)``."""
    frame = coalesce(frame)
    xp, kernels = frame.backend.xp, frame.backend.kernels
    (left, right), _, _ = make_keys([tuple(at[a] for a in frame.axes), frame.ids], frame.stored_sizes, padded=frame.padded)
    m = frame.n
    if m == 0:
        return xp.zeros((left.shape[0], *frame.values.shape[1:]), dtype=frame.values.dtype, device=device_of(left))
    found, hit = _found(right, left)
    # `m` is padding to the kernel, which reads it as zeros.
    return kernels.gather(frame.values, xp.where(hit, found, xp.asarray(m, dtype=found.dtype, device=device_of(found))))


def union(a: Frame, b: Frame, operation: Callable[[Array, Array], Array]) -> Frame:
    """`operation` on every place that either frame stores, for an operation that maps two zeros to zero."""
    a, b = _aligned(a, b)
    axes = tuple(sorted({*a.axes, *b.axes}))
    a, b = (coalesce(store(f, axes)) for f in (a, b))
    if not axes:
        return a.with_values(operation(_only(a), _only(b)))
    xp, kernels = a.backend.xp, a.backend.kernels
    (left, right), bound, flat = make_keys([a.ids, b.ids], a.stored_sizes, padded=a.padded or b.padded)
    keys, inverse = kernels.unique_inverse(xp.concat([left, right]), bound)
    m, padded = int(keys.shape[0]), not (a.concrete and b.concrete)
    rows = [
        kernels.densify(inverse[part], f.values, m, unique=True) for f, part in ((a, slice(None, a.n)), (b, slice(a.n, None)))
    ]
    columns = tuple(xp.concat(pair) for pair in zip(a.ids, b.ids, strict=True))
    ids = coordinates_of(keys, inverse, columns, a.stored_sizes, flat=flat, padded=padded)
    return Frame(axes, ids, operation(*rows), a.shape, True, True, padded or a.padded or b.padded)


def _found(ascending: Array, values: Array) -> tuple[Array, Array]:
    """A position in `ascending` (not empty) for each value, and whether the value stands there."""
    xp, last = backend_of(ascending).xp, int(ascending.shape[0]) - 1
    found = _search(ascending, values)
    found = xp.where(found <= last, found, xp.asarray(last, dtype=found.dtype, device=device_of(found)))
    return found, xp.take(ascending, found, axis=0) == values


def _search(ascending: Array, values: Array, side: str = "left") -> Array:
    if hasattr(values, "contiguous"):  # torch warns of a strided argument
        values = values.contiguous()
    return backend_of(values).xp.searchsorted(ascending, values, side=side)


def _positions(frame: Frame) -> Array:
    """The numbers of the entries."""
    dtype = frame.backend.kernels.index_dtype(frame.values)
    return frame.backend.xp.arange(frame.n, dtype=dtype, device=device_of(frame.values))


def _only(frame: Frame) -> Array:
    """The one entry of a coalesced frame without stored axes, or a zero that broadcasts."""
    if frame.n:
        return frame.values
    return frame.backend.xp.zeros((1,) * frame.values.ndim, dtype=frame.values.dtype, device=device_of(frame.values))


def _aligned(a: Frame, b: Frame) -> tuple[Frame, Frame]:
    shape = broadcast_shapes(a.shape, b.shape)
    return align(a, shape), align(b, shape)


def _is_array(frame: Frame) -> bool:
    return not frame.axes and frame.n == 1


def _at_entries_of(a: Frame, array: Frame, operation: Callable[[Array, Array], Array]) -> Frame:
    """The values of `a` with those of a dense array at its entries; repeats and order stay as they are."""
    at = dict(zip(a.axes, a.ids, strict=True))
    return a.with_values(operation(a.values, _beside(a, read(array, at))))


def _beside(frame: Frame, rows: Array) -> Array:
    """The other operand's rows, with ones beside padding: 0 / 0 and 0 * inf would make nan of its zeros."""
    if not (frame.padded and frame.axes):
        return rows
    xp = frame.backend.xp
    inside = xp.reshape(frame.ids[0] < frame.stored_sizes[0], (-1, *(1,) * (rows.ndim - 1)))
    return xp.where(inside, rows, xp.ones((1,) * rows.ndim, dtype=rows.dtype, device=device_of(rows)))


def pad_invalid(frame: Frame, pairs: Pairs) -> Frame:
    """Make padding of the pairs that are none."""
    return frame if pairs.valid is None else pad_outside(frame, pairs.valid)
