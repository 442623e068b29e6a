"""The operations that are tried under transformations, each written once for tangents and for dense arrays.

Each takes a namespace, the tangent (or the dense array that it stands for), a second one of the same shape, and a dictionary of
constant arrays. Where the library's own function has no dense namesake there are two functions, the dense one last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import array_api_compat.numpy
import numpy as np

import sparsetangent as st
from sparsetangent import rules
from sparsetangent.testing import oracle

SHAPE = (4, 3, 2)
ENTRIES = 6
LAYOUTS: dict[str, tuple[int, ...]] = {"rows": (0,), "columns": (1,), "hybrid": (0, 2), "cells": (0, 1, 2)}
SEEDS = range(3)
CONSTANTS = {
    "full": SHAPE,
    "row": (3, 1),
    "plane": (1, 3, 2),
    "column": (4, 1, 1),
    "number": (),
    "right": (2, 5),
    "left": (5, 3),
}
MASK = [False, True, True, False]

Operation = Callable[[Any, Any, Any, dict[str, Any]], Any]

LINEAR: dict[str, Operation | tuple[Operation, Operation]] = {
    "densify": lambda xp, t, u, c: st.densify(t),
    "negative": lambda xp, t, u, c: -t,
    "t + u": lambda xp, t, u, c: t + u,
    "t - u": lambda xp, t, u, c: t - u,
    "t + t": lambda xp, t, u, c: t + t,
    "t + u of another shape": lambda xp, t, u, c: t + xp.sum(u, axis=0, keepdims=True),
    "t + array": lambda xp, t, u, c: t + c["full"],
    "array + t": lambda xp, t, u, c: c["plane"] + t,
    "t - array": lambda xp, t, u, c: t - c["column"],
    "array - t": lambda xp, t, u, c: c["full"] - t,
    "t + 0": lambda xp, t, u, c: t + 0,
    "0 - t": lambda xp, t, u, c: 0 - t,
    "t * array": lambda xp, t, u, c: t * c["full"],
    "row * t": lambda xp, t, u, c: c["row"] * t,
    "t * 0-d array": lambda xp, t, u, c: t * c["number"],
    "t * number": lambda xp, t, u, c: t * 2.5,
    "number * t": lambda xp, t, u, c: -3 * t,
    "t / array": lambda xp, t, u, c: t / c["plane"],
    "t / number": lambda xp, t, u, c: t / 4,
    "array * larger": lambda xp, t, u, c: xp.expand_dims(t, axis=0) * xp.expand_dims(c["full"], axis=1),
    "add_n": (lambda xp, t, u, c: st.add_n([t, None, u, t]), lambda xp, t, u, c: t + u + t),
    "add_n with an array": (lambda xp, t, u, c: st.add_n([t, c["full"], u]), lambda xp, t, u, c: t + c["full"] + u),
    "add_into": (lambda xp, t, u, c: st.add_into(c["full"], t, -2), lambda xp, t, u, c: c["full"] - 2 * t),
    "coalesce": (lambda xp, t, u, c: t.coalesce(), lambda xp, t, u, c: t),
    "coalesce to a size": (lambda xp, t, u, c: (t + u).coalesce(size=2 * ENTRIES + 1), lambda xp, t, u, c: t + u),
    "sum_to_shape": (
        lambda xp, t, u, c: st.sum_to_shape(t, (3, 1)),
        lambda xp, t, u, c: xp.sum(t, axis=(0, 2), keepdims=True)[0],
    ),
    "sum": lambda xp, t, u, c: xp.sum(t),
    "sum 0": lambda xp, t, u, c: xp.sum(t, axis=0),
    "sum 1": lambda xp, t, u, c: xp.sum(t, axis=1, keepdims=True),
    "sum 2": lambda xp, t, u, c: xp.sum(t, axis=2),
    "sum 0 and 2": lambda xp, t, u, c: xp.sum(t, axis=(0, 2)),
    "mean": lambda xp, t, u, c: xp.mean(t),
    "mean 0": lambda xp, t, u, c: xp.mean(t, axis=0),
    "mean 1": lambda xp, t, u, c: xp.mean(t, axis=1),
    "t @ array": lambda xp, t, u, c: t @ c["right"],
    "array @ t": lambda xp, t, u, c: c["left"] @ t,
    "permute_dims": lambda xp, t, u, c: xp.permute_dims(t, (2, 0, 1)),
    "matrix_transpose": lambda xp, t, u, c: xp.matrix_transpose(t),
    "reshape, split": lambda xp, t, u, c: xp.reshape(t, (2, 2, 3, 2)),
    "reshape, merged": lambda xp, t, u, c: xp.reshape(t, (12, 2)),
    "reshape, flat": lambda xp, t, u, c: xp.reshape(t, (-1,)),
    "reshape, across": lambda xp, t, u, c: xp.reshape(t, (3, 8)),
    "expand_dims": lambda xp, t, u, c: xp.expand_dims(t, axis=1),
    "squeeze": lambda xp, t, u, c: xp.squeeze(t[:, 1:2], axis=1),
    "broadcast_to": lambda xp, t, u, c: xp.broadcast_to(t, (2, *SHAPE)),
    "broadcast_to, stretched": lambda xp, t, u, c: xp.broadcast_to(t[:1], SHAPE),
    "concat 0": lambda xp, t, u, c: xp.concat([t, u, t], axis=0),
    "concat 1": lambda xp, t, u, c: xp.concat([t, u], axis=1),
    "concat, flat": lambda xp, t, u, c: xp.concat([t, u], axis=None),
    "stack": lambda xp, t, u, c: xp.stack([t, u], axis=1),
    "flip": lambda xp, t, u, c: xp.flip(t),
    "flip 1": lambda xp, t, u, c: xp.flip(t, axis=1),
    "roll 0": lambda xp, t, u, c: xp.roll(t, 1, axis=0),
    "roll": lambda xp, t, u, c: xp.roll(t, (-1, 2), axis=(2, 1)),
    "roll, flat": lambda xp, t, u, c: xp.roll(t, 5),
    "t[1]": lambda xp, t, u, c: t[1],
    "t[-1]": lambda xp, t, u, c: t[-1],
    "t[:, 2]": lambda xp, t, u, c: t[:, 2],
    "t[..., 0]": lambda xp, t, u, c: t[..., 0],
    "t[3, 0, 1]": lambda xp, t, u, c: t[3, 0, 1],
    "t[1:3]": lambda xp, t, u, c: t[1:3],
    "t[:, 1:]": lambda xp, t, u, c: t[:, 1:],
    "t[None]": lambda xp, t, u, c: t[None, :, None],
    "t[ids]": lambda xp, t, u, c: t[xp.asarray([3, 0, 0, -1, 1])],
    "t[:, ids]": lambda xp, t, u, c: t[:, xp.asarray([[2, 0], [2, -1]])],
    "t[ids, :, ids]": lambda xp, t, u, c: t[xp.asarray([3, 0, 0]), :, xp.asarray([1, 0, 1])],
    "t[ids, ids, ids]": lambda xp, t, u, c: t[xp.asarray([3, 0]), xp.asarray([1, 2]), xp.asarray([1, 0])],
    "take": (
        lambda xp, t, u, c: rules.take(t, xp.asarray([1, 1, -2]), 1),
        lambda xp, t, u, c: xp.take(t, xp.asarray([1, 1, 1]), axis=1),
    ),
    "take_along_axis": (
        lambda xp, t, u, c: rules.take_along_axis(t, xp.asarray([[[1]], [[0]], [[-1]], [[0]]]), 2),
        lambda xp, t, u, c: xp.stack([t[0, :, 1:], t[1, :, :1], t[2, :, 1:], t[3, :, :1]]),
    ),
    "retain": (
        lambda xp, t, u, c: t.retain(xp.asarray([1, 2, 1])),
        lambda xp, t, u, c: xp.where(xp.asarray(MASK)[:, None, None], t, xp.zeros_like(t)),
    ),
}
_AXES = (None, 0, 1, (0, 2))
SMOOTH: dict[str, Operation | tuple[Operation, Operation]] = {
    "square": lambda xp, t, u, c: xp.square(t),
    "abs": lambda xp, t, u, c: abs(t),
    "tanh": lambda xp, t, u, c: xp.tanh(t),
    "t ** 2": lambda xp, t, u, c: t**2,
    "t * t": lambda xp, t, u, c: t * t,
    "t * u": lambda xp, t, u, c: t * u,
    "t * u of another shape": lambda xp, t, u, c: t * xp.sum(u, axis=1, keepdims=True),
    "t / dense u": lambda xp, t, u, c: t / (2 + abs(st.densify(u))),
    "maximum": lambda xp, t, u, c: xp.maximum(t, u),
    "minimum with an array": lambda xp, t, u, c: xp.minimum(t, c["full"]),
    "exp": lambda xp, t, u, c: xp.exp(t),
    "t + number": lambda xp, t, u, c: t + 1.5,
    "array / t": lambda xp, t, u, c: c["full"] / (xp.square(t) + abs(c["full"])),
    "vector_norm": (
        lambda xp, t, u, c: xp.vector_norm(t * c["full"]),
        lambda xp, t, u, c: xp.sqrt(xp.sum(xp.square(t * c["full"]))),
    ),
    "max": lambda xp, t, u, c: xp.max(t),
    "max 0": lambda xp, t, u, c: xp.max(t, axis=0),
    "min 1": lambda xp, t, u, c: xp.min(t, axis=1, keepdims=True),
    "min 0 and 2": lambda xp, t, u, c: xp.min(t, axis=(0, 2)),
    "t @ u": lambda xp, t, u, c: t @ xp.matrix_transpose(u),
    "square of a product": lambda xp, t, u, c: xp.square(t * c["full"] + u),
    "sum of squares": lambda xp, t, u, c: xp.sum(xp.square(t), axis=0),
    "chain": lambda xp, t, u, c: xp.max(abs(xp.flip(xp.concat([t, u], axis=0), axis=0))[1:7], axis=0),
}
NON_LINEAR: dict[str, Operation | tuple[Operation, Operation]] = {
    **SMOOTH,
    "sqrt": lambda xp, t, u, c: xp.sqrt(abs(t)),
    "sign": lambda xp, t, u, c: xp.sign(t),
    "hypot": lambda xp, t, u, c: xp.hypot(t, u + u),
    "t > u": lambda xp, t, u, c: t > u,
    "t == u": lambda xp, t, u, c: t == u,
    "t < 0": lambda xp, t, u, c: t < 0,
    "t[::-2, 1:]": lambda xp, t, u, c: t[::-1][::2, 1:],
    **{
        f"{name} {axis}": lambda xp, t, u, c, name=name, axis=axis: getattr(xp, name)(t, axis=axis)
        for name in ("max", "min", "prod", "any", "all", "count_nonzero")
        for axis in _AXES
    },
}
OPERATIONS = {**LINEAR, **NON_LINEAR}
# One of each kind, where every operation would take too long to compile.
CORE = (
    *("densify", "t + u", "t + u of another shape", "t + array", "array - t", "0 - t", "t * array", "t * number", "t / array"),
    *("array * larger", "add_n", "add_into", "coalesce to a size", "sum_to_shape", "sum", "sum 0", "sum 1", "mean"),
    *("t @ array", "array @ t", "permute_dims", "reshape, merged", "reshape, across", "expand_dims", "broadcast_to"),
    *("concat 0", "stack", "flip", "roll", "t[1]", "t[:, 2]", "t[1:3]", "t[ids]", "t[:, ids]", "t[ids, :, ids]"),
    *("take_along_axis", "retain", "square", "sqrt", "t * u", "t * u of another shape", "t / dense u", "maximum", "exp"),
    *("array / t", "max 0", "min 1", "min 0 and 2", "t @ u", "chain", "t > u", "prod 0", "any 1", "count_nonzero (0, 2)"),
)


def applicable(name: str, axes: tuple[int, ...]) -> bool:
    """`retain` needs one stored axis, and the mask here is of the first."""
    return name != "retain" or axes == (0,)


def cases(names: Iterable[str], layouts: dict[str, tuple[int, ...]]) -> list[Any]:
    """Parameters ``(layout, operation)``."""
    return [(layout, name) for layout, axes in layouts.items() for name in names if applicable(name, axes)]


def ours(name: str) -> Operation:
    operation = OPERATIONS[name]
    return operation[0] if isinstance(operation, tuple) else operation


def theirs(name: str) -> Operation:
    operation = OPERATIONS[name]
    return operation[1] if isinstance(operation, tuple) else operation


def constants(seed: int) -> dict[str, Any]:
    """Random arrays without zeros."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape) for name, shape in CONSTANTS.items()}


