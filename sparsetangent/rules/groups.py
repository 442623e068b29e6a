"""Rows folded by group, and the factors of its derivatives: what scatter, segment and bags have in common.

A group is all rows of one key; rows are ``(n, *inner)``, keys ``(n,)`` in ``[0, size)``, and a key equal to `size` is padding, a row
that belongs nowhere. `dst` of shape ``(size, *inner)`` is what the slots held before. Where it is None they held nothing: the
fold starts at the identity, which is no element of the group and takes no share of a tie.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from ..algebra.frames import mask_rows
from ..backend import Backend, backend_of, device_of
from ..dtypes import facts
from ..kernels.base import Array, DType, ReduceOp
from .operands import derivative_dtype, refuse_complex, same_value

__all__ = ["OPS", "Op", "Ties", "check_ties", "counts", "dst_factor", "fold", "fold_into", "identity", "rows_factor", "shares"]

Op = Literal["add", "sub", "mul", "div", "min", "max", "mean"]
Ties = Literal["even", "all", "first"]


class _Fold(NamedTuple):
    """How rows are folded among themselves, and how their fold meets what the slot held."""

    rows: ReduceOp
    combine: str
    identity: int


OPS: dict[str, _Fold] = {
    "add": _Fold("add", "add", 0),
    "sub": _Fold("add", "subtract", 0),
    "mul": _Fold("mul", "multiply", 1),
    "div": _Fold("mul", "divide", 1),
    "min": _Fold("min", "minimum", 1),
    "max": _Fold("max", "maximum", -1),
    "mean": _Fold("mean", "add", 0),
}


def check_op(op: str, x: Array) -> None:
    """A `ValueError` for an unknown operation, a `TypeError` for one that the dtype of `x` has not."""
    if op not in OPS:
        raise ValueError(f"op must be one of {', '.join(map(repr, OPS))}, not {op!r}")
    kind = facts(backend_of(x), x.dtype).kind
    if op in ("div", "mean") and kind not in ("real", "complex"):
        raise TypeError(f"{op!r} needs a floating or complex dtype, not {x.dtype}")
    if op in ("min", "max"):
        refuse_complex(x, op)
    if op == "sub" and kind == "bool":
        raise TypeError("bools have no difference, so no 'sub'")


def check_ties(ties: str) -> None:
    if ties not in get_args(Ties):
        raise ValueError(f'ties must be "even", "all" or "first", not {ties!r}')


def identity(op: str, like: Array) -> Any:
    """The number that `op` leaves alone, in Python: what an untouched slot holds."""
    how, backend = OPS[op], backend_of(like)
    if op not in ("min", "max"):
        return how.identity if facts(backend, like.dtype).kind != "bool" else bool(how.identity)
    kind = facts(backend, like.dtype).kind
    if kind == "real":
        return how.identity * float("inf")
    if kind == "bool":
        return op == "min"
    limits = backend.xp.iinfo(like.dtype)
    return int(limits.max if op == "min" else limits.min)


def fold(op: Op, key: Array, rows: Array, size: int) -> Array:
    """The fold of each group, the identity where there is none."""
    backend = backend_of(rows)
    if op == "add":
        return backend.kernels.densify(key, rows, size)
    start = _full(backend, (size, *rows.shape[1:]), identity(op, rows), rows.dtype, rows)
    return fold_into(op, start, key, rows)


def fold_into(op: Op, dst: Array, key: Array, rows: Array) -> Array:
    """`dst` with the rows of each group folded in by `op`; `dst` is the caller's to give away."""
    backend = backend_of(dst)
    xp, kernels = backend.xp, backend.kernels
    if op == "sub":
        return kernels.scatter_add(dst, key, rows, -1)
    how = OPS[op]
    if op not in ("div", "mean"):
        return kernels.scatter_reduce(how.rows, dst, key, rows)
    distinct, inverse = kernels.unique_inverse(key, int(dst.shape[0]))
    held = kernels.accumulator(dst.dtype)
    start = _full(backend, (int(distinct.shape[0]), *rows.shape[1:]), how.identity, held, rows)
    folded = kernels.scatter_reduce(how.rows, start, inverse, xp.astype(rows, held, copy=False), False)
    old = xp.astype(kernels.gather(dst, distinct), held, copy=False)
    return kernels.put(dst, distinct, xp.astype(getattr(xp, how.combine)(old, folded), dst.dtype, copy=False))


