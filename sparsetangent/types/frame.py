"""The record that the algebra works on: a sum of n slabs, each placed by its coordinates along the stored axes."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple

from ..backend import Backend, backend_of
from ..dtypes import facts
from ..kernels.base import Array

__all__ = ["Frame", "dense_axes_of", "nbytes"]


@cache
def dense_axes_of(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The axes of an array of `ndim` axes that are not stored: decided once for each choice, and asked by every call."""
    return tuple(a for a in range(ndim) if a not in axes)


class Frame(NamedTuple):
    """``dense[..., ids[0][i], ..., ids[1][i], ...] += values[i]``, summed over the n entries.

    The stored axes are indexed by `ids`, one array of shape ``(n,)`` each; the other axes are dense and follow the entry
    axis of `values` in their order. A dense axis of `values` may have size 1 and then stands for the whole axis: it is
    broadcast, never copied. Without a stored axis a frame is a sum of whole arrays; a dense array is one entry of it.
    """

    axes: tuple[int, ...]
    """The stored axes, ascending."""

    ids: tuple[Array, ...]
    values: Array
    shape: tuple[int, ...]

    unique: bool = False
    """Known to hold no coordinates twice (padding aside)."""

    ordered: bool = False
    """Known to ascend in the lexicographic order of `ids`, padding last."""

    padded: bool = False
    """May hold padding entries: their ids equal the axis sizes and their rows are zero."""

    def with_values(self, values: Array) -> Frame:
        """The frame with other values, without the half microsecond that ``_replace`` takes to look at names."""
        axes, ids, _, shape, unique, ordered, padded = self
        return tuple.__new__(Frame, (axes, ids, values, shape, unique, ordered, padded))

    @property
    def n(self) -> int:
        """The number of entries."""
        return int(self.values.shape[0])

    @property
    def dense_axes(self) -> tuple[int, ...]:
        """The axes that `values` holds, in its order."""
        return dense_axes_of(self.axes, len(self.shape))

    @property
    def stored_sizes(self) -> tuple[int, ...]:
        """The sizes of the stored axes."""
        shape = self.shape
        return tuple([shape[a] for a in self.axes])

    @property
    def dense_sizes(self) -> tuple[int, ...]:
        """The full sizes of the dense axes, whatever `values` holds of them."""
        shape = self.shape
        return tuple([shape[a] for a in dense_axes_of(self.axes, len(shape))])

    @property
    def backend(self) -> Backend:
        return backend_of(self.values)

    @property
    def concrete(self) -> bool:
        """Whether Python can see the coordinates, so that entries may be dropped; else shapes must stay static."""
        return self.backend.kernels.concrete(self.ids[0] if self.ids else self.values)

    @property
    def nbytes(self) -> int:
        """Bytes held, ids and values."""
        return sum(nbytes(x) for x in (*self.ids, self.values))


def nbytes(x: Array) -> int:
    """Bytes of an array's elements."""
    return int(prod(x.shape)) * facts(backend_of(x), x.dtype).itemsize
