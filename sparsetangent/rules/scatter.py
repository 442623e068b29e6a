"""Scatters, which fold rows into slots, and their adjoints, which read slots at the places of the rows."""

from __future__ import annotations

from typing import Any, Literal

from ..backend import backend_of
from ..kernels.base import Array
from ..types.indices import Validate
from .groups import Op, Ties, check_op, dst_factor, fold, fold_into
from .operands import check_shape, dense_operand, filled
from .places import into_operands, out_slots, places_of, rest_of, rows_of, shaped, slots_of, src_cotangent, times

__all__ = ["scatter", "scatter_into", "scatter_into_vjp_dst", "scatter_into_vjp_src", "scatter_vjp"]

Mode = Literal["raise", "drop"]


def scatter(
    op: Op,
    src: Array,
    ids: Any,
    size: int | tuple[int, ...],
    *,
    init: Any = None,
    mode: Mode = "raise",
    validate: Validate = True,
) -> Array:
    """Fold the rows of `src` into new slots by `op`: those of one id meet in one slot.

    Parameters
    ----------
    op : {"add", "sub", "mul", "div", "min", "max", "mean"}
        What rows of one slot are folded with.
    src : Array
        Shape ``(*ids.shape, *rest)``, any dtype that `op` takes: no complex numbers for min and max.
    ids : Array of integers, or a tuple of them
        Of any shape; a tuple holds coordinates, arrays that broadcast with each other. ``-size <= i < size``.
    size : int or tuple of int
        How many slots there are; as many numbers as `ids` has arrays, if that is a tuple.
    init : number, optional
        What each slot holds before, of the kind of `src`. By default the identity of `op`, which takes no share of the cotangent
        in a tie: 0, 1 (mul, div), inf (min), -inf (max), the limits of an integer dtype.
    mode : {"raise", "drop"}
        What an id outside ``0 <= i < size`` does: raise (negatives count from the end), or be left out, negatives too, in
        value and gradient alike.
    validate : bool or "now"
        As for `IndexedSlices`.

    Returns
    -------
    Array
        Shape ``(size, *rest)`` or ``(*size, *rest)``, dtype of `src`.

    Raises
    ------
    ValueError
        An unknown `op` or `mode`, or shapes that do not fit.
    TypeError
        Ids not of an integer dtype, or an `op` or `init` that the dtype of `src` does not have.
    IndexError
        An id out of range in mode ``"raise"``.

    Notes
    -----
    ``y[j] = init op src[k1] op src[k2] ...`` over the k with ``ids[k] == j``, in their order; "mean" adds the mean of these rows,
    0 where there is none. nan propagates through min and max.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> src, ids = np.array([-5.0, -2.0, -7.0]), np.array([1, 0, 1])
    >>> st.rules.scatter("max", src, ids, 3).tolist()
    [-2.0, -5.0, -inf]
    >>> st.rules.scatter("add", src, (np.array([0, 1, 0]), ids), (2, 2)).tolist()
    [[0.0, -12.0], [-2.0, 0.0]]
    """
    src = dense_operand(src, "scatter")
    check_op(op, src)
    places = places_of(ids, size, src, mode, validate)
    rows = rows_of(src, places)
    if init is None:
        return shaped(fold(op, places.key, rows, places.bound), places)
    return shaped(fold_into(op, filled(init, (places.bound, *rows.shape[1:]), src, "init"), places.key, rows), places)


def scatter_vjp(
    op: Op,
    dy: Any,
    src: Array,
    ids: Any,
    size: int | tuple[int, ...],
    *,
    init: Any = None,
    ties: Ties = "even",
    out: Array | None = None,
    mode: Mode = "raise",
    validate: Validate = True,
) -> Any:
    """The cotangent of `src` in `scatter`: that of the slots, read at the places of the rows.

    Parameters
    ----------
    op, src, ids, size, init, mode, validate
        As in the forward.
    dy : Array or Tangent
        The cotangent, of the shape and dtype of the forward's result.
    ties : {"even", "all", "first"}
        Rows that attain a min or max together share the cotangent evenly, each get all of it, or the first gets it. Where
        `init` is given it takes part, before all rows.
    out : Array, optional
        The forward's result, of its shape and dtype; computed again if it is needed and not given.

    Returns
    -------
    Array or Tangent
        Shape and dtype of `src`; compact if `dy` is.

    Raises
    ------
    ValueError, TypeError, IndexError
        As the forward; a `TypeError` too for an integer dtype, except for "add" and "sub".

    Notes
    -----
    ``d src[k] = c_k * dy[ids[k]]``, conjugated in complex dtypes, where c is 1 (add), -1 (sub), the product of what else met in the
    slot (mul), minus the result over ``src[k]`` (div), one over the rows of the slot (mean), or the share of what attains the
    extreme (min, max). A product with one zero so has the right gradient.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> src, ids = np.array([0.0, 3.0, 5.0, 0.0, 0.0]), np.array([0, 0, 0, 1, 1])
    >>> st.rules.scatter_vjp("mul", np.array([1.0, 1.0]), src, ids, 2).tolist()
    [15.0, 0.0, 0.0, 0.0, 0.0]
    >>> st.rules.scatter_vjp("max", np.array([6.0]), np.array([2.0, 2.0, 1.0]), np.array([0, 0, 0]), 1).tolist()
    [3.0, 3.0, 0.0]
    """
    src = dense_operand(src, "scatter_vjp")
    check_op(op, src)
    places = places_of(ids, size, src, mode, validate)
    rest = rest_of(src, places)
    dst = None if init is None else filled(init, (places.bound, *rest), src, "init")
    return src_cotangent(op, dy, dst, src, places, ties, out)


