"""Sums, means and broadcasts, each the adjoint of the other."""

from __future__ import annotations

from math import prod
from typing import Any

from ..algebra.frames import align
from ..algebra.shapes import insert_axes
from ..algebra.shapes import sum_to_shape as _sum_to_shape
from ..algebra.wrap import operand_frames
from ..kernels.base import DType
from ..protocols import namespace
from ..types import Fill, IndexedSlices, Zero
from ..types.axes import as_axes, as_shape

__all__ = ["broadcast_to", "broadcast_to_vjp", "mean", "mean_vjp", "sum", "sum_vjp"]

Axis = int | tuple[int, ...] | None


def sum(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: DType | None = None) -> Any:
    """The sum over axes.

    Parameters
    ----------
    x : Array or Tangent
        Any shape and dtype.
    axis : int or tuple of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.
    dtype : dtype, optional
        In which to add; by default the one that the library's sum takes.

    Returns
    -------
    Array or Tangent
        Compact where a stored axis is left.

    Raises
    ------
    ValueError
        An axis out of range.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=1).tolist()
    [3.0, 7.0]
    >>> st.rules.sum(st.IndexedSlices(np.array([1]), np.array([2.0]), (2**50,))).item()
    2.0
    """
    return namespace(x).sum(x, axis=axis, keepdims=keepdims, dtype=dtype)


def sum_vjp(dy: Any, shape: tuple[int, ...], axis: Axis = None, keepdims: bool = False) -> Fill | IndexedSlices | Zero:
    """The cotangent of `x` in ``sum(x, axis)``: the cotangent repeated along the axes that were summed, without copies.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the sum.
    shape : tuple of int
        The shape of `x`.
    axis, keepdims
        As in the forward.

    Returns
    -------
    Fill or IndexedSlices
        A `Fill` for the sum over all axes. Else slices: those of a compact `dy`, or one slab that is broadcast along
        the summed axes (``axis=()``).

    Raises
    ------
    ValueError
        If the shape of `dy` does not fit.

    Notes
    -----
    ``d x[i, j] = dy[i]`` for the sum over j.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.sum_vjp(np.asarray(3.0), (2**50, 2))
    Fill(shape=(1125899906842624, 2), dtype=float64, numpy)
    >>> st.rules.sum_vjp(np.array([1.0, 2.0]), (2, 3), axis=1).densify().tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    shape = as_shape(shape)
    axes = as_axes(axis, len(shape))
    (frame,) = operand_frames(dy)
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    expected = kept if keepdims else tuple(n for a, n in enumerate(shape) if a not in axes)
    if frame.shape != expected:
        raise ValueError(f"dy must have the shape {expected} of the sum, not {frame.shape}")
    frame = align(frame if keepdims else insert_axes(frame, axes), shape)
    if frame.axes or isinstance(dy, Zero):
        return Zero(shape, like=dy) if isinstance(dy, Zero) else IndexedSlices._of(frame)
    if isinstance(dy, Fill) or (len(axes) == len(shape) and frame.n == 1):
        return Fill._of(frame.backend.xp.reshape(frame.values, ()), shape)
    return IndexedSlices._of(frame)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The mean over axes.

    Parameters
    ----------
    x : Array or Tangent
        Any shape, of a floating dtype.
    axis : int or tuple of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Array or Tangent
        Compact where a stored axis is left; nan over an empty axis.

    Raises
    ------
    ValueError
        An axis out of range.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.mean(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=1).tolist()
    [1.5, 3.5]
    >>> st.rules.mean(st.IndexedSlices(np.array([1]), np.array([2.0]), (4,))).item()
    0.5
    """
    return namespace(x).mean(x, axis=as_axes(axis, len(x.shape)), keepdims=keepdims)


def mean_vjp(dy: Any, shape: tuple[int, ...], axis: Axis = None, keepdims: bool = False) -> Fill | IndexedSlices | Zero:
    """The cotangent of `x` in ``mean(x, axis)``: that of the sum, over the number of elements.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the mean.
    shape : tuple of int
        The shape of `x`.
    axis, keepdims
        As in the forward.

    Returns
    -------
    Fill or IndexedSlices
        As `sum_vjp`.

    Raises
    ------
    ValueError
        If the shape of `dy` does not fit.

    Notes
    -----
    ``d x[i, j] = dy[i] / m`` for the mean over m elements j.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.mean_vjp(np.asarray(3.0), (2, 3)).value.item()
    0.5
    >>> st.rules.mean_vjp(np.array([3.0, 6.0]), (2, 3), axis=1).densify().tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    shape = as_shape(shape)
    count = prod(shape[a] for a in as_axes(axis, len(shape)))
    return sum_vjp(dy / (count or 1), shape, axis, keepdims)


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Stretch axes of size 1 and add leading axes.

    Parameters
    ----------
    x : Array or Tangent
        Any dtype; a shape that broadcasts to `shape`.
    shape : tuple of int
        Of the result.

    Returns
    -------
    Array or Tangent
        A read-only view for arrays where the library has one.

    Raises
    ------
    ValueError
        If `x` does not broadcast to `shape`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.broadcast_to(np.array([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    >>> st.rules.broadcast_to(st.IndexedSlices([0], np.array([1.0]), (2,)), (2**50, 2)).shape
    (1125899906842624, 2)
    """
    return namespace(x).broadcast_to(x, as_shape(shape))


def broadcast_to_vjp(dy: Any, shape_of_x: tuple[int, ...]) -> Any:
    """The cotangent of `x` in ``broadcast_to(x, shape)``: the sum over the axes that were stretched or added.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape that `x` was broadcast to and the dtype of `x`.
    shape_of_x : tuple of int
        The shape of `x`.

    Returns
    -------
    Array or Tangent
        Compact where a stored axis is left.

    Raises
    ------
    ValueError
        If `shape_of_x` does not broadcast to the shape of `dy`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.broadcast_to_vjp(np.array([[1.0, 2.0], [3.0, 4.0]]), (2,)).tolist()
    [4.0, 6.0]
    >>> st.rules.broadcast_to_vjp(st.Fill(np.asarray(1.0), (3, 2)), (1, 2)).densify().tolist()
    [[3.0, 3.0]]
    """
    return _sum_to_shape(dy, shape_of_x)
