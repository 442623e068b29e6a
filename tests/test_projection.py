"""`Projector`: the cotangent of a primal has its shape, dtype, device and structure, and stays compact where it can."""

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Projector, Tangent, Zero, project
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all

ROWS = 2**50
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def reference(x, shape):
    """A cotangent as a NumPy array in double precision, summed down to `shape` by literal loops over what was broadcast."""
    result = np.zeros(shape, np.complex128)
    for place in np.ndindex(*x.shape):
        tail = place[len(place) - len(shape) :]
        result[tuple(0 if n == 1 else i for i, n in zip(tail, shape, strict=True))] += x[place]
    return result


@hs.composite
def cases(draw, xp):
    grown = draw(strategies.shapes())
    lead = draw(hs.integers(0, len(grown)))
    shape = tuple(1 if draw(hs.booleans()) and n != 0 else n for n in grown[lead:])
    dtypes = strategies.dtypes_of(xp, [*FLOATS, "bool", "int32"])
    source = draw(hs.sampled_from([*dtypes, *strategies.dtypes_of(xp, ["uint8"])]))
    if draw(hs.booleans()):
        t = draw(strategies.arrays(xp, grown, source))
    else:
        t = (
            draw(strategies.tangents(xp, hs.just(grown), [source]))
            if grown
            else draw(strategies.fills(xp, hs.just(()), [source]))
        )
    return t, shape, draw(hs.sampled_from(dtypes))


def test_value_shape_and_dtype(xp):
    def body(case):
        t, shape, dtype = case
        primal = xp.zeros(shape, dtype=dtype)
        result = project(t, primal)
        assert tuple(result.shape) == shape and result.dtype == dtype
        if not (xp.isdtype(dtype, ("real floating", "complex floating")) or "bfloat16" in str(dtype)):
            assert isinstance(result, Zero)
            return
        dense = oracle.loop_densify(t) if isinstance(t, Tangent) else oracle.to_numpy(t)
        expected = reference(dense, shape)
        if not xp.isdtype(dtype, "complex floating"):
            expected = expected.real
        eps = max(oracle.relative_tolerance(primal), oracle.relative_tolerance(st.densify(t)))
        actual = oracle.to_numpy(st.densify(result))
        scale = 1 + np.abs(dense.astype(np.complex128)).sum()
        assert oracle.close(actual, expected, rtol=eps, atol=eps * scale)
        assert project(result, primal) is result

    for_all(xp, body, cases(xp), examples=120)


def test_storage(xp):
    rows = oracle.as_backend(xp, np.random.default_rng(0).standard_normal((3, 2)), xp.float32)
    primal = xp.zeros((3, 2), dtype=xp.float32)

    def slices(ids, values=rows, shape=(3, 2), **keywords):
        return IndexedSlices(xp.asarray(ids), values, shape, **keywords)

    for full in (
        slices([2, 0, 1]),
        slices([0, 1, 1, 2], xp.concat([rows, rows[:1, ...]])),
        IndexedSlices((), rows[None, ...], (3, 2), axis=()),
    ):
        result = project(full, primal)
        assert not isinstance(result, Tangent)
        assert np.array_equal(oracle.to_numpy(result), oracle.loop_densify(full))
    for sparse in (
        slices([2, 0, 0]),
        slices([1], rows[:1, ...]),
        Fill(rows[0, 0], (3, 2)),
        OneHot(xp.asarray([1, 0, 1]), 2, dtype=xp.float32),
    ):
        assert project(sparse, primal) is sparse
    assert isinstance(project(slices([2, 0], rows[:2, ...], (3, 2)), xp.zeros((3, 1), dtype=xp.float32)), IndexedSlices)
    everything = OneHot(xp.asarray([0, 0, 0]), 1)
    assert oracle.to_numpy(project(everything, xp.zeros((3, 1), dtype=xp.float32))).tolist() == [[1], [1], [1]]
    weak = project(OneHot(xp.asarray([0, 2, 0]), 3), xp.zeros((3, 3), dtype=xp.float32))
    assert isinstance(weak, OneHot) and weak.dtype == xp.float32 and not weak.weak


def test_axes_of_size_one(xp):
    column = xp.asarray([[1.0], [2.0], [3.0]])
    for primal_shape in ((3,), (1, 3, 1), (3, 1, 1)):
        for t in (column, IndexedSlices(xp.asarray([1, 1]), column[:2, ...], (3, 1))):
            result = project(t, xp.zeros(primal_shape, dtype=column.dtype))
            dense = oracle.loop_densify(t) if isinstance(t, Tangent) else oracle.to_numpy(t)
            assert oracle.to_numpy(st.densify(result)).tolist() == dense.reshape(primal_shape).tolist()
    flat = IndexedSlices(xp.asarray([2]), xp.asarray([5.0]), (3,))
    assert oracle.to_numpy(project(flat, column).densify()).tolist() == [[0], [0], [5]]
    for shape in ((1, 3), (2,), (3, 3), (3, 2, 1)):
        with pytest.raises(ValueError, match=r"\(3, 1\) does not fit a primal of shape"):
            project(column, xp.zeros(shape))


