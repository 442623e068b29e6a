"""Sums of many gradients, at once (`add_n`) or as they arrive (`Accumulator`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from .algebra.dense import add_frame_into, dense_of
from .algebra.frames import coalesce, frame_of_array, promote
from .algebra.sums import concat_entries, join_entries
from .algebra.wrap import operand_frames
from .algebra.zeros import result_dtype
from .backend import common_backend
from .dtypes import facts
from .kernels.base import Array, DType
from .types import Fill, Frame, IndexedSlices, Tangent, Zero
from .types.axes import as_shape
from .types.one_hot import is_weak

__all__ = ["Accumulator", "add_n"]


def add_n(items: Iterable[Tangent | Array | None]) -> Any:
    """The sum of gradients, joined at once: the cost is linear in what is added, however many there are.

    Parameters
    ----------
    items : iterable of Tangent, Array or None
        All of one shape and library, of any dtypes; None counts as zero. An item may stand there more than once.

    Returns
    -------
    Tangent, Array or None
        Compact if every item is, else a new dense array; None if there is nothing but None. float16 and bfloat16 are
        summed in float32 and rounded once.

    Raises
    ------
    ValueError
        If the shapes differ.
    TypeError
        If an item is no array or tangent, or the libraries differ.

    Notes
    -----
    ``sum(items)``, without the intermediate sums.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1]), np.array([2.0]), (1000,))
    >>> st.add_n([t, None, t, t]).coalesce().values.tolist()
    [6.0]
    >>> st.add_n([t, np.zeros(1000)])[1].item()
    2.0
    """
    given = [x for x in items if x is not None]
    if not given:
        return None
    frames = operand_frames(*given)
    shapes = {f.shape for f in frames}
    if len(shapes) > 1:
        raise ValueError(f"add_n needs items of one shape, not {sorted(shapes)}")
    if len(given) == 1:
        return given[0]
    backend = frames[0].backend
    dtype = frames[0].values.dtype
    for f in frames[1:]:
        dtype = result_dtype("add", f, dtype, f.values.dtype)
    compact = [promote(f, dtype) for x, f in zip(given, frames, strict=True) if isinstance(x, Tangent)]
    dense = [promote(f, dtype) for x, f in zip(given, frames, strict=True) if not isinstance(x, Tangent)]
    if not dense:
        if all(isinstance(x, Zero) for x in given):
            return Zero(frames[0].shape, like=frames[0].values, dtype=dtype)
        return IndexedSlices._of(join_entries(compact, dtype))
    held = backend.kernels.accumulator(dtype)
    total = backend.xp.astype(promote(dense[0], held).values[0, ...], held, copy=True)
    # The compact ones among themselves first: each may be small beside the arrays.
    joined = [join_entries([promote(f, held) for f in compact], held)] if compact else []
    for f in (*(promote(f, held) for f in dense[1:]), *joined):
        total = add_frame_into(total, f)
    return backend.xp.astype(total, dtype, copy=False)


class _Part:
    """The compact gradients with the same stored axes: what has been merged, and what waits for that."""

    __slots__ = ("_count", "_waiting", "merged", "nbytes")

    def __init__(self, frame: Frame) -> None:
        self._waiting: list[Frame] = []
        self._merge(frame)

    def _merge(self, frame: Frame) -> None:
        self.merged = coalesce(frame)
        self.nbytes = self.merged.nbytes
        self._waiting.clear()
        self._count = 0

    @property
    def n(self) -> int:
        return self.merged.n + self._count

    def add(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self._count += frame.n
        self.nbytes += frame.nbytes
        if self._count > self.merged.n:
            self.settle()

    def settle(self) -> Frame:
        """Merge what waits."""
        if self._waiting:
            self._merge(concat_entries([self.merged, *self._waiting]))
        return self.merged


class Accumulator:
    """The sum of gradients that arrive one by one, compact as long as that takes fewer bytes than the dense array.

    Entries wait until there are more of them than merged ones, and are then merged with those: never are more rows stored than
    twice the distinct ones (for each choice of stored axes), and all merging together costs at most twice the entries added.

    Parameters
    ----------
    shape : tuple of int, optional
        The shape of what will be added; by default that of `like`, else that of the first addition.
    like : Array or Tangent, optional
        Of any shape and dtype. The sum starts as ``Zero(shape, like=like)``, which gives the library, the device and a part in the promotion.

    Raises
    ------
    TypeError
        If `like` is neither an array nor a tangent.

    Notes
    -----
    ``value() == sum(added)``. float16 and bfloat16 are held in float32 and rounded once, by `value`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> total = st.Accumulator()
    >>> for k in range(100):
    ...     total.add(st.IndexedSlices(np.array([k % 3, 7]), np.array([1.0, 2.0]), (1000,)))
    >>> total.stored <= 2 * 4, total.value().values.tolist()
    (True, [34.0, 33.0, 33.0, 200.0])

    ``None`` is zero, and an array makes the sum dense:

    >>> total.add(None)
    >>> total.add(np.ones(1000))
    >>> total.value()[7].item()
    201.0
    >>> total.shape, total.dtype, total.nbytes
    ((1000,), dtype('float64'), 8000)
    """

    __slots__ = ("_dense", "_dtype", "_parts", "_probe", "_shape", "_weak")

    def __init__(self, shape: Sequence[int] | None = None, *, like: Tangent | Array | None = None) -> None:
        self._shape = None if shape is None else as_shape(shape)
        self._parts: dict[tuple[int, ...], _Part] = {}
        self._dense: Array | None = None
        self._probe: Zero | None = None
        self._dtype: DType | None = None
        self._weak = False
        if like is not None:
            self._probe = Zero(self._shape or (), like=like)
            self._shape = tuple(like.shape) if self._shape is None else self._shape
            self._dtype, self._weak = like.dtype, is_weak(like)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the sum; None before it is known."""
        return self._shape

    @property
    def dtype(self) -> DType | None:
        """The dtype of the sum; None before it is known."""
        return self._dtype

    @property
    def stored(self) -> int:
        """The number of compact entries held."""
        return sum(part.n for part in self._parts.values())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = sum(part.nbytes for part in self._parts.values())
        return parts if self._dense is None else parts + frame_of_array(self._dense).nbytes

    def add(self, t: Tangent | Array | None, copy: bool = False) -> None:
        """Add a gradient.

        Parameters
        ----------
        t : Tangent, Array or None
            None is zero. It is never written to.
        copy : bool
            Copy the arrays of `t` now. By default they may be held until they are merged, so an engine that overwrites its
            gradient buffers needs True.

        Raises
        ------
        ValueError
            If the shape is not that of the sum.
        TypeError
            If `t` is no tangent, array or None, or of another library. In both cases the sum stays as it was.
        """
        if t is None:
            return
        frame, dtype = self._admitted(t)
        kernels = frame.backend.kernels
        held = kernels.accumulator(dtype)
        if dtype != self._dtype:
            self._cast(held)
        self._weak = is_weak(t) and (self._weak or self._dtype is None)
        self._shape, self._dtype = frame.shape, dtype
        if self._probe is None:
            self._probe = Zero((), like=frame.values)
        if not frame.n:
            return
        frame = promote(_copied(frame) if copy else frame, held)
        if not isinstance(t, Tangent):
            self._flush(frame)
        elif self._dense is not None and kernels.mutable:
            self._dense = add_frame_into(self._dense, frame)
        else:
            self._join(frame)
            dense_nbytes = prod(frame.shape) * facts(frame.backend, held).itemsize
            if sum(part.nbytes for part in self._parts.values()) > dense_nbytes:
                self._flush()

    def value(self) -> Any:
        """The sum so far; later additions do not change it.

        Returns
        -------
        Tangent, Array or None
            A compact sum has each coordinate once, ascending, if all additions had the same stored axes; a dense one is a new
            array. With nothing added `Zero`, or None if not even a shape is known.
        """
        if self._shape is None:
            return None
        if self._dense is not None:
            self._flush()
            return frame_of_array(self._dense).backend.xp.astype(self._dense, self._dtype, copy=True)
        frames = [part.settle() for part in self._parts.values()]
        if not frames:
            return Zero(self._shape, like=self._probe, dtype=self._dtype)
        total = frames[0] if len(frames) == 1 else join_entries(frames, frames[0].values.dtype)
        total = promote(total, self._dtype)
        if not total.axes and prod(total.values.shape) == 1:
            return Fill._of(total.backend.xp.reshape(total.values, ()), total.shape)
        return IndexedSlices._of(total)

    def __repr__(self) -> str:
        how = "dense" if self._dense is not None else f"stored={self.stored}"
        return f"Accumulator(shape={self._shape}, dtype={self._dtype}, {how})"

    def _admitted(self, t: Tangent | Array) -> tuple[Frame, DType]:
        """The frame of an addition and the dtype of the sum with it; raises before anything is changed."""
        if is_weak(t) and self._dtype is not None and not self._weak:
            t = t.astype(self._dtype)
        (frame,) = operand_frames(t)
        if self._shape is not None and frame.shape != self._shape:
            raise ValueError(f"an Accumulator of shape {self._shape} cannot add a gradient of shape {frame.shape}")
        if self._probe is not None:
            common_backend(self._probe._frame().values, frame.values)
        if self._dtype is None or self._weak:
            return frame, frame.values.dtype
        return frame, result_dtype("add", frame, self._dtype, frame.values.dtype)

    def _cast(self, held: DType) -> None:
        """Go on in another dtype. Casting wrapped integers is not casting their summands, so what waits is merged first."""
        self._parts = {axes: _Part(promote(part.settle(), held)) for axes, part in self._parts.items()}
        if self._dense is not None:
            self._dense = promote(frame_of_array(self._dense), held).values[0, ...]

    def _join(self, frame: Frame) -> None:
        if frame.axes in self._parts:
            self._parts[frame.axes].add(frame)
        else:
            self._parts[frame.axes] = _Part(frame)

    def _flush(self, *more: Frame) -> None:
        """Hold everything, and `more`, in the dense array, which is made if there is none."""
        for frame in (*more, *(part.settle() for part in self._parts.values())):
            self._dense = dense_of(frame) if self._dense is None else add_frame_into(self._dense, frame)
        self._parts = {}


def _copied(frame: Frame) -> Frame:
    xp = frame.backend.xp
    ids = tuple(xp.astype(i, i.dtype, copy=True) for i in frame.ids)
    return frame._replace(ids=ids, values=xp.astype(frame.values, frame.values.dtype, copy=True))