def random_entries(seed: int, axes: tuple[int, ...], *, wild: bool = False) -> tuple[tuple[Any, ...], Any]:
    """Ids with a repeat and values; half of `wild` ids are out of range."""
    rng = np.random.default_rng(seed)
    reach = 2 if wild else 1
    ids = tuple(rng.integers(-reach * SHAPE[a], reach * SHAPE[a], ENTRIES) for a in axes)
    for a, column in zip(axes, ids, strict=True):
        column[:2] = seed % SHAPE[a]
    inner = tuple(n for a, n in enumerate(SHAPE) if a not in axes)
    return ids, rng.normal(size=(ENTRIES, *inner))


def dense_by_loop(ids: tuple[Any, ...], values: Any, axes: tuple[int, ...]) -> Any:
    """Zeros with one addition an entry, negatives counted from the end; an entry with an id out of range is left out."""
    dense = np.zeros(SHAPE)
    for entry, value in zip(zip(*(column.tolist() for column in ids), strict=True), values, strict=True):
        if all(-SHAPE[a] <= i < SHAPE[a] for a, i in zip(axes, entry, strict=True)):
            place: list[Any] = [slice(None)] * len(SHAPE)
            for a, i in zip(axes, entry, strict=True):
                place[a] = i
            dense[tuple(place)] += value
    return dense


