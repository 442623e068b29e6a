"""Choice by a mask against NumPy, its cotangents summed by a loop, nan kept out."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import IndexedSlices, rules
from tests.rules.support import array, cotangents, dense, normal, same


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), ()), ((3,), (2, 1), (1, 3)), ((), (2,), (2,)), ((0, 3), (3,), (0, 1))]
)
def test_where(xp64, shapes):
    xp = xp64
    condition, x, y = np.random.default_rng(1).random(shapes[0]) < 0.5, normal(shapes[1]), normal(shapes[2], 1)
    mask = array(xp, condition)
    expected = np.where(condition, x, y)
    same(rules.where(mask, array(xp, x), array(xp, y)), expected)
    for dy in cotangents(xp, expected.shape):
        for reverse, chosen, shape in ((rules.where_vjp_x, condition, shapes[1]), (rules.where_vjp_y, ~condition, shapes[2])):
            full = np.where(chosen, dense(dy), 0)
            result = np.zeros(shape)
            for place in np.ndindex(*full.shape):
                source = tuple(0 if n == 1 else i for i, n in zip(place[full.ndim - len(shape) :], shape, strict=True))
                result[source] += full[place]
            same(reverse(dy, mask, shapes[1], shapes[2]), result)


def test_where_keeps_nan_out(xp64):
    xp = xp64
    dy, mask = array(xp, [np.nan, 2.0, np.inf]), array(xp, np.array([False, True, False]))
    same(rules.where_vjp_x(dy, mask, (3,), (3,)), [0, 2, 0])
    t = IndexedSlices(array(xp, np.array([0, 1])), array(xp, [np.nan, 2.0]), (3,))
    chosen = rules.where_vjp_x(t, mask, (3,), (3,))
    assert isinstance(chosen, IndexedSlices)
    same(chosen, [0, 2, 0])
    with pytest.raises(TypeError, match="condition must be bool"):
        rules.where(dy, dy, dy)
    with pytest.raises(ValueError, match="broadcast"):
        rules.where(mask, array(xp, normal((2,))), dy)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.where_vjp_y(dy, mask, (2, 3), ())
    with sp.densify_policy("allow"):
        same(rules.where(mask, t, 5.0), [5, 2, 5])
