"""Resolution of operations: exact types, then base classes from the left, then any operands."""

import numpy as np
import pytest

from sparsetangent import IndexedSlices, OneHot, Tangent, registry


@pytest.fixture
def operation():
    name = "operation of this test"
    yield name
    registry._IMPLEMENTATIONS.pop(name, None)
    registry._RESOLVED.clear()


def test_the_closest_types_win(operation):
    for types in (
        (),
        (Tangent, Tangent),
        (IndexedSlices, Tangent),
        (Tangent, OneHot),
        (Tangent, registry.Array),
        (registry.Scalar, Tangent),
    ):
        registry.implements(operation, *types)(lambda *args, types=types: types)
    slices = IndexedSlices([0], np.zeros(1), (1,))
    one_hot = OneHot([0], 1)
    assert registry.apply(operation, slices, slices) == (IndexedSlices, Tangent)
    assert registry.apply(operation, one_hot, one_hot) == (Tangent, OneHot)
    assert registry.apply(operation, slices, one_hot) == (IndexedSlices, Tangent)
    assert registry.apply(operation, one_hot, np.zeros(1)) == (Tangent, registry.Array)
    assert registry.apply(operation, 1.5, one_hot) == (registry.Scalar, Tangent)
    assert registry.apply(operation, np.float64(1), np.zeros(1)) == ()


def test_unknown_operations_are_named():
    with pytest.raises(TypeError, match="no operation is registered under the name 'nothing'"):
        registry.apply("nothing", 1)
    with pytest.raises(TypeError, match=r"matmul takes no operands of types \(int, int\)"):
        registry.apply("matmul", 1, 2)
