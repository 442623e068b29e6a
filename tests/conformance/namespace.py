"""A namespace whose new arrays are tangents in disorder: the official suite then exercises the algebra wherever it makes an array."""

from __future__ import annotations

import importlib
import sys
import zlib
from typing import Any

import array_api_compat
import numpy as np

import sparsetangent as st
from sparsetangent.testing.oracle import to_numpy

__all__ = ["BACKENDS", "ConformanceNamespace", "in_disorder", "split"]

BACKENDS = {
    "numpy": "array_api_compat.numpy",
    "torch": "array_api_compat.torch",
    "array_api_strict": "array_api_strict",
}


def split(x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two summands of the dtype of `x` whose sum is exactly `x`; infinities, nan and -0 have none.

    Floats are halved, so that a product with another number is exactly what the parts' products add up to, which the suite asks for.
    Integers are parted anywhere, since they wrap.
    """
    if x.dtype.kind == "b":
        return x, x & (rng.random(x.shape) < 0.5)
    if x.dtype.kind == "c":
        (a, c), (b, d) = split(x.real, rng), split(x.imag, rng)
        return _complex(a, b, x.dtype), _complex(c, d, x.dtype)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        first = rng.integers(limits.min, limits.max, x.shape, dtype=x.dtype, endpoint=True)
        return first, x - first
    first = x / x.dtype.type(2)
    return first, np.where(x == 0, x, x - first)


def _complex(real: np.ndarray, imag: np.ndarray, dtype: Any) -> np.ndarray:
    result = np.empty(real.shape, dtype)
    result.real, result.imag = real, imag
    return result


def in_disorder(dense: Any, *, stored: bool = False) -> st.IndexedSlices:
    """A dense array as slices along some axes: those that are zero left out, some split in two, some ids negative, all shuffled.

    The same array always gives the same slices. Zero is +0 alone; -0 is stored. With `stored` every element is, once. Where nothing was
    split the slices are known not to repeat.
    """
    x = np.asarray(to_numpy(dense))
    rng = np.random.default_rng(zlib.crc32(x.tobytes(), x.ndim))
    axes = tuple(range(x.ndim)) if stored else _some_axes(x.ndim, rng)
    inner = tuple(a for a in range(x.ndim) if a not in axes)
    held = np.ones([x.shape[a] for a in axes], bool) if stored else _not_zero(x).any(axis=inner)
    ids = np.stack(np.nonzero(held)) if axes else np.zeros((0, int(held)), np.int64)
    rows = x.transpose(*axes, *inner)[tuple(ids)] if axes else x[None][: int(held)]

    whole = ~np.isfinite(rows) | (_not_zero(rows) & (rows == 0))  # a sum begins at +0, so nothing adds up to -0
    parted = (rng.random(len(rows)) < (0 if stored else 0.5)) & ~whole.any(axis=tuple(range(1, rows.ndim)))
    first, second = split(rows[parted], rng)
    rows = rows.copy()
    rows[parted] = first
    rows, ids = np.concatenate([rows, second]), np.concatenate([ids, ids[:, parted]], axis=1)
    order = rng.permutation(len(rows))
    rows, ids = rows[order], ids[:, order]
    sizes = np.array([x.shape[a] for a in axes], np.int64)[:, None]
    ids = ids - sizes * (rng.random(ids.shape) < 0.3)

    xp, device = array_api_compat.array_namespace(dense), array_api_compat.device(dense)
    values = xp.asarray(xp.asarray(rows), dtype=dense.dtype, device=device)
    return st.IndexedSlices(
        tuple(xp.asarray(i, device=device) for i in ids), values, x.shape, axis=axes, unique=not parted.any()
    )


def _some_axes(ndim: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Most often the first axis, sometimes others, all of them or none."""
    if not ndim:
        return ()
    chosen: tuple[tuple[int, ...], ...] = ((0,), (0,), (ndim - 1,), tuple(range(ndim)), (), tuple({0, ndim - 1}))
    return tuple(sorted(chosen[rng.integers(len(chosen))]))


def _not_zero(x: np.ndarray) -> np.ndarray:
    """Where something must be stored: -0 too, which an implicit zero is not."""
    if x.dtype.kind == "c":
        return _not_zero(x.real) | _not_zero(x.imag)
    return (x != 0) | np.signbit(x) if x.dtype.kind == "f" else x != 0


class ConformanceNamespace:
    """`sparsetangent.namespace` of a backend, with tangents in disorder from `asarray`, `arange` and `linspace`."""

    def __init__(self, backend: str, *, stored: bool = False) -> None:
        self.__name__ = f"sparsetangent on {backend}"
        self._dense = importlib.import_module(BACKENDS[backend])
        self._tangents = st.namespace(self._dense)
        self._stored = stored

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tangents, name)

    def __dir__(self) -> list[str]:
        return dir(self._tangents)

    def _in_disorder(self, dense: Any) -> Any:
        return in_disorder(dense, stored=self._stored)

    def asarray(self, obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
        """A tangent in disorder of Python numbers; tangents and arrays are handed on."""
        if _has_array(obj):
            return self._tangents.asarray(obj, dtype=dtype, device=device, copy=copy)
        return self._in_disorder(self._dense.asarray(obj, dtype=dtype, device=device, copy=copy))

    def arange(self, start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
        return self._in_disorder(self._dense.arange(start, stop, step, dtype=dtype, device=device))

    def linspace(
        self, start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
    ) -> Any:
        return self._in_disorder(self._dense.linspace(start, stop, num, dtype=dtype, device=device, endpoint=endpoint))

    def reshape(self, x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
        """Hypothesis draws lines and reshapes them, which would leave every axis stored: its arrays are put in disorder anew."""
        if sys._getframe(1).f_globals.get("__name__", "").startswith("hypothesis.") and isinstance(x, st.Tangent):
            return self._in_disorder(self._dense.reshape(x.densify(), shape))
        return self._tangents.reshape(x, shape) if copy is None else self._tangents.reshape(x, shape, copy=copy)


def _has_array(obj: Any) -> bool:
    """Whether an array or a tangent stands anywhere in nested sequences."""
    if isinstance(obj, (list, tuple)):
        return any(map(_has_array, obj))
    return hasattr(obj, "shape") or hasattr(obj, "__array__") or isinstance(obj, memoryview)
