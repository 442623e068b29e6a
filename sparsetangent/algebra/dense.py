"""The dense side: make the dense array, add into one, and come back from one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend import Backend, backend_of, common_backend, device_of, is_array, torch_is_compiling
from ..dtypes import facts, same_kind
from ..kernels.base import Array
from ..policy import note_densify
from ..registry import implements
from ..types import Frame, IndexedSlices, OneHot, Tangent, check_errors
from ..types.axes import as_axes
from .frames import align, coalesce, expand, fold_entries, keep, promote
from .keys import frame_key

__all__ = [
    "add_frame_into",
    "add_into",
    "dense_of",
    "densify",
    "from_dense",
    "holds_all",
    "implicit",
    "note_operation",
    "refuse_unwritable",
]


def dense_of(frame: Frame) -> Array:
    """The dense array of a frame, always a new one."""
    backend, axes = frame.backend, frame.axes
    xp = backend.xp
    if not axes:
        dense = fold_entries(frame.values)
    else:
        _refuse_impossible(frame)
        (key,), bound, _ = frame_key(frame)
        dense = backend.kernels.densify(key, frame.values, bound, unique=frame.unique)
        if len(axes) > 1:
            dense = xp.reshape(dense, (*frame.stored_sizes, *frame.values.shape[1:]))
        if axes != tuple(range(len(axes))):
            dense = xp.permute_dims(dense, _inverse((*axes, *frame.dense_axes)))
    if dense.shape != frame.shape:
        dense = xp.astype(xp.broadcast_to(dense, frame.shape), dense.dtype, copy=True)
    return dense


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that undoes `order`."""
    return tuple(order.index(a) for a in range(len(order)))


def _refuse_impossible(frame: Frame) -> None:
    size = prod(frame.shape)
    if size >= 2**31 and size > frame.backend.xp.iinfo(frame.backend.kernels.index_dtype(frame.values)).max:
        raise MemoryError(f"the dense array of shape {frame.shape} has more elements than can be addressed")


