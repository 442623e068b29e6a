"""Folds over runs of rows that lie together, as ragged batches hold them."""

from __future__ import annotations

from typing import Any

from ..backend import backend_of, device_of
from ..kernels.base import Array
from ..types.indices import Validate, as_index_array
from .groups import Op, Ties, check_op, fold
from .operands import dense_operand
from .places import Places, src_cotangent

__all__ = ["bags_of", "segment", "segment_vjp"]


def segment(op: Op, src: Array, starts: Any, *, validate: Validate = True) -> Array:
    """Fold ``src[starts[i]:starts[i + 1]]`` by `op`, for every i.

    Parameters
    ----------
    op : {"add", "sub", "mul", "div", "min", "max", "mean"}
        What the rows of one segment are folded with.
    src : Array
        Shape ``(n, *rest)``, any dtype that `op` takes.
    starts : Array of integers
        Shape ``(segments + 1,)``, ascending from 0 to n.
    validate : bool or "now"
        False skips the check of `starts`; rows before the first start and after the last then belong nowhere.

    Returns
    -------
    Array
        Shape ``(segments, *rest)``, dtype of `src`. An empty segment holds the identity of `op` (see `scatter`), and 0 for "mean".

    Raises
    ------
    ValueError
        An unknown `op`, or `starts` that do not ascend from 0 to n.
    TypeError
        `starts` not of an integer dtype, or an `op` that the dtype of `src` does not have.

    Notes
    -----
    ``y[i] = e op src[starts[i]] op ... op src[starts[i + 1] - 1]`` with e the identity: `scatter` to the segments' numbers.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> src, starts = np.array([1.0, 2.0, 5.0]), np.array([0, 2, 2, 3])
    >>> st.rules.segment("add", src, starts).tolist()
    [3.0, 0.0, 5.0]
    >>> st.rules.segment("mean", src, starts).tolist()
    [1.5, 0.0, 5.0]
    """
    src = dense_operand(src, "segment")
    check_op(op, src)
    places = _segments(src, starts, validate)
    return fold(op, places.key, src, places.bound)


def segment_vjp(
    op: Op,
    dy: Any,
    src: Array,
    starts: Any,
    *,
    ties: Ties = "even",
    out: Array | None = None,
    validate: Validate = True,
) -> Any:
    """The cotangent of `src` in `segment`.

    Parameters
    ----------
    op, src, starts, validate
        As in the forward.
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    ties, out
        As in `scatter_vjp`.

    Returns
    -------
    Array or Tangent
        Shape and dtype of `src`; compact if `dy` is.

    Raises
    ------
    ValueError, TypeError
        As the forward, or if the shape of `dy` does not fit.

    Notes
    -----
    As `scatter_vjp` with the number of its segment as the id of each row.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> src, starts = np.array([1.0, 2.0, 5.0]), np.array([0, 2, 2, 3])
    >>> st.rules.segment_vjp("mean", np.array([4.0, 9.0, 1.0]), src, starts).tolist()
    [2.0, 2.0, 1.0]
    >>> st.rules.segment_vjp("max", np.array([4.0, 9.0, 1.0]), src, starts).tolist()
    [0.0, 4.0, 1.0]
    """
    src = dense_operand(src, "segment_vjp")
    check_op(op, src)
    return src_cotangent(op, dy, None, src, _segments(src, starts, validate), ties, out)


def _segments(src: Array, starts: Any, validate: Validate) -> Places:
    if not src.ndim:
        raise ValueError("src must have at least one axis, the rows")
    n = int(src.shape[0])
    starts = as_index_array(starts, src, name="starts")
    key, segments = bags_of(starts, n, last=True, name="starts", validate=validate)
    return Places(key, segments, (n,), (segments,), True)


def bags_of(starts: Array, n: int, *, last: bool, name: str, validate: Validate) -> tuple[Array, int]:
    """The number of the run that each of n rows lies in, and how many runs there are.

    With `last` the final element ends the last run, else all that is left belongs to it. Rows outside every run get the number of runs.
    """
    backend = backend_of(starts)
    xp, kernels = backend.xp, backend.kernels
    if starts.ndim != 1 or starts.shape[0] < int(last):
        raise ValueError(
            f"{name} must have one axis{' of at least one element' if last else ''}, not shape {tuple(starts.shape)}"
        )
    dtype, device = kernels.index_dtype(starts), device_of(starts)
    starts = xp.astype(starts, dtype, copy=False)
    if hasattr(starts, "contiguous"):  # torch's search warns of strided arguments
        starts = starts.contiguous()
    if not last:
        starts = xp.concat([starts, xp.full((1,), n, dtype=dtype, device=device)])
    runs = int(starts.shape[0]) - 1
    if validate and (seen := kernels.seen(starts)) is not None and (kernels.synchronous(seen) or validate == "now"):
        first, final = int(seen[0]), int(seen[-1])
        if first != 0 or final != n or bool(xp.any(seen[1:] < seen[:-1])):
            raise ValueError(
                f"{name} must ascend from 0 to the {n} rows, not {[int(seen[i]) for i in range(min(runs + 1, 8))]}"
            )
    if n == 0 or runs == 0:
        return xp.full((n,), runs, dtype=dtype, device=device), runs
    number = xp.searchsorted(starts, xp.arange(n, dtype=dtype, device=device), side="right") - 1
    number = xp.astype(number, dtype, copy=False)
    return xp.where(number < 0, xp.full((1,), runs, dtype=dtype, device=device), number), runs