def rows_factor(op: Op, dst: Array | None, key: Array, rows: Array, size: int, ties: Ties, out: Array | None) -> Array | None:
    """The derivative of each row's slot with respect to the row, conjugated, and 0 for padding; None for 1 (add) or -1 (sub).

    `out` is the result of the fold, of shape ``(size, *inner)``, computed here if it is needed and not given.
    """
    check_ties(ties)
    backend = backend_of(rows)
    xp, kernels = backend.xp, backend.kernels
    if op in ("add", "sub"):
        return None
    held = derivative_dtype(rows, repr(op))
    wide = xp.astype(rows, held, copy=False)
    if op == "mean":
        factor = 1 / _at_least_one(kernels.gather(counts(key, size, rows.ndim, held), key))
    elif op == "mul":
        factor = _siblings(key, wide, size) * _before(dst, key, held)
    elif op == "div":
        wide = _without_padding(wide, key, size)
        slots = _before(dst, key, held) / _siblings(key, wide, size) / wide if out is None else kernels.gather(out, key)
        factor = -xp.astype(slots, held, copy=False) / wide
    else:
        slots = _result(op, dst, key, rows, size, out)
        factor = shares(dst, slots, key, rows, ties)
    if facts(backend, held).kind == "complex":
        factor = xp.conj(factor)
    return mask_rows(factor, key < size)


def dst_factor(op: Op, dst: Array, key: Array, rows: Array, ties: Ties, out: Array | None) -> Array | None:
    """The derivative of each slot with respect to what it held before, conjugated; None for 1 everywhere."""
    check_ties(ties)
    backend = backend_of(rows)
    xp, kernels = backend.xp, backend.kernels
    size = int(dst.shape[0])
    if op in ("add", "sub", "mean"):
        return None
    held = derivative_dtype(rows, repr(op))
    if op in ("mul", "div"):
        ones = _full(backend, tuple(dst.shape), 1, held, dst)
        product = kernels.scatter_reduce("mul", ones, key, xp.astype(rows, held, copy=False))
        factor = product if op == "mul" else 1 / product
        return xp.conj(factor) if facts(backend, held).kind == "complex" else factor
    slots = _result(op, dst, key, rows, size, out)
    own = xp.astype(same_value(dst, slots), held)
    if ties != "even":  # what was there before comes first
        return own
    tied = xp.astype(same_value(rows, kernels.gather(slots, key)), held)
    return own / _at_least_one(own + kernels.densify(key, tied, size))


def shares(dst: Array | None, slots: Array, key: Array, rows: Array, ties: Ties) -> Array:
    """What each row gets of the cotangent of its slot, which is the extreme of its group: nothing unless it attains it."""
    backend = backend_of(rows)
    xp, kernels = backend.xp, backend.kernels
    size, held = int(slots.shape[0]), kernels.accumulator(rows.dtype)
    attains = same_value(rows, kernels.gather(slots, key))
    own = None if dst is None else same_value(dst, slots)
    if ties == "all":
        return xp.astype(attains, held)
    if ties == "even":
        number = kernels.densify(key, xp.astype(attains, held), size)
        number = number if own is None else number + xp.astype(own, held)
        return xp.astype(attains, held) / _at_least_one(kernels.gather(number, key))
    n, index = int(rows.shape[0]), kernels.index_dtype(rows)
    place = xp.reshape(xp.arange(n, dtype=index, device=device_of(rows)), (n, *(1,) * (rows.ndim - 1)))
    nowhere = xp.asarray(n, dtype=index, device=device_of(rows))
    place = xp.where(attains, place, nowhere)
    first = kernels.scatter_reduce("min", _full(backend, tuple(slots.shape), n, index, rows), key, place)
    chosen = attains & (place == kernels.gather(first, key))
    if own is not None:
        chosen = chosen & ~kernels.gather(own, key)
    return xp.astype(chosen, held)


