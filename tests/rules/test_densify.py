"""The cotangent of what a tangent stores against a loop over its entries."""

import numpy as np
import pytest
from hypothesis import strategies as st

from sparsetangent import Fill, IndexedSlices, OneHot, rules
from sparsetangent.testing import strategies
from tests.helpers import for_all
from tests.rules.support import array, cotangents, dense, dtype_of, normal, same


def test_densify_and_its_cotangent(xp):
    """<densify_vjp(dy, t), values> == <dy, densify(t)>, and each stored element reads its own place."""
    real = [dtype_of(xp)]

    def body(data):
        t, seed = data
        dy = normal(t.shape, seed)
        slices = t.to_slices()
        expected = np.zeros(slices.values.shape)
        for entry in range(slices.stored):
            place = [slice(None)] * t.ndim
            for axis, ids in zip(slices.axis, slices.coords, strict=True):
                place[axis] = int(ids[entry])
            inside = all(not isinstance(i, int) or i < n for i, n in zip(place, t.shape, strict=True))
            expected[entry] = dy[tuple(place)] if inside else 0
        result = rules.densify_vjp(array(xp, dy), t)
        same(result, dy.sum() if isinstance(t, Fill) else expected, atol=1e-5)
        same(rules.densify(t), dense(t))

    cases = st.tuples(strategies.tangents(xp, strategies.shapes(), real), st.integers(0, 100))
    for_all(xp, body, cases, examples=60)


def test_densify_of_other_operands(xp64):
    xp = xp64
    x = array(xp, normal((4, 3)))
    assert rules.densify(x) is x and rules.densify_vjp(x, x) is x
    t = IndexedSlices(array(xp, np.array([1, 3, 1])), array(xp, normal((3, 3))), (4, 3))
    for dy in cotangents(xp, (4, 3)):
        same(rules.densify_vjp(dy, t), dense(dy)[[1, 3, 1]])
        same(rules.densify_vjp(dy, OneHot(array(xp, np.array([2, 0, 1, 1])), 3)), dense(dy)[range(4), [2, 0, 1, 1]])
        same(rules.densify_vjp(dy, Fill(array(xp, normal(())), (4, 3))), dense(dy).sum(), atol=1e-5)
    padded = t.coalesce(size=4)
    same(rules.densify_vjp(x, padded), [*dense(x)[[1, 3]], [0] * 3, [0] * 3])
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.densify_vjp(array(xp, normal((3, 4))), t)
