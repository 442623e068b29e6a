"""A product with a one-hot tangent is a gather, and its adjoint the slices of the cotangent."""

from __future__ import annotations

from typing import Any

from ..protocols import namespace
from ..registry import apply
from ..types import OneHot, Tangent
from ..types.axes import as_shape
from .gather import take_vjp

__all__ = ["one_hot_matmul", "one_hot_matmul_vjp"]


def one_hot_matmul(t: Tangent, w: Any) -> Any:
    """``t @ w``: for a one-hot `t` with the ones along its last axis, the rows of `w` at its indices.

    Parameters
    ----------
    t : Tangent
        A `OneHot` (or any tangent), shape ``(..., depth)``.
    w : Array
        Shape ``(depth,)`` or ``(depth, n)``, any dtype that the product takes.

    Returns
    -------
    Array or Tangent
        Shape ``(...,)`` or ``(..., n)``.

    Raises
    ------
    ValueError
        If the contracted sizes differ.
    TypeError
        If the libraries differ.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> w = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> st.rules.one_hot_matmul(st.OneHot(np.array([2, 2, 0]), 3), w).tolist()
    [[5.0, 6.0], [5.0, 6.0], [1.0, 2.0]]
    >>> st.rules.one_hot_matmul(st.OneHot(np.array(1), 3), w[:, 0]).item()
    3.0
    """
    return apply("matmul", t, w)


def one_hot_matmul_vjp(dy: Any, t: Tangent, shape_of_w: tuple[int, ...]) -> Any:
    """The cotangent of `w` in ``t @ w``: ``t.T @ dy``, compact along the rows that `t` names.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of ``t @ w``.
    t : Tangent
        As in the forward, of shape ``(..., depth)``.
    shape_of_w : tuple of int
        The shape of `w`.

    Returns
    -------
    IndexedSlices
        For a `OneHot` with the ones along its last axis, one entry for each of its indices.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Notes
    -----
    ``d w[j] = sum over k with t.indices[k] == j of dy[k]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.OneHot(np.array([2, 2, 0]), 3)
    >>> st.rules.one_hot_matmul_vjp(np.array([[1.0], [2.0], [4.0]]), t, (3, 1)).densify().tolist()
    [[4.0], [0.0], [3.0]]
    >>> st.rules.one_hot_matmul_vjp(np.array([1.0, 2.0, 4.0]), t, (3,)).stored
    3
    """
    shape = as_shape(shape_of_w)
    if not shape or shape[0] != t.shape[-1]:
        raise ValueError(f"shape_of_w must begin with the {t.shape[-1]} places of the contracted axis, not be {shape}")
    if isinstance(t, OneHot) and t.axis == t.ndim - 1:
        # Ids out of range in mode "drop" are padding, which a read drops again.
        return take_vjp(dy, shape, t.indices, validate=False)
    nx = namespace(t)
    rows = nx.reshape(dy, (-1, *shape[1:]))
    return nx.reshape(t, (-1, shape[0])).T @ rows
