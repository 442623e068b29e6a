"""Look-ups in a table by ids that are never negative."""

from __future__ import annotations

from typing import Any

from ..algebra.frames import keep, promote
from ..algebra.wrap import held_array, operand_frames
from ..backend import device_of
from ..dtypes import facts
from ..kernels.base import Array
from ..types import Frame, IndexedSlices
from ..types.axes import as_axis, as_shape
from ..types.indices import Validate, as_index_array, check_ids
from .gather import take, take_vjp

__all__ = ["embedding", "embedding_vjp"]


def embedding(
    weight: Any,
    ids: Any,
    *,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    validate: Validate = True,
) -> Any:
    """The rows of `weight` at `ids`.

    Parameters
    ----------
    weight : Array or Tangent
        Shape ``(size, *rest)``, any dtype.
    ids : Array of integers
        Any shape; ``0 <= i < size``. Negatives are out of range: padding is asked for by `padding_idx`.
    padding_idx : int, optional
        The row that gets no gradient; it is read like any other. Negative values count from the end.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it is read.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array or Tangent
        Shape ``(*ids.shape, *rest)``, dtype of `weight`.

    Raises
    ------
    TypeError
        Ids not of an integer dtype.
    IndexError
        An id out of range.
    ValueError
        `padding_idx` out of range.

    Notes
    -----
    ``y[...] = weight[ids[...]]``; the keywords are those of torch and change the gradient alone.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> weight = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> st.rules.embedding(weight, np.array([1, 0])).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    >>> st.rules.embedding(weight, np.array([-1]))
    Traceback (most recent call last):
        ...
    IndexError: ids holds -1 at position 0, out of range for axis 0 of size 2; allowed: 0 <= id < 2
    """
    like = held_array(weight)
    _padding_row(padding_idx, weight.shape[0])
    return take(weight, _checked(ids, weight.shape[0], like, validate), validate=False)


def embedding_vjp(
    dy: Any,
    shape: tuple[int, ...],
    ids: Any,
    *,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    validate: Validate = True,
) -> IndexedSlices:
    """The cotangent of the table in `embedding`: the rows of the cotangent at `ids`, those of `padding_idx` left out.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, shape ``(*ids.shape, *shape[1:])``, of the dtype of the result.
    shape : tuple of int
        The shape of the table.
    ids, padding_idx, scale_grad_by_freq, validate
        As in the forward.

    Returns
    -------
    IndexedSlices
        With axis 0 stored, one entry for each id that is not padding.

    Raises
    ------
    ValueError
        If the shape of `dy` does not fit.
    TypeError, IndexError
        As the forward.

    Notes
    -----
    ``d weight[j] = sum over k with ids[k] == j of dy[k] / c_j``, with c_j the number of reads of row j if `scale_grad_by_freq`, else 1.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> dy, ids = np.array([[1.0], [2.0], [4.0]]), np.array([1, 0, 1])
    >>> st.rules.embedding_vjp(dy, (3, 1), ids, padding_idx=0).densify().tolist()
    [[0.0], [5.0], [0.0]]
    >>> st.rules.embedding_vjp(dy, (3, 1), ids, scale_grad_by_freq=True).densify().tolist()
    [[2.0], [2.5], [0.0]]
    """
    (frame,) = operand_frames(dy)
    shape = as_shape(shape)
    if not shape:
        raise ValueError("shape must have at least one axis, the table's rows")
    padding = _padding_row(padding_idx, shape[0])
    checked = _checked(ids, shape[0], frame.values, validate)
    result = take_vjp(dy, shape, checked, validate=False)._frame()
    if padding is not None:
        result = keep(result, result.ids[0] != padding)
    if scale_grad_by_freq:
        result = _divided_by_count(result)
    return IndexedSlices._of(result)


def _checked(ids: Any, size: int, like: Array, validate: Validate) -> Array:
    array = as_index_array(ids, like, name="ids")
    return check_ids(array, size, 0, validate=validate, negatives=False, name="ids")[0]


def _padding_row(padding_idx: int | None, rows: int) -> int | None:
    return None if padding_idx is None else as_axis(padding_idx, rows, "padding_idx")


def _divided_by_count(frame: Frame) -> Frame:
    xp, kernels = frame.backend.xp, frame.backend.kernels
    distinct, inverse = kernels.unique_inverse(frame.ids[0], frame.shape[0])
    dtype = kernels.accumulator(frame.values.dtype)
    if facts(frame.backend, dtype).kind not in ("real", "complex"):
        raise TypeError(f"scale_grad_by_freq divides, which a cotangent of dtype {frame.values.dtype} cannot hold")
    ones = xp.ones((frame.n,), dtype=dtype, device=device_of(frame.values))
    counts = kernels.gather(kernels.densify(inverse, ones, int(distinct.shape[0])), inverse)
    counts = xp.where(counts == 0, xp.ones_like(counts), counts)  # padding counts nothing
    counts = xp.reshape(counts, (-1, *(1,) * (frame.values.ndim - 1)))
    scaled = promote(frame, dtype).values / counts
    return frame.with_values(xp.astype(scaled, frame.values.dtype, copy=False))
