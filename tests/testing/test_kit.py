"""The kit itself: the oracle is right on examples by hand, the strategies draw what they promise, the laws catch faults."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, settings

from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero
from sparsetangent.testing import assert_same, laws, loop_densify, oracle, strategies

QUICK = settings(max_examples=2000, database=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


def test_the_oracle_by_hand():
    t = IndexedSlices(np.array([1, 1, -1]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (4, 2))
    assert loop_densify(t).tolist() == [[0, 0], [4, 6], [0, 0], [5, 6]]
    columns = IndexedSlices(np.array([2]), np.array([[1, 2]], np.int8), (2, 3), axis=1)
    assert loop_densify(columns).tolist() == [[0, 0, 1], [0, 0, 2]] and loop_densify(columns).dtype == np.int8
    wrapped = IndexedSlices(np.array([0, 0]), np.array([200, 100], np.uint8), (1,))
    assert loop_densify(wrapped).tolist() == [44]
    either = IndexedSlices(np.array([0, 0]), np.array([True, True]), (2,))
    assert loop_densify(either).tolist() == [True, False]
    assert loop_densify(t.coalesce(size=4)).tolist() == loop_densify(t).tolist()
    assert oracle.stored_mask(t).tolist() == [[False] * 2, [True] * 2, [False] * 2, [True] * 2]


@pytest.mark.parametrize(
    "wanted",
    [
        lambda t: isinstance(t, IndexedSlices) and len(t.axis) == 1 and len(set(t.indices.tolist())) < t.stored,
        lambda t: isinstance(t, IndexedSlices) and t.stored == 0 and t.size > 0,
        lambda t: isinstance(t, IndexedSlices) and len(t.axis) == 2,
        lambda t: isinstance(t, IndexedSlices) and t.axis == () and t.stored > 1,
        lambda t: isinstance(t, IndexedSlices) and t.unique and t.stored > 1,
        lambda t: isinstance(t, IndexedSlices) and t.values.size > 1 and 0 in t.values.strides,
        lambda t: (
            isinstance(t, IndexedSlices) and not t.values.flags.contiguous and t.values.size > 1 and 0 not in t.values.strides
        ),
        lambda t: 0 in t.shape,
        lambda t: t.shape == (),
        lambda t: isinstance(t, OneHot) and t.weak,
        lambda t: isinstance(t, Fill),
        lambda t: isinstance(t, Zero),
    ],
)
def test_the_strategies_draw(wanted):
    import array_api_compat.numpy as xp

    find(strategies.tangents(xp), wanted, settings=QUICK)


@pytest.mark.parametrize("name", strategies.DTYPES)
def test_the_strategies_draw_every_dtype(name):
    import array_api_compat.numpy as xp

    if name != "bfloat16":
        find(strategies.tangents(xp), lambda t: t.dtype == np.dtype(name), settings=QUICK)


class Wrong(Tangent):
    """Stands for a vector, and gets one thing wrong."""

    def __init__(self, fault):
        self.fault = fault
        self.slices = IndexedSlices(np.array([1, 1, 3]), np.array([2.0, 3.0, -4.0]), (5,))

    shape = property(lambda self: (6,) if self.fault == "shape" else (5,))
    dtype = property(lambda self: np.dtype("f4") if self.fault == "dtype" else self.slices.dtype)

    def to_slices(self):
        return self.slices

    def densify(self, out=None):
        dense = self.slices.densify()
        if self.fault == "last write wins":
            dense[1] = 3.0
        return self.slices.values if self.fault == "shares memory" else dense

    def __mul__(self, other):
        if self.fault == "squares what is stored" and other is self:
            ids, values = self.slices.indices, self.slices.values
            return IndexedSlices(ids, values * values, (5,))
        if self.fault == "writes into itself":
            self.slices.values[...] *= 2.0
        return self.slices * (other.slices if isinstance(other, Wrong) else other)


@pytest.mark.parametrize(
    "fault", ["shape", "dtype", "last write wins", "shares memory", "squares what is stored", "writes into itself"]
)
def test_the_laws_catch(fault):
    with pytest.raises((AssertionError, IndexError)):
        laws.check_all(Wrong(fault))


def test_assert_same_names_what_differs():
    t = IndexedSlices(np.array([1]), np.array([2.0]), (3,))
    for dense, message in (
        (np.zeros(4), "shape"),
        (np.zeros(3, np.float32), "dtype"),
        (np.array([0.0, 2.5, 0.0]), "values differ"),
    ):
        with pytest.raises(AssertionError, match=message):
            assert_same(t, dense)


def test_the_oracle_puts_where_no_id_repeats():
    """A claim that is wrong is no excuse: then it sums."""
    rows = np.array([-0.0, 3.0])
    for unique, signs in ((True, [False, True, False, False]), (False, [False] * 4)):
        t = IndexedSlices(np.array([1, 2]), rows, (4,), unique=unique)
        np.testing.assert_array_equal(np.signbit(loop_densify(t)), signs)
        np.testing.assert_array_equal(np.signbit(t.densify()), signs)
        np.testing.assert_array_equal(np.signbit(t).densify(), signs)
    wrong = IndexedSlices(np.array([1, 1]), rows, (4,), unique=True, validate=False)
    np.testing.assert_array_equal(loop_densify(wrong), [0, 3, 0, 0])
