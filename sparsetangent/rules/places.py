"""Where rows go: ids of any shape, or coordinates, as one key for each row; and the cotangent on its way back."""

from __future__ import annotations

import operator
from math import prod
from typing import Any, NamedTuple

from ..algebra.frames import broadcast_shapes
from ..algebra.keys import make_keys, split_key
from ..backend import backend_of, common_backend
from ..dtypes import facts
from ..kernels.base import Array
from ..protocols import namespace
from ..types import Tangent
from ..types.indices import Validate, as_index_array, check_ids, check_size
from .gather import getitem
from .groups import Op, Ties, check_op, rows_factor
from .operands import check_shape, dense_operand
from .where import masked

__all__ = [
    "Places",
    "into_operands",
    "out_slots",
    "places_of",
    "read",
    "rest_of",
    "rows_of",
    "shaped",
    "slots_of",
    "src_cotangent",
    "times",
]


class Places(NamedTuple):
    """Where rows go: one key for each, `bound` for those that are dropped."""

    key: Array
    bound: int
    entries: tuple[int, ...]
    sizes: tuple[int, ...]
    padded: bool


def places_of(ids: Any, size: Any, like: Array, mode: str, validate: Validate) -> Places:
    """Checked places for rows that go to `size` slots; `like` gives library and device."""
    if mode not in ("raise", "drop"):
        raise ValueError(f'mode must be "raise" or "drop", not {mode!r}')
    given = ids if isinstance(ids, tuple) else (ids,)
    sizes = tuple(map(operator.index, size)) if isinstance(size, (tuple, list)) else (operator.index(size),)
    if not given or len(given) != len(sizes) or isinstance(ids, tuple) != isinstance(size, (tuple, list)):
        raise ValueError(f"a tuple of ids goes with a tuple size of as many numbers, one array with one; size is {size}")
    if min(sizes) < 0:
        raise ValueError(f"size must not be negative, not {size}")
    xp, drop, columns, padded = backend_of(like).xp, mode == "drop", [], False
    for axis, (array, n) in enumerate(zip(given, sizes, strict=True)):
        check_size(n, axis, backend_of(like), like)
        index = as_index_array(array, like, name="ids")
        checked, some = check_ids(index, n, axis, validate=validate or drop, negatives=not drop, drop=drop, name="ids")
        columns.append(checked)
        padded |= some
    entries = broadcast_shapes(*(c.shape for c in columns))
    flat = tuple(xp.reshape(xp.broadcast_to(c, entries), (-1,)) for c in columns)
    (key,), bound, direct = make_keys([flat], sizes, padded=padded)
    if not direct:
        raise ValueError(f"size {sizes} has more places than can be counted")
    return Places(key, bound, entries, sizes, padded)


def into_operands(op: Op, dst: Array, src: Array, ids: Any, mode: str, validate: Validate) -> tuple[Array, Array, Places]:
    """The operands of a fold into `dst`, checked against each other."""
    dst, src = dense_operand(dst, "scatter_into"), dense_operand(src, "scatter_into")
    common_backend(dst, src)
    check_op(op, dst)
    if src.dtype != dst.dtype:
        raise TypeError(f"src and dst must have one dtype, not {src.dtype} and {dst.dtype}; cast one of them first")
    many = len(ids) if isinstance(ids, tuple) else 1
    if dst.ndim < many:
        raise ValueError(f"dst of {dst.ndim} axes cannot be indexed by {many}")
    size = tuple(dst.shape[:many])
    places = places_of(ids, size if isinstance(ids, tuple) else size[0], dst, mode, validate)
    rest = tuple(dst.shape[many:])
    if rest_of(src, places) != rest:
        raise ValueError(f"src must have the shape {(*places.entries, *rest)} (of ids, then of dst), not {tuple(src.shape)}")
    return dst, src, places


def rest_of(src: Array, places: Places) -> tuple[int, ...]:
    """The axes that a row has; a `ValueError` if `src` does not begin with those of the ids."""
    lead = len(places.entries)
    if tuple(src.shape[:lead]) != places.entries:
        raise ValueError(f"src must have a shape that begins with that of ids, {places.entries}, not {tuple(src.shape)}")
    return tuple(src.shape[lead:])


def rows_of(src: Array, places: Places) -> Array:
    """`src` with one axis for the entries."""
    return backend_of(src).xp.reshape(src, (prod(places.entries), *rest_of(src, places)))


def slots_of(dst: Array, places: Places) -> Array:
    """`dst` with one axis for the slots."""
    return backend_of(dst).xp.reshape(dst, (places.bound, *dst.shape[len(places.sizes) :]))


def shaped(slots: Array, places: Places) -> Array:
    """Slots with the axes of `size`."""
    return backend_of(slots).xp.reshape(slots, (*places.sizes, *slots.shape[1:]))


def src_cotangent(op: Op, dy: Any, dst: Array | None, src: Array, places: Places, ties: Ties, out: Array | None) -> Any:
    """The cotangent of the rows in a fold into slots that held `dst`, or nothing (None)."""
    shape = (*places.sizes, *rest_of(src, places))
    check_shape(dy, shape, "dy", "the forward's result")
    factor = rows_factor(op, dst, places.key, rows_of(src, places), places.bound, ties, out_slots(out, shape, places))
    rows = read(dy, places)
    if factor is None:
        return rows if op == "add" else namespace(rows).negative(rows)
    return times(rows, backend_of(factor).xp.reshape(factor, (*places.entries, *factor.shape[1:])), src)


def out_slots(out: Array | None, shape: tuple[int, ...], places: Places) -> Array | None:
    """The slots of a forward's result that the caller may have saved."""
    if out is None:
        return None
    check_shape(out, shape, "out", "the forward's result")
    return slots_of(out, places)


def read(dy: Any, places: Places) -> Any:
    """The cotangent at the place of each row, zeros for what was dropped."""
    if isinstance(dy, Tangent):
        xp = backend_of(places.key).xp
        coords = split_key(places.key, places.sizes, padded=places.padded)
        rows = getitem(dy, tuple(xp.reshape(c, places.entries) for c in coords), validate=False)
        rest = (1,) * (len(rows.shape) - len(places.entries))
        # What is the same everywhere, as a Fill, is so at a dropped place too.
        return masked(rows, xp.reshape(places.key < places.bound, (*places.entries, *rest))) if places.padded else rows
    rows = backend_of(dy).kernels.gather(slots_of(dy, places), places.key)
    return backend_of(dy).xp.reshape(rows, (*places.entries, *rows.shape[1:]))


def times(dy: Any, factor: Array, like: Array) -> Any:
    """The product, in the dtype of `like` where only the width differs (half types are rounded once)."""
    nx, backend = namespace(like), backend_of(like)
    product = nx.multiply(dy, factor)
    narrows = product.dtype != like.dtype and facts(backend, product.dtype).kind == facts(backend, like.dtype).kind
    return nx.astype(product, like.dtype) if narrows else product
