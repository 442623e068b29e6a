"""Manipulations that are made of the primitive ones: a broadcast and a reshape, a roll, slices and their difference."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..backend import backend_of, device_of
from ..dtypes import facts
from ..kernels.base import Array
from ..registry import apply, implements
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from ..types.axes import as_axes, as_axis
from .dense import densify
from .fallback import library_function
from .frames import broadcast_shapes, distinct, expand
from .reshape import reshape
from .shapes import broadcast_to, concat, expand_dims, permute_dims, roll
from .wrap import as_tangent, held_array

__all__ = ["broadcast_arrays", "diff", "meshgrid", "moveaxis", "repeat", "tile", "unstack"]


@implements("moveaxis", Tangent)
def moveaxis(x: Tangent, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Any:
    """Axes moved to other positions, the rest in their order."""
    old, new = as_axes(source, x.ndim, "source"), as_axes(destination, x.ndim, "destination")
    if isinstance(source, tuple) != isinstance(destination, tuple) or len(old) != len(new):
        raise ValueError(f"source and destination must name equally many axes, not {source} and {destination}")
    order = [a for a in range(x.ndim) if a not in old]
    for position, a in sorted(zip(new, old, strict=True)):
        order.insert(position, a)
    return permute_dims(x, tuple(order))


@implements("repeat", Tangent)
def repeat(x: Tangent, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element so many times in a row: a broadcast over a new axis, merged with the old one."""
    if axis is None:
        return repeat(as_tangent(reshape(x, (-1,))), repeats, axis=0)
    number = as_axis(axis, x.ndim)
    if isinstance(repeats, Tangent):
        repeats = densify(repeats)  # as long as the axis that is repeated
    if isinstance(repeats, (list, tuple)):
        values = held_array(x)
        repeats = backend_of(values).xp.asarray(repeats, device=device_of(values))
    if not isinstance(repeats, int):
        return _repeat_each(x, repeats, number)
    if repeats < 0:
        raise ValueError(f"repeats must be at least 0, not {repeats}")
    before, size, after = x.shape[:number], x.shape[number], x.shape[number + 1 :]
    grown = broadcast_to(expand_dims(x, axis=number + 1), (*before, size, repeats, *after))
    return reshape(grown, (*before, size * repeats, *after))


def _repeat_each(x: Tangent, repeats: Array, axis: int) -> Any:
    """One count for each position of the axis: a read of the positions repeated."""
    values = held_array(x)
    backend = backend_of(values)
    if tuple(repeats.shape) not in ((), (1,), (x.shape[axis],)):
        raise ValueError(f"repeats must have one element or as many as axis {axis}: {x.shape[axis]}, not {repeats.shape}")
    if x.shape[axis] != 1 and tuple(repeats.shape) in ((), (1,)):
        return repeat(x, int(backend.xp.reshape(repeats, ())), axis=axis)
    line = backend.xp.arange(x.shape[axis], dtype=backend.kernels.index_dtype(values), device=device_of(values))
    return apply("take", x, backend.xp.repeat(line, backend.xp.reshape(repeats, (-1,))), axis=axis)


@implements("tile", Tangent)
def tile(x: Tangent, repetitions: tuple[int, ...], /) -> Any:
    """The whole several times along each axis: a broadcast over new axes, merged with the old ones."""
    counts = tuple(map(operator.index, repetitions if isinstance(repetitions, (tuple, list)) else (repetitions,)))
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    counts = (1,) * (ndim - len(counts)) + counts
    if any(n < 0 for n in counts):
        raise ValueError(f"repetitions must be at least 0, not {counts}")
    x = as_tangent(reshape(x, shape))
    x = expand_dims(x, axis=tuple(range(0, 2 * ndim, 2))) if ndim else x
    x = broadcast_to(x, tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return reshape(x, tuple(n * m for n, m in zip(counts, shape, strict=True)))


@implements("unstack", Tangent)
def unstack(x: Tangent, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, without it."""
    number = as_axis(axis, x.ndim)
    lead = (slice(None),) * number
    return tuple(x[(*lead, i, ...)] for i in range(x.shape[number]))


@implements("broadcast_arrays")
def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """All of them in their common shape."""
    shape = broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return tuple(_broadcast(x, shape) for x in arrays)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return broadcast_to(x, shape) if isinstance(x, Tangent) else backend_of(x).xp.broadcast_to(x, shape)


@implements("meshgrid")
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Vectors as arrays of a grid, each varying along its own axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f'indexing must be "xy" or "ij", not {indexing!r}')
    if any(len(x.shape) > 1 for x in arrays):
        raise ValueError(f"meshgrid takes vectors, not arrays of shapes {[tuple(x.shape) for x in arrays]}")
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = [1, 0]
    shapes = [tuple(-1 if i == place else 1 for i in range(len(arrays))) for place in places]
    lines = [
        reshape(x, s) if isinstance(x, Tangent) else backend_of(x).xp.reshape(x, s) for x, s in zip(arrays, shapes, strict=True)
    ]
    return broadcast_arrays(*lines)


@implements("diff")
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, `n` times; compact along stored axes too."""
    if n < 0:
        raise ValueError(f"n must be at least 0, not {n}")
    if n == 0:
        return x
    parts = [p for p in (prepend, x, append) if p is not None]
    number = as_axis(axis, len(x.shape))
    x = concat(parts, axis=number) if len(parts) > 1 else x
    if not isinstance(x, Tangent):
        return backend_of(x).xp.diff(x, axis=number, n=n)
    frame = x._frame()
    is_bool = facts(frame.backend, frame.values.dtype).kind == "bool"
    if is_bool:  # refused where the library refuses it
        frame.backend.xp.diff(frame.backend.xp.zeros((2,), dtype=x.dtype))
    if number not in frame.axes and not isinstance(x, (Fill, Zero)):
        return IndexedSlices._of(_diff_inside(distinct(frame) if is_bool else frame, number, n))
    lead = (slice(None),) * number
    for _ in range(n):
        right, left = x[(*lead, slice(1, None), ...)], x[(*lead, slice(0, max(x.shape[number] - 1, 0)), ...)]
        x = apply("not_equal" if is_bool else "subtract", right, left)
    return x


def _diff_inside(frame: Frame, axis: int, n: int) -> Frame:
    """The differences along a dense axis, of the values as they are."""
    frame = expand(frame, (axis,))
    values = frame.backend.xp.diff(frame.values, axis=1 + frame.dense_axes.index(axis), n=n)
    return frame._replace(values=values, shape=tuple(max(m - n, 0) if a == axis else m for a, m in enumerate(frame.shape)))


@implements("fftshift", Tangent)
def fftshift(x: Tangent, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The zero frequency moved to the middle."""
    return _shifted("fftshift", x, axes)


@implements("ifftshift", Tangent)
def ifftshift(x: Tangent, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes)


def _shifted(name: str, x: Tangent, axes: int | Sequence[int] | None) -> Any:
    chosen = as_axes(tuple(axes) if isinstance(axes, list) else axes, x.ndim)
    xp, sign = x._frame().backend.xp, 1 if name == "fftshift" else -1
    library_function(xp, name)(xp.zeros((1,), dtype=x.dtype))  # refuses the dtypes that the library refuses
    return roll(x, tuple(sign * (x.shape[a] // 2) for a in chosen), axis=chosen) if chosen else x