@implements("densify")
def densify(t: Any, out: Array | None = None) -> Array:
    """The dense array of a tangent, into `out` if given; an array is returned as it is.

    Parameters
    ----------
    t : Tangent or Array
        Of any shape and dtype.
    out : Array, optional
        Of the shape and dtype of `t`, written in place.

    Returns
    -------
    Array
        `out` if given, `t` itself if it is an array, else a new array.

    Raises
    ------
    TypeError
        If `t` is neither, or arrays of the library of `out` are immutable.
    ValueError
        If `out` does not fit or cannot be written.

    Notes
    -----
    ``y[j] = sum over k with indices[k] == j of values[k]``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.densify(st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))).tolist()
    [0.0, 5.0, 0.0]
    >>> st.densify(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    if not isinstance(t, Tangent):
        backend_of(t)
        return t
    if out is None:
        return dense_of(t._frame())
    backend = common_backend(out, t._frame().values)
    if not backend.kernels.mutable:
        raise TypeError(f"out cannot be written: arrays of {backend.name} are immutable")
    if tuple(out.shape) != t.shape or out.dtype != t.dtype:
        raise ValueError(f"out must have shape {t.shape} and dtype {t.dtype}, not {tuple(out.shape)} and {out.dtype}")
    refuse_unwritable(out, "out")
    out[...] = dense_of(t._frame())
    return out


def holds_all(frame: Frame, shape: tuple[int, ...]) -> bool:
    """Whether a frame has no stored axis and values that take as much as an array of `shape`."""
    return not frame.axes and frame.n > 0 and prod(frame.values.shape[1:]) == prod(shape)


def note_operation(operation: str, frame: Frame, shape: tuple[int, ...]) -> None:
    """Apply the densify policy to an operation whose dense result has `shape`: one number, or what is held in full, is nothing to note."""
    if prod(shape) <= 1 or holds_all(frame, shape):
        return
    nbytes = prod(shape) * facts(frame.backend, frame.values.dtype).itemsize
    if torch_is_compiling():
        return  # a context variable cannot be read there
    note_densify(operation, frame.shape, nbytes, traced=not frame.backend.kernels.concrete(frame.values))


def implicit(t: Tangent, operation: str, shape: tuple[int, ...] | None = None) -> Array:
    """The dense array that an operation needs because it has no compact answer, under the densify policy."""
    frame = t._frame()
    note_operation(operation, frame, t.shape if shape is None else shape)
    return dense_of(frame)


@implements("coalesce", Tangent)
def coalesce_tangent(t: Tangent, *, size: int | None = None) -> IndexedSlices:
    """The tangent as slices with sorted coordinates, each once; waits for a device and so reads its flags."""
    if size is not None and (size := operator.index(size)) < 0:
        raise ValueError(f"size must be at least 0, not {size}")
    frame = t._frame()
    kernels = frame.backend.kernels
    result = coalesce(frame, size)
    if size is None and (seen := kernels.seen(frame.values)) is not None and not kernels.synchronous(seen):
        check_errors()
    return IndexedSlices._of(result)


@implements("add_into")
def add_into(dense: Array, t: Tangent | Array, alpha: Any = 1, *, in_order: bool = False) -> Array:
    """Add ``alpha * t`` into a dense array in place, touching only the stored rows.

    Parameters
    ----------
    dense : Array
        Any shape and dtype. Written in place where its library allows that (NumPy, torch, CuPy); otherwise left as it is.
    t : Tangent or Array
        Its shape broadcasts to that of `dense`, its dtype is of the same or a lower kind (a float is not added into
        integers).
    alpha : Python number or Array without axes
        A factor, of a dtype of the same or a lower kind than `dense`; an array may be traced.
    in_order : bool
        Add the entries as they come, with the speed and the accuracy of the library's own scatter-add. By default the entries of one
        index are summed first. In order, an entry below half a unit in the last place of what `dense` holds by then is lost: in
        float32, of 20000 entries of 2e-8 added to 1.0 nothing is left. (Half types, and several stored axes, are merged all the same.)

    Returns
    -------
    Array
        `dense` itself where it was written, else the new array.

    Raises
    ------
    TypeError
        If the dtype or kind does not fit, or the arrays are of different libraries.
    ValueError
        If the shape does not broadcast to that of `dense`, or `dense` is read-only or overlaps itself.

    Notes
    -----
    ``dense[i] += alpha * sum over k with indices[k] == i of values[k]`` (axpy of the BLAS, on the rows stored), the sum taken first: the
    result is that of ``dense + alpha * densify(t)``. Everything is checked before the first write.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> table = np.array([1.0, 2.0, 3.0])
    >>> st.add_into(table, st.IndexedSlices(np.array([2, 2]), np.array([10.0, 20.0]), (3,)), alpha=-1) is table
    True
    >>> table.tolist()
    [1.0, 2.0, -27.0]

    Many small entries reach a large number:

    >>> t = st.IndexedSlices(np.zeros(20000, int), np.full(20000, 2e-8, np.float32), (1,))
    >>> one = np.ones(1, np.float32)
    >>> print(st.add_into(one.copy(), t), st.add_into(one.copy(), t, in_order=True))
    [1.0004] [1.]
    """
    if not is_array(dense):
        raise TypeError(f"dense must be an array, not {type(dense).__name__}")
    backend = backend_of(dense)
    if not isinstance(t, Tangent):
        common_backend(dense, t)
        frame = Frame((), (), t[None, ...], tuple(t.shape), unique=True)
    else:
        frame = (t._with_dtype(dense.dtype) if isinstance(t, OneHot) and t.weak else t)._frame()
        common_backend(dense, frame.values)
    _check_target(dense, frame, backend)
    factor = _factor(alpha, dense, backend)
    return add_frame_into(dense, promote(align(frame, tuple(dense.shape)), dense.dtype), factor, in_order=in_order)


def _factor(alpha: Any, dense: Array, backend: Backend) -> Any:
    """`alpha` as something that the kernels multiply rows by without a change of their dtype."""
    if type(alpha) is int and alpha == 1:
        return alpha
    dtype = dense.dtype
    kind = facts(backend, dtype).kind
    number = alpha.item() if isinstance(alpha, np.generic) else alpha
    if isinstance(number, (int, float, complex)) and not isinstance(number, bool):
        allowed = {"signed": (int,), "unsigned": (int,), "real": (int, float), "complex": (int, float, complex)}
        if isinstance(number, allowed.get(kind, ())) or (kind == "bool" and number == 1):
            return number
    elif is_array(alpha) and not alpha.shape:
        common_backend(dense, alpha)
        given = facts(backend, alpha.dtype).kind
        if "bool" not in (kind, given) and same_kind(backend, alpha.dtype, dtype):
            return backend.xp.astype(alpha, backend.kernels.accumulator(dtype), copy=False)
    else:
        raise TypeError(f"alpha must be a Python number or an array without axes, not {_described(alpha)}")
    raise TypeError(f"alpha={alpha!r} does not fit an array of dtype {dtype}")


def _described(x: Any) -> str:
    return type(x).__name__ + (f" of shape {tuple(x.shape)}" if hasattr(x, "shape") else "")


def _check_target(dense: Array, frame: Frame, backend: Backend) -> None:
    given, shape, values = frame.shape, tuple(dense.shape), frame.values
    if given != shape and (
        len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False))
    ):
        raise ValueError(f"a tangent of shape {given} cannot be added into an array of shape {shape}")
    if values.dtype != dense.dtype and not same_kind(backend, values.dtype, dense.dtype):
        raise TypeError(f"a tangent of dtype {values.dtype} cannot be added into an array of dtype {dense.dtype}")
    here, there = backend.kernels.device_for(dense), backend.kernels.device_for(values)
    if here != there and None not in (here, there):
        raise ValueError(f"dense is on device {here} and the tangent on {there}; move one of them first")
    refuse_unwritable(dense, "dense")


def refuse_unwritable(target: Array, name: str) -> None:
    """A `ValueError` if an array is read-only or overlaps itself."""
    if isinstance(target, np.ndarray):
        flags = target.flags
        if not flags.writeable:
            raise ValueError(f"{name} is read-only")
        if flags.c_contiguous:
            return
        strides, unit = target.strides, target.itemsize
    elif hasattr(target, "stride"):
        if target.is_contiguous():
            return
        strides, unit = target.stride(), 1
    else:
        return
    if _may_overlap(target.shape, strides, unit):
        raise ValueError(
            f"{name} overlaps itself: several of its elements share memory (shape {tuple(target.shape)}, strides {strides})"
        )


def _may_overlap(shape: Sequence[int], strides: Sequence[int], unit: int) -> bool:
    """Whether a strided array may hold one place twice: an axis steps less far than the axes inside it reach.

    No array that slices, transposes or reshapes of an ordinary one give does that.
    """
    if 0 in shape:
        return False
    reach = unit
    for step, n in sorted((abs(step), n) for step, n in zip(strides, shape, strict=True) if n > 1):
        if step < reach:
            return True
        reach = step * (n - 1) + reach
    return False


def add_frame_into(dense: Array, frame: Frame, alpha: Any = 1, *, in_order: bool = False) -> Array:
    """Add an aligned frame of the right dtype; `dense` is the caller's to give away (see `add_into` for the checks)."""
    if frame.n == 0:
        return dense
    backend = frame.backend
    xp, kernels = backend.xp, backend.kernels
    if frame.axes == (0,):
        return kernels.scatter_add(dense, frame.ids[0], expand(frame).values, alpha, in_order=in_order)
    if not frame.axes:
        zero = xp.zeros((1,), dtype=kernels.index_dtype(dense), device=device_of(dense))
        rows = expand(coalesce(frame)).values
        result = kernels.scatter_add(dense[None, ...], zero, rows, alpha)
        return dense if kernels.mutable else result[0, ...]
    frame = expand(frame)
    order = (*frame.axes, *frame.dense_axes)
    straight = order == tuple(range(len(order)))
    view = dense if straight else xp.permute_dims(dense, order)
    back = None if straight else _inverse(order)
    if len(frame.axes) == 1:
        result = kernels.scatter_add(view, frame.ids[0], frame.values, alpha, in_order=in_order)
    elif kernels.mutable and frame.concrete:
        _add_at_coordinates(view, coalesce(frame), alpha)
        return dense
    else:
        (key,), bound, _ = frame_key(frame)
        flat = xp.reshape(view, (bound, *view.shape[len(frame.axes) :]))
        result = xp.reshape(kernels.scatter_add(flat, key, frame.values, alpha, in_order=in_order), view.shape)
        if kernels.mutable:
            view[...] = result
    if kernels.mutable:
        return dense
    return result if back is None else xp.permute_dims(result, back)


