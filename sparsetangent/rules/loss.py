"""Cross-entropy with integer labels: the one-hot matrix is never made."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..backend import backend_of, common_backend, device_of
from ..kernels.base import Array
from ..types.indices import Validate, as_index_array, check_ids
from .operands import check_shape, dense_operand, derivative_dtype, refuse_complex

__all__ = ["cross_entropy", "cross_entropy_vjp"]

Reduction = Literal["none", "sum", "mean"]


def cross_entropy(
    logits: Any,
    labels: Any,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Array:
    """The softmax cross-entropy of logits and integer labels.

    Parameters
    ----------
    logits : Array
        Shape ``(*labels.shape, classes)``, of a floating dtype.
    labels : Array of integers
        Any shape; ``0 <= label < classes``.
    weight : Array, optional
        Shape ``(classes,)``, dtype of `logits`: a factor for each class.
    ignore_index : int, optional
        The label, in range or not, of examples that do not count: their loss and gradient are 0.
    reduction : {"none", "sum", "mean"}
        "mean" divides by the sum of the weights of the labels that count; 0 if there are none.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array
        One loss a label, of the shape of `labels`, or one number if reduced; dtype of `logits`.

    Raises
    ------
    TypeError
        Labels not of an integer dtype, or logits not of a floating one.
    IndexError
        A label out of range; negatives are, unless ignored by name.
    ValueError
        Shapes that do not fit, or an unknown reduction.

    Notes
    -----
    ``loss[i] = weight[label[i]] * (log(sum over c of exp(logits[i, c])) - logits[i, label[i]])``; half types are computed in float32.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]))
    >>> np.exp(-st.rules.cross_entropy(logits, np.array([0, 2]))).round(12).tolist()
    [0.5, 0.75]
    >>> st.rules.cross_entropy(logits, np.array([-100, -100]), ignore_index=-100, reduction="mean").item()
    0.0
    """
    parts = _parts(dense_operand(logits, "cross_entropy"), labels, weight, ignore_index, reduction, validate)
    xp = backend_of(parts.shifted).xp
    picked = xp.sum(xp.where(parts.hit, parts.shifted, xp.zeros_like(parts.shifted)), axis=-1)
    loss = xp.log(xp.sum(xp.exp(parts.shifted), axis=-1)) - picked
    loss = xp.where(parts.counts, loss * parts.scale, xp.zeros_like(loss))
    loss = loss if reduction == "none" else xp.sum(loss)
    return xp.astype(loss, logits.dtype, copy=False)


def cross_entropy_vjp(
    dy: Any,
    logits: Any,
    labels: Any,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Array:
    """The cotangent of the logits in `cross_entropy`.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    logits, labels, weight, ignore_index, reduction, validate
        As in the forward.

    Returns
    -------
    Array
        Shape and dtype of `logits`; every class of a label that counts has a part in it, so it is dense.

    Raises
    ------
    TypeError, IndexError, ValueError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d logits[i, c] = dy[i] * weight[label[i]] * (softmax(logits[i])[c] - (c == label[i]))``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]))
    >>> st.rules.cross_entropy_vjp(np.array([1.0, 4.0]), logits, np.array([0, 2])).round(12).tolist()
    [[-0.5, 0.25, 0.25], [0.5, 0.5, -1.0]]
    >>> st.rules.cross_entropy_vjp(np.asarray(1.0), logits, np.array([0, 7]), ignore_index=7, reduction="mean").round(12).tolist()
    [[-0.5, 0.25, 0.25], [0.0, 0.0, 0.0]]
    """
    logits, dy = dense_operand(logits, "cross_entropy_vjp"), dense_operand(dy, "cross_entropy_vjp")
    common_backend(logits, dy)
    parts = _parts(logits, labels, weight, ignore_index, reduction, validate)
    xp = backend_of(logits).xp
    check_shape(dy, tuple(logits.shape[:-1]) if reduction == "none" else (), "dy", "the loss")
    exponentials = xp.exp(parts.shifted)
    softmax = exponentials / xp.sum(exponentials, axis=-1, keepdims=True)
    slope = softmax - xp.astype(parts.hit, softmax.dtype)
    scaled = xp.astype(dy, softmax.dtype, copy=False) * parts.scale
    result = xp.where(parts.counts[..., None], slope * scaled[..., None], xp.zeros_like(slope))
    return xp.astype(result, logits.dtype, copy=False)


class _Parts(NamedTuple):
    """What both directions need."""

    shifted: Array
    """The logits less their maximum."""
    hit: Array
    """Where the class is the label."""
    scale: Array
    """The factor of each label's loss."""
    counts: Array
    """Whether a label is not ignored."""


def _parts(logits: Array, labels: Any, weight: Any, ignore: int | None, reduction: str, validate: Validate) -> _Parts:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f'reduction must be "none", "sum" or "mean", not {reduction!r}')
    backend = backend_of(logits)
    xp, kernels, device = backend.xp, backend.kernels, device_of(logits)
    refuse_complex(logits, "cross_entropy")
    held = derivative_dtype(logits, "cross_entropy")
    labels = as_index_array(labels, logits, name="labels")
    shape = tuple(labels.shape)
    if not logits.ndim or tuple(logits.shape[:-1]) != shape:
        raise ValueError(
            f"logits must have the shape {(*shape, 'classes')} of labels, then the classes, not {tuple(logits.shape)}"
        )
    classes = int(logits.shape[-1])
    counts = xp.ones(shape, dtype=xp.bool, device=device)
    if ignore is not None:
        counts = labels != ignore
        labels = xp.where(counts, labels, xp.zeros_like(labels))
    if classes == 0 and 0 not in shape:
        raise ValueError("logits must have at least one class")
    checked, unseen = check_ids(labels, classes, len(shape), validate=validate, negatives=False, name="labels")
    if unseen:  # out of range where nobody can see it: not counted, in value and gradient alike
        counts = counts & (checked < classes)
    line = xp.arange(classes, dtype=checked.dtype, device=device)
    wide = xp.astype(logits, held, copy=False)
    return _Parts(_shifted(wide), line == checked[..., None], _scale(weight, checked, counts, wide, reduction, kernels), counts)


def _shifted(logits: Array) -> Array:
    """The logits less their maximum, where that is finite."""
    xp = backend_of(logits).xp
    if 0 in logits.shape:
        return logits
    greatest = xp.max(logits, axis=-1, keepdims=True)
    return logits - xp.where(xp.isfinite(greatest), greatest, xp.zeros_like(greatest))


def _scale(weight: Any, labels: Array, counts: Array, logits: Array, reduction: str, kernels: Any) -> Array:
    """The class weights at the labels, over their sum for the mean; 0 for labels that do not count."""
    xp = kernels.xp
    ones = xp.astype(counts, logits.dtype)
    if weight is not None:
        weight = dense_operand(weight, "cross_entropy")
        common_backend(weight, logits)
        check_shape(weight, (int(logits.shape[-1]),), "weight", "the classes")
        rows = kernels.gather(xp.astype(weight, logits.dtype, copy=False), xp.reshape(labels, (-1,)))
        ones = xp.where(counts, xp.reshape(rows, labels.shape), xp.zeros_like(ones))
    if reduction != "mean":
        return ones
    total = xp.sum(ones)
    return ones / xp.where(total == 0, xp.ones_like(total), total)
