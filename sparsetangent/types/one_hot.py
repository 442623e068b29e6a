"""One 1 per fibre: the compact form of labels, and of a gather written as a product."""

from __future__ import annotations

import operator
from math import prod
from typing import Any, Literal

from ..backend import backend_of, device_of, is_array
from ..dtypes import as_dtype
from ..kernels.base import Array, DType
from .axes import as_axis
from .frame import Frame
from .indexed_slices import IndexedSlices, refuse_corrupted
from .indices import Validate, as_index_array, check_ids, check_size
from .tangent import Tangent, where

__all__ = ["OneHot", "is_weak"]


class OneHot(Tangent):
    """A 1 at ``indices[...]`` along `axis`, 0 elsewhere; the shape is ``indices.shape`` with `depth` put in at `axis`.

    Parameters
    ----------
    indices : Array of integers
        Any shape; ``0 <= i < depth``. Negatives are out of range, since -1 and -100 mean padding in this field.
    depth : int
        The length of the new axis.
    axis : int
        Where the new axis goes, in the result's axes.
    dtype : dtype, optional
        None is weak: the other operand's dtype in an operation, and the backend's default float alone. ``bool`` follows
        bool arithmetic.
    mode : {"raise", "drop"}
        What an index out of range does: raise, or give a fibre of zeros, in value and gradient alike.
    validate : bool or "now"
        As for `IndexedSlices`.

    Raises
    ------
    TypeError
        Indices not integers.
    IndexError
        An index out of range in mode ``"raise"``.
    ValueError
        A negative depth, an axis out of range, or an unknown mode.

    Notes
    -----
    ``dense[..., j, ...] = (indices[...] == j)``, Iverson's bracket.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.OneHot(np.array([2, 0]), 3).densify().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    A product is a gather:

    >>> (st.OneHot(np.array([2, 0]), 3) @ np.array([[1, 2], [3, 4], [5, 6]])).tolist()
    [[5, 6], [1, 2]]
    >>> t = st.OneHot(np.array([2, 0]), 3)
    >>> t.indices.tolist(), t.depth, t.axis, t.weak, t.unique
    ([2, 0], 3, 1, True, True)
    """

    __slots__ = ("_axis", "_checked", "_depth", "_dtype", "_indices", "_padded")

    def __init__(
        self,
        indices: Any,
        depth: int,
        *,
        axis: int = -1,
        dtype: DType = None,
        mode: Literal["raise", "drop"] = "raise",
        validate: Validate = True,
    ) -> None:
        if mode not in ("raise", "drop"):
            raise ValueError(f'mode must be "raise" or "drop", not {mode!r}')
        depth = operator.index(depth)
        if depth < 0:
            raise ValueError(f"depth must be at least 0, not {depth}")
        if not is_array(indices):
            import numpy as np

            indices = as_index_array(indices, np.zeros(0))
        backend = backend_of(indices)
        self._axis = as_axis(axis, indices.ndim + 1)
        check_size(depth, self._axis, backend, indices)
        ids, self._padded = check_ids(
            as_index_array(indices, indices),
            depth,
            self._axis,
            validate=validate or mode == "drop",
            negatives=False,
            drop=mode == "drop",
        )
        self._indices, self._depth = ids, depth
        self._dtype = None if dtype is None else as_dtype(backend, dtype)
        self._checked = True

    @classmethod
    def _of(cls, indices: Array, depth: int, axis: int, dtype: DType | None, padded: bool, *, checked: bool = True) -> OneHot:
        self = object.__new__(cls)
        self._indices, self._depth, self._axis = indices, depth, axis
        self._dtype, self._padded, self._checked = dtype, padded, checked
        return self

    @property
    def indices(self) -> Array:
        """The positions of the ones, an array of integers."""
        return self._indices

    @property
    def depth(self) -> int:
        """The length of the axis that is one-hot."""
        return self._depth

    @property
    def axis(self) -> int:
        """The axis of the ones, counted from the front."""
        return self._axis

    @property
    def weak(self) -> bool:
        """Whether the dtype is the other operand's."""
        return self._dtype is None

    @property
    def shape(self) -> tuple[int, ...]:
        batch = tuple(self._indices.shape)
        return (*batch[: self._axis], self._depth, *batch[self._axis :])

    @property
    def dtype(self) -> DType:
        return self._ones_dtype(self._dtype)

    @property
    def stored(self) -> int:
        return prod(self._indices.shape)

    @property
    def unique(self) -> bool:
        """Whether no coordinates repeat: always true here."""
        return True

    def _ones_dtype(self, dtype: DType | None) -> DType:
        """`dtype`, or the backend's default float."""
        xp = backend_of(self._indices).xp
        return xp.empty((0,)).dtype if dtype is None else dtype

    def _with_dtype(self, dtype: DType) -> OneHot:
        return OneHot._of(self._indices, self._depth, self._axis, dtype, self._padded)

    def _frame(self) -> Frame:
        """Every axis stored: the batch axes by their positions, the depth by the indices."""
        if not self._checked:
            refuse_corrupted(Frame((0,), (self._indices,), self._indices, self.shape))
            self._checked = True
        indices = self._indices
        xp = backend_of(indices).xp
        device = device_of(indices)
        flat = xp.reshape(indices, (-1,))
        batch = tuple(indices.shape)
        coords = []
        for k, size in enumerate(batch):
            line = xp.arange(size, dtype=flat.dtype, device=device)
            line = xp.reshape(line, (size, *(1,) * (len(batch) - k - 1)))
            coords.append(xp.reshape(xp.broadcast_to(line, batch), (-1,)))
        coords.insert(self._axis, flat)
        values = xp.ones((self.stored,), dtype=self._ones_dtype(self._dtype), device=device)
        if self._padded:
            inside = flat < self._depth
            values = xp.astype(inside, values.dtype)
            coords = [xp.where(inside, c, xp.asarray(n, dtype=c.dtype)) for c, n in zip(coords, self.shape, strict=True)]
        ordered = self._axis == len(batch) and not self._padded
        return Frame(tuple(range(len(batch) + 1)), tuple(coords), values, self.shape, True, ordered, self._padded)

    def to_slices(self) -> IndexedSlices:
        return IndexedSlices._of(self._frame())

    def _described(self) -> list[str]:
        dtype = "weak" if self.weak else str(self._dtype).rpartition(".")[2]
        parts = [f"depth={self._depth}", f"axis={self._axis}", f"dtype={dtype}", *where(self._indices)]
        return [f"shape={self.shape}", *parts] if is_array(self._indices) else parts

    def __copy__(self) -> OneHot:
        return OneHot._of(self._indices, self._depth, self._axis, self._dtype, self._padded, checked=self._checked)

    def __reduce__(self) -> Any:
        return _restore, (self._indices, self._depth, self._axis, self._dtype, self._padded)


def is_weak(x: Any) -> bool:
    """Whether an operand is a one-hot without a dtype of its own."""
    return isinstance(x, OneHot) and x.weak


def _restore(indices: Array, depth: int, axis: int, dtype: DType | None, padded: bool) -> OneHot:
    return OneHot(indices, depth, axis=axis, dtype=dtype, mode="drop" if padded else "raise")
