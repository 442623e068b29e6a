"""Making a tangent dense, and its adjoint."""

from __future__ import annotations

from typing import Any

from ..algebra.dense import densify
from ..backend import backend_of
from ..protocols import namespace
from ..types import Fill, Tangent
from .gather import getitem
from .operands import check_shape

__all__ = ["densify", "densify_vjp"]


def densify_vjp(dy: Any, t: Any) -> Any:
    """The cotangent of what `t` stores in ``densify(t)``: the dense cotangent read at the stored places.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of `t`.
    t : Tangent or Array
        As in the forward, of any shape and dtype. Its indices are constants; of an array `dy` itself is the cotangent.

    Returns
    -------
    Array or Tangent
        The shape of ``t.values``, the entries first, for `IndexedSlices`; a number for a `Fill`; for any other tangent as for
        ``t.to_slices()``. Compact if `dy` is.

    Raises
    ------
    ValueError
        If the shapes differ.

    Notes
    -----
    ``d values[k] = dy[indices[k]]``: each of repeated entries gets all of it. For a `Fill` the sum of `dy`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1, 0]), np.array([2.0, 3.0, 4.0]), (3,))
    >>> st.rules.densify_vjp(np.array([5.0, 6.0, 7.0]), t).tolist()
    [6.0, 6.0, 5.0]
    >>> st.rules.densify_vjp(np.array([5.0, 6.0, 7.0]), st.Fill(np.asarray(1.0), (3,))).item()
    18.0
    """
    check_shape(dy, tuple(t.shape), "dy", "t")
    if not isinstance(t, Tangent):
        return dy
    nx = namespace(dy)
    if isinstance(t, Fill):
        return nx.sum(dy)
    frame = t._frame()
    if not frame.axes:
        return nx.broadcast_to(nx.expand_dims(dy, axis=0), (frame.n, *t.shape))
    entries_first = nx.permute_dims(dy, (*frame.axes, *frame.dense_axes))
    if isinstance(dy, Tangent) or len(frame.axes) > 1:
        return getitem(entries_first, (*frame.ids, ...), validate=False)
    return backend_of(dy).kernels.gather(entries_first, frame.ids[0])