def scatter_into(op: Op, dst: Array, src: Array, ids: Any, *, mode: Mode = "raise", validate: Validate = True) -> Array:
    """Fold the rows of `src` by `op` into what `dst` holds: a new array, `dst` takes part in the fold.

    Parameters
    ----------
    op : {"add", "sub", "mul", "div", "min", "max", "mean"}
        What rows of one slot are folded with.
    dst : Array
        Shape ``(size, *rest)``, or ``(*size, *rest)`` for coordinates; any dtype that `op` takes. It is not written.
    src : Array
        Shape ``(*ids.shape, *rest)``, dtype of `dst`.
    ids : Array of integers, or a tuple of them
        As in `scatter`; a tuple indexes as many leading axes of `dst`.
    mode, validate
        As in `scatter`.

    Returns
    -------
    Array
        Shape and dtype of `dst`.

    Raises
    ------
    ValueError, TypeError, IndexError
        As `scatter`; a `TypeError` too if the dtypes differ.

    Notes
    -----
    ``y[j] = dst[j] op src[k1] op src[k2] ...`` over the k with ``ids[k] == j``; "mean" adds the mean of these rows to ``dst[j]``. Slots
    that no id names keep what they held.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> base = np.array([1.0, 1.0])
    >>> st.rules.scatter_into("mul", base, np.array([3.0, 3.0]), np.array([0, 0])).tolist()
    [9.0, 1.0]
    >>> st.rules.scatter_into("mean", base, np.array([3.0, 5.0]), np.array([0, 0])).tolist()
    [5.0, 1.0]
    """
    dst, src, places = into_operands(op, dst, src, ids, mode, validate)
    slots = fold_into(
        op, backend_of(dst).xp.astype(slots_of(dst, places), dst.dtype, copy=True), places.key, rows_of(src, places)
    )
    return shaped(slots, places)


def scatter_into_vjp_dst(
    op: Op,
    dy: Any,
    dst: Array,
    src: Array,
    ids: Any,
    *,
    ties: Ties = "even",
    out: Array | None = None,
    mode: Mode = "raise",
    validate: Validate = True,
) -> Any:
    """The cotangent of `dst` in `scatter_into`.

    Parameters
    ----------
    op, dst, src, ids, mode, validate
        As in the forward; `dst` is what it held before.
    dy : Array or Tangent
        The cotangent, of the shape and dtype of `dst`.
    ties, out
        As in `scatter_vjp`; what `dst` held comes before all rows.

    Returns
    -------
    Array or Tangent
        Shape and dtype of `dst`; compact if `dy` is, and `dy` itself for "add", "sub" and "mean".

    Raises
    ------
    ValueError, TypeError, IndexError
        As the forward.

    Notes
    -----
    ``d dst[j] = c_j * dy[j]``, conjugated in complex dtypes, where c is 1 (add, sub, mean), the product of the rows of the slot (mul), one over it
    (div), or the share of what attains the extreme (min, max).

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> base, src, ids = np.array([2.0, 7.0]), np.array([3.0, 5.0]), np.array([0, 0])
    >>> st.rules.scatter_into_vjp_dst("mul", np.array([1.0, 1.0]), base, src, ids).tolist()
    [15.0, 1.0]
    >>> st.rules.scatter_into_vjp_dst("max", np.array([1.0, 1.0]), base, src, ids).tolist()
    [0.0, 1.0]
    """
    dst, src, places = into_operands(op, dst, src, ids, mode, validate)
    check_shape(dy, tuple(dst.shape), "dy", "dst")
    slots = slots_of(dst, places)
    factor = dst_factor(op, slots, places.key, rows_of(src, places), ties, out_slots(out, tuple(dst.shape), places))
    return dy if factor is None else times(dy, shaped(factor, places), dst)


def scatter_into_vjp_src(
    op: Op,
    dy: Any,
    dst: Array,
    src: Array,
    ids: Any,
    *,
    ties: Ties = "even",
    out: Array | None = None,
    mode: Mode = "raise",
    validate: Validate = True,
) -> Any:
    """The cotangent of `src` in `scatter_into`.

    Parameters
    ----------
    op, dst, src, ids, mode, validate
        As in the forward; `dst` is what it held before.
    dy : Array or Tangent
        The cotangent, of the shape and dtype of `dst`.
    ties, out
        As in `scatter_vjp`; what `dst` held comes before all rows.

    Returns
    -------
    Array or Tangent
        Shape and dtype of `src`; compact if `dy` is.

    Raises
    ------
    ValueError, TypeError, IndexError
        As the forward.

    Notes
    -----
    As `scatter_vjp`, with ``dst[j]`` among what met in slot j.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> base, src, ids = np.array([2.0, 7.0]), np.array([3.0, 5.0]), np.array([0, 0])
    >>> st.rules.scatter_into_vjp_src("mul", np.array([1.0, 1.0]), base, src, ids).tolist()
    [10.0, 6.0]
    >>> st.rules.scatter_into_vjp_src("min", np.array([1.0, 1.0]), base, src, ids).tolist()
    [0.0, 0.0]
    """
    dst, src, places = into_operands(op, dst, src, ids, mode, validate)
    return src_cotangent(op, dy, slots_of(dst, places), src, places, ties, out)
