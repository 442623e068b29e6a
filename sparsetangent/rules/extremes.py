"""The greatest and the least along axes, and the cotangents of the elements that attain them."""

from __future__ import annotations

from math import prod
from typing import Any

from ..algebra.frames import frame_of_array
from ..algebra.keys import split_key
from ..algebra.wrap import operand_frames
from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..protocols import namespace
from ..types import Frame, IndexedSlices
from ..types.axes import as_axes
from .gather import getitem
from .groups import Ties, check_ties
from .operands import check_shape, dense_operand, derivative_dtype, refuse_complex, same_value
from .places import times

__all__ = ["max", "max_vjp", "min", "min_vjp"]

Axis = int | tuple[int, ...] | None


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The greatest element along axes; nan if there is one.

    Parameters
    ----------
    x : Array or Tangent
        Any shape, of a dtype with an order: not complex.
    axis : int or tuple of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Array or Tangent
        Of a tangent, with its implicit zeros counted; compact where a stored axis is left.

    Raises
    ------
    ValueError
        An axis out of range, or no element to choose from.
    TypeError
        A complex dtype, which has no order.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.max(np.array([[1.0, 5.0], [7.0, 2.0]]), axis=1).tolist()
    [5.0, 7.0]
    >>> st.rules.max(st.IndexedSlices(np.array([1, 1]), np.array([2.0, -5.0]), (3,))).item()
    0.0
    """
    return _extreme("max", x, axis, keepdims)


def max_vjp(
    dy: Any, x: Any, axis: Axis = None, keepdims: bool = False, *, ties: Ties = "even", out: Array | None = None
) -> IndexedSlices:
    """The cotangent of `x` in ``max(x, axis)``: that of the maximum, at the elements that attain it.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the maximum.
    x, axis, keepdims
        As in the forward.
    ties : {"even", "all", "first"}
        Elements that attain the maximum together share the cotangent evenly, each get all of it, or the first in the order of
        the axes gets it. nan attains nan.
    out : Array, optional
        The forward's result, of its shape and dtype; computed again if not given.

    Returns
    -------
    IndexedSlices
        With every axis stored, one entry for each element that attains a maximum. Where their number cannot be seen (under a tracer,
        unless `ties` is ``"first"``) a whole array as one entry.

    Raises
    ------
    ValueError, TypeError
        As the forward, or if the shape of `dy` or `out` does not fit.

    Notes
    -----
    ``d x[i, j] = c[i, j] * dy[i]`` for the maximum over j, with c the share: 0 unless ``x[i, j]`` attains it. An even share is a subgradient.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x = np.array([[1.0, 5.0, 5.0], [7.0, 2.0, 0.0]])
    >>> st.rules.max_vjp(np.array([4.0, 1.0]), x, axis=1).densify().tolist()
    [[0.0, 2.0, 2.0], [1.0, 0.0, 0.0]]
    >>> st.rules.max_vjp(np.array([4.0, 1.0]), x, axis=1, ties="first").stored
    2
    """
    return _extreme_vjp("max", dy, x, axis, keepdims, ties, out)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The least element along axes; nan if there is one.

    Parameters
    ----------
    x : Array or Tangent
        Any shape, of a dtype with an order: not complex.
    axis : int or tuple of int, optional
        All axes by default.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Array or Tangent
        As for `max`.

    Raises
    ------
    ValueError, TypeError
        As `max`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.rules.min(np.array([[1.0, 5.0], [7.0, 2.0]]), axis=0).tolist()
    [1.0, 2.0]
    >>> st.rules.min(np.array([[1.0, 5.0], [7.0, 2.0]]), axis=(0, 1), keepdims=True).tolist()
    [[1.0]]
    """
    return _extreme("min", x, axis, keepdims)


def min_vjp(
    dy: Any, x: Any, axis: Axis = None, keepdims: bool = False, *, ties: Ties = "even", out: Array | None = None
) -> IndexedSlices:
    """The cotangent of `x` in ``min(x, axis)``: that of the minimum, at the elements that attain it.

    Parameters
    ----------
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the minimum.
    x, axis, keepdims, ties, out
        As for `max_vjp`.

    Returns
    -------
    IndexedSlices
        As `max_vjp`.

    Raises
    ------
    ValueError, TypeError
        As `max_vjp`.

    Notes
    -----
    That of the maximum of ``-x``, negated twice.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x = np.array([3.0, 1.0, 1.0])
    >>> st.rules.min_vjp(np.asarray(4.0), x).densify().tolist()
    [0.0, 2.0, 2.0]
    >>> st.rules.min_vjp(np.asarray(4.0), x, ties="all").densify().tolist()
    [0.0, 4.0, 4.0]
    """
    return _extreme_vjp("min", dy, x, axis, keepdims, ties, out)


