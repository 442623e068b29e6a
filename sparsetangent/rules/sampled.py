"""Cross-entropy over the label and sampled classes: the table is read, and its gradient written, at these rows alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backend import backend_of, common_backend, device_of
from ..kernels.base import Array
from ..types import Frame, IndexedSlices
from ..types.indices import Validate, as_index_array, check_ids
from .gather import take
from .loss import Reduction, cross_entropy, cross_entropy_vjp
from .operands import check_shape, dense_operand, refuse_complex

__all__ = ["sampled_cross_entropy", "sampled_cross_entropy_vjp_hidden", "sampled_cross_entropy_vjp_weight"]


def sampled_cross_entropy(
    weight: Any,
    hidden: Any,
    labels: Any,
    sampled: Any,
    *,
    log_expected: Any = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Array:
    """The softmax cross-entropy over the label's class and sampled ones instead of all.

    Parameters
    ----------
    weight : Array
        Shape ``(classes, d)``, of a floating dtype: a row for each class.
    hidden : Array
        Shape ``(*labels.shape, d)``, dtype of `weight`.
    labels : Array of integers
        Any shape; ``0 <= label < classes``.
    sampled : Array of integers
        Shape ``(s,)``, in the same range: the classes that all labels are told from. One that is the label itself is left out.
    log_expected : Array, optional
        Shape ``(classes,)``, dtype of `weight`: the logarithm of how often the sampler is expected to draw each class, subtracted from
        its logit, which makes the loss that of all classes in expectation.
    reduction : {"none", "sum", "mean"}
        One loss a label, their sum, or their mean.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array
        One loss a label, of the shape of `labels`, or one number if reduced.

    Raises
    ------
    TypeError
        Ids not of an integer dtype, or other dtypes that are not floating.
    IndexError
        A label or sampled class out of range.
    ValueError
        Shapes that do not fit, or an unknown reduction.

    Notes
    -----
    `cross_entropy` with the logits ``hidden[i] @ weight[c] - log_expected[c]`` for c in ``(labels[i], *sampled)`` and the label 0: Jean et al., *On
    using very large target vocabulary for neural machine translation* (2015).

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> weight, hidden = np.log(np.array([[1.0], [3.0], [4.0]])), np.array([[1.0]])
    >>> np.exp(-st.rules.sampled_cross_entropy(weight, hidden, np.array([0]), np.array([1, 0]))).round(12).tolist()
    [0.25]
    >>> st.rules.sampled_cross_entropy(weight, hidden, np.array([0]), np.array([0])).tolist()
    [0.0]
    """
    parts = _parts(weight, hidden, labels, sampled, log_expected, validate)
    return cross_entropy(parts.logits, parts.first, reduction=reduction, validate=False)


def sampled_cross_entropy_vjp_weight(
    dy: Any,
    weight: Any,
    hidden: Any,
    labels: Any,
    sampled: Any,
    *,
    log_expected: Any = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> IndexedSlices:
    """The cotangent of the table in `sampled_cross_entropy`: the rows of the labels and of the sampled classes.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the loss.
    weight, hidden, labels, sampled, log_expected, reduction, validate
        As in the forward.

    Returns
    -------
    IndexedSlices
        With axis 0 stored, one entry for each label and each sampled class.

    Raises
    ------
    TypeError, IndexError, ValueError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d weight[c] = sum over i of p[i, c] * hidden[i]``, with p the cotangent of the logits.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> weight, hidden = np.log(np.array([[1.0], [3.0], [4.0]])), np.array([[2.0]])
    >>> g = st.rules.sampled_cross_entropy_vjp_weight(np.array([1.0]), weight, hidden, np.array([0]), np.array([1]))
    >>> g.shape, g.stored
    ((3, 1), 2)
    >>> g.indices.tolist(), g.values.round(12).tolist()
    ([0, 1], [[-1.8], [1.8]])
    """
    parts = _parts(weight, hidden, labels, sampled, log_expected, validate)
    slope = _slope(dy, parts, reduction)
    xp = backend_of(slope).xp
    flat, rows = xp.reshape(slope, (-1, slope.shape[-1])), xp.reshape(parts.hidden, (-1, parts.hidden.shape[-1]))
    of_labels = flat[:, :1] * rows
    of_sampled = xp.matmul(xp.permute_dims(flat[:, 1:], (1, 0)), rows)
    ids = xp.concat([xp.reshape(parts.labels, (-1,)), parts.sampled])
    return IndexedSlices._of(Frame((0,), (ids,), xp.concat([of_labels, of_sampled]), tuple(weight.shape)))


def sampled_cross_entropy_vjp_hidden(
    dy: Any,
    weight: Any,
    hidden: Any,
    labels: Any,
    sampled: Any,
    *,
    log_expected: Any = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Array:
    """The cotangent of `hidden` in `sampled_cross_entropy`.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the loss.
    weight, hidden, labels, sampled, log_expected, reduction, validate
        As in the forward.

    Returns
    -------
    Array
        Shape and dtype of `hidden`.

    Raises
    ------
    TypeError, IndexError, ValueError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    ``d hidden[i] = sum over c of p[i, c] * weight[c]``, with p the cotangent of the logits.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> weight, hidden = np.log(np.array([[1.0], [3.0], [4.0]])), np.array([[1.0]])
    >>> dy, label, sampled = np.array([1.0]), np.array([0]), np.array([1])
    >>> dx = st.rules.sampled_cross_entropy_vjp_hidden(dy, weight, hidden, label, sampled)
    >>> dx.shape
    (1, 1)
    >>> bool(np.allclose(dx, 0.75 * np.log(3)))
    True
    """
    parts = _parts(weight, hidden, labels, sampled, log_expected, validate)
    slope = _slope(dy, parts, reduction)
    return slope[..., :1] * take(weight, parts.labels, validate=False) + backend_of(slope).xp.matmul(
        slope[..., 1:], take(weight, parts.sampled, validate=False)
    )


class _Parts(NamedTuple):
    """The logits of the label and the sampled classes, what they came from, and the label 0 of each."""

    logits: Array
    hidden: Array
    labels: Array
    sampled: Array
    first: Array


def _parts(weight: Any, hidden: Any, labels: Any, sampled: Any, log_expected: Any, validate: Validate) -> _Parts:
    weight, hidden = dense_operand(weight, "sampled_cross_entropy"), dense_operand(hidden, "sampled_cross_entropy")
    common_backend(weight, hidden)
    refuse_complex(weight, "cross_entropy")
    xp = backend_of(weight).xp
    labels, sampled = as_index_array(labels, weight, name="labels"), as_index_array(sampled, weight, name="sampled")
    if weight.ndim != 2 or sampled.ndim != 1:
        raise ValueError(f"weight must have two axes and sampled one, not {weight.ndim} and {sampled.ndim}")
    if weight.dtype != hidden.dtype:
        raise TypeError(f"weight and hidden must have one dtype, not {weight.dtype} and {hidden.dtype}")
    check_shape(hidden, (*labels.shape, int(weight.shape[1])), "hidden", "labels, then a row of weight")
    classes = int(weight.shape[0])
    labels = check_ids(labels, classes, 0, validate=validate, negatives=False, name="labels")[0]
    sampled = check_ids(sampled, classes, 0, validate=validate, negatives=False, name="sampled")[0]
    of_label = xp.sum(hidden * take(weight, labels, validate=False), axis=-1, keepdims=True, dtype=hidden.dtype)
    of_sampled = xp.matmul(hidden, xp.permute_dims(take(weight, sampled, validate=False), (1, 0)))
    if log_expected is not None:
        log_expected = dense_operand(log_expected, "sampled_cross_entropy")
        check_shape(log_expected, (classes,), "log_expected", "the classes")
        of_label = of_label - take(log_expected, labels, validate=False)[..., None]
        of_sampled = of_sampled - take(log_expected, sampled, validate=False)
    never = xp.asarray(-float("inf"), dtype=weight.dtype, device=device_of(weight))
    of_sampled = xp.where((sampled == labels[..., None]) | (sampled >= classes), never, of_sampled)
    first = xp.zeros(tuple(labels.shape), dtype=labels.dtype, device=device_of(weight))
    return _Parts(xp.concat([of_label, of_sampled], axis=-1), hidden, labels, sampled, first)


def _slope(dy: Any, parts: _Parts, reduction: Reduction) -> Array:
    return cross_entropy_vjp(dy, parts.logits, parts.first, reduction=reduction, validate=False)