def counts(key: Array, size: int, ndim: int, dtype: DType) -> Array:
    """How many rows each group has, shaped to broadcast with slots of `ndim` axes."""
    backend = backend_of(key)
    ones = _full(backend, (int(key.shape[0]), *(1,) * (ndim - 1)), 1, dtype, key)
    return backend.kernels.densify(key, ones, size)


def _result(op: Op, dst: Array | None, key: Array, rows: Array, size: int, out: Array | None) -> Array:
    """The result of the fold, as given or computed."""
    if out is not None:
        return out
    if dst is None:
        return fold(op, key, rows, size)
    return fold_into(op, backend_of(dst).xp.astype(dst, dst.dtype, copy=True), key, rows)


def _before(dst: Array | None, key: Array, held: DType) -> Any:
    """What the slot of each row held before, by which a product begins."""
    return 1 if dst is None else backend_of(dst).xp.astype(backend_of(dst).kernels.gather(dst, key), held, copy=False)


def _siblings(key: Array, rows: Array, size: int) -> Array:
    """The product of the other rows of the same group, by a scan from either side: right where a row is zero."""
    xp, kernels = backend_of(rows).xp, backend_of(rows).kernels
    others = getattr(kernels, "product_of_others", None)  # no part of the contract
    products = others(key, rows, size) if others and kernels.concrete(key) else None
    if products is not None:
        return products
    order = xp.argsort(key, stable=True)
    ascending, sorted_rows = xp.take(key, order, axis=0), xp.take(rows, order, axis=0)
    before = _product_before(ascending, sorted_rows)
    after = xp.flip(_product_before(xp.flip(ascending), xp.flip(sorted_rows, axis=0)), axis=0)
    return xp.take(before * after, xp.argsort(order, stable=True), axis=0)


def _product_before(key: Array, rows: Array) -> Array:
    """The product of the rows before each one in its run of equal keys: a doubling scan, of static shape."""
    xp, kernels, n = backend_of(rows).xp, backend_of(rows).kernels, int(rows.shape[0])
    one = _full(backend_of(rows), (1,) * rows.ndim, 1, rows.dtype, rows)
    position = xp.arange(n, dtype=kernels.index_dtype(rows), device=device_of(rows))

    def further_back(values: Array, shift: int) -> tuple[Array, bool]:
        """The values `shift` places before in the run, one where the run does not reach, and whether any does."""
        at = xp.where(position < shift, xp.zeros_like(position), position - shift)
        reaches = (position >= shift) & (xp.take(key, at, axis=0) == key)
        some = not kernels.concrete(key) or bool(xp.any(reaches))
        return xp.where(xp.reshape(reaches, (-1, *(1,) * (rows.ndim - 1))), xp.take(values, at, axis=0), one), some

    product, reaching = further_back(rows, 1) if n else (rows, False)
    shift = 1
    while reaching and shift < n:
        factors, reaching = further_back(product, shift)
        product, shift = product * factors, 2 * shift
    return product


def _full(backend: Backend, shape: tuple[int, ...], value: Any, dtype: DType, like: Array) -> Array:
    return backend.xp.full(shape, value, dtype=dtype, device=device_of(like))


def _without_padding(rows: Array, key: Array, size: int) -> Array:
    """The rows with ones for padding, by which anything can be divided."""
    xp = backend_of(rows).xp
    inside = xp.reshape(key < size, (-1, *(1,) * (rows.ndim - 1)))
    return xp.where(inside, rows, _full(backend_of(rows), (1,) * rows.ndim, 1, rows.dtype, rows))


def _at_least_one(number: Array) -> Array:
    """A count to divide by: where it is 0 so is what is divided."""
    xp = backend_of(number).xp
    return xp.where(number == 0, xp.ones_like(number), number)
