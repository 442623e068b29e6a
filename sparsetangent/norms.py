"""The norm of many gradients together, and clipping by it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import array_api_compat
import numpy as np

from . import tree
from .algebra.folds import sum_frame
from .algebra.frames import distinct, promote
from .algebra.reductions import magnitude_scale
from .algebra.wrap import operand_frames
from .backend import Backend, backend_of, common_backend, device_of, is_array
from .dtypes import facts
from .kernels.base import Array, DType
from .types import Fill, Frame, Tangent, Zero

__all__ = ["clip_by_global_norm", "global_norm"]


def global_norm(items: Any) -> Array:
    """The Euclidean norm of all elements of many gradients, repeats summed first and nothing made dense.

    Parameters
    ----------
    items : pytree or iterable
        Tangents, arrays and None (zero), mixed, of one library: a list, an iterator, or any tree that `sparsetangent.tree` knows.
        Integers and bools count as numbers.

    Returns
    -------
    Array
        Of shape (), in the widest real dtype among the items and float32; on the device of the first. Without any item 0 in NumPy's
        float64. inf if an element is infinite, nan if one is nan (nan wins), and inf where the norm passes the dtype.

    Raises
    ------
    TypeError
        If an item is no tangent, array or None, or the libraries differ.

    Notes
    -----
    ``sqrt(sum(abs(x)**2))``, each item divided by its greatest magnitude before it is squared and the norms of the items combined in the
    same way, so that neither float16 300s nor float64 1e200s overflow, nor 1e-200s vanish (Blue's algorithm, in the form of the
    BLAS routine nrm2). Items are visited once.

    Examples
    --------
    Rows 1, 1 and 3: the repeated row counts as its sum.

    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1, 3]), np.array([[1.0], [2.0], [4.0]]), (2**50, 1))
    >>> st.global_norm([t, None]).item()
    5.0
    >>> st.global_norm({"a": np.float16([300] * 10), "b": []}).item() < 950
    True
    """
    return _norm(_items(items))


def clip_by_global_norm(items: Any, max_norm: Any) -> tuple[Any, Array]:
    """Scale gradients down so that their common norm is at most `max_norm`.

    Parameters
    ----------
    items : pytree or iterable
        As for `global_norm`; those of integers or bools must be `Zero`, having no multiples.
    max_norm : number or Array of shape ()
        Of any real dtype; not negative, not nan. ``inf`` clips nothing.

    Returns
    -------
    items : pytree
        Of the structure and dtypes given (an iterator gives a list). The items themselves if the norm is at most `max_norm`.
    norm : Array
        The norm before.

    Raises
    ------
    ValueError
        If `max_norm` is negative or nan.
    TypeError
        As `global_norm`, and for integer items.

    Notes
    -----
    ``items * (max_norm / norm)`` where ``norm > max_norm``. A norm that is infinite or nan makes every element nan, as TensorFlow and
    torch do, and never 0: an overflow must not pass for a small gradient. Compact items become ``Fill(nan)`` then; where the norm is
    traced or taped only their stored places do, since structural zeros are strong.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([1.0, 3.0]), (5,))
    >>> (clipped, other), norm = st.clip_by_global_norm((t, np.array([3.0])), 2.5)
    >>> norm.item(), clipped.densify().tolist(), other.tolist()
    (5.0, [0.0, 2.0, 0.0, 0.0, 0.0], [1.5])
    >>> (same,), _ = st.clip_by_global_norm([t], 100.0)
    >>> same is t
    True
    """
    items = list(items) if isinstance(items, Iterator) else items
    norm = _norm(_clippable(x) for x in _items(items))
    if is_array(max_norm) and not backend_of(max_norm).kernels.concrete(max_norm):
        limit = max_norm
    else:
        limit = float(max_norm)
        if not limit >= 0:
            raise ValueError(f"max_norm must be a number from 0 on, not {max_norm}")
    backend = backend_of(norm)
    taped = getattr(norm, "requires_grad", False)  # the factor has a derivative too
    if isinstance(limit, float) and backend.kernels.concrete(norm) and not taped:
        seen = float(norm)
        if seen <= limit and isfinite(seen):
            return items, norm
        if not isfinite(seen):
            return tree.map(_all_nan, items), norm
        return tree.scale(items, limit / seen), norm
    xp = backend.xp
    one, nan = xp.ones_like(norm), xp.full_like(norm, float("nan"))
    factor = xp.where(norm > limit, limit / xp.where(norm > limit, norm, one), one)
    return tree.scale(items, xp.where(xp.isfinite(norm), factor, nan)), norm


def _items(items: Any) -> Iterator[Any]:
    """The leaves of a tree, or of each item that an iterator gives."""
    if isinstance(items, Iterator):
        for item in items:
            yield from tree.leaves(item)
    else:
        yield from tree.leaves(items)


def _clippable(x: Any) -> Any:
    backend = backend_of(x._frame().values if isinstance(x, Tangent) else x)
    if facts(backend, x.dtype).kind not in ("real", "complex") and not isinstance(x, Zero):
        raise TypeError(f"an item of dtype {x.dtype} cannot be clipped: cast it first, or leave it out (None)")
    return x


def _all_nan(x: Any) -> Any:
    if isinstance(x, Zero) and facts(backend_of(x._probe), x.dtype).kind not in ("real", "complex"):
        return x
    values = x._frame().values if isinstance(x, Tangent) else x
    xp = backend_of(values).xp
    nan = xp.full((), float("nan"), dtype=x.dtype, device=device_of(values))
    return Fill(nan, x.shape) if isinstance(x, Tangent) else xp.full_like(x, float("nan"))


# The norm


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _norm(items: Iterator[Any]) -> Array:
    norms: list[Array] = []
    for item in items:
        (frame,) = operand_frames(item)
        if norms:
            common_backend(norms[0], frame.values)
        norms.append(_norm_of(frame))
    if not norms:
        return np.zeros(())
    backend = backend_of(norms[0])
    xp, device = backend.xp, device_of(norms[0])
    dtype = xp.result_type(*(n.dtype for n in norms))
    moved = [_on(xp.astype(n, dtype, copy=False), device) for n in norms]
    return _scaled_norm(xp.stack(moved), backend)


def _on(x: Array, device: Any) -> Array:
    return x if device is None or device_of(x) in (None, device) else array_api_compat.to_device(x, device)


def _norm_of(frame: Frame) -> Array:
    """The norm of the dense array of one frame, of shape ()."""
    backend = frame.backend
    frame = distinct(promote(frame, _held(backend, frame.values.dtype)))
    magnitudes = frame.with_values(backend.xp.abs(frame.values))
    axes = tuple(range(len(frame.shape)))
    scale = magnitude_scale(magnitudes.values)
    squares = magnitudes.with_values((magnitudes.values / scale) ** 2)
    total = distinct(sum_frame(squares, axes, keepdims=False)).values
    return backend.xp.sqrt(total[0, ...]) * scale if frame.n else scale * 0


def _scaled_norm(norms: Array, backend: Backend) -> Array:
    scale = magnitude_scale(norms)
    return backend.xp.sqrt(backend.xp.sum((norms / scale) ** 2, dtype=norms.dtype)) * scale


def _held(backend: Backend, dtype: DType) -> DType:
    """The dtype in which to square: at least float32, and the library's default for integers."""
    floating = facts(backend, dtype).kind in ("real", "complex")
    return backend.kernels.accumulator(dtype) if floating else backend.xp.zeros((0,)).dtype