@cache
def expected(name: str, axes: tuple[int, ...], u_axes: tuple[int, ...], seed: int, wild: bool) -> Any:
    """What the operation gives on dense NumPy arrays made by a loop, for the data of `seed`."""
    t = dense_by_loop(*random_entries(seed, axes, wild=wild), axes)
    u = dense_by_loop(*random_entries(seed + 100, u_axes, wild=wild), u_axes)
    return theirs(name)(array_api_compat.numpy, t, u, constants(seed))


def check(result: Any, wanted: Any, *, rtol: float = 1e-11) -> None:
    """Assert shape, dtype and value, by a loop over what is stored, and that padding is what it should be."""
    if isinstance(result, st.Tangent):
        check_padding(result)
        actual = oracle.loop_densify(result)
    else:
        actual = oracle.to_numpy(result)
    wanted = np.asarray(wanted)
    assert tuple(actual.shape) == wanted.shape
    assert actual.dtype == wanted.dtype
    assert oracle.close(actual, wanted, rtol=rtol, atol=rtol), f"{actual} is not {wanted}"


def check_padding(t: Any) -> None:
    """Assert that padding has all ids past the end and zero rows, and that what is known of the ids is true."""
    if not isinstance(t, st.IndexedSlices):
        return
    frame = t._frame()
    ids = np.array([oracle.to_numpy(i) for i in frame.ids]).reshape(len(frame.ids), frame.n)
    sizes = np.array(frame.stored_sizes, int).reshape(-1, 1)
    assert ((ids >= 0) & (ids <= sizes)).all(), f"ids out of range: {ids}"
    padding = (ids == sizes).any(axis=0)
    assert (padding == (ids == sizes).all(axis=0)).all() or not frame.axes, f"half padding: {ids}"
    assert frame.padded or not padding.any() or not frame.axes, "padding that is not declared"
    if frame.axes:
        assert (oracle.to_numpy(frame.values)[padding] == 0).all(), "padding with a row that is not zero"
    entries = [tuple(column) for column in ids.T.tolist()]
    kept = [entry for entry, out in zip(entries, padding, strict=True) if not out]
    if frame.axes and frame.unique:
        assert len(set(kept)) == len(kept), f"repeats among unique ids: {kept}"
    if frame.axes and frame.ordered:
        assert entries == sorted(entries), f"not in order: {entries}"
