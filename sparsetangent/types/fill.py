"""One number everywhere: the gradient of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import backend_of, is_array
from ..dtypes import facts
from ..kernels.base import Array, DType
from .axes import as_shape
from .frame import Frame
from .indexed_slices import IndexedSlices
from .tangent import Tangent, dtype_name, where

__all__ = ["Fill"]


class Fill(Tangent):
    """`value` at every place of `shape`.

    Parameters
    ----------
    value : Array of shape (), or a NumPy scalar
        A Python number is a `TypeError`: it has neither a dtype nor a backend.
    shape : tuple of int
        The dense array's shape.

    Raises
    ------
    TypeError
        If `value` is no array.
    ValueError
        If it has axes.

    Notes
    -----
    The adjoint of ``sum``: ``d sum(x) / d x[i] = 1`` for every i.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> (2 * st.Fill(np.asarray(1.5), (2, 3))).densify().tolist()
    [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]
    >>> st.Fill(np.float32(1), (2**50, 64))
    Fill(shape=(1125899906842624, 64), dtype=float32, numpy)
    >>> st.Fill(np.float32(1), (2**50, 64)).value.item()
    1.0
    """

    __slots__ = ("_shape", "_value")

    def __init__(self, value: Array, shape: Sequence[int]) -> None:
        if not is_array(value):
            raise TypeError(f"value must be an array of shape (), not {type(value).__name__}")
        if value.shape != ():
            raise ValueError(f"value must have shape (), not {tuple(value.shape)}")
        backend = backend_of(value)
        if facts(backend, value.dtype).kind == "other":
            raise TypeError(f"value must be bool or numeric, not {value.dtype}")
        self._value = backend.xp.asarray(value)
        self._shape = as_shape(shape)

    @classmethod
    def _of(cls, value: Array, shape: tuple[int, ...]) -> Fill:
        self = object.__new__(cls)
        self._value, self._shape = value, shape
        return self

    @property
    def value(self) -> Array:
        """The number, an array of shape ()."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._value.dtype

    @property
    def stored(self) -> int:
        return 1

    def _frame(self) -> Frame:
        values = backend_of(self._value).xp.reshape(self._value, (1,) * (len(self._shape) + 1))
        return Frame((), (), values, self._shape, unique=True, ordered=True)

    @property
    def density(self) -> float:
        return 1 / self.size if self.size else 0.0

    def to_slices(self) -> IndexedSlices:
        return IndexedSlices._of(self._frame())

    def _described(self) -> list[str]:
        return [f"shape={self._shape}", f"dtype={dtype_name(self._value)}", *where(self._value)]

    def __copy__(self) -> Fill:
        return Fill._of(self._value, self._shape)

    def __reduce__(self) -> Any:
        return Fill, (self._value, self._shape)
