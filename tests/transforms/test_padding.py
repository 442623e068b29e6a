"""Padding, which `coalesce(size=)` and tracing leave behind, is inert in every operation, whatever it is combined with."""

from functools import cache

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import IndexedSlices
from sparsetangent.testing import oracle
from tests.transforms.operations import (
    ENTRIES,
    LAYOUTS,
    OPERATIONS,
    SEEDS,
    SHAPE,
    cases,
    check,
    check_padding,
    constants,
    expected,
    ours,
    random_entries,
)

# Operands that make nan of a zero row. The second operand is a tangent as well.
HAZARDS = {
    "t * inf": lambda nx, t, u, x: t * float("inf"),
    "t * nan": lambda nx, t, u, x: float("nan") * t,
    "t * 0-d inf": lambda nx, t, u, x: t * x(np.inf),
    "t * row with inf": lambda nx, t, u, x: t * x([np.inf, -1.0]),
    "t * column with nan": lambda nx, t, u, x: t * x([[np.nan], [1.0], [2.0]]),
    "t / 0": lambda nx, t, u, x: t / 0,
    "t / zeros": lambda nx, t, u, x: t / x(np.zeros(SHAPE)),
    "t / row of zeros": lambda nx, t, u, x: t / x([0.0, 2.0]),
    "t / u": lambda nx, t, u, x: t / u,
    "t / t": lambda nx, t, u, x: t / t,
    "t / (t of fewer axes)": lambda nx, t, u, x: t / nx.sum(u, axis=2, keepdims=True),
    "t ** 0.5": lambda nx, t, u, x: abs(t) ** 0.5,
    "t // 2": lambda nx, t, u, x: t // 2,
    "t % 3": lambda nx, t, u, x: t % 3,
    "t @ inf": lambda nx, t, u, x: t @ x([[np.inf, 1.0], [1.0, np.nan]]),
    "inf @ t": lambda nx, t, u, x: x([[np.inf, 1.0, 0.0], [2.0, 1.0, np.nan]]) @ t,
    "atan2": lambda nx, t, u, x: nx.atan2(t, u),
    "copysign": lambda nx, t, u, x: nx.copysign(t, u),
    "sign of a quotient": lambda nx, t, u, x: nx.sign(t / 0),
    "isnan": lambda nx, t, u, x: nx.isnan(t / 0),
}
# What is done with the result, so that a row which should not be there shows.
AFTERWARDS = {
    "densify": lambda nx, y: st.densify(y),
    **{
        f"{name} {axis}": lambda nx, y, name=name, axis=axis: getattr(nx, name)(y, axis=axis)
        for name in ("sum", "mean", "max", "min", "prod", "any", "count_nonzero")
        for axis in (None, 0, 1, 2, (0, 2))
    },
    "flip": lambda nx, y: nx.flip(y),
    "roll": lambda nx, y: nx.roll(y, 1, axis=0),
    "concat": lambda nx, y: nx.concat([y, y], axis=0),
    "y + y": lambda nx, y: y + y,
    "y[1]": lambda nx, y: y[1],
    "y[-2:]": lambda nx, y: y[-2:],
}


def array(backend, x):
    if backend == "numpy":
        return np.asarray(x)
    return pytest.importorskip(backend, reason=f"{backend} is not installed").asarray(np.asarray(x))


def tangent(backend, axes, seed):
    ids, values = random_entries(seed, axes)
    return IndexedSlices(tuple(array(backend, i) for i in ids), array(backend, values), SHAPE, axis=axes)


def on_each_backend(names):
    """Every layout on NumPy, one on torch: the algebra is the same, the kernels are not."""
    return [("numpy", *case) for case in cases(names, LAYOUTS)] + [
        ("torch", *case) for case in cases(names, {"hybrid": (0, 2)})
    ]


def padded(t, more=2):
    return t.coalesce(size=ENTRIES + more)


@pytest.mark.parametrize(("backend", "layout", "name"), on_each_backend(OPERATIONS))
@pytest.mark.filterwarnings("ignore::sparsetangent.DensifyWarning")
def test_law(backend, layout, name):
    axes = LAYOUTS[layout]
    for seed in SEEDS[:2]:
        t, u = (padded(tangent(backend, axes, s), more) for s, more in ((seed, 2), (seed + 100, 1)))
        c = {key: array(backend, x) for key, x in constants(seed).items()}
        check(ours(name)(t.__array_namespace__(), t, u, c), expected(name, axes, axes, seed, False))


@cache
def without_padding(hazard, layout):
    axes = LAYOUTS[layout]
    t, u = (tangent("numpy", axes, seed).coalesce() for seed in (0, 1))
    with np.errstate(all="ignore"):
        return HAZARDS[hazard](t.__array_namespace__(), t, u, np.asarray)


@pytest.mark.parametrize(("backend", "layout", "hazard"), on_each_backend(HAZARDS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_nan_comes_out_of_padding(backend, layout, hazard):
    axes = LAYOUTS[layout]
    t, u = (padded(tangent(backend, axes, seed)) for seed in (0, 1))
    y, plain = HAZARDS[hazard](t.__array_namespace__(), t, u, lambda x: array(backend, x)), without_padding(hazard, layout)
    check_padding(y)
    for name, then in AFTERWARDS.items():
        if hazard == "isnan" and name.startswith("mean"):
            continue  # of bools, which torch refuses
        got = oracle.to_numpy(st.densify(then(t.__array_namespace__(), y)))
        wanted = oracle.to_numpy(st.densify(then(st.namespace(np), plain)))
        assert oracle.close(got, wanted, rtol=1e-11, atol=1e-11), f"{name}: {got} is not {wanted}"


def test_padding_beside_an_axis_without_places(xp):
    none = xp.asarray(np.zeros(0, np.int32))
    t = IndexedSlices((none, none, none), xp.zeros((0,)), (3, 0, 2), axis=(0, 1, 2)).coalesce(size=2)
    assert [oracle.to_numpy(ids).tolist() for ids in t.coords] == [[3, 3], [0, 0], [2, 2]]
