"""Construction, metadata, checks and errors of `IndexedSlices`."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent
from sparsetangent import IndexedSlices
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all


def values(xp, shape):
    return xp.asarray(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def test_metadata(xp):
    t = IndexedSlices(xp.asarray([1, 1, -1]), values(xp, (3, 2)), (5, 2))
    assert (t.shape, t.ndim, t.size, t.axis, t.stored, t.unique) == ((5, 2), 2, 10, (0,), 3, False)
    assert t.dtype == xp.float32 and t.density == 0.6 and t.dense_nbytes == 40
    assert oracle.to_numpy(t.indices).tolist() == [1, 1, 4]
    assert isinstance(t.coords, tuple) and t.coords[0] is t.indices
    assert len(t) == 5 and t.T.shape == (2, 5) and t.mT.shape == (2, 5)
    for part in ("shape=(5, 2)", "float32", "axis=0", "stored=3", "density=0.6"):
        assert part in repr(t)


def test_arrays_are_held_not_copied():
    ids, rows = np.array([1, 3]), np.array([[1.0], [2.0]])
    t = IndexedSlices(ids, rows, (5, 1))
    assert t.indices is ids and t.values is rows


def test_any_dimensional_ids_are_flattened(xp):
    t = IndexedSlices(xp.asarray([[0, 2], [2, 1]]), values(xp, (2, 2, 3)), (4, 3))
    assert t.stored == 4 and t.values.shape == (4, 3)
    single = IndexedSlices(xp.asarray(2), values(xp, (3,)), (4, 3))
    assert single.stored == 1 and oracle.to_numpy(single.densify())[2].tolist() == oracle.to_numpy(values(xp, (3,))).tolist()


@pytest.mark.parametrize("axis", [1, -1, (1,), (-1,)])
def test_other_axes_keep_entries_first(xp, axis):
    rows = values(xp, (2, 3))
    ids = xp.asarray([4, 0])
    t = IndexedSlices((ids,) if isinstance(axis, tuple) else ids, rows, (3, 5), axis=axis)
    assert t.axis == (1,)
    assert np.allclose(oracle.to_numpy(t.densify())[:, 4], oracle.to_numpy(rows)[0])


def test_a_tuple_of_axes_is_sorted_with_its_indices(xp):
    t = IndexedSlices((xp.asarray([4]), xp.asarray([1])), values(xp, (1, 3)), (2, 3, 5), axis=(2, 0))
    assert t.axis == (0, 2) and [int(c[0]) for c in t.coords] == [1, 4]


def test_no_axis_is_a_sum_of_whole_arrays(xp):
    slabs = values(xp, (3, 2, 2))
    t = IndexedSlices((), slabs, (2, 2), axis=())
    assert t.indices == () and np.allclose(oracle.to_numpy(t.densify()), oracle.to_numpy(slabs).sum(0), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "uint64"])
def test_narrow_and_unsigned_ids_widen(xp, dtype):
    if not hasattr(xp, dtype) or (xp.backend_name == "jax32" and dtype == "uint64"):
        return
    ids = oracle.as_backend(xp, np.array([100, 0], dtype), getattr(xp, dtype))
    t = IndexedSlices(ids, values(xp, (2,)), (300,))
    assert str(t.indices.dtype).rpartition(".")[2] in ("int64", "int32")
    assert float(t[100]) == float(t.values[0])


def test_int32_is_kept_unless_the_axis_is_longer(xp64):
    ids = xp64.asarray(np.array([1], np.int32))
    assert IndexedSlices(ids, values(xp64, (1,)), (9,)).indices.dtype == xp64.int32
    assert IndexedSlices(ids, values(xp64, (1,)), (2**40,)).indices.dtype == xp64.int64
    both = IndexedSlices((ids, xp64.asarray([2])), values(xp64, (1,)), (9, 9), axis=(0, 1))
    assert all(c.dtype == xp64.int64 for c in both.coords)


def test_python_sequences(xp):
    for empty in ([], ()):
        assert IndexedSlices(empty, values(xp, (0, 2)), (4, 2)).stored == 0
    assert IndexedSlices([1, -1], values(xp, (2, 2)), (4, 2)).stored == 2


@pytest.mark.parametrize("bad, number", [([0, 4], 4), ([-5], -5), ([0, 1, 99], 99)])
def test_out_of_range(xp, bad, number):
    with pytest.raises(IndexError, match=rf"indices holds {number} at position {len(bad) - 1}.*axis 0 of size 4.*-4 <= id < 4"):
        IndexedSlices(xp.asarray(bad), values(xp, (len(bad),)), (4,))
    with pytest.raises(IndexError, match="axis 1 of size 4"):
        IndexedSlices(xp.asarray(bad), values(xp, (len(bad), 2)), (2, 4), axis=1)


def test_an_axis_of_size_0_takes_no_ids(xp):
    with pytest.raises(IndexError, match="allowed: none"):
        IndexedSlices(xp.asarray([0]), values(xp, (1,)), (0,))
    assert IndexedSlices([], values(xp, (0,)), (0,)).densify().shape == (0,)


@pytest.mark.parametrize("make", [lambda xp: xp.asarray([0.0]), lambda xp: xp.zeros((0,)), lambda xp: xp.asarray([True])])
def test_ids_must_be_integers(xp, make):
    ids = make(xp)
    with pytest.raises(TypeError, match="integer dtype.*swapped"):
        IndexedSlices(ids, values(xp, ids.shape), (4,))
    for other in (None, "1", 1.5, {1}):
        with pytest.raises(TypeError, match="indices must be"):
            IndexedSlices(other, values(xp, (1,)), (4,))


def test_shape_errors(xp):
    with pytest.raises(ValueError, match=r"values must have shape \(2, 3\).*not \(3, 2\)"):
        IndexedSlices(xp.asarray([0, 1]), values(xp, (3, 2)), (4, 3))
    with pytest.raises(ValueError, match="out of range for 1 axes"):
        IndexedSlices(xp.asarray([0]), values(xp, (1,)), (4,), axis=1)
    with pytest.raises(ValueError, match="names an axis twice"):
        IndexedSlices((xp.asarray([0]), xp.asarray([0])), values(xp, (1,)), (4, 4), axis=(0, -2))
    with pytest.raises(ValueError, match="tuple of 2 arrays"):
        IndexedSlices(xp.asarray([0]), values(xp, (1,)), (4, 4), axis=(0, 1))
    with pytest.raises(ValueError, match="one shape"):
        IndexedSlices((xp.asarray([0]), xp.asarray([0, 1])), values(xp, (1,)), (4, 4), axis=(0, 1))
    with pytest.raises(TypeError, match="shape must be"):
        IndexedSlices(xp.asarray([0]), values(xp, (1,)), (4.5,))
    with pytest.raises(ValueError, match="negative"):
        IndexedSlices([], values(xp, (0,)), (-1,))
    with pytest.raises(TypeError, match="values must be an array"):
        IndexedSlices(xp.asarray([0]), [1.0], (4,))


def test_values_of_other_kinds_are_refused():
    for bad in (np.array(["a"]), np.array([object()]), np.array(["2020-01-01"], "datetime64[D]")):
        with pytest.raises(TypeError, match="values must be bool or numeric"):
            IndexedSlices([0], bad, (4,))
    with pytest.raises(TypeError, match="MaskedArray"):
        IndexedSlices([0], np.ma.masked_array([1.0]), (4,))


def test_libraries_do_not_mix(xp):
    if xp.backend_name != "numpy":
        with pytest.raises(TypeError, match="one library"):
            IndexedSlices(np.array([0]), values(xp, (1,)), (4,))


def test_jax_without_64_bits_refuses_long_axes():
    jax = pytest.importorskip("jax")
    if not jax.config.jax_enable_x64:
        with pytest.raises(ValueError, match=r"axis 0 of size 1099511627776.*2147483647"):
            IndexedSlices(jax.numpy.asarray([0]), jax.numpy.zeros(1), (2**40,))


def test_unique_is_verified(xp):
    with pytest.raises(ValueError, match="only 2 distinct"):
        IndexedSlices(xp.asarray([1, 0, -3]), values(xp, (3,)), (4,), unique=True)
    assert IndexedSlices(xp.asarray([1, 0]), values(xp, (2,)), (4,), unique=True).unique
    assert IndexedSlices(xp.asarray([1, 1]), values(xp, (2,)), (4,), unique=True, validate=False).unique


def test_unvalidated_ids_never_write_out_of_bounds(xp):
    for ids in ([7], [-1], [2**31 - 1]):
        t = IndexedSlices(xp.asarray(ids), values(xp, (1,)), (4,), validate=False)
        try:
            dense = t.densify()
        except IndexError:
            continue
        assert (oracle.to_numpy(dense) == 0).all()


def test_immutable(xp):
    t = IndexedSlices(xp.asarray([0]), values(xp, (1,)), (4,))
    with pytest.raises(TypeError, match="immutable.*add_into"):
        t[0] = 1.0
    for name in ("shape", "values", "indices", "axis", "dtype"):
        with pytest.raises(AttributeError):
            setattr(t, name, None)
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)


def test_coalesce_to_a_size(xp):
    t = IndexedSlices(xp.asarray([3, 1, 3]), values(xp, (3, 2)), (5, 2))
    padded = t.coalesce(size=4)
    assert oracle.to_numpy(padded.indices).tolist() == [1, 3, 5, 5]
    assert (oracle.to_numpy(padded.values)[2:] == 0).all()
    assert np.allclose(oracle.to_numpy(padded.densify()), oracle.loop_densify(t), atol=1e-6)
    if xp.backend_name != "jax":
        with pytest.raises(ValueError, match="distinct"):
            t.coalesce(size=1)
    with pytest.raises(ValueError):
        t.coalesce(size=-1)
    for same in (copy.copy(padded), pickle.loads(pickle.dumps(padded))):
        assert np.allclose(oracle.to_numpy(same.densify()), oracle.loop_densify(t), atol=1e-6)


def test_padding_is_inert(xp):
    def body(t):
        padded = t.coalesce(size=t.coalesce().stored + 2)
        dense = oracle.loop_densify(t)
        nx = t.__array_namespace__()
        scale = 1 + np.abs(dense).max(initial=0)
        for name, operate in {
            "+": lambda x: x + x,
            "*": lambda x: x * x,
            "/": lambda x: x / 2,
            "**": lambda x: x**2,
            "flip": lambda x: x[::-1],
            "roll": lambda x: (nx if isinstance(x, sparsetangent.Tangent) else np).roll(x, 1, axis=0),
            "concat": lambda x: nx.concat([x, x], axis=0) if isinstance(x, sparsetangent.Tangent) else np.concatenate([x, x]),
            "square": lambda x: (nx if isinstance(x, sparsetangent.Tangent) else np).square(x),
        }.items():
            actual = oracle.to_numpy(operate(padded).densify())
            assert oracle.close(actual, operate(dense), rtol=1e-4, atol=1e-4 * scale**2), name
        for name in ("sum", "max", "min", "count_nonzero"):
            if t.shape[0]:
                expected = getattr(np, name)(dense, axis=0)
                actual = oracle.to_numpy(sparsetangent.densify(getattr(nx, name)(padded, axis=0)))
                assert oracle.close(actual, expected, rtol=1e-4, atol=1e-4 * scale), name

    shapes = st.sampled_from([(4,), (3, 2), (2, 2, 3)])
    floats = strategies.dtypes_of(xp, ("float32", "float64"))
    for axes in ((0,), (0, 1)):
        some = shapes if axes == (0,) else shapes.filter(lambda s: len(s) > 1)
        for_all(xp, body, strategies.indexed_slices(xp, some, floats, axes=axes), examples=40)


@pytest.mark.parametrize("name", ["uint8", "uint32", "uint64"])
def test_unsigned_ids_do_not_count_from_the_end(name):
    greatest = np.iinfo(name).max
    with pytest.raises(IndexError, match="out of range for axis 0 of size 4"):
        IndexedSlices(np.array([1, greatest], name), np.array([1.5, 2.5]), (4,))
