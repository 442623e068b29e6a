"""Hypothesis strategies that draw tangents of every type: repeats, empties, negative and boundary ids, axes of size 0, stride-0 and
strided values, nan and inf, every dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..kernels.base import Namespace
from ..types import Fill, IndexedSlices, OneHot, Zero
from .oracle import as_backend

__all__ = ["DTYPES", "arrays", "dtypes_of", "fills", "indexed_slices", "one_hots", "shapes", "tangents", "zeros"]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""Names of the dtypes that are drawn where the library has them."""

_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 1e30, 1e-30])


def dtypes_of(xp: Namespace, names: Sequence[str] = DTYPES) -> list[Any]:
    """The dtypes of a library that it can hold and sum.

    Parameters
    ----------
    xp : namespace
        Of the library.
    names : sequence of str
        Among these.

    Returns
    -------
    list of dtype
        In the order of `names`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sparsetangent.testing.strategies import dtypes_of
    >>> dtypes_of(torch, ["uint8", "uint16", "float16"])
    [torch.uint8, torch.float16]
    >>> dtypes_of(np, ["bfloat16", "bool"])
    [<class 'numpy.bool'>]
    """
    return [getattr(xp, name) for name in names if hasattr(xp, name) and _usable(xp, name)]


def _usable(xp: Namespace, name: str) -> bool:
    """Whether arrays of a dtype can be made (not JAX's 64-bit ones by default) and added (not torch's uint16 and wider)."""
    dtype = getattr(xp, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = xp.zeros((2,), dtype=dtype)
    try:
        return bool(array.dtype == dtype and (name == "bool" or (array[1:] + array[:1]).shape == (1,)))
    except RuntimeError:
        return False


def shapes(min_dims: int = 0, max_dims: int = 3, max_side: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes, with axes of size 0 and 1 among them.

    Parameters
    ----------
    min_dims, max_dims : int
        How few and how many axes.
    max_side : int
        The greatest size of an axis.

    Returns
    -------
    strategy of tuples of int
        The simplest is ``()``.

    Raises
    ------
    hypothesis.errors.InvalidArgument
        When it is drawn from, if `min_dims` is greater than `max_dims`.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.shapes(), lambda shape: len(shape) == 2)
    (0, 0)
    >>> find(strategies.shapes(max_side=3), lambda shape: 3 in shape)
    (3,)
    """
    side = st.sampled_from([0, 1, 1, *range(2, max_side + 1), *range(2, max_side + 1)])
    return st.lists(side, min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, special: bool) -> Any:
    """Random values as a NumPy array of the kind of `dtype` (float64 for any float): sometimes strided or of stride 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    layout = draw(st.sampled_from(["plain", "plain", "strided", "broadcast"]))
    wide = shape
    if layout == "strided" and shape:
        wide = (*shape[:-1], 2 * shape[-1])
    elif layout == "broadcast" and shape:
        wide = (1, *shape[1:])
    x: Any
    if dtype == "bool":
        x = rng.random(wide) < 0.6
    elif dtype.startswith(("int", "uint")):
        low, high = (0, 250) if dtype.startswith("u") else (-120, 120)
        x = rng.integers(low if draw(st.booleans()) else max(low, -3), high if draw(st.booleans()) else 4, wide)
    else:
        x = np.round(rng.standard_normal(wide) * 4, 3)
        if special and x.size:
            spots = rng.integers(0, x.size, max(1, x.size // 3))
            x.reshape(-1)[spots] = rng.choice(_SPECIAL, len(spots))
        if dtype.startswith("complex"):
            x = x + 1j * np.round(rng.standard_normal(wide), 3)
    if layout == "strided" and shape:
        return x[..., ::2]
    return np.broadcast_to(x, shape) if layout == "broadcast" and shape else x


def _name(dtype: Any) -> str:
    return str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]


def arrays(xp: Namespace, shape: tuple[int, ...], dtype: Any, *, special: bool = False) -> st.SearchStrategy[Any]:
    """Arrays of a library with random values, some strided or of stride 0 where it has views.

    Parameters
    ----------
    xp : namespace
        Of the library.
    shape : tuple of int
        Of the arrays.
    dtype : dtype
        One of that library.
    special : bool
        Whether nan, infinities and extreme numbers are drawn too.

    Returns
    -------
    strategy of arrays
        Of that shape and dtype.

    Raises
    ------
    TypeError
        When it is drawn from, if the library has no such dtype.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.arrays(np, (2,), np.int8), lambda x: True).dtype
    dtype('int8')
    >>> bool(np.isnan(find(strategies.arrays(np, (3,), np.float32, special=True), lambda x: np.isnan(x).any())).any())
    True
    """

    def convert(x: Any) -> Any:
        with np.errstate(over="ignore"):
            return as_backend(xp, x, dtype)

    return _numbers(shape, _name(dtype), special).map(convert)


@st.composite
def indexed_slices(
    draw: st.DrawFn,
    xp: Namespace,
    shapes: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: Sequence[Any] | None = None,
    *,
    axes: Sequence[int] | None = None,
    special: bool = False,
    max_entries: int = 6,
    unique: bool | None = None,
) -> IndexedSlices:
    """`IndexedSlices` over any axes (or the given ones), ids repeated, negative and at the borders.

    Parameters
    ----------
    xp : namespace
        Of the library.
    shapes : strategy of tuples of int, optional
        What shapes to draw; `shapes` by default.
    dtypes : sequence of dtype, optional
        What dtypes to draw; by default `dtypes_of` the library.
    axes : sequence of int, optional
        The axes that are stored; any by default.
    special : bool
        Whether nan, infinities and extreme numbers are drawn too.
    max_entries : int
        The most entries.
    unique : bool, optional
        Whether no coordinates repeat; either by default.

    Returns
    -------
    strategy of IndexedSlices
        Small ones.

    Raises
    ------
    IndexError
        When it is drawn from, if a shape has not the axes.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.indexed_slices(np), lambda t: t.stored == 2).stored
    2
    >>> find(strategies.indexed_slices(np, strategies.shapes(2, 2), axes=(1,), unique=True), lambda t: t.stored > 0).axis
    (1,)
    """
    shape = draw(_shapes_or_default(shapes))
    dtype = draw(st.sampled_from(list(dtypes or dtypes_of(xp))))
    if axes is None:
        choice = st.lists(st.sampled_from(range(len(shape))), unique=True, max_size=3) if shape else st.just([])
        axes = draw(st.one_of(st.just([0]) if shape else st.just([]), choice))
    n = 0 if any(shape[a] == 0 for a in axes) else draw(st.integers(0, max_entries))
    id_dtype = draw(st.sampled_from([np.int64, np.int32]))
    columns = [draw(st.lists(st.integers(-shape[a], shape[a] - 1), min_size=n, max_size=n)) if n else [] for a in axes]
    repeat_free = draw(st.booleans()) if unique is None else unique
    if repeat_free and axes:
        kept: dict[tuple[int, ...], int] = {}
        for entry in range(n):
            kept.setdefault(tuple(c[entry] % shape[a] for c, a in zip(columns, axes, strict=True)), entry)
        columns, n = [[c[e] for e in kept.values()] for c in columns], len(kept)
    inner = tuple(size for a, size in enumerate(shape) if a not in axes)
    values = draw(arrays(xp, (n, *inner), dtype, special=special))
    ids = tuple(xp.asarray(np.array(c, id_dtype)) for c in columns)
    claim = bool(repeat_free and axes)
    if len(axes) == 1 and draw(st.booleans()):
        return IndexedSlices(ids[0], values, shape, axis=axes[0], unique=claim)
    return IndexedSlices(ids, values, shape, axis=tuple(axes), unique=claim)


def _shapes_or_default(given: st.SearchStrategy[tuple[int, ...]] | None) -> st.SearchStrategy[tuple[int, ...]]:
    return shapes() if given is None else given


@st.composite
def one_hots(
    draw: st.DrawFn,
    xp: Namespace,
    shapes: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: Sequence[Any] | None = None,
) -> OneHot:
    """`OneHot` of any shape with at least one axis, strict or dropping, weak or not.

    Parameters
    ----------
    xp, shapes, dtypes
        As for `indexed_slices`.

    Returns
    -------
    strategy of OneHot
        Small ones.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.one_hots(np), lambda t: t.depth == 2).depth
    2
    >>> find(strategies.one_hots(np, dtypes=[np.float32]), lambda t: True).dtype
    dtype('float32')
    """
    shape = draw(_shapes_or_default(shapes).filter(lambda s: len(s) > 0))
    axis = draw(st.integers(0, len(shape) - 1))
    depth, batch = shape[axis], shape[:axis] + shape[axis + 1 :]
    drop = draw(st.booleans()) or (depth == 0 and 0 not in batch)
    low, high = (-2, depth + 2) if drop else (0, max(depth, 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids = rng.integers(low, high, batch)
    if depth == 0 and not drop:
        ids = np.zeros(batch, np.int64)
    dtype = draw(st.sampled_from([None, *(dtypes or dtypes_of(xp))])) if dtypes is None else draw(st.sampled_from(list(dtypes)))
    return OneHot(xp.asarray(ids), depth, axis=axis, dtype=dtype, mode="drop" if drop else "raise")


@st.composite
def fills(
    draw: st.DrawFn,
    xp: Namespace,
    shapes: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: Sequence[Any] | None = None,
    *,
    special: bool = False,
) -> Fill:
    """`Fill` of any shape.

    Parameters
    ----------
    xp, shapes, dtypes, special
        As for `indexed_slices`.

    Returns
    -------
    strategy of Fill
        Small ones.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.fills(np), lambda t: t.ndim == 2).shape
    (0, 0)
    >>> find(strategies.fills(np, dtypes=[np.int8]), lambda t: True).dtype
    dtype('int8')
    """
    dtype = draw(st.sampled_from(list(dtypes or dtypes_of(xp))))
    return Fill(draw(arrays(xp, (), dtype, special=special)), draw(_shapes_or_default(shapes)))


@st.composite
def zeros(
    draw: st.DrawFn,
    xp: Namespace,
    shapes: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: Sequence[Any] | None = None,
) -> Zero:
    """`Zero` of any shape.

    Parameters
    ----------
    xp, shapes, dtypes
        As for `indexed_slices`.

    Returns
    -------
    strategy of Zero
        Small ones.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> find(strategies.zeros(np), lambda t: t.ndim == 1).shape
    (0,)
    >>> find(strategies.zeros(np, dtypes=[np.int8]), lambda t: True).dtype
    dtype('int8')
    """
    return Zero(draw(_shapes_or_default(shapes)), xp=xp, dtype=draw(st.sampled_from(list(dtypes or dtypes_of(xp)))))


def tangents(
    xp: Namespace,
    shapes: st.SearchStrategy[tuple[int, ...]] | None = None,
    dtypes: Sequence[Any] | None = None,
    *,
    special: bool = False,
) -> st.SearchStrategy[Any]:
    """A tangent of any type, slices most often.

    Parameters
    ----------
    xp, shapes, dtypes, special
        As for `indexed_slices`.

    Returns
    -------
    strategy of tangents
        Small ones, of the four types.

    Examples
    --------
    >>> import numpy as np, sparsetangent.testing.strategies as strategies
    >>> from hypothesis import find
    >>> import sparsetangent as st
    >>> type(find(strategies.tangents(np), lambda t: isinstance(t, st.Zero))).__name__
    'Zero'
    >>> find(strategies.tangents(np, strategies.shapes(1, 1)), lambda t: t.size > 3).ndim
    1
    """
    slices = indexed_slices(xp, shapes, dtypes, special=special)
    others = (fills(xp, shapes, dtypes, special=special), zeros(xp, shapes, dtypes), one_hots(xp, shapes, dtypes))
    return st.one_of(slices, slices, slices, *others)
