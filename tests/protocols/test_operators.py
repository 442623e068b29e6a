"""Operators with arrays of each library on either side, and NumPy's and torch's protocols."""

import operator
import pickle

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import DensifyError, IndexedSlices, OneHot
from sparsetangent.testing import oracle


@pytest.fixture
def t(xp):
    return IndexedSlices(xp.asarray([1, 3, 1]), xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (4, 2))


@pytest.fixture
def x(xp):
    return xp.reshape(xp.asarray([0.5, -1.0, 2.0, 3.0, 1.5, -2.0, 4.0, 1.0]), (4, 2))


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.lt, operator.eq, operator.ge])
def test_both_orders(xp, t, x, op):
    dense = oracle.loop_densify(t)
    assert np.allclose(oracle.to_numpy(sp.densify(op(t, x))), op(dense, oracle.to_numpy(x)))
    if xp.backend_name != "array_api_strict":
        assert np.allclose(oracle.to_numpy(sp.densify(op(x, t))), op(oracle.to_numpy(x), dense))


def test_what_arrays_on_the_left_give(xp, t, x):
    if xp.backend_name == "array_api_strict":
        with pytest.raises(TypeError):
            x + t
        return
    assert isinstance(x * t, IndexedSlices) and isinstance(t * x, IndexedSlices)
    assert not isinstance(x + t, sp.Tangent) and not isinstance(x - t, sp.Tangent)
    row = xp.asarray([[2.0, 1.0, 0.0, -1.0]])
    assert np.allclose(oracle.to_numpy(row @ t), oracle.to_numpy(row) @ oracle.loop_densify(t))
    with np.errstate(divide="ignore"):
        assert np.isinf(oracle.to_numpy(x / t)[0]).all()
    with np.errstate(divide="ignore", invalid="ignore"):
        assert (oracle.to_numpy(x**t)[0] == 1).all()


@pytest.mark.parametrize("scalar", [np.float64(2.0), np.float32(2.0), np.int64(2)])
def test_numpy_scalars(xp, t, scalar):
    for product in (scalar * t, t * scalar):
        assert isinstance(product, IndexedSlices)
        assert np.allclose(oracle.loop_densify(product), 2 * oracle.loop_densify(t))


def test_asarray_never_makes_an_object_array(xp, t):
    with sp.densify_policy("allow"):
        array = np.asarray(t)
        assert array.dtype == oracle.to_numpy(t.values).dtype and (array == oracle.loop_densify(t)).all()
        assert np.asarray(t, dtype=np.float16).dtype == np.float16
        with pytest.raises(ValueError, match="copy=False"):
            np.asarray(t, copy=False)
    with sp.densify_policy("raise"), pytest.raises(DensifyError):
        np.asarray(t)


def test_numpy_functions():
    t = IndexedSlices(np.array([1, 3, 1]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (4, 2))
    dense = oracle.loop_densify(t)
    for name in ("sum", "mean", "max", "min", "prod", "any", "all", "count_nonzero", "amax"):
        for axis in (None, 0, 1):
            assert np.allclose(sp.densify(getattr(np, name)(t, axis)), getattr(np, name)(dense, axis)), (name, axis)
    for name in ("sin", "absolute", "conjugate", "sqrt", "square", "negative", "rint", "arctan"):
        result = getattr(np, name)(t)
        assert isinstance(result, IndexedSlices) and np.allclose(result.densify(), getattr(np, name)(dense))
    assert isinstance(np.concatenate([t, t]), IndexedSlices) and isinstance(np.stack([t, t], axis=1), IndexedSlices)
    assert np.transpose(t).shape == (2, 4) and np.reshape(t, (2, 4)).shape == (2, 4) and np.expand_dims(t, 0).shape == (1, 4, 2)
    assert np.linalg.norm(t) == pytest.approx(np.linalg.norm(dense))
    with pytest.raises(TypeError):
        np.median(t)
    with pytest.raises(TypeError, match="where"):
        np.sum(t, where=dense > 0)


def test_ufuncs_into_an_array():
    t = IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    out = np.full(3, 9.0)
    assert np.multiply(t, 2.0, out=out) is out and out.tolist() == [0, 10, 0]
    assert np.add(out, t, out=out) is out and out.tolist() == [0, 15, 0]
    assert np.add(np.full(3, 1.0), t, out=out) is out and out.tolist() == [1, 6, 1]
    with pytest.raises(TypeError, match="immutable"):
        np.add(t, 1.0, out=t)
    with pytest.raises(TypeError):
        np.add.accumulate(t)
    with pytest.raises(TypeError):
        np.add.reduce(t, initial=1.0)
    with pytest.raises(TypeError):
        np.add(t, t, where=np.array([True, False, True]))


def test_torch_functions():
    torch = pytest.importorskip("torch")
    t = IndexedSlices(torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), (3,))
    x = torch.tensor([1.0, 2.0, 4.0])
    assert torch.mul(x, t).densify().tolist() == [0, 10, 0]
    assert torch.sub(x, t).tolist() == [1, -3, 4]
    before = x._version
    x += t
    assert x.tolist() == [1, 7, 4] and x._version > before
    assert isinstance(torch.square(t), IndexedSlices) and isinstance(torch.neg(t), IndexedSlices)
    with pytest.raises(TypeError):
        torch.svd(t)


def test_the_namespace(xp, t):
    nx = t.__array_namespace__()
    assert nx is sp.namespace(xp.module) is sp.namespace(t.values) is sp.namespace(nx)
    assert "sparsetangent" in nx.__name__ and pickle.loads(pickle.dumps(nx)) is nx
    assert nx.float32 == xp.float32 and nx.asarray([1]).shape == (1,)
    assert set(dir(xp.module)) <= set(dir(nx)) and "sum" in dir(nx)
    assert not isinstance(nx.sum(xp.zeros((2,))), sp.Tangent)
    with pytest.raises(AttributeError, match="nothing"):
        nx.nothing
    with pytest.raises(TypeError, match="namespace"):
        sp.namespace(3)


def test_retain(xp, t):
    kept = t.retain(xp.asarray([1, 1, 0]))
    assert isinstance(kept, IndexedSlices) and kept.shape == t.shape
    assert oracle.to_numpy(kept.densify()).tolist() == [[0, 0], [6, 8], [0, 0], [0, 0]]
    assert oracle.to_numpy(t.retain([-1]).densify())[3].tolist() == [3, 4]
    assert t.retain([]).stored == 0
    with pytest.raises(IndexError, match="ids holds 4"):
        t.retain([4])
    with pytest.raises(ValueError, match="one stored axis"):
        OneHot(xp.asarray([0]), 3).retain([0])
