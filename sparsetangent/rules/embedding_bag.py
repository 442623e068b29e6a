"""Bags of rows of a table, folded to one row each."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, NamedTuple

from ..algebra.frames import keep
from ..algebra.wrap import held_array
from ..backend import backend_of, device_of
from ..kernels.base import Array, ReduceOp
from ..types import Frame, IndexedSlices
from ..types.axes import as_axis, as_shape
from ..types.indices import Validate, as_index_array, check_ids
from .groups import Ties, check_ties, counts, shares
from .operands import check_shape, dense_operand, derivative_dtype, filled, refuse_complex
from .segment import bags_of

__all__ = ["embedding_bag", "embedding_bag_vjp_per_sample", "embedding_bag_vjp_weight"]

BagMode = Literal["sum", "mean", "max"]
_FOLDS: dict[str, ReduceOp] = {"sum": "add", "mean": "mean", "max": "max"}


def embedding_bag(
    weight: Any,
    ids: Any,
    offsets: Any = None,
    *,
    mode: BagMode = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
    validate: Validate = True,
) -> Array:
    """The sum, mean or maximum of the rows of `weight` in each bag of ids.

    Parameters
    ----------
    weight : Array
        Shape ``(size, *rest)``, of a floating or complex dtype.
    ids : Array of integers
        Shape ``(bags, length)``, or ``(n,)`` with `offsets`; ``0 <= i < size``.
    offsets : Array of integers, optional
        Shape ``(bags,)``: where each bag begins in `ids`, ascending from 0.
    mode : {"mean", "sum", "max"}
        What the rows of a bag are folded with.
    per_sample_weights : Array, optional
        Of the shape of `ids` and the dtype of `weight`: a factor for each row, in mode ``"sum"``.
    padding_idx : int, optional
        The row that belongs to no bag: it is neither added nor counted, and gets no gradient. Negative values count from the end.
    include_last_offset : bool
        Whether `offsets` has one element more, the end of the last bag.
    validate : bool or "now"
        As for `IndexedSlices`; of `offsets` too.

    Returns
    -------
    Array
        Shape ``(bags, *rest)``, dtype of `weight`. An empty bag is 0 in every mode.

    Raises
    ------
    TypeError
        Ids or offsets not of an integer dtype, or a dtype of `weight` that the mode does not have.
    IndexError
        An id out of range.
    ValueError
        An unknown mode, offsets that do not ascend from 0 to n, shapes that do not fit, or weights in another mode than ``"sum"``.

    Notes
    -----
    ``y[b] = sum over k in bag b of per_sample_weights[k] * weight[ids[k]]``, the mean of these rows, or their greatest elements.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> table = np.array([[2.0, 4.0], [6.0, 8.0], [1.0, 1.0]])
    >>> st.rules.embedding_bag(table, np.array([0, 1, 2]), np.array([0, 2, 2])).tolist()
    [[4.0, 6.0], [0.0, 0.0], [1.0, 1.0]]
    >>> st.rules.embedding_bag(table, np.array([[0, 1], [2, 2]]), mode="max").tolist()
    [[6.0, 8.0], [1.0, 1.0]]
    """
    weight = dense_operand(weight, "embedding_bag")
    given = _Given(mode, padding_idx, include_last_offset, validate)
    bags = _bags(tuple(weight.shape), weight, ids, offsets, given, per_sample_weights)
    _check_mode_dtype(mode, weight)
    return _folded(weight, bags, mode)


def embedding_bag_vjp_weight(
    dy: Any,
    weight_or_shape: Any,
    ids: Any,
    offsets: Any = None,
    *,
    mode: BagMode = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
    ties: Ties = "even",
    out: Array | None = None,
    validate: Validate = True,
) -> IndexedSlices:
    """The cotangent of the table in `embedding_bag`.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, shape ``(bags, *rest)``, of the dtype of the result.
    weight_or_shape : Array or tuple of int
        The table, of its shape and dtype, or its shape alone, which is enough unless the mode is ``"max"``.
    ids, offsets, mode, per_sample_weights, padding_idx, include_last_offset, validate
        As in the forward.
    ties, out
        As in `scatter_vjp`, for mode ``"max"``.

    Returns
    -------
    IndexedSlices
        With axis 0 stored, one entry for each id that is not padding.

    Raises
    ------
    TypeError, IndexError, ValueError
        As the forward; a `TypeError` too if the mode is ``"max"`` and only the shape is given.

    Notes
    -----
    ``d weight[j] = sum over k with ids[k] == j of c_k * dy[bag of k]``, where c is the sample's weight, conjugated (sum), one over the length of the bag
    (mean), or the share of an element that attains the maximum (max).

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> dy, ids, offsets = np.array([[1.0], [3.0]]), np.array([0, 1, 1]), np.array([0, 2])
    >>> st.rules.embedding_bag_vjp_weight(dy, (4, 1), ids, offsets).densify().tolist()
    [[0.5], [3.5], [0.0], [0.0]]
    >>> st.rules.embedding_bag_vjp_weight(dy, (4, 1), ids, offsets, mode="sum", padding_idx=1).densify().tolist()
    [[1.0], [0.0], [0.0], [0.0]]
    """
    dy = dense_operand(dy, "embedding_bag_vjp_weight")
    weight = None if isinstance(weight_or_shape, (tuple, list)) else dense_operand(weight_or_shape, "embedding_bag_vjp_weight")
    shape = as_shape(weight_or_shape if weight is None else weight.shape)
    given = _Given(mode, padding_idx, include_last_offset, validate)
    bags = _bags(shape, dy, ids, offsets, given, per_sample_weights)
    check_ties(ties)
    check_shape(dy, (bags.number, *shape[1:]), "dy", "the bags")
    xp, kernels = backend_of(dy).xp, backend_of(dy).kernels
    held = derivative_dtype(dy, "embedding_bag")
    rows = xp.astype(kernels.gather(dy, bags.key), held, copy=False)
    if bags.weights is not None:
        rows = rows * _beside(_conjugate(xp.astype(bags.weights, held, copy=False)), rows)
    if mode == "mean":
        number = kernels.gather(counts(bags.key, bags.number, dy.ndim, held), bags.key)
        rows = rows / xp.where(number == 0, xp.ones_like(number), number)
    if mode == "max":
        if weight is None:
            raise TypeError(
                'mode "max" has the cotangent of what attains it, so weight_or_shape must be the table, not its shape'
            )
        _check_mode_dtype(mode, weight)
        if out is not None:
            check_shape(out, tuple(dy.shape), "out", "the forward's result")
        slots = _folded(weight, bags, mode) if out is None else out
        rows = rows * shares(None, slots, bags.key, kernels.gather(weight, bags.ids), ties)
    frame = Frame((0,), (bags.ids,), xp.astype(rows, dy.dtype, copy=False), shape)
    return IndexedSlices._of(keep(frame, bags.key < bags.number) if bags.padded else frame)


def embedding_bag_vjp_per_sample(
    dy: Any,
    weight: Any,
    ids: Any,
    offsets: Any = None,
    *,
    mode: BagMode = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
    validate: Validate = True,
) -> Array:
    """The cotangent of `per_sample_weights` in `embedding_bag`, whose mode must be ``"sum"``.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, shape ``(bags, *rest)``, of the dtype of the result.
    weight, ids, offsets, mode, padding_idx, include_last_offset, validate
        As in the forward.
    per_sample_weights : Array, optional
        As in the forward, of the shape of `ids`; its values do not matter.

    Returns
    -------
    Array
        The shape of `ids`, 0 for padding.

    Raises
    ------
    TypeError, IndexError, ValueError
        As the forward; a `ValueError` too unless the mode is ``"sum"``.

    Notes
    -----
    ``d per_sample_weights[k] = sum over rest of conj(weight[ids[k]]) * dy[bag of k]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> dy, table = np.array([[1.0, 10.0]]), np.array([[2.0, 3.0], [4.0, 5.0]])
    >>> st.rules.embedding_bag_vjp_per_sample(dy, table, np.array([[1, 0, 1]]), mode="sum").tolist()
    [[54.0, 32.0, 54.0]]
    >>> st.rules.embedding_bag_vjp_per_sample(dy, table, np.array([1, 0]), np.array([0]), mode="sum", padding_idx=1).tolist()
    [0.0, 32.0]
    """
    if mode != "sum":
        raise ValueError(f'per_sample_weights go with mode "sum", not {mode!r}')
    dy, weight = (dense_operand(x, "embedding_bag_vjp_per_sample") for x in (dy, weight))
    given = _Given(mode, padding_idx, include_last_offset, validate)
    bags = _bags(tuple(weight.shape), weight, ids, offsets, given, per_sample_weights)
    check_shape(dy, (bags.number, *weight.shape[1:]), "dy", "the bags")
    xp, kernels = backend_of(dy).xp, backend_of(dy).kernels
    held = derivative_dtype(dy, "embedding_bag")
    rows = xp.astype(kernels.gather(weight, bags.ids), held, copy=False)
    products = _conjugate(rows) * xp.astype(kernels.gather(dy, bags.key), held, copy=False)
    sums = xp.sum(xp.reshape(products, (bags.ids.shape[0], prod(weight.shape[1:]))), axis=1)
    sums = xp.where(bags.key < bags.number, sums, xp.zeros_like(sums))
    return xp.astype(xp.reshape(sums, bags.shape), dy.dtype, copy=False)


class _Given(NamedTuple):
    """The keywords that say what a bag is."""

    mode: str
    padding_idx: int | None
    include_last_offset: bool
    validate: Validate


class _Bags(NamedTuple):
    """For each id, flat, its bag, which is `number` if it belongs to none."""

    ids: Array
    key: Array
    number: int
    padded: bool
    weights: Array | None
    shape: tuple[int, ...]


def _bags(shape: tuple[int, ...], like: Any, ids: Any, offsets: Any, given: _Given, weights: Any) -> _Bags:
    if given.mode not in _FOLDS:
        raise ValueError(f'mode must be "sum", "mean" or "max", not {given.mode!r}')
    if not shape:
        raise ValueError("weight must have at least one axis, the table's rows")
    like = held_array(like)
    xp = backend_of(like).xp
    ids = as_index_array(ids, like, name="ids")
    if ids.ndim != (2 if offsets is None else 1):
        raise ValueError(
            f"ids must have two axes, or one with offsets, not {ids.ndim} with{'out' if offsets is None else ''} offsets"
        )
    if given.include_last_offset and offsets is None:
        raise ValueError("include_last_offset=True needs offsets")
    checked, unseen = check_ids(ids, shape[0], 0, validate=given.validate, negatives=False, name="ids")
    flat = xp.reshape(checked, (-1,))
    n = int(flat.shape[0])
    if offsets is None:
        number, length = int(ids.shape[0]), int(ids.shape[1])
        line = xp.arange(number, dtype=flat.dtype, device=device_of(like))
        key = xp.reshape(xp.broadcast_to(xp.reshape(line, (-1, 1)), (number, length)), (n,))
    else:
        offsets = as_index_array(offsets, like, name="offsets")
        key, number = bags_of(offsets, n, last=given.include_last_offset, name="offsets", validate=given.validate)
        unseen |= not backend_of(like).kernels.concrete(offsets) or not given.validate
    inside = (flat >= 0) & (flat < shape[0])
    if given.padding_idx is not None:
        inside = inside & (flat != as_axis(given.padding_idx, shape[0], "padding_idx"))
    padded = unseen or given.padding_idx is not None
    if padded:
        key = xp.where(inside, key, xp.asarray(number, dtype=key.dtype, device=device_of(like)))
    return _Bags(flat, key, number, padded, _sample_weights(weights, ids, like, given.mode), tuple(ids.shape))


def _sample_weights(weights: Any, ids: Array, like: Array, mode: str) -> Array | None:
    if weights is None:
        return None
    if mode != "sum":
        raise ValueError(f'per_sample_weights go with mode "sum", not {mode!r}')
    weights = dense_operand(weights, "embedding_bag")
    check_shape(weights, tuple(ids.shape), "per_sample_weights", "ids")
    if weights.dtype != like.dtype:
        raise TypeError(f"per_sample_weights must have the dtype {like.dtype} of what they weigh, not {weights.dtype}")
    return backend_of(like).xp.reshape(weights, (-1,))


def _folded(weight: Array, bags: _Bags, mode: str) -> Array:
    backend = backend_of(weight)
    xp, kernels = backend.xp, backend.kernels
    held = kernels.accumulator(weight.dtype)
    rows = xp.astype(kernels.gather(weight, bags.ids), held, copy=False)
    if bags.weights is not None:
        rows = rows * _beside(xp.astype(bags.weights, held, copy=False), rows)
    start = filled(False if held == xp.bool else 0, (bags.number, *weight.shape[1:]), rows, "init")
    return xp.astype(kernels.scatter_reduce(_FOLDS[mode], start, bags.key, rows, False), weight.dtype, copy=False)


def _check_mode_dtype(mode: str, weight: Array) -> None:
    if mode == "max":
        refuse_complex(weight, "max")


def _beside(line: Array, rows: Array) -> Array:
    """One number an entry, shaped to multiply rows."""
    return backend_of(line).xp.reshape(line, (-1, *(1,) * (rows.ndim - 1)))


def _conjugate(x: Array) -> Array:
    xp = backend_of(x).xp
    return xp.conj(x) if xp.isdtype(x.dtype, "complex floating") else x
