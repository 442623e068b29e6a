"""Functions of the last two axes: triangles and diagonals are comparisons of coordinates; norms and powers are made of others."""

from __future__ import annotations

from math import inf
from typing import Any

from ..backend import backend_of, device_of
from ..kernels.base import Array, DType
from ..registry import apply, implements
from ..types import Fill, Frame, IndexedSlices, Tangent, Zero
from .fallback import call_dense, library_function
from .frames import blank_padding, expand, keep
from .join import read
from .reductions import sum_, vector_norm
from .shapes import permute_frame
from .wrap import held_array, settle

__all__ = ["diagonal", "matrix_norm", "matrix_power", "trace", "tril", "triu"]


def _refuse_vectors(x: Tangent, name: str) -> None:
    if x.ndim < 2:
        raise ValueError(f"{name} needs at least 2 axes, not {x.ndim}")


def _positions(frame: Frame, axis: int) -> Array:
    """The coordinates along an axis, shaped to broadcast with the values."""
    xp, kernels = frame.backend.xp, frame.backend.kernels
    if axis in frame.axes:
        return xp.reshape(frame.ids[frame.axes.index(axis)], (-1, *(1,) * (frame.values.ndim - 1)))
    place = 1 + frame.dense_axes.index(axis)
    line = xp.arange(frame.shape[axis], dtype=kernels.index_dtype(frame.values), device=device_of(frame.values))
    return xp.reshape(line, tuple(-1 if i == place else 1 for i in range(frame.values.ndim)))


def _triangle(name: str, x: Tangent, k: int) -> Any:
    _refuse_vectors(x, name)
    if isinstance(x, Zero):
        return x
    if isinstance(x, Fill):
        return call_dense(name, x, k=k)
    frame = x._frame()
    rows, columns = x.ndim - 2, x.ndim - 1
    xp = frame.backend.xp
    above = _positions(frame, columns) - _positions(frame, rows)
    inside = above <= k if name == "tril" else above >= k
    if rows in frame.axes and columns in frame.axes:
        return IndexedSlices._of(keep(frame, xp.reshape(inside, (-1,))))
    frame = expand(frame, tuple(a for a in (rows, columns) if a not in frame.axes))
    zero = xp.zeros((1,) * frame.values.ndim, dtype=frame.values.dtype, device=device_of(frame.values))
    return IndexedSlices._of(frame.with_values(xp.where(inside, frame.values, zero)))


@implements("tril", Tangent)
def tril(x: Tangent, /, *, k: int = 0) -> Any:
    """The elements on and below the `k`-th diagonal, everything else zero."""
    return _triangle("tril", x, k)


@implements("triu", Tangent)
def triu(x: Tangent, /, *, k: int = 0) -> Any:
    """The elements on and above the `k`-th diagonal, everything else zero."""
    return _triangle("triu", x, k)


@implements("diagonal", Tangent)
def diagonal(x: Tangent, /, *, offset: int = 0) -> Any:
    """The elements ``x[..., i, i + offset]``, along a new last axis."""
    _refuse_vectors(x, "diagonal")
    rows, columns = x.shape[-2:]
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    shape = (*x.shape[:-2], size)
    if isinstance(x, Zero):
        return Zero(shape, like=x)
    if isinstance(x, Fill):
        return Fill._of(x.value, shape)
    return settle(x, _diagonal_frame(x._frame(), offset, shape))