def _extreme(name: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    axes = as_axes(axis, len(x.shape))
    refuse_complex(operand_frames(x)[0].values, name)
    if 0 in (x.shape[a] for a in axes):
        raise ValueError(f"{name} along axes {axes} of shape {tuple(x.shape)} has no element to choose from")
    return getattr(namespace(x), name)(x, axis=axes, keepdims=keepdims) if axes else x


def _extreme_vjp(name: str, dy: Any, x: Any, axis: Axis, keepdims: bool, ties: Ties, out: Array | None) -> IndexedSlices:
    check_ties(ties)
    x = dense_operand(x, f"{name}_vjp")
    held = derivative_dtype(x, name)
    shape, axes = tuple(x.shape), as_axes(axis, x.ndim)
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    expected = kept if keepdims else tuple(n for a, n in enumerate(shape) if a not in axes)
    check_shape(dy, expected, "dy", f"the {name}")
    out = _extreme(name, x, axes, keepdims) if out is None else out
    check_shape(out, expected, "out", f"the {name}")
    nx, xp = namespace(x), backend_of(x).xp
    dy = nx.reshape(dy, kept)
    if not axes:
        return IndexedSlices._of(operand_frames(dy)[0])
    attains = same_value(x, xp.reshape(out, kept))
    if ties == "first":
        return IndexedSlices._of(_at_first(dy, attains, axes))
    shares = xp.astype(attains, held)
    if ties == "even":
        shares = shares / xp.sum(shares, axis=axes, keepdims=True)
    if not backend_of(x).kernels.concrete(attains):
        return IndexedSlices._of(frame_of_array(dense_operand(times(dy, shares, x), name)))
    places = xp.nonzero(attains)
    values = times(_read(dy, places, axes), getitem(shares, places, validate=False), x)
    return IndexedSlices._of(Frame(tuple(range(x.ndim)), places, values, shape, unique=True, ordered=True))


def _at_first(dy: Any, attains: Array, axes: tuple[int, ...]) -> Frame:
    """One entry for each slot, at the first place along `axes` that attains; static in shape."""
    backend = backend_of(attains)
    xp, index, shape = backend.xp, backend.kernels.index_dtype(attains), tuple(attains.shape)
    axes = tuple(sorted(axes))
    left = tuple(a for a in range(len(shape)) if a not in axes)
    sizes, kept = tuple(shape[a] for a in axes), tuple(shape[a] for a in left)
    if prod(kept) == 0:
        nowhere = xp.zeros((0,), dtype=index, device=device_of(attains))
        values = backend.xp.reshape(dense_operand(dy, "max_vjp"), (0,))
        return Frame(tuple(range(len(shape))), (nowhere,) * len(shape), values, shape, unique=True, ordered=True)
    lines = xp.reshape(xp.permute_dims(attains, (*left, *axes)), (prod(kept), prod(sizes)))
    first = xp.astype(xp.argmax(xp.astype(lines, xp.int8), axis=1), index, copy=False)
    slot = xp.arange(prod(kept), dtype=index, device=device_of(attains))
    coordinates = dict(zip(axes, split_key(first, sizes, padded=False), strict=True))
    coordinates |= dict(zip(left, split_key(slot, kept, padded=False), strict=True)) if left else {}
    places = tuple(coordinates[a] for a in range(len(shape)))
    return Frame(tuple(range(len(shape))), places, _read(dy, places, axes), shape, unique=True)


def _read(slots: Any, places: tuple[Array, ...], axes: tuple[int, ...]) -> Array:
    """The slots, of size 1 along `axes`, at coordinates of the array that was reduced."""
    xp = backend_of(places[0]).xp
    key = tuple(xp.zeros_like(p) if a in axes else p for a, p in enumerate(places))
    return dense_operand(getitem(slots, key, validate=False), "max_vjp")
