"""What a tangent stands for, by a literal loop, and comparison with it. Nothing here calls the library's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of
from ..dtypes import facts
from ..kernels.base import Array, Namespace
from ..types import Tangent

__all__ = ["as_backend", "assert_same", "close", "loop_densify", "relative_tolerance", "stored_mask", "to_numpy"]

# Relative error of a short chain of operations, by width of the real dtype in bytes; bfloat16 apart.
_TOLERANCE = {2: 4e-3, 4: 2e-5, 8: 1e-11, 16: 1e-11}


def to_numpy(x: Array) -> Any:
    """An array of any backend as a NumPy array of the same values (bfloat16 as float32).

    Parameters
    ----------
    x : Array
        Of any shape and dtype, on any device, with or without a gradient.

    Returns
    -------
    numpy.ndarray
        On the CPU; it may share memory.

    Raises
    ------
    AttributeError
        If `x` is no array.

    Examples
    --------
    >>> import array_api_strict as xp, torch, sparsetangent as st
    >>> st.testing.to_numpy(xp.asarray([1.0, 2.0]))
    array([1., 2.])
    >>> st.testing.to_numpy(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    array([1., 1.], dtype=float32)
    """
    if hasattr(x, "detach"):
        x = x.detach().resolve_conj().resolve_neg()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
        return x.cpu().numpy()
    if hasattr(x, "get") and not isinstance(x, np.ndarray):
        return x.get()
    result = np.asarray(x) if hasattr(x, "__array__") or isinstance(x, np.generic) else np.from_dlpack(x)
    return result.astype(np.float32) if result.dtype.name == "bfloat16" else result


def as_backend(xp: Namespace, x: Any, dtype: Any) -> Array:
    """A NumPy array as an array of another backend.

    Parameters
    ----------
    xp : namespace
        Of the backend.
    x : numpy.ndarray
        Of any shape.
    dtype : dtype
        That backend's, or for NumPy any.

    Returns
    -------
    Array
        Of the shape of `x` and of `dtype`.

    Raises
    ------
    TypeError
        If the library has no such dtype.

    Examples
    --------
    >>> import numpy as np, array_api_strict as xp
    >>> from sparsetangent.testing.oracle import as_backend
    >>> as_backend(np, np.arange(2), np.float32)
    array([0., 1.], dtype=float32)
    >>> as_backend(xp, np.arange(2), xp.float32).dtype == xp.float32
    True
    """
    if xp.__name__.endswith("numpy") and "jax" not in xp.__name__:
        return np.asarray(x).astype(dtype, copy=False)
    return xp.asarray(xp.asarray(np.array(x)), dtype=dtype)


def loop_densify(t: Tangent) -> Any:
    """The dense NumPy array of a tangent: zeros, and one addition for each stored element, in float64.

    Integers wrap as their dtype does and bools are or-ed. Where no id repeats by what `t` says, the first element at a place is put, so
    that -0.0 stays one; a sum begins at +0.

    Parameters
    ----------
    t : Tangent
        Of any library, shape and dtype; small, since every element costs a step of a loop in Python.

    Returns
    -------
    numpy.ndarray
        Of the shape and dtype of `t` (bfloat16: float32).

    Raises
    ------
    AttributeError
        If `t` is no tangent.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.testing.loop_densify(st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,)))
    array([0., 5., 0.])
    >>> st.testing.loop_densify(st.IndexedSlices(np.array([0, 0]), np.array([200, 100], np.uint8), (1,)))
    array([44], dtype=uint8)
    """
    slices = t.to_slices()
    values, coords = to_numpy(slices.values), [to_numpy(c) for c in slices.coords]
    kind = values.dtype.kind
    wide = {"f": np.float64, "c": np.complex128}.get(kind, values.dtype)
    dense = np.zeros(t.shape, np.longdouble if values.dtype == np.longdouble else wide)
    untouched = np.full(t.shape, slices.unique)
    with np.errstate(all="ignore"):
        for entry in range(values.shape[0]):
            place: list[Any] = [slice(None)] * len(t.shape)
            for axis, ids in zip(slices.axis, coords, strict=True):
                place[axis] = int(ids[entry])
            if any(isinstance(i, int) and i >= n for i, n in zip(place, t.shape, strict=True)):
                continue  # padding
            at, row = tuple(place), values[entry].astype(dense.dtype)
            total = dense[at] | row if kind == "b" else dense[at] + row
            dense[at] = np.where(untouched[at], row, total)
            untouched[at] = False
        return dense.astype(values.dtype)


def stored_mask(t: Tangent) -> Any:
    """Where a tangent stores something.

    Parameters
    ----------
    t : Tangent
        Of any library, shape and dtype.

    Returns
    -------
    numpy.ndarray of bool
        Of the shape of `t`.

    Raises
    ------
    AttributeError
        If `t` is no tangent.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.testing.oracle.stored_mask(st.IndexedSlices(np.array([1]), np.array([0.0]), (3,)))
    array([False,  True, False])
    >>> st.testing.oracle.stored_mask(st.Zero((2,)))
    array([False, False])
    """
    slices = t.to_slices()
    mask = np.zeros(t.shape, bool)
    coords = [to_numpy(c) for c in slices.coords]
    for entry in range(slices.stored):
        place: list[Any] = [slice(None)] * len(t.shape)
        for axis, ids in zip(slices.axis, coords, strict=True):
            place[axis] = int(ids[entry])
        if all(not isinstance(i, int) or i < n for i, n in zip(place, t.shape, strict=True)):
            mask[tuple(place)] = True
    return mask


def close(actual: Any, expected: Any, *, rtol: float, atol: float) -> bool:
    """Whether NumPy arrays agree, nan with nan and infinities with their sign.

    Parameters
    ----------
    actual, expected : numpy.ndarray
        Of shapes that broadcast, any dtype.
    rtol, atol : float
        Relative to `expected`, and absolute.

    Returns
    -------
    bool
        True for empty arrays.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetangent.testing.oracle import close
    >>> close(np.array([1.0, np.nan]), np.array([1.0 + 1e-9, np.nan]), rtol=1e-6, atol=0)
    True
    >>> close(np.array([np.inf]), np.array([-np.inf]), rtol=1e-6, atol=0)
    False
    """
    with np.errstate(all="ignore"):
        return bool(np.all(np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)))


def assert_same(
    t: Any, dense: Array, *, rtol: float | None = None, atol: float | None = None, scale: float = 1.0, note: str = ""
) -> None:
    """Assert that a tangent or array equals a dense array in value, shape, dtype and device.

    Parameters
    ----------
    t : Tangent or Array
        What is tested, of any shape and dtype.
    dense : Array
        What it must equal, of the same library, shape and dtype.
    rtol, atol : float, optional
        Default: by the dtype, with `atol` times `scale`.
    scale : float
        The magnitude of what was added up, for cancellation.
    note : str
        Put in front of the message.

    Raises
    ------
    AssertionError
        Naming what differs, with both values.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1]), np.array([2.0]), (2,))
    >>> st.testing.assert_same(t, np.array([0.0, 2.0]))
    >>> st.testing.assert_same(t, np.array([0, 2]))
    Traceback (most recent call last):
        ...
    AssertionError: dtype float64 is not int64
    >>> st.testing.assert_same(t, np.array([0.0, 2.5]))
    Traceback (most recent call last):
        ...
    AssertionError: values differ: [0. 2.] is not [0.  2.5]
    """
    prefix = f"{note}: " if note else ""
    assert tuple(t.shape) == tuple(dense.shape), f"{prefix}shape {tuple(t.shape)} is not {tuple(dense.shape)}"
    assert t.dtype == dense.dtype, f"{prefix}dtype {t.dtype} is not {dense.dtype}"
    backend = backend_of(dense)
    eps = relative_tolerance(dense)
    if isinstance(t, Tangent):
        values = t.to_slices().values
        assert backend_of(values) is backend, f"{prefix}library {backend_of(values).name} is not {backend.name}"
        actual = loop_densify(t)
        checked = to_numpy(t.densify())
        assert close(actual, checked, rtol=eps, atol=eps * scale), (
            f"{prefix}densify gives {checked}, the stored entries {actual}"
        )
    else:
        assert backend_of(t) is backend, f"{prefix}library {backend_of(t).name} is not {backend.name}"
        actual = to_numpy(t)
    expected = to_numpy(dense)
    rtol, atol = eps if rtol is None else rtol, eps * scale if atol is None else atol
    assert close(actual, expected, rtol=rtol, atol=atol), f"{prefix}values differ: {actual} is not {expected}"


def relative_tolerance(x: Array) -> float:
    """The relative error allowed of a short chain of operations in a dtype.

    Parameters
    ----------
    x : Array
        Of any shape; its dtype counts.

    Returns
    -------
    float
        0 unless the dtype is floating or complex.

    Raises
    ------
    TypeError
        If `x` is no array.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetangent.testing.oracle import relative_tolerance
    >>> relative_tolerance(np.zeros(1, np.complex64))
    2e-05
    >>> relative_tolerance(np.zeros(1, int))
    0.0
    """
    kind, itemsize = facts(backend_of(x), x.dtype)
    if kind not in ("real", "complex"):
        return 0.0
    return 4e-2 if "bfloat16" in str(x.dtype) else _TOLERANCE[itemsize // (2 if kind == "complex" else 1)]