def _add_at_coordinates(view: Array, frame: Frame, alpha: Any) -> None:
    """In place at coordinates of several axes: flattening a strided view would copy the whole array."""
    frame_key(frame)  # raises if the ids were overwritten with ones out of range
    if frame.padded:
        frame = keep(frame, frame.ids[0] < frame.stored_sizes[0])
    if frame.values.dtype == frame.backend.xp.bool:
        view[frame.ids] = view[frame.ids] | frame.values
        return
    # What an array makes of half types is wider; the sum is rounded once.
    rows = frame.values if isinstance(alpha, int) and alpha == 1 else frame.values * alpha
    view[frame.ids] = frame.backend.xp.astype(view[frame.ids] + rows, view.dtype, copy=False)


@implements("from_dense")
def from_dense(x: Array, *, axis: int | tuple[int, ...] = 0) -> IndexedSlices:
    """The compact form of a dense array: its slices along `axis` that are not zero everywhere.

    Zero is tested bitwise: a slice that holds -0.0 or nan is kept.

    Parameters
    ----------
    x : Array
        Of any shape and dtype.
    axis : int or tuple of int
        The axes to store.

    Returns
    -------
    IndexedSlices
        Sorted and unique, of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        If `axis` is out of range.
    TypeError
        If `x` is no array.

    Notes
    -----
    The number of slices depends on the values, so this does not run under a tracer.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.from_dense(np.array([[0.0, 0.0], [0.0, 5.0], [0.0, 0.0]])).indices.tolist()
    [1]
    >>> st.from_dense(np.array([[0.0, 7.0], [0.0, 5.0]]), axis=(0, 1)).coords[1].tolist()
    [1, 1]
    """
    backend = backend_of(x)
    xp = backend.xp
    axes = tuple(sorted(as_axes(axis, x.ndim)))
    dense_axes = tuple(a for a in range(x.ndim) if a not in axes)
    nonzero = _bitwise_nonzero(x, backend)
    if dense_axes:
        nonzero = xp.any(nonzero, axis=dense_axes)
    if not axes:
        return IndexedSlices._of(Frame((), (), xp.astype(x[None, ...], x.dtype, copy=True), tuple(x.shape), True, True))
    ids = tuple(xp.astype(i, backend.kernels.index_dtype(x), copy=False) for i in xp.nonzero(nonzero))
    rows = xp.permute_dims(x, (*axes, *dense_axes))
    sizes = tuple(x.shape[a] for a in axes)
    frame = Frame(axes, ids, rows, tuple(x.shape), unique=True, ordered=True)
    (key,), bound, _ = frame_key(frame)
    rows = backend.kernels.gather(xp.reshape(rows, (bound, *rows.shape[len(sizes) :])), key)
    return IndexedSlices._of(frame.with_values(rows))


def _bitwise_nonzero(x: Array, backend: Backend) -> Array:
    """Where the bits are not all zero: -0.0 counts, which ``x != 0`` would miss."""
    xp, kind = backend.xp, facts(backend, x.dtype).kind
    if kind == "bool":
        return x
    if kind == "complex":
        return _bitwise_nonzero(xp.real(x), backend) | _bitwise_nonzero(xp.imag(x), backend)
    nonzero = x != 0
    return nonzero | xp.signbit(x) if kind == "real" else nonzero
