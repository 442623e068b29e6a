"""Products that contract axes: one routine for matmul and its relatives.

The axes of both operands carry labels, and a label in both meets (Einstein's rule). Entries are matched on the stored labels that
both share, dense axes are read at the other's coordinates, and what is left is one dense contraction of values, in
which the entries are a batch axis if a stored label is left in the result, and a contracted one if none is.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ..backend import Backend, backend_of, common_backend
from ..dtypes import facts
from ..kernels.base import Array as AnyArray
from ..kernels.base import DType
from ..registry import Array, implements
from ..types import Frame, OneHot, Tangent, Zero
from .folds import repeated
from .frames import blank_padding, broadcast_shapes, coalesce, distinct, fold_entries, mask_rows, promote
from .join import match_coordinates, read
from .wrap import operand_frames, settle
from .zeros import common_dtype

__all__ = ["Labels", "batch_labels", "contract", "matmul"]

Labels = tuple[int, ...]

_ENTRIES = -1
"""The label of the entry axis."""


class _Side(NamedTuple):
    """Values of one operand with a label for each axis."""

    values: AnyArray
    labels: Labels


class _Met(NamedTuple):
    """Both operands at matching entries: the coordinates of every stored label, and the values there."""

    entries: int
    coords: dict[int, AnyArray]
    left: _Side
    right: _Side
    unique: bool
    padded: bool


def contract(a: Frame, b: Frame, a_labels: Labels, b_labels: Labels, out: Labels) -> Frame:
    """The product of two frames, summed over the labels that are not in `out`.

    The labels of one operand are distinct; axes with one label have one size.
    """
    sizes = dict(zip((*a_labels, *b_labels), (*a.shape, *b.shape), strict=True))
    met = _meet(a, b, a_labels, b_labels)
    inside = {label: n for label, n in sizes.items() if label not in met.coords} | {_ENTRIES: met.entries}
    kept = tuple(label for label in out if label in met.coords)
    inner = tuple(label for label in out if label not in met.coords)
    values = _contract_values(met.left, met.right, (_ENTRIES, *inner) if kept else inner, inside)
    if not kept:
        values = values[None, ...]
    result = Frame(
        tuple(out.index(label) for label in kept),
        tuple(met.coords[label] for label in kept),
        values,
        tuple(sizes[label] for label in out),
        unique=met.unique and len(kept) == len(met.coords),
        padded=met.padded and bool(kept),
    )
    # A zero row times inf is nan.
    return blank_padding(result) if result.padded else result


def _meet(a: Frame, b: Frame, a_labels: Labels, b_labels: Labels) -> _Met:
    if not b.axes:
        return _meet_array(a, distinct(b), a_labels, b_labels)
    if not a.axes:
        met = _meet_array(b, distinct(a), b_labels, a_labels)
        return met._replace(left=met.right, right=met.left)
    a, b = coalesce(a), coalesce(b)
    a_ids, b_ids = _coords(a, a_labels), _coords(b, b_labels)
    shared = tuple(label for label in a_ids if label in b_ids)
    pairs = match_coordinates(a, b, [a_labels.index(label) for label in shared], [b_labels.index(label) for label in shared])
    take = a.backend.xp.take
    coords = {label: take(ids, pairs.right, axis=0) for label, ids in b_ids.items()}
    coords |= {label: take(ids, pairs.left, axis=0) for label, ids in a_ids.items()}
    left = _at(a, a_labels, coords, pairs.left)
    right = _at(b, b_labels, coords, pairs.right)
    if pairs.valid is not None:
        # Both sides: 0 * inf would be nan.
        left, right = (s._replace(values=mask_rows(s.values, pairs.valid)) for s in (left, right))
    return _Met(int(pairs.left.shape[0]), coords, left, right, True, a.padded or b.padded or pairs.valid is not None)


def _meet_array(t: Frame, array: Frame, t_labels: Labels, array_labels: Labels) -> _Met:
    """One operand is an array (one entry, or none for zero): it is read at the entries of the other."""
    coords = _coords(t, t_labels)
    inner = tuple(label for axis, label in enumerate(t_labels) if axis not in t.axes)
    right = _at(array, array_labels, coords, None) if array.n else _nothing(array, array_labels, coords)
    return _Met(t.n, coords, _Side(t.values, (_ENTRIES, *inner)), right, t.unique, t.padded)


def _coords(frame: Frame, labels: Labels) -> dict[int, AnyArray]:
    return {labels[axis]: ids for axis, ids in zip(frame.axes, frame.ids, strict=True)}


def _at(frame: Frame, labels: Labels, coords: dict[int, AnyArray], entries: AnyArray | None) -> _Side:
    """The values at given entries, with the dense axes whose label has a coordinate read there."""
    at = {axis: coords[labels[axis]] for axis in frame.dense_axes if labels[axis] in coords}
    inner = tuple(labels[axis] for axis in frame.dense_axes if axis not in at)
    return _Side(read(frame, at, entries), (_ENTRIES, *inner))


def _nothing(frame: Frame, labels: Labels, coords: dict[int, AnyArray]) -> _Side:
    """A zero: one entry of zeros in place of none."""
    one = frame._replace(values=fold_entries(frame.values)[None, ...])
    return _at(one, labels, coords, None)


def _contract_values(left: _Side, right: _Side, out: Labels, sizes: dict[int, int]) -> AnyArray:
    """The dense contraction to the labels of `out`, in which an axis of size 1 may stand for its whole label."""
    backend = backend_of(left.values)
    xp, dtype = backend.xp, left.values.dtype
    held = _held(backend, dtype)
    left, right = (_independent(_Side(xp.astype(s.values, held, copy=False), s.labels), sizes) for s in (left, right))
    in_neither = prod([n for label, n in sizes.items() if label not in (*left.labels, *right.labels, *out)])
    left, right = _summed_alone(left, right, out, xp), _summed_alone(right, left, out, xp)
    values = _multiplied(left, right, out, xp)
    if dtype == xp.bool:
        return repeated(values != 0, in_neither, backend)
    return xp.astype(repeated(values, in_neither, backend) if in_neither != 1 else values, dtype, copy=False)


def _held(backend: Backend, dtype: DType) -> DType:
    """The dtype to contract in: the or of ands is the sign of a sum of products, half types are summed in float32, and unsigned
    integers have the bits of signed ones, which torch can multiply.
    """
    kind, itemsize = facts(backend, dtype)
    if kind == "bool":
        return backend.xp.int32
    return getattr(backend.xp, f"int{8 * itemsize}") if kind == "unsigned" else backend.kernels.accumulator(dtype)


def _independent(side: _Side, sizes: dict[int, int]) -> _Side:
    """Without the labels on which the values do not depend: held with size 1 for an axis of another size."""
    shape = side.values.shape
    kept = [i for i, label in enumerate(side.labels) if shape[i] != 1 or sizes[label] == 1]
    values = backend_of(side.values).xp.reshape(side.values, tuple(shape[i] for i in kept))
    return _Side(values, tuple(side.labels[i] for i in kept))


def _summed_alone(side: _Side, other: _Side, out: Labels, xp: Any) -> _Side:
    """Sum over the labels that neither the other operand nor the result has."""
    alone = tuple(i for i, label in enumerate(side.labels) if label not in other.labels and label not in out)
    if not alone:
        return side
    values = xp.sum(side.values, axis=alone, dtype=side.values.dtype)
    return _Side(values, tuple(label for i, label in enumerate(side.labels) if i not in alone))


def _multiplied(left: _Side, right: _Side, out: Labels, xp: Any) -> AnyArray:
    both = set(left.labels) & set(right.labels)
    batch = tuple(x for x in out if x in both)
    summed = tuple(x for x in left.labels if x in both and x not in out)
    free_left = tuple(x for x in out if x in left.labels and x not in both)
    free_right = tuple(x for x in out if x in right.labels and x not in both)
    a = _arranged(left, (batch, free_left, summed), xp)
    b = _arranged(right, (batch, summed, free_right), xp)
    values = xp.matmul(a, b) if summed else a * b
    shapes = {x: n for s in (left, right) for x, n in zip(s.labels, s.values.shape, strict=True)}
    order = (*batch, *free_left, *free_right)
    values = xp.reshape(values, tuple(shapes[x] for x in order))
    if order != tuple(x for x in out if x in order):
        wanted = tuple(x for x in out if x in order)
        values = xp.permute_dims(values, tuple(order.index(x) for x in wanted))
    return xp.reshape(values, tuple(shapes.get(x, 1) for x in out))


def _arranged(side: _Side, groups: tuple[Labels, Labels, Labels], xp: Any) -> AnyArray:
    """The values with their labels in order, each group flattened to one axis."""
    order = [x for group in groups for x in group]
    values = xp.permute_dims(side.values, tuple(side.labels.index(x) for x in order))
    shapes = dict(zip(side.labels, side.values.shape, strict=True))
    return xp.reshape(values, tuple(prod([shapes[x] for x in group]) for group in groups))


@implements("matmul", Tangent, Tangent)
@implements("matmul", Tangent, Array)
@implements("matmul", Array, Tangent)
def matmul(a: Any, b: Any, /) -> Any:
    """The matrix product over the last axis of `a` and the last but one of `b`, batched over the axes before; zeros are strong."""
    return settle(None, _matmul_frame(a, b))


def _matmul_frame(a: Any, b: Any) -> Frame:
    left, right = operand_frames(a, b)
    if not left.shape or not right.shape:
        raise ValueError(f"matmul needs at least one axis on either side, not shapes {left.shape} and {right.shape}")
    dtype = common_dtype("multiply", left, right)
    left, right = promote(left, dtype), promote(right, dtype)
    inner = left.shape[-1], right.shape[-2] if len(right.shape) > 1 else right.shape[0]
    if inner[0] != inner[1]:
        raise ValueError(f"matmul contracts axes of sizes {inner[0]} and {inner[1]} (shapes {left.shape} and {right.shape})")
    row, column, summed, batch = 0, 1, 2, range(3, 3 + max(len(left.shape), len(right.shape)))
    a_tail = (row, summed)[-len(left.shape) :]
    b_tail = (summed, column)[: len(right.shape)]
    a_batch, b_batch, out_batch = batch_labels(left.shape[:-2], right.shape[:-2], batch)
    out = (*out_batch, *((row,) if len(left.shape) > 1 else ()), *((column,) if len(right.shape) > 1 else ()))
    return contract(left, right, (*a_batch, *a_tail), (*b_batch, *b_tail), out)


def batch_labels(a: tuple[int, ...], b: tuple[int, ...], free: range) -> tuple[Labels, Labels, Labels]:
    """Labels of batch axes that broadcast: a size-1 axis beside a longer one gets a label of its own, which is summed away."""
    out_shape = broadcast_shapes(a, b)
    labels = tuple(free[: len(out_shape)])
    own = iter(range(free.stop, free.stop + len(a) + len(b)))
    sides = []
    for shape in (a, b):
        aligned = zip(shape, out_shape[len(out_shape) - len(shape) :], labels[len(labels) - len(shape) :], strict=True)
        sides.append(tuple(label if n == m else next(own) for n, m, label in aligned))
    return sides[0], sides[1], labels


@implements("matmul", OneHot, Array)
def one_hot_matmul(a: OneHot, b: AnyArray, /) -> Any:
    """A gather of rows where the ones lie along the contracted axis."""
    if a.axis != a.ndim - 1 or not 1 <= b.ndim <= 2 or b.shape[0] != a.depth:
        return matmul(a, b)
    backend = common_backend(a.indices, b)
    xp = backend.xp
    dtype = common_dtype("multiply", *operand_frames(a, b))
    flat = xp.reshape(a.indices, (-1,))
    rows = xp.reshape(backend.kernels.gather(b, flat), (*a.indices.shape, *b.shape[1:]))
    return xp.astype(rows, dtype, copy=False)


@implements("matmul", Zero, Tangent)
@implements("matmul", Tangent, Zero)
@implements("matmul", Zero, Array)
@implements("matmul", Array, Zero)
def zero_matmul(a: Any, b: Any, /) -> Any:
    """Zero absorbs."""
    frame = _matmul_frame(a, b)
    return Zero(frame.shape, like=frame.values) if frame.shape else settle(None, frame)
