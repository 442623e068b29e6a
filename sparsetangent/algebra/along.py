"""Functions along axes that act on each line by itself: on the values where the axes are dense, on the dense array where one is stored.

Repeats are merged first for the transforms too, linear as they are: fewer lines to transform, and summands that cancel do so exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backend import device_of
from ..kernels.base import Array, DType
from ..registry import implements
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from ..types.axes import as_axes, as_axis
from .dense import implicit
from .fallback import call_dense, library_function
from .folds import group_entries
from .frames import blank_padding, distinct, expand, store, take_entries

__all__ = ["cumulative_prod", "cumulative_sum", "sort"]

Call = Callable[[Array, tuple[int, ...]], Array]


def _along(x: Tangent, name: str, axes: tuple[int, ...], call: Call, sizes: dict[int, int]) -> Any:
    """`call(array, axes)` for a function that maps lines of zeros to lines of zeros; `sizes` of the axes afterwards."""
    frame = x._frame()
    if isinstance(x, Fill) or any(a in frame.axes for a in axes):
        return call(implicit(x, name), axes)
    shape = tuple(sizes.get(a, n) for a, n in enumerate(frame.shape))
    if isinstance(x, Zero):
        return Zero(shape, like=x, dtype=call(_zeros(frame, [min(n, 2) for n in frame.shape]), axes).dtype)
    frame = expand(distinct(frame), axes)
    places = tuple(1 + frame.dense_axes.index(a) for a in axes)
    if frame.n:
        values = call(frame.values, places)
    else:
        values = call(_zeros(frame, (1, *frame.values.shape[1:])), places)[:0, ...]
    return IndexedSlices._of(frame._replace(values=values, shape=shape))


def _zeros(frame: Frame, shape: Sequence[int]) -> Array:
    return frame.backend.xp.zeros(tuple(shape), dtype=frame.values.dtype, device=device_of(frame.values))


def _axis_of(x: Tangent, axis: int | None, name: str) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name} needs an axis for a tangent of {x.ndim} axes")
    return as_axis(0 if axis is None else axis, x.ndim)


def _cumulative(name: str, x: Tangent, axis: int | None, dtype: DType | None, include_initial: bool) -> Any:
    number = _axis_of(x, axis, name)
    backend = x._frame().backend
    held = backend.kernels.accumulator(x.dtype)
    half = dtype is None and held != x.dtype
    function = library_function(backend.xp, name)

    def call(values: Array, axes: tuple[int, ...]) -> Array:
        wide = held if half else dtype
        result = function(values, axis=axes[0], dtype=wide, include_initial=include_initial)
        return backend.xp.astype(result, values.dtype) if half else result

    return _along(x, name, (number,), call, {number: x.shape[number] + include_initial})


@implements("cumulative_sum", Tangent)
def cumulative_sum(x: Tangent, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False) -> Any:
    """Sums of the first elements along an axis."""
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


@implements("cumulative_prod", Tangent)
def cumulative_prod(
    x: Tangent, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Any:
    """Products of the first elements along an axis; with the initial 1 dense, since then no line is zero."""
    if include_initial:
        number = _axis_of(x, axis, "cumulative_prod")
        return call_dense("cumulative_prod", x, axis=number, dtype=dtype, include_initial=True)
    return _cumulative("cumulative_prod", x, axis, dtype, False)


@implements("sort", Tangent)
def sort(x: Tangent, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Every line along an axis sorted; along a stored axis what is stored moves to the two ends, and zeros stay between."""
    number = as_axis(axis, x.ndim)
    frame = x._frame()
    xp = frame.backend.xp
    if isinstance(x, Fill):
        return x
    if number in frame.axes:
        return IndexedSlices._of(_sorted_along_stored(frame, number, descending))

    def call(values: Array, axes: tuple[int, ...]) -> Array:
        return xp.sort(values, axis=axes[0], descending=descending, stable=stable)

    return _along(x, "sort", (number,), call, {})


def _sorted_along_stored(frame: Frame, axis: int, descending: bool) -> Frame:
    """Each line's stored elements by size: those below zero count from its beginning, the others (nan too) from its end."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    frame = store(distinct(frame), frame.dense_axes)
    size, place = frame.shape[axis], frame.axes.index(axis)
    lines, _, line = group_entries(frame, tuple(a for a in frame.axes if a != axis))
    order = xp.argsort(frame.values, stable=True)
    order = xp.take(order, xp.argsort(xp.take(line, order, axis=0), stable=True), axis=0)
    frame, line = take_entries(frame, order), xp.take(line, order, axis=0)
    counts = kernels.densify(line, xp.ones_like(line), lines)
    starts = xp.cumulative_sum(counts) - counts
    rank = xp.arange(frame.n, dtype=line.dtype, device=device_of(line)) - kernels.gather(starts, line)
    position = xp.where(frame.values < 0, rank, size - kernels.gather(counts, line) + rank)
    if descending:
        position = size - 1 - position
    ids = tuple(xp.astype(position, i.dtype, copy=False) if k == place else i for k, i in enumerate(frame.ids))
    result = frame._replace(ids=ids, ordered=False)
    return blank_padding(result) if frame.padded else result


# The size of a transform's axis afterwards, of one of n points.
_SIZES: dict[str, Callable[[int], int]] = {"rfft": lambda n: n // 2 + 1, "ihfft": lambda n: n // 2 + 1}


def _transform(name: str) -> None:
    """Register a Fourier transform of one axis."""

    @implements(name, Tangent)
    def transform(x: Tangent, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        number = as_axis(axis, x.ndim)
        size = x.shape[number]
        points = n if n is not None else 2 * (size - 1) if name in ("irfft", "hfft") else size
        function = library_function(x._frame().backend.xp, name)

        def call(values: Array, axes: tuple[int, ...]) -> Array:
            return function(values, n=n, axis=axes[0], norm=norm)

        return _along(x, name, (number,), call, {number: _SIZES.get(name, int)(points)})


def _transforms(name: str) -> None:
    """Register a Fourier transform of several axes."""

    @implements(name, Tangent)
    def transform(
        x: Tangent, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Any:
        chosen = as_axes(None if axes is None else tuple(axes), x.ndim)
        if axes is None and s is not None:
            chosen = chosen[x.ndim - len(s) :]
        function = library_function(x._frame().backend.xp, name)
        sizes = dict(zip(chosen, (x.shape[a] for a in chosen) if s is None else s, strict=True))
        if chosen and name == "rfftn":
            sizes[chosen[-1]] = sizes[chosen[-1]] // 2 + 1
        elif chosen and name == "irfftn" and s is None:
            sizes[chosen[-1]] = 2 * (sizes[chosen[-1]] - 1)

        def call(values: Array, places: tuple[int, ...]) -> Array:
            return function(values, s=s, axes=places, norm=norm)

        return _along(x, name, chosen, call, sizes)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _transform(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _transforms(_name)
