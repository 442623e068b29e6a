"""`OneHot`, `Fill`, `Zero`, the abstract base, and types of third parties."""

import numpy as np
import pytest

import sparsetangent
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero
from sparsetangent.testing import laws, oracle
from tests.helpers import for_all


def test_one_hot(xp):
    t = OneHot(xp.asarray([[2, 0], [1, 1]]), 3, axis=1, dtype=xp.float32)
    assert t.shape == (2, 3, 2) and t.axis == 1 and t.depth == 3 and t.stored == 4 and not t.weak
    expected = np.zeros((2, 3, 2))
    for i, j in np.ndindex(2, 2):
        expected[i, [[2, 0], [1, 1]][i][j], j] = 1
    assert (oracle.to_numpy(t.densify()) == expected).all()


def test_a_weak_one_hot_takes_the_other_dtype(xp):
    t = OneHot(xp.asarray([2, 0]), 3)
    assert t.weak and t.dtype == xp.empty((0,)).dtype
    assert (t * xp.asarray([1, 2, 3])).dtype == xp.asarray([1]).dtype
    narrow = xp.zeros((2, 3), dtype=xp.float32)
    assert (t + narrow).dtype == xp.float32
    assert OneHot(xp.asarray([2, 0]), 3, dtype=bool).densify().dtype == xp.bool


@pytest.mark.parametrize("bad", [[3], [-1], [0, 5]])
def test_one_hot_out_of_range(xp, bad):
    with pytest.raises(IndexError, match=r"0 <= id < 3"):
        OneHot(xp.asarray(bad), 3)
    dropped = OneHot(xp.asarray(bad), 3, mode="drop")
    assert float(dropped.__array_namespace__().sum(dropped)) == sum(0 <= i < 3 for i in bad)


def test_one_hot_errors(xp):
    with pytest.raises(TypeError, match="integer dtype"):
        OneHot(xp.asarray([0.5]), 3)
    with pytest.raises(ValueError, match="depth"):
        OneHot(xp.asarray([0]), -1)
    with pytest.raises(ValueError, match="mode"):
        OneHot(xp.asarray([0]), 3, mode="wrap")
    with pytest.raises(ValueError, match="axis"):
        OneHot(xp.asarray([0]), 3, axis=2)


def test_fill(xp):
    t = Fill(xp.asarray(1.5), (2, 3))
    assert t.stored == 1 and (oracle.to_numpy(t.densify()) == 1.5).all() and t.to_slices().values.shape == (1, 2, 3)
    with pytest.raises(TypeError, match="array of shape"):
        Fill(1.5, (2,))
    with pytest.raises(ValueError, match=r"shape \(\)"):
        Fill(xp.asarray([1.5]), (2,))
    assert isinstance(Fill(np.float32(2), (2,)).value, np.ndarray)


def test_zero(xp):
    like = xp.zeros((1,), dtype=xp.float32)
    assert Zero((2, 3), like=like).dtype == xp.float32
    assert Zero((2,), like=Zero((5,), like=like)).dtype == xp.float32
    assert Zero((2, 3), xp=xp.module).stored == 0
    assert (oracle.to_numpy(Zero((2, 3), xp=xp.module).densify()) == 0).all()
    assert isinstance(Zero((2,)).densify(), np.ndarray)
    with pytest.raises(TypeError, match="like"):
        Zero((2,), like=[1])
    nx = sparsetangent.namespace(xp.module)
    assert isinstance(nx.sin(Zero((2,), like=like)), Zero)
    assert float(nx.exp(Zero((2,), like=like)).value) == 1 and isinstance(nx.exp(Zero((2,), like=like)), Fill)


class Diagonal(Tangent):
    """A third party's type that gives only what it must."""

    def __init__(self, values):
        self.values = values

    @property
    def shape(self):
        return 2 * tuple(self.values.shape)

    @property
    def dtype(self):
        return self.values.dtype

    def to_slices(self):
        n = self.values.shape[0]
        ids = np.arange(n)
        return IndexedSlices((ids, ids), self.values, self.shape, axis=(0, 1), unique=True)


def test_a_third_party_type_obeys_every_law():
    laws.check_all(Diagonal(np.array([1.5, -2.0, 0.25])), Diagonal(np.array([3.0, 0.5, 1.0])))


def test_a_subclass_without_its_duties_says_so():
    class Nothing(Tangent):
        pass

    for name in ("shape", "dtype"):
        with pytest.raises(TypeError, match=f"must define {name}"):
            getattr(Nothing(), name)
    with pytest.raises(TypeError, match="must define to_slices"):
        Nothing().densify()


