"""Tangents and arrays from one array library to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..algebra.wrap import held_array
from ..backend import Backend, backend_of
from ..dtypes import facts
from ..kernels.base import Array, Namespace
from ..types import Fill, Frame, IndexedSlices, OneHot, Tangent, Zero
from ..types.indices import check_size
from ..types.tangent import dtype_name

__all__ = ["convert"]


def convert(t: Any, xp: Namespace, *, copy: bool | None = None) -> Any:
    """A tangent or an array of one library as the same of another.

    Parameters
    ----------
    t : Tangent or Array
        Of any library, shape and dtype that `xp` has.
    xp : namespace
        Of the library wanted: `numpy`, `torch`, `jax.numpy`, `cupy`, one of `array_api_compat`, or any that conforms.
    copy : bool, optional
        None shares memory where both libraries can (DLPack; JAX only takes what is aligned to 64 bytes) and copies where not; True
        always copies, False never.

    Returns
    -------
    Tangent or Array
        Of the same type, values, shape, dtype, order of entries and known facts (unique, sorted, padding). `t` itself if it is of
        that library already and `copy` is not True. Where memory is shared, writing into one writes into the other, also where the one
        is a JAX array; so read-only NumPy arrays are always copied.

    Raises
    ------
    TypeError
        If the library cannot hold the dtype (JAX has no float64 unless ``jax_enable_x64`` is set), or an array is traced or on the tape.
    ValueError
        If `copy` is False and memory cannot be shared, or an axis is longer than the library's indices count.

    Notes
    -----
    Indices become narrower where the library has no int64. Between devices the way leads over the host.

    Examples
    --------
    >>> import numpy as np, torch, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([2, 2]), np.array([[1.0], [3.0]]), (4, 1))
    >>> st.interop.convert(t, torch)
    IndexedSlices(shape=(4, 1), dtype=float64, axis=0, stored=2, density=0.5, torch, cpu)
    >>> st.interop.convert(torch.tensor([1.5]), np)
    array([1.5], dtype=float32)
    """
    target = backend_of(held_array(xp.zeros((0,))))
    if not isinstance(t, Tangent):
        return _array(t, target, copy)
    if isinstance(t, OneHot):
        dtype = None if t.weak else _array(backend_of(t._indices).xp.zeros((0,), dtype=t.dtype), target, None).dtype
        return OneHot._of(_ids(t._indices, t.depth, t.axis, target, copy), t.depth, t.axis, dtype, t._padded)
    if isinstance(t, Fill):
        return Fill._of(_array(t._value, target, copy), t.shape)
    if isinstance(t, Zero):
        return Zero._of(_array(t._probe, target, copy), t.shape)
    frame = t._frame()
    return IndexedSlices._of(_frame(frame, target, copy))


def _frame(frame: Frame, target: Backend, copy: bool | None) -> Frame:
    ids = tuple(_ids(i, frame.shape[a], a, target, copy) for a, i in zip(frame.axes, frame.ids, strict=True))
    return frame._replace(ids=ids, values=_array(frame.values, target, copy))


def _ids(ids: Array, size: int, axis: int, target: Backend, copy: bool | None) -> Array:
    """Indices, in int32 where the library has nothing wider."""
    like = target.xp.zeros((0,))
    check_size(size, axis, target, like)
    source = backend_of(ids)
    wide = target.xp.iinfo(target.kernels.index_dtype(like)).bits // 8
    if facts(source, ids.dtype).itemsize > wide:
        ids = source.xp.astype(ids, source.xp.int32)
    return _array(ids, target, copy)


def _dtype(backend: Backend, name: str) -> Any:
    if name == "bfloat16" and backend.name == "numpy":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return getattr(backend.xp, name)


def _array(x: Array, target: Backend, copy: bool | None) -> Array:
    source = backend_of(x)
    if not source.kernels.concrete(x):
        raise TypeError(f"a traced array of {source.name} has no values to convert")
    if source is target:
        return target.xp.asarray(x, copy=True) if copy else x
    if getattr(x, "requires_grad", False):
        raise TypeError("a tensor on the tape is not converted, since its gradient would be lost; detach() it first")
    if hasattr(x, "resolve_conj"):
        x = x.resolve_conj().resolve_neg()
    name = dtype_name(x)
    if name == "bfloat16" and "numpy" in (source.name, target.name):
        # NumPy's extension type does not cross DLPack; its bits do.
        bits = _array(x.view(_dtype(source, "int16")), target, copy)
        return bits.view(_dtype(target, name))
    if not hasattr(target.xp, name):
        raise TypeError(f"{target.name} holds no {name}; cast first, with astype")
    moved = _moved(x, source, target, copy)
    if dtype_name(moved) != name:
        raise TypeError(
            f"{target.name} holds no {name} as it is set up (it gives {dtype_name(moved)}); cast first, with astype"
        )
    return moved


def _moved(x: Array, source: Backend, target: Backend, copy: bool | None) -> Array:
    """The array through DLPack, or through a copy on the host where that has no way."""
    try:
        if copy:
            x = source.xp.asarray(x, copy=True)
        _refuse_unsafe(x)
        return target.xp.from_dlpack(x, **({"copy": False} if copy is False else {}))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if copy is False:
            raise ValueError(f"{source.name} and {target.name} cannot share this array of {dtype_name(x)}: {error}") from error
    host = np.array(_on_host(x))
    return host if target.name == "numpy" else target.xp.asarray(host)


def _refuse_unsafe(x: Array) -> None:
    """What a receiver would write into all the same, and what makes torch abort the process."""
    if isinstance(x, np.ndarray) and not (x.flags.writeable and min(x.strides, default=0) >= 0):
        raise BufferError("it is read-only or has a negative stride")


def _on_host(x: Array) -> Any:
    if hasattr(x, "cpu"):
        return x.cpu().numpy()
    return x.get() if hasattr(x, "get") else x
