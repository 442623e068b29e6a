"""Padding and diagonals against NumPy, with arrays and tangents on either side."""

import numpy as np
import pytest

from sparsetangent import IndexedSlices, rules
from tests.rules.support import array, cotangents, dense, normal, same


@pytest.mark.parametrize(
    "shape, widths",
    [((3,), 2), ((3,), (0, 1)), ((2, 3), (1, 0)), ((2, 3), ((1, 2), (0, 3))), ((2, 0), 1), ((), 3), ((2, 3), ((0, 0), (0, 0)))],
)
def test_pad(xp64, shape, widths):
    xp = xp64
    x = normal(shape)
    expected = np.pad(x, widths if shape else 0)
    same(rules.pad(array(xp, x), widths), expected)
    same(rules.pad(array(xp, x), widths, 1.5), np.pad(x, widths if shape else 0, constant_values=1.5))
    whole = np.pad(np.arange(1, x.size + 1).reshape(shape), widths if shape else 0)
    for dy in cotangents(xp, expected.shape):
        dx = rules.pad_vjp(dy, shape, widths)
        same(dx, np.array([dense(dy)[whole == i + 1].item() for i in range(x.size)]).reshape(shape))
        if isinstance(dy, IndexedSlices) and shape:
            same(rules.pad(dx, widths), np.pad(dense(dx), widths))
            same(rules.pad(dx, widths, 2), np.pad(dense(dx), widths, constant_values=2))


def test_pad_keeps_structure(xp):
    t = IndexedSlices(array(xp, np.array([3])), array(xp, normal((1, 2))), (2**20, 2))
    padded = rules.pad(t, ((5, 5), (0, 0)))
    assert isinstance(padded, IndexedSlices) and padded.stored == 1 and padded.shape == (2**20 + 10, 2)
    assert rules.pad_vjp(padded, t.shape, ((5, 5), (0, 0))).stored == 1


def test_pad_errors(xp):
    x = array(xp, normal((2, 3)))
    for widths in ((1, 2, 3), ((1, 2),), ((1, 2), (3,))):
        with pytest.raises(ValueError, match="widths must be a number, a pair, or a pair for each of 2 axes"):
            rules.pad(x, widths)
    with pytest.raises(ValueError, match="must not be negative"):
        rules.pad(x, -1)
    with pytest.raises(TypeError, match="value=1j"):
        rules.pad(x, 1, 1j)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.pad_vjp(x, (2, 3), 1)


@pytest.mark.parametrize(
    "shape, axes", [((3, 3), (0, 1)), ((2, 4), (1, 0)), ((2, 3, 4), (0, -1)), ((3, 2, 4), (2, 0)), ((0, 3), (0, 1))]
)
@pytest.mark.parametrize("offset", [0, 1, -1, 9])
def test_diagonal(xp64, shape, axes, offset):
    xp = xp64
    x = normal(shape)
    expected = np.diagonal(x, offset, *axes)
    same(rules.diagonal(array(xp, x), offset, *axes), expected)
    positions = np.diagonal(np.arange(x.size).reshape(shape), offset, *axes)
    for dy in cotangents(xp, expected.shape):
        dx = rules.diagonal_vjp(dy, shape, offset, *axes)
        result = np.zeros(x.size)
        result[positions] = dense(dy)
        assert isinstance(dx, IndexedSlices)
        same(dx, result.reshape(shape))
        same(rules.diagonal(dx, offset, *axes), dense(dy))
    with pytest.raises(ValueError, match="must differ"):
        rules.diagonal(array(xp, x), 0, 1, 1)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.diagonal_vjp(array(xp, normal((7, 7))), shape, offset, *axes)
