"""Means against NumPy; sums and broadcasts stand in ``test_rules.py``."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import Fill, rules
from tests.rules.support import array, cotangents, dense, normal, same


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mean(xp64, axis, keepdims):
    xp = xp64
    x = normal((2, 3, 4))
    expected = x.mean(axis, keepdims=keepdims)
    same(rules.mean(array(xp, x), axis, keepdims), expected, atol=1e-6)
    axes = tuple(range(3)) if axis is None else tuple(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    count = x.size / np.size(expected)
    for dy in cotangents(xp, expected.shape):
        dx = rules.mean_vjp(dy, x.shape, axis, keepdims)
        assert isinstance(dx, sp.Tangent)
        same(dx, np.broadcast_to(dense(dy).reshape(kept), x.shape) / count)
    assert rules.mean_vjp(array(xp, normal((2,))), (2, 0), 1).shape == (2, 0)
    assert isinstance(rules.mean_vjp(array(xp, normal(())), (2, 3)), Fill)