def test_truth_and_numbers(xp):
    one = IndexedSlices(xp.asarray([0, 0]), xp.asarray([1.5, 1.0]), (1,))
    assert bool(one) and float(one) == 2.5 and int(one) == 2 and complex(one) == 2.5
    assert not bool(IndexedSlices(xp.asarray([0]), xp.asarray([0.0]), (1,)))
    two = IndexedSlices(xp.asarray([0]), xp.asarray([0.0]), (2,))
    for convert in (bool, float, int):
        with pytest.raises(ValueError, match="2 elements"):
            convert(two)
    with pytest.raises(TypeError, match="iterated"):
        iter(two)
    with pytest.raises(TypeError, match="iterated"):
        1.0 in two  # noqa: B015
    with pytest.raises(ValueError, match="T needs 2 axes"):
        two.T


def test_astype(xp):
    t = IndexedSlices(xp.asarray([1, 1]), xp.asarray([0.6, 0.7], dtype=xp.float32), (3,))
    assert oracle.to_numpy(t.astype(xp.int32).densify()).tolist() == [0, 1, 0]
    assert t.astype(xp.float32) is t
    wrapped = IndexedSlices(xp.asarray([1, 1]), xp.asarray([200, 100], dtype=xp.uint8), (3,))
    assert oracle.to_numpy(wrapped.astype(xp.int32).densify()).tolist() == [0, 44, 0]


def test_equality_by_value(xp):
    t = IndexedSlices(xp.asarray([1, 1]), xp.asarray([2.0, 3.0]), (3,))
    same = IndexedSlices(xp.asarray([1]), xp.asarray([5.0]), (3,))
    assert sparsetangent.equal(t, same) and sparsetangent.equal(t, t.densify()) and sparsetangent.equal(t.densify(), same)
    assert not sparsetangent.equal(t, -same) and not sparsetangent.equal(t, IndexedSlices([], xp.zeros((0,)), (4,)))
    assert sparsetangent.allclose(t, same * (1 + 1e-6)) and not sparsetangent.allclose(t, same * 1.1)
    assert sparsetangent.equal(Fill(xp.asarray(2.0), (3,)), Fill(xp.asarray(2.0), (3,)))
    assert not sparsetangent.equal(Zero((3,), xp=xp.module), same)
    nan = IndexedSlices(xp.asarray([1]), xp.asarray([float("nan")]), (3,))
    assert not sparsetangent.equal(nan, nan) and not sparsetangent.allclose(nan, nan)


def test_registry_laws_on_one_hots(xp):
    from sparsetangent.testing import strategies

    for_all(xp, laws._LAWS["metadata"], strategies.one_hots(xp), examples=30)


def test_registered_types_are_pytrees():
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    from torch.utils import _pytree

    @sparsetangent.register_tangent
    class Row(sparsetangent.Tangent):
        """One row of a matrix that is zero elsewhere; slots, and a static attribute that is no array."""

        __slots__ = ("number", "shape_", "values")

        def __init__(self, values, number, shape):
            self.values, self.number, self.shape_ = values, number, shape

        shape = property(lambda self: self.shape_)
        dtype = property(lambda self: self.values.dtype)

        def to_slices(self):
            xp = sparsetangent.namespace(self.values)
            return sparsetangent.IndexedSlices(xp.asarray([self.number]), self.values[None, ...], self.shape_)

    line = np.array([1.5, -2.0])
    for tree_map, xp in ((jax.tree.map, jax.numpy), (_pytree.tree_map, torch)):
        doubled = tree_map(lambda x: 2 * x, Row(xp.asarray(line), 1, (3, 2)))
        assert type(doubled) is Row and doubled.number == 1
        np.testing.assert_array_equal(np.asarray(doubled.densify()), [[0, 0], [3, -4], [0, 0]])
    traced = jax.jit(lambda t: (t * 3.0).densify())(Row(jax.numpy.asarray(line), 2, (3, 2)))
    np.testing.assert_array_equal(np.asarray(traced), [[0, 0], [0, 0], [4.5, -6]])
    with pytest.raises(ValueError, match="Row is registered already"):
        sparsetangent.register_tangent(Row)


def test_what_cannot_be_registered():
    class Half(sparsetangent.Tangent):
        shape = (2,)

    with pytest.raises(TypeError, match="Half must give dtype and to_slices"):
        sparsetangent.register_tangent(Half)
    with pytest.raises(TypeError, match="register_tangent takes a class derived"):
        sparsetangent.register_tangent(np.ndarray)
