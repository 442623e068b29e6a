"""Cases of repeated ids in arithmetic: sums, means, and what is not linear; the wrong answers of other systems, right here."""

import operator

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import IndexedSlices
from tests.cases.support import array, case, dense, random, same, slices

TWO_WORKERS = [
    case("C103", "tensorflow/tensorflow#2283", ([0, 2], [[1.0], [2.0]]), ([2, 1], [[4.0], [6.0]]), [[0.5], [3], [3]]),
    case("C104", "tensorflow/tensorflow#5252", ([0, 1], [[2.0], [4.0]]), ([1, 2], [[6.0], [8.0]]), [[1], [5], [4]]),
    case("C128", "horovod/horovod#341", ([0, 1], [[1.0], [1.0]]), ([0, 2], [[1.0], [1.0]]), [[1], [0.5], [0.5]]),
    case("C129", "horovod/horovod#2279", ([1], [[4.0]]), ([1], [[8.0]]), [[0], [6], [0]]),
]


@pytest.mark.parametrize("one, two, expected", TWO_WORKERS)
def test_mean_of_two(xp, one, two, expected):
    a, b = (slices(xp, *w, (3, 1)) for w in (one, two))
    for mean in ((a + b) / 2, sp.add_n([a, b]) * 0.5, 0.5 * b + a / 2, sum([a, b]) / 2):
        assert isinstance(mean, IndexedSlices)
        same(mean, expected)
    assert (a + b).coalesce().unique and (a + b).coalesce().stored <= 3


@pytest.fixture
def repeated(xp):
    """Rows 1, 1, 3: the squares of the stored rows sum to 91, those of the merged ones to 113."""
    return slices(xp, [1, 1, 3], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (5, 2))


def test_norm_of_repeated_rows(xp, repeated):
    """C14, keras-team/keras#18985; TensorFlow's global norm of the second is 9.539."""
    norm = repeated.__array_namespace__().vector_norm
    assert float(norm(slices(xp, [1, 1], [[3.0, 0.0], [3.0, 0.0]], (3, 2)))) == pytest.approx(6.0, rel=1e-6)
    assert float(norm(repeated)) == pytest.approx(np.sqrt(113), rel=1e-6)
    clipped = repeated * (1 / float(norm(repeated)))
    assert float(norm(clipped)) == pytest.approx(1.0, rel=1e-6)
    for order in (1, 2, 3, np.inf):
        assert float(norm(repeated, ord=order)) == pytest.approx(np.linalg.norm(dense(repeated).ravel(), order), rel=1e-5)


def test_clipping_of_repeated_rows(xp):
    """C17, allenai/allennlp#2312."""
    t = slices(xp, [0, 0, 1, 1], [[0.8], [0.9], [5.0], [-4.5]], (3, 1))
    nx = t.__array_namespace__()
    same(nx.minimum(nx.maximum(t, -1.0), 1.0), [[1], [0.5], [0]])


UNARY = ["square", "abs", "sign", "sqrt", "sin", "expm1", "tanh", "floor", "negative"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "less", "not_equal"]
FOLDS = ["sum", "mean", "max", "min", "prod", "any", "all", "count_nonzero"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_repeated_rows(xp, repeated, name):
    """Keras on TensorFlow squares the stored rows: 10 and 20 where (1 + 3)**2 = 16 and 36 are right."""
    actual = dense(getattr(repeated.__array_namespace__(), name)(repeated))
    np.testing.assert_allclose(actual, getattr(np, name)(dense(repeated)), rtol=1e-6)


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_repeated_rows(xp, repeated, name):
    """Keras on TensorFlow adds and multiplies such pairs entry by entry, as if the ids agreed."""
    other = slices(xp, [3, 4, 1, 3], random((4, 2)), (5, 2))
    function, expected = getattr(repeated.__array_namespace__(), name), getattr(np, name)
    for a, b in ((repeated, other), (other, repeated), (repeated, repeated)):
        np.testing.assert_allclose(dense(function(a, b)), expected(dense(a), dense(b)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", [operator.mul, operator.add, operator.sub, operator.truediv, operator.eq])
def test_repeated_rows_with_a_dense_array(xp, repeated, op):
    other = 1.5 + np.abs(random((5, 2)))
    np.testing.assert_allclose(dense(op(repeated, array(xp, other))), op(dense(repeated), other), rtol=1e-5)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", FOLDS)
def test_folds_of_repeated_rows(xp, repeated, name, axis):
    actual = sp.densify(getattr(repeated.__array_namespace__(), name)(repeated, axis=axis))
    np.testing.assert_allclose(dense(actual), getattr(np, name)(dense(repeated), axis=axis), rtol=1e-6)


def test_powers_of_repeated_rows(xp, repeated):
    same(repeated**2, dense(repeated) ** 2)
    same(repeated * repeated, dense(repeated) ** 2)


def test_coalescing_does_not_change_the_tangent(xp):
    """C151, scipy/scipy#15226."""
    t = slices(xp, [1, 1, 1, 2, 2], [1.0] * 5, (3,))
    before = t.stored, dense(t.indices).tolist(), dense(t.values).tolist()
    merged = t.coalesce()
    same(t, [0, 3, 2])
    t * t, t != t, sp.equal(t, merged)
    assert merged.stored == 2 and before[0] == 5
    assert (t.stored, dense(t.indices).tolist(), dense(t.values).tolist()) == before


def test_what_torch_refuses_works(xp, repeated):
    """Sum with a dense array, slices, equality, reshape and clamp of a tangent with repeats."""
    full, x = dense(repeated), random((5, 2))
    nx = repeated.__array_namespace__()
    same(repeated + array(xp, x), full + x)
    same(repeated[1:4, ::-1], full[1:4, ::-1])
    same(repeated[1], full[1])
    same(repeated == array(xp, full), full == full)
    same(nx.reshape(repeated, (2, 5)), full.reshape(2, 5))
    same(nx.minimum(repeated, 5.0), np.minimum(full, 5.0))


def test_repeated_sums_stay_bounded(xp, repeated):
    """A buffer that takes a sparse gradient each step must not grow for ever, as torch's momentum buffer does."""
    buffer = repeated
    for _ in range(40):
        buffer = 0.5 * buffer + repeated
    assert buffer.nbytes <= 2 * repeated.dense_nbytes
    np.testing.assert_allclose(dense(buffer), 2 * dense(repeated), rtol=1e-5)


@pytest.mark.parametrize("xp", ["jax"], indirect=True)
def test_a_tree_map_that_reaches_the_ids_is_caught(xp, repeated):
    """``tree.map`` over JAX's BCOO changes the indices silently."""
    import jax

    halved = jax.tree.map(lambda leaf: leaf * 0.5, repeated)
    with pytest.raises(TypeError, match="tree"):
        halved.densify()
