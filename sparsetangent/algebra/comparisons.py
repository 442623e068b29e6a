"""Equality by value, whatever the storage."""

from __future__ import annotations

from typing import Any

from ..backend import backend_of
from ..kernels.base import Array
from ..types import Fill, Frame, Tangent
from .dense import implicit
from .frames import coalesce
from .join import union
from .wrap import operand_frames

__all__ = ["allclose", "equal"]


def equal(a: Tangent | Array, b: Tangent | Array) -> bool:
    """Whether two tangents or arrays have the same shape and equal elements, however they are stored.

    Parameters
    ----------
    a, b : Tangent or Array
        Of one library. Shapes and dtypes may differ.

    Returns
    -------
    bool
        ``all(densify(a) == densify(b))``; nan is not equal to nan.

    Raises
    ------
    TypeError
        If an operand is no array or tangent, or the libraries differ.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.equal(st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,)), np.array([0.0, 5.0, 0.0]))
    True
    >>> st.equal(st.Zero((2,)), st.Zero((3,)))
    False
    """
    return _holds_nowhere(a, b, lambda x, y: x != y)


def allclose(a: Tangent | Array, b: Tangent | Array, *, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether two tangents or arrays have the same shape and close elements, however they are stored.

    Parameters
    ----------
    a, b : Tangent or Array
        Of one library. Shapes and dtypes may differ.
    rtol, atol : float
        Relative and absolute tolerance.

    Returns
    -------
    bool
        ``all(abs(a - b) <= atol + rtol * abs(b))``; infinities of one sign are close, nan is not close to anything.

    Raises
    ------
    TypeError
        If an operand is no array or tangent, or the libraries differ.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1]), np.array([2.0]), (3,))
    >>> st.allclose(t, t * (1 + 1e-7))
    True
    >>> st.allclose(t, t * 1.1)
    False
    """

    def far(x: Array, y: Array) -> Array:
        xp = backend_of(x).xp
        near = xp.abs(x - y) <= atol + rtol * xp.abs(y)
        return ~(near | (x == y))

    return _holds_nowhere(a, b, far)


def _holds_nowhere(a: Any, b: Any, differ: Any) -> bool:
    """Whether `differ`, which is false of two zeros, is false at every element."""
    left, right = operand_frames(a, b)
    if left.shape != right.shape:
        return False
    xp = left.backend.xp
    dtype = xp.result_type(left.values.dtype, right.values.dtype)
    # A fill holds a number where the other stores nothing, so only two fills can be compared by what they store.
    if isinstance(a, Tangent) and isinstance(b, Tangent) and isinstance(a, Fill) == isinstance(b, Fill):
        differences = union(_cast(left, dtype), _cast(right, dtype), differ).values
    else:
        dense = [implicit(x, "equal") if isinstance(x, Fill) else _dense(x) for x in (a, b)]
        differences = differ(*(xp.astype(x, dtype, copy=False) for x in dense))
    return not bool(xp.any(differences))


def _cast(frame: Frame, dtype: Any) -> Frame:
    frame = coalesce(frame)
    return frame.with_values(frame.backend.xp.astype(frame.values, dtype, copy=False))


def _dense(x: Any) -> Array:
    return x.densify() if isinstance(x, Tangent) else x
