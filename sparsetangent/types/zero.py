"""The symbolic zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import backend_of, device_of, is_array
from ..kernels.base import Array, DType, Namespace
from .axes import as_shape
from .frame import Frame
from .indexed_slices import IndexedSlices
from .tangent import Tangent, dtype_name, where

__all__ = ["Zero"]


class Zero(Tangent):
    """Zero everywhere; absorbs products and is neutral for sums, which keep its shape and dtype in the result's.

    Parameters
    ----------
    shape : tuple of int
        The dense array's shape.
    like : Array or Tangent, optional
        Of any shape. Gives the library, the device and (unless `dtype` is given) the dtype.
    dtype : dtype, optional
        Default: that of `like`, else the library's default float.
    xp : namespace, optional
        The library, where there is no `like`; NumPy with neither.
    device : optional
        Default: that of `like`, else the library's default.

    Raises
    ------
    TypeError
        If `like` is neither an array nor a tangent.

    Notes
    -----
    The additive identity of the tangent space at a point; ChainRules calls it ``ZeroTangent``, JAX a symbolic zero.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> zero = st.Zero((3, 2), dtype=np.float32)
    >>> zero * np.full((2,), np.inf)
    Zero(shape=(3, 2), dtype=float64, numpy)
    >>> (zero + np.float32([[1], [2], [3]])).tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """

    __slots__ = ("_probe", "_shape")

    def __init__(
        self,
        shape: Sequence[int],
        *,
        like: Any = None,
        dtype: DType | None = None,
        xp: Namespace | None = None,
        device: Any = None,
    ) -> None:
        if isinstance(like, Tangent):
            like = like._frame().values
        elif like is not None and not is_array(like):
            raise TypeError(f"like must be an array or a tangent, not {type(like).__name__}")
        if like is not None:
            xp = backend_of(like).xp
            dtype = like.dtype if dtype is None else dtype
            device = device_of(like) if device is None else device
        if xp is None:
            import array_api_compat.numpy  # half of what the package would take to import

            xp = array_api_compat.numpy
        self._shape = as_shape(shape)
        # An empty array carries library, dtype and device, and is all that there is to carry.
        self._probe = xp.zeros((0,), dtype=dtype, device=device)

    @classmethod
    def _of(cls, probe: Array, shape: tuple[int, ...]) -> Zero:
        self = object.__new__(cls)
        self._probe, self._shape = probe, shape
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._probe.dtype

    def _frame(self) -> Frame:
        values = backend_of(self._probe).xp.reshape(self._probe, (0, *(1,) * len(self._shape)))
        return Frame((), (), values, self._shape, unique=True, ordered=True)

    @property
    def nbytes(self) -> int:
        return 0

    def to_slices(self) -> IndexedSlices:
        return IndexedSlices._of(self._frame())

    def _described(self) -> list[str]:
        return [f"shape={self._shape}", f"dtype={dtype_name(self._probe)}", *where(self._probe)]

    def __copy__(self) -> Zero:
        return Zero._of(self._probe, self._shape)

    def __reduce__(self) -> Any:
        return _restore, (self._probe, self._shape)


def _restore(probe: Array, shape: tuple[int, ...]) -> Zero:
    """Unpickle through the constructor's checks."""
    if tuple(getattr(probe, "shape", (0,))) != (0,):
        raise ValueError(f"a Zero carries an empty array, not one of shape {tuple(probe.shape)}")
    return Zero(shape, like=probe)