def _diagonal_frame(frame: Frame, offset: int, shape: tuple[int, ...]) -> Frame:
    row, column = len(shape) - 1, len(shape)
    if row not in frame.axes and column in frame.axes:  # one case less below
        swapped = permute_frame(frame, (*range(row), column, row))
        return _diagonal_frame(swapped, -offset, shape)
    xp = frame.backend.xp
    if row not in frame.axes:
        frame = expand(frame, (row, column))
        values = library_function(xp, "diagonal")(frame.values, offset=offset)
        return frame._replace(values=values, shape=shape)
    place = frame.axes.index(row)
    at = frame.ids[place] + offset
    if column in frame.axes:
        rest = keep(frame._replace(axes=frame.axes[:-1], ids=frame.ids[:-1], shape=shape), frame.ids[-1] == at)
    else:
        on = keep(frame, (at >= 0) & (at < frame.shape[column]))
        at = on.ids[place] + offset
        at = xp.where(on.ids[place] < frame.shape[row], at, xp.zeros_like(at)) if on.padded else at
        entries = xp.arange(on.n, dtype=at.dtype, device=device_of(at))
        rest = on._replace(values=read(on, {column: at}, entries), shape=shape)
    moved = rest.ids[place] + min(offset, 0)
    rest = rest._replace(ids=(*rest.ids[:place], moved, *rest.ids[place + 1 :]))
    return blank_padding(rest) if rest.padded else rest


@implements("trace", Tangent)
def trace(x: Tangent, /, *, offset: int = 0, dtype: DType | None = None) -> Any:
    """The sum along a diagonal."""
    line = diagonal(x, offset=offset)
    if isinstance(line, Tangent):
        return sum_(line, axis=-1, dtype=dtype)
    return backend_of(line).xp.sum(line, axis=-1, dtype=dtype)


@implements("matrix_norm", Tangent)
def matrix_norm(x: Tangent, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of the matrices of the last two axes: of Frobenius, by rows and columns; by singular values they are dense."""
    _refuse_vectors(x, "matrix_norm")
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, inf, -inf) or x.size == 0:
        return call_dense("matrix_norm", x, keepdims=keepdims, ord=ord)
    summed, folded = (-2, -1) if abs(ord) == 1 else (-1, -2)
    sums = vector_norm(x, axis=summed, keepdims=True, ord=1)
    name = "max" if ord > 0 else "min"
    if isinstance(sums, Tangent):
        norms = apply(name, sums, axis=folded, keepdims=True)
    else:
        norms = getattr(backend_of(sums).xp, name)(sums, axis=folded, keepdims=True)
    if keepdims:
        return norms
    return (
        apply("squeeze", norms, (-2, -1)) if isinstance(norms, Tangent) else backend_of(norms).xp.squeeze(norms, axis=(-2, -1))
    )


def _identity_like(x: Tangent) -> Tangent:
    """Ones on the diagonals of the last two axes, in the dtype that the library gives them; the others are broadcast."""
    values = held_array(x)
    backend, size = backend_of(values), x.shape[-1]
    dtype = library_function(backend.xp, "matrix_power")(backend.xp.ones((1, 1), dtype=x.dtype), 0).dtype
    line = backend.xp.arange(size, dtype=backend.kernels.index_dtype(values), device=device_of(values))
    ones = backend.xp.ones((size, *(1,) * (x.ndim - 2)), dtype=dtype, device=device_of(values))
    return IndexedSlices._of(Frame((x.ndim - 2, x.ndim - 1), (line, line), ones, x.shape, unique=True, ordered=True))


@implements("matrix_power", Tangent)
def matrix_power(x: Tangent, n: int, /) -> Any:
    """The product of `n` equal matrices, by squares; the identity for n = 0; dense for n < 0, which takes an inverse."""
    _refuse_vectors(x, "matrix_power")
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"matrix_power needs square matrices, not shape {x.shape}")
    if n < 0:
        return call_dense("matrix_power", x, n)
    if n == 0:
        return _identity_like(x)
    result: Any = None
    square: Any = x
    while n:
        if n % 2:
            result = square if result is None else _matmul(result, square)
        n //= 2
        square = _matmul(square, square) if n else square
    return result


def _matmul(a: Any, b: Any) -> Any:
    is_array = not (isinstance(a, Tangent) or isinstance(b, Tangent))
    return backend_of(a).xp.matmul(a, b) if is_array else apply("matmul", a, b)
