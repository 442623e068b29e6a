"""A step of an optimizer on the rows that a gradient names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .algebra.dense import dense_of, refuse_unwritable
from .algebra.frames import distinct, expand, keep, promote
from .algebra.wrap import operand_frames
from .backend import Backend, backend_of, common_backend, device_of
from .dtypes import facts, same_kind
from .kernels.base import Array, DType
from .kernels.step import Step as Rule
from .steps import as_rule
from .types import Frame, OneHot, Tangent
from .types.one_hot import is_weak

__all__ = ["update_rows"]

# Distance from 1 to the next number, and the least number above 0.
_HALF = {"float16": (2.0**-10, 2.0**-24), "bfloat16": (2.0**-7, 2.0**-133)}

Uniform = Callable[[tuple[int, ...]], Array]


def update_rows(
    param: Array,
    t: Tangent | Array | None,
    step: Callable[..., tuple[Array, ...]],
    *state: Array,
    count: Any = None,
    rng: np.random.Generator | Uniform | None = None,
) -> tuple[Array, ...]:
    """Take an optimizer's step on the rows that a gradient names; the others are neither read nor written.

    Parameters
    ----------
    param : Array
        Floating or complex, shape ``(rows, ...)``. Written in place where its library allows that (NumPy, torch, CuPy); a torch
        parameter that requires a gradient needs ``torch.no_grad()``.
    t : Tangent, Array or None
        The gradient, of the shape of `param`, of a dtype of the same or a lower kind. Repeats are summed first. An array, and a tangent that
        does not store the first axis, name every row; None names none.
    step : callable
        ``step(param_rows, grad_rows, *state_rows, count=count) -> (param_rows, *state_rows)``, one of `sparsetangent.steps` or your own.
        Rows of half types come in float32, the gradient in the dtype of the parameter's rows.
    *state : Array
        Of the library of `param`, any dtype, one entry of the first axis a row; written like `param`.
    count : int or Array of shape (), optional
        An integer given to `step`: the number of the step, from 1, where it corrects a bias.
    rng : numpy.random.Generator or callable, optional
        Round half types stochastically, so that a change below the last digit is not lost but made with the right
        probability. A callable gives uniform numbers in [0, 1) of a shape, in the library of `param`.

    Returns
    -------
    tuple of Array
        `param` and `state`, the same objects where they were written.

    Raises
    ------
    ValueError
        If shapes do not fit, an array is read-only, or `step` gives another number or shape of arrays.
    TypeError
        If dtypes or libraries do not fit.
    IndexError
        If the ids of `t` were overwritten with ones out of range. Nothing is written in any of these cases.

    Notes
    -----
    ``param[u], *state[u] = step(param[u], densify(t)[u], *state[u])`` for the distinct rows u of `t`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> table, squares = np.ones((4, 1)), np.zeros((4, 1))
    >>> t = st.IndexedSlices(np.array([2, 2]), np.array([[1.0], [2.0]]), (4, 1))
    >>> st.update_rows(table, t, st.steps.adagrad(0.5, eps=0.0), squares)[0] is table
    True
    >>> table[:, 0].tolist(), squares[:, 0].tolist()
    ([1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 9.0, 0.0])

    A step of your own:

    >>> (table,) = st.update_rows(table, t, lambda p, g, count: (p - np.sign(g),))
    >>> table[:, 0].tolist()
    [1.0, 1.0, -0.5, 1.0]
    """
    backend = _check_tables(param, state)
    if t is None:
        return param, *state
    frame = _gradient(t, param, backend)
    if frame.n == 0:
        return param, *state
    tables = (param, *state)
    held = [backend.kernels.accumulator(x.dtype) for x in tables]
    frame = promote(frame, held[0])
    if rng is None and _fused(backend, as_rule(step, count), tables, held, frame):
        return tables
    ids, gradient = _rows(frame)
    before = [_read(x, ids, dtype) for x, dtype in zip(tables, held, strict=True)]
    shapes = [tuple(rows.shape) for rows in before]
    after = _check_result(step(before[0], gradient, *before[1:], count=count), shapes, tables, backend)
    rounded = [_rounded(rows, x.dtype, rng) for rows, x in zip(after, tables, strict=True)]
    return tuple(_write(x, ids, rows) for x, rows in zip(tables, rounded, strict=True))


# Checks, all before the first write


def _check_tables(param: Array, state: Sequence[Array]) -> Backend:
    backend = common_backend(param, *state)
    if facts(backend, param.dtype).kind not in ("real", "complex"):
        raise TypeError(f"param must be floating or complex, not {param.dtype}")
    for k, table in enumerate((param, *state)):
        name = f"state {k - 1}" if k else "param"
        if tuple(table.shape[:1]) != tuple(param.shape[:1]):
            raise ValueError(f"{name} must have {tuple(param.shape[:1])} rows as param has, not shape {tuple(table.shape)}")
        here, there = device_of(table), device_of(param)
        if None not in (here, there) and here != there:
            raise ValueError(f"{name} is on device {here} and param on {there}; move one of them first")
        if any(table is other for other in (param, *state)[:k]):
            raise ValueError(f"{name} is an array that was given before: each needs memory of its own")
        if backend.kernels.mutable:
            refuse_unwritable(table, name)
    return backend


def _gradient(t: Tangent | Array, param: Array, backend: Backend) -> Frame:
    if isinstance(t, OneHot) and is_weak(t):
        t = t.astype(param.dtype)
    (frame,) = operand_frames(t)
    common_backend(param, frame.values)
    if frame.shape != tuple(param.shape):
        raise ValueError(f"t must have the shape of param, {tuple(param.shape)}, not {frame.shape}")
    if not same_kind(backend, frame.values.dtype, param.dtype):
        raise TypeError(f"a gradient of dtype {frame.values.dtype} does not update a param of dtype {param.dtype}")
    return frame


def _check_result(after: Any, shapes: list[tuple[int, ...]], tables: Sequence[Array], backend: Backend) -> list[Array]:
    if not isinstance(after, (tuple, list)) or len(after) != len(shapes):
        got = f"{len(after)} arrays" if isinstance(after, (tuple, list)) else type(after).__name__
        raise ValueError(f"step must give a tuple of {len(shapes)} arrays (the parameter and each state), not {got}")
    common_backend(*tables, *after)
    for k, (rows, shape, table) in enumerate(zip(after, shapes, tables, strict=True)):
        name = f"state {k - 1}" if k else "param"
        if tuple(rows.shape) != shape:
            raise ValueError(f"step must give rows of shape {shape} for {name}, not {tuple(rows.shape)}")
        if not same_kind(backend, rows.dtype, table.dtype):
            raise TypeError(f"step gives rows of {rows.dtype} for {name} of dtype {table.dtype}")
    return list(after)


# Reads and writes


def _fused(backend: Backend, rule: Rule | None, tables: Sequence[Array], held: list[DType], frame: Frame) -> bool:
    """Whether the kernels have a loop that takes the step in place, and has taken it."""
    update = getattr(backend.kernels, "update_rows", None)  # no part of the contract
    if update is None or rule is None or frame.axes != (0,) or any(dtype != held[0] for dtype in (frame.values.dtype, *held)):
        return False
    param, *states = tables
    if facts(backend, held[0]).kind != "real" or [tuple(x.shape) for x in states] != rule.state_shapes(tuple(param.shape)):
        return False
    if not backend.kernels.synchronous(param):
        return False  # those of a device want distinct ids, and copy tables that are strided
    frame = expand(frame)
    return update(rule, param, states, frame.ids[0], frame.values) is not None


def _rows(frame: Frame) -> tuple[Array | None, Array]:
    """The distinct rows that a frame names and the dense gradient in each of them; None for all rows."""
    if 0 not in frame.axes:
        return None, dense_of(frame)
    if frame.padded and frame.concrete:
        frame = keep(frame, frame.ids[0] < frame.shape[0])
    if frame.axes == (0,):
        frame = expand(distinct(frame))
        return frame.ids[0], frame.values
    ids, inverse = frame.backend.kernels.unique_inverse(frame.ids[0], frame.shape[0])
    named = frame._replace(ids=(inverse, *frame.ids[1:]), shape=(int(ids.shape[0]), *frame.shape[1:]), ordered=False)
    return ids, dense_of(named)


def _read(table: Array, ids: Array | None, dtype: DType) -> Array:
    """New arrays, so that a step may write into them."""
    backend = backend_of(table)
    if ids is None:
        return backend.xp.astype(table, dtype, copy=True)
    return backend.xp.astype(backend.kernels.gather(table, ids), dtype, copy=False)


def _write(table: Array, ids: Array | None, rows: Array) -> Array:
    kernels = backend_of(table).kernels
    if ids is not None:
        return kernels.put(table, ids, rows)
    if not kernels.mutable or isinstance(table, np.generic):
        return rows
    table[...] = rows
    return table


# Rounding


@np.errstate(over="ignore", invalid="ignore")
def _rounded(rows: Array, dtype: DType, rng: np.random.Generator | Uniform | None) -> Array:
    xp = backend_of(rows).xp
    name = str(dtype).rpartition(".")[2]
    if rng is None or name not in _HALF:
        return xp.astype(rows, dtype, copy=False)
    return _stochastic(xp.astype(rows, xp.float32, copy=False), dtype, *_HALF[name], _uniform(rng, rows))


def _stochastic(rows: Array, dtype: DType, eps: float, least: float, uniform: Array) -> Array:
    """Round to one of the two neighbours in `dtype`, to the further one with the probability that makes the mean exact."""
    xp = backend_of(rows).xp
    near = xp.astype(rows, dtype)
    at = xp.astype(near, xp.float32)
    error = rows - at
    # 0.6 to 1.2 spacings on: what rounds to the next number on the other side, whatever the place within a power of two.
    reach = 0.6 * (eps * xp.abs(at))
    reach = xp.where(reach < 0.6 * least, xp.full_like(reach, 0.6 * least), reach)
    far = xp.astype(at + xp.sign(error) * reach, dtype)
    gap = xp.astype(far, xp.float32) - at
    usable = xp.isfinite(gap) & (gap != 0)
    chance = xp.where(usable, error / xp.where(usable, gap, xp.ones_like(gap)), xp.zeros_like(gap))
    return xp.where(uniform < chance, far, near)


def _uniform(rng: np.random.Generator | Uniform, rows: Array) -> Array:
    shape, xp = tuple(rows.shape), backend_of(rows).xp
    if isinstance(rng, np.random.Generator):
        return xp.asarray(rng.random(shape, dtype=np.float32), device=device_of(rows))
    return rng(shape)