STRUCTURES = {
    "symmetric": lambda x: (x + x.swapaxes(-1, -2)) / 2,
    "hermitian": lambda x: (x + x.swapaxes(-1, -2).conj()) / 2,
    "diagonal": lambda x: x * np.eye(x.shape[-1]),
    "lower": np.tril,
    "upper": np.triu,
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(xp, name):
    """Each is its dense formula, idempotent, and self-adjoint: <P a, b> == <a, P b>."""

    @hs.composite
    def pairs(draw):
        n = draw(hs.integers(0, 4))
        shape = hs.just((*draw(strategies.shapes(0, 1)), n, n))
        dtypes = strategies.dtypes_of(xp, ["float32", "float64", "complex64"])
        dtype = [draw(hs.sampled_from(dtypes))]
        t = draw(strategies.tangents(xp, shape, dtype))
        return draw(hs.sampled_from([t, t.densify()])), draw(strategies.tangents(xp, shape, dtype))

    def body(pair):
        t, u = pair
        to_space = Projector(t.densify() if isinstance(t, Tangent) else t, structure=name)
        result = to_space(t)
        dense, other = (oracle.to_numpy(st.densify(x)).astype(np.complex128) for x in (t, u))
        expected = STRUCTURES[name](dense)
        assert oracle.close(oracle.to_numpy(st.densify(result)), expected, rtol=1e-5, atol=1e-4)
        assert oracle.close(oracle.to_numpy(st.densify(to_space(result))), expected, rtol=1e-5, atol=1e-4)
        projected = oracle.to_numpy(st.densify(to_space(u)))
        assert np.isclose((expected.conj() * other).sum().real, (dense.conj() * projected).sum().real, atol=1e-2)
        assert to_space.structure == name and result.dtype == t.dtype

    for_all(xp, body, pairs(), examples=25)


def test_structures_of_slices_stay_compact(xp64):
    ids = (xp64.asarray([3, ROWS - 1, 3]), xp64.asarray([3, 2, 4]))
    t = IndexedSlices(ids, xp64.asarray([1.0, 2.0, 4.0]), (ROWS, ROWS), axis=(0, 1))
    for name, kept in (("diagonal", [1, 0, 0]), ("lower", [1, 2, 0]), ("upper", [1, 0, 4])):
        result = Projector(t, structure=name)(t)
        assert oracle.to_numpy(result.values).tolist() == kept
    both = Projector(t, structure="symmetric")(t)
    assert [float(both[i]) for i in ((3, 3), (2, ROWS - 1), (ROWS - 1, 2), (4, 3), (3, 4))] == [1, 1, 1, 2, 2]


def test_structure_law(xp64):
    t = IndexedSlices(xp64.asarray([3, ROWS - 1, 3]), xp64.ones((3, 2), dtype=xp64.float64), (ROWS, 2))
    like = Zero((ROWS, 2), xp=xp64.module, dtype=xp64.float32)
    result = project(t, like)
    assert isinstance(result, IndexedSlices) and result.dtype == xp64.float32
    assert oracle.to_numpy(st.densify(result[3])).tolist() == [2, 2]
    assert isinstance(project(t, Zero((ROWS, 1), like=like)), IndexedSlices)
    assert isinstance(project(Fill(xp64.asarray(1.0), (ROWS, 2)), like), Fill)
    assert isinstance(project(None, like), Zero) and isinstance(
        project(t, Zero((ROWS, 2), xp=xp64.module, dtype=xp64.int64)), Zero
    )
    assert oracle.to_numpy(project(t, Zero((2,), like=like))).tolist() == [3, 3]


def test_numbers_and_none(xp):
    primal = xp.asarray(1.0, dtype=xp.float32)
    for number, value in ((2, 2), (2.5, 2.5), (1 + 2j, 1), (True, 1)):
        result = project(number, primal)
        assert result.dtype == xp.float32 and result.shape == () and float(result) == value
    assert isinstance(project(None, primal), Zero)
    with pytest.raises(ValueError, match="does not fit"):
        project(2.0, xp.zeros((3,)))


def test_what_is_registered(xp):
    class Mirrored(Tangent):
        shape = property(lambda self: (2, 2))
        dtype = property(lambda self: xp.float32)

        def to_slices(self):
            return IndexedSlices(xp.asarray([0, 1]), xp.ones((2, 2), dtype=xp.float32), (2, 2))

    t = xp.asarray([[1.0, 2.0], [4.0, 8.0]])
    assert Projector(Mirrored()).structure is None
    st.register_projector("symmetric", types=(Mirrored,))
    assert oracle.to_numpy(Projector(Mirrored())(t)).tolist() == [[1, 3], [3, 8]]
    st.register_projector("test-negated", lambda x: -x)
    assert oracle.to_numpy(Projector(t, structure="test-negated")(t)).tolist() == [[-1, -2], [-4, -8]]
    with pytest.raises(ValueError, match="test-unknown.*function"):
        st.register_projector("test-unknown")


def test_errors(xp):
    with pytest.raises(ValueError, match=r"structure must be one of .*'symmetric'.*not 'round'"):
        Projector(xp.zeros((2, 2)), structure="round")
    with pytest.raises(ValueError, match="at least 2 axes"):
        Projector(xp.zeros((2,)), structure="lower")
    with pytest.raises(ValueError, match=r"square, not of shape \(2, 3\)"):
        Projector(xp.zeros((2, 3)), structure="symmetric")
    for bad in ("x", [1.0], object()):
        with pytest.raises(TypeError):
            Projector(bad)
        with pytest.raises(TypeError):
            project(bad, xp.zeros((2,)))
    if xp.backend_name != "numpy":
        with pytest.raises(TypeError, match="different libraries"):
            project(np.ones(2), xp.zeros((2,)))


def test_under_jit():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    ids, rows, primal = jnp.asarray([1, 1, 0]), jnp.asarray([1.0, 2.0, 3.0]), jnp.zeros((3,), jnp.float16)
    result = jax.jit(lambda i, r: project(IndexedSlices(i, r, (3,)), primal))(ids, rows)
    assert result.dtype == jnp.float16 and oracle.to_numpy(st.densify(result)).tolist() == [3, 3, 0]
