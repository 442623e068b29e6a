"""Sorting and the k greatest over any axis against loops over lines; equal elements keep their order."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import rules
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, normal, same


def lines(shape, axis):
    """The keys of all lines along an axis."""
    for place in np.ndindex(*(1 if a == axis else n for a, n in enumerate(shape))):
        yield tuple(slice(None) if a == axis else i for a, i in enumerate(place))


def ascending(line):
    """Positions in ascending order, stably, nan last."""
    return sorted(range(len(line)), key=lambda i: (line[i] != line[i], 0 if line[i] != line[i] else line[i], i))


def greatest(line, k):
    """Positions of the k greatest, nan first, the earlier of equal ones first."""
    return sorted(range(len(line)), key=lambda i: (line[i] == line[i], 0 if line[i] != line[i] else -line[i], i))[:k]


@st.composite
def inputs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(6,), (6,), (3, 4), (2, 3, 2), (0,), (0, 3)]))
    x = coarse(rng, shape)
    if draw(st.booleans()) and x.size:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return x, axis, draw(st.integers(0, shape[axis]))


def test_sort_topk_and_their_cotangents(xp):
    def body(case):
        x, axis, k = case
        a_x, along = array(xp, x), axis % x.ndim
        top_shape = tuple(k if a == along else n for a, n in enumerate(x.shape))
        dy, dy_top = normal(x.shape, 1), normal(top_shape, 2)
        sorted_, dx = np.zeros(x.shape), np.zeros(x.shape)
        top, dx_top = np.zeros(top_shape), np.zeros(x.shape)
        for key in lines(x.shape, along):
            order, chosen = ascending(x[key]), greatest(x[key], k)
            sorted_[key], top[key] = x[key][order], x[key][chosen]
            for i, source in enumerate(order):
                dx[key][source] = dy[key][i]
            for i, source in enumerate(chosen):
                dx_top[key][source] = dy_top[key][i]
        same(rules.sort(a_x, axis), sorted_, note=case)
        same(rules.sort_vjp(array(xp, dy), a_x, axis), dx, note=case)
        same(rules.topk(a_x, k, axis), top, note=case)
        result = rules.topk_vjp(array(xp, dy_top), a_x, k, axis)
        assert isinstance(result, sp.IndexedSlices) and result.stored == top.size and result.unique
        same(result, dx_top, note=case)

    for_all(xp, body, inputs(), examples=80)


def test_compact_cotangents(xp):
    x = normal((5, 3))
    dy = sp.IndexedSlices(array(xp, np.array([1, 4, 1])), array(xp, normal((3, 3), 1)), (5, 3))
    dx = rules.sort_vjp(dy, array(xp, x), 0)
    assert isinstance(dx, sp.Tangent)
    expected = np.zeros((5, 3))
    for column in range(3):
        expected[ascending(x[:, column]), column] = dense(dy)[:, column]
    same(dx, expected)
    top = rules.topk_vjp(dy, array(xp, normal((6, 3))), 5, 0)
    expected = np.zeros((6, 3))
    for column in range(3):
        expected[greatest(normal((6, 3))[:, column], 5), column] = dense(dy)[:, column]
    same(top, expected)


def test_errors(xp):
    x = array(xp, normal((2, 3)))
    for k in (-1, 4):
        with pytest.raises(ValueError, match=f"k must be between 0 and the 3 elements of axis 1, not {k}"):
            rules.topk(x, k)
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        rules.sort(x, 2)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.sort_vjp(array(xp, normal((3,))), x)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.topk_vjp(x, x, 2)
    with pytest.raises(TypeError, match="complex numbers have no order"):
        rules.sort(array(xp, normal((3,)) + 1j))
