"""Maxima and minima over any axes against loops: ties, nan, infinities, compact cotangents, all three ways to share."""

from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import rules
from sparsetangent.testing import strategies
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, normal, same
from tests.rules.test_scatter import share_loop


def cotangent_loop(name, dy, x, axes, ties):
    """Slot by slot: the elements that meet there, in the order of the axes, and each one's share."""
    result = np.zeros(x.shape)
    kept = [a for a in range(x.ndim) if a not in axes]
    for slot in product(*(range(x.shape[a]) for a in kept)):
        places = []
        for inner in product(*(range(x.shape[a]) for a in sorted(axes))):
            at = dict(zip(kept, slot, strict=True)) | dict(zip(sorted(axes), inner, strict=True))
            places.append(tuple(at[a] for a in range(x.ndim)))
        shares = share_loop([x[p] for p in places], max if name == "max" else min, ties)
        for place, share in zip(places, shares, strict=True):
            result[place] = dy[slot] * share
    return result


@st.composite
def reductions(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(4,), (2, 3), (2, 3), (2, 3, 2), (0, 3), (1, 4), ()]))
    axis = draw(st.sampled_from([None, *range(-len(shape), len(shape)), *([(0, -1), (1, 0), ()] if len(shape) > 1 else [])]))
    axes = (
        tuple(range(len(shape)))
        if axis is None
        else tuple(a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,)))
    )
    x = coarse(rng, shape)
    if draw(st.booleans()) and x.size:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    return (
        draw(st.sampled_from(["max", "min"])),
        x,
        axis,
        axes,
        draw(st.booleans()),
        draw(st.sampled_from(["even", "all", "first"])),
    )


def test_extremes_and_their_cotangents(xp):
    def body(case):
        name, x, axis, axes, keepdims, ties = case
        forward, reverse = getattr(rules, name), getattr(rules, f"{name}_vjp")
        a_x = array(xp, x)
        if 0 in (x.shape[a] for a in axes):
            with pytest.raises(ValueError, match="no element to choose from"):
                forward(a_x, axis, keepdims)
            return
        y = forward(a_x, axis, keepdims)
        expected = getattr(np, name)(x, axis=axes, keepdims=keepdims)
        same(y, expected, note=case)
        dy = normal(expected.shape, 1)
        squeezed = dy.reshape([n for a, n in enumerate(x.shape) if a not in axes])
        for out in (None, y):
            dx = reverse(array(xp, dy), a_x, axis, keepdims, ties=ties, out=out)
            assert isinstance(dx, sp.IndexedSlices)
            same(dx, cotangent_loop(name, squeezed, x, axes, ties), note=case)
        if axes and ties == "first":
            assert dx.stored == expected.size and dx.unique

    for_all(xp, body, reductions(), examples=80)


def test_of_tangents(xp):
    real = strategies.dtypes_of(xp, ("float32",))

    def body(t):
        for axis in (None, 0, -1):
            if t.size:
                same(rules.max(t, axis), dense(t).max(axis))
                same(rules.min(t, axis), dense(t).min(axis))

    for_all(xp, body, strategies.tangents(xp, strategies.shapes(1, 2), real), examples=40)


def test_compact_cotangents(xp64):
    xp = xp64
    x = coarse(np.random.default_rng(2), (5, 3, 2))
    dy = sp.IndexedSlices(array(xp, np.array([4, 0, 4])), array(xp, normal((3, 2))), (5, 2))
    for ties in ("even", "all", "first"):
        for y in (
            (dy,)
            if xp.backend_name.startswith("jax")
            else (dy, sp.Fill(array(xp, np.asarray(3.0)), (5, 2)), sp.Zero((5, 2), like=dy))
        ):
            with sp.densify_policy("allow"):
                dx = rules.max_vjp(y, array(xp, x), 1, ties=ties)
            same(dx, cotangent_loop("max", dense(y), x, (1,), ties))


def test_errors(xp):
    x, dy = array(xp, normal((2, 3))), array(xp, normal((2,)))
    with pytest.raises(ValueError, match="axis 2 is out of range for 2 axes"):
        rules.max(x, 2)
    with pytest.raises(ValueError, match=r"dy must have the shape \(3,\) of the max"):
        rules.max_vjp(dy, x, 0)
    with pytest.raises(ValueError, match=r"out must have the shape \(2,\) of the min"):
        rules.min_vjp(dy, x, 1, out=x)
    with pytest.raises(ValueError, match="ties must be"):
        rules.max_vjp(dy, x, 1, ties="last")
    with pytest.raises(TypeError, match="complex numbers have no order"):
        rules.max(array(xp, normal((3,)) + 1j), 0)
