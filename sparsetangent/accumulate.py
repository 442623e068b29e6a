"""Sums of many gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .algebra.dense import add_frame_into
from .algebra.frames import promote
from .algebra.sums import join_entries
from .algebra.wrap import operand_frames
from .algebra.zeros import result_dtype
from .kernels.base import Array
from .types import IndexedSlices, Tangent, Zero

__all__ = ["add_n"]


def add_n(items: Iterable[Tangent | Array | None]) -> Any:
    """The sum of gradients, joined at once: the cost is linear in what is added, however many there are.

    Parameters
    ----------
    items : iterable of Tangent, Array or None
        All of one shape and library; None counts as zero. An item may stand there more than once.

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
    for f in (*dense[1:], *compact):
        total = add_frame_into(total, promote(f, held))
    return backend.xp.astype(total, dtype, copy=False)
