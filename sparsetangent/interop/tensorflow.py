"""TensorFlow's IndexedSlices, which slices along the first axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..algebra.frames import expand, store
from ..types import IndexedSlices, Tangent
from .conversion import convert
from .coordinates import from_coordinates, without_padding

__all__ = ["from_indexed_slices", "to_indexed_slices"]


def to_indexed_slices(t: Tangent) -> Any:
    """A tangent that stores its first axis, or none, as a ``tf.IndexedSlices``: the same slices in the same order, repeats among them.

    Parameters
    ----------
    t : Tangent
        Of any library; its arrays go through NumPy. One without a stored axis (`Zero`, `Fill`) is given as its rows.

    Returns
    -------
    tf.IndexedSlices
        With ``dense_shape``.

    Raises
    ------
    TypeError
        If `t` is no tangent.
    ValueError
        If `t` stores another axis than the first, or has no axis.

    Notes
    -----
    ``tf.convert_to_tensor(to_indexed_slices(t)) == t.densify()``. Padding is left out. ``to_indexed_slices(g)`` of
    ``g = IndexedSlices(np.array([1, 1]), rows, (3, 2))`` is ``tf.IndexedSlices(rows, [1, 1], dense_shape=[3, 2])``; note the order.

    Examples
    --------
    What can be handed over is decided before TensorFlow is imported:

    >>> import numpy as np, sparsetangent as st
    >>> from sparsetangent.interop.tensorflow import to_indexed_slices
    >>> to_indexed_slices(np.ones(2))
    Traceback (most recent call last):
        ...
    TypeError: t must be a tangent, not ndarray
    >>> to_indexed_slices(st.IndexedSlices(np.array([1]), np.array([[1.0, 2.0]]), (2, 3), axis=1))
    Traceback (most recent call last):
        ...
    ValueError: tf.IndexedSlices stores the first axis alone, not (1,) of shape (2, 3)
    """
    if not isinstance(t, Tangent):
        raise TypeError(f"t must be a tangent, not {type(t).__name__}")
    frame = convert(t, np)._frame()
    if not frame.shape or frame.axes not in ((), (0,)):
        raise ValueError(f"tf.IndexedSlices stores the first axis alone, not {frame.axes} of shape {frame.shape}")
    import tensorflow as tf

    frame = without_padding(expand(store(frame, (0,))))
    return tf.IndexedSlices(
        tf.convert_to_tensor(frame.values), tf.convert_to_tensor(frame.ids[0]), dense_shape=tf.convert_to_tensor(frame.shape)
    )


def from_indexed_slices(x: Any, shape: tuple[int, ...] | None = None) -> IndexedSlices:
    """A ``tf.IndexedSlices`` as one of NumPy arrays: the same slices in the same order, indices checked.

    Parameters
    ----------
    x : tf.IndexedSlices
        Of eager tensors, any shape and dtype.
    shape : tuple of int, optional
        The dense shape, needed if `x` does not know it.

    Returns
    -------
    IndexedSlices
        ``convert`` takes it to another library.

    Raises
    ------
    TypeError
        If `x` has no ``values``, ``indices`` and ``dense_shape``.
    ValueError
        If the shape is given nowhere, or does not fit.
    IndexError
        If an index is out of range.

    Examples
    --------
    Whatever has the three parts will do:

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from sparsetangent.interop.tensorflow import from_indexed_slices
    >>> parts = SimpleNamespace(values=np.array([[1.0], [2.0]]), indices=np.array([1, 1]), dense_shape=np.array([3, 1]))
    >>> from_indexed_slices(parts).densify().tolist()
    [[0.0], [3.0], [0.0]]
    >>> from_indexed_slices(SimpleNamespace(values=np.ones(1), indices=np.array([0]), dense_shape=None), shape=(2,)).shape
    (2,)
    """
    if not all(hasattr(x, part) for part in ("values", "indices", "dense_shape")):
        raise TypeError(f"x must be a tf.IndexedSlices, not {type(x).__name__}")
    known = None if x.dense_shape is None else tuple(int(n) for n in _host(x.dense_shape))
    if known is None and shape is None:
        raise ValueError("x does not know its dense shape; give shape=")
    if None not in (known, shape) and known != tuple(shape or ()):
        raise ValueError(f"shape {shape} is not the dense shape {known} of x")
    return from_coordinates((_host(x.indices),), _host(x.values), known if known is not None else shape or (), (0,))


def _host(x: Any) -> Any:
    """A tensor as a NumPy array; TensorFlow's ``numpy()`` shares the memory of its constant, which the slices never write."""
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)
