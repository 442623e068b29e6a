"""Cases of reads and their gradients: repeated ids, padding, masks, broadcasting ids, empty reads."""

import numpy as np
import pytest

from sparsetangent import IndexedSlices, OneHot, Tangent, from_dense, rules
from tests.cases.support import array, case, dense, ids, random, same, slices

I = np.asarray  # noqa: E741  # an index array of the table
MASK = np.array([True, False, True])
SIXTH = 1 / 6
PLACES = [[[0, SIXTH]] * 3, [[SIXTH, 0]] * 3]

# Case, report, rule, shape of what is read, arguments of the rule, cotangent, the right gradient.
READS = [
    case("C01", "HIPS/autograd#39", "take", (3,), (I([1, 1, 2]),), {}, [2.0, 3.0, 5.0], [0, 5, 5]),
    case("C04", "aesara-devs/aesara#987", "take", (1,), (I([0, 0, 0, 0]),), {}, [1.0] * 4, [4]),
    case(
        *("C12", "pytorch/pytorch#193704", "embedding", (5, 2), (I([[3, 1, 3], [1, 3, 0]]),), {}),
        *(np.full((2, 3, 2), 1.0), [[1, 1], [2, 2], [0, 0], [3, 3], [0, 0]]),
    ),
    case(
        *("C40", "pytorch/pytorch#146211", "take_along_axis", (2, 3), (I([[-1], [0]]), 1), {}),
        *([[1.0], [1.0]], [[0, 0, 1], [1, 0, 0]]),
    ),
    case(
        *("C58", "pytorch/pytorch#78149", "take_along_axis", (3, 2, 2), (np.zeros((3, 2, 0), int), -1), {}),
        *(np.zeros((3, 2, 0)), np.zeros((3, 2, 2))),
    ),
    case(
        *("C58", "pytorch/pytorch#78149", "getitem", (3, 2, 2)),
        *(((I([[[0]], [[1]]]), np.zeros((1, 0, 1), int), np.zeros((2, 0, 2), int)),), {}),
        *(np.zeros((2, 0, 2)), np.zeros((3, 2, 2))),
        form="coordinates",
    ),
    case(
        *("C59", "pytorch/pytorch#85215", "take_along_axis", (2, 0, 3), (np.zeros((2, 0, 3), int), 0), {}),
        *(np.zeros((2, 0, 3)), np.zeros((2, 0, 3))),
    ),
    case(
        *("C61", "pytorch/pytorch#5472", "embedding", (3, 2), (I([0, 0]),), {"padding_idx": 0}),
        *(np.full((2, 2), 1.0), np.zeros((3, 2))),
    ),
    case("C67", "cupy/cupy#503", "getitem", (), (np.asarray(False),), {}, np.zeros((0,)), 0.0),
    case(
        *("C89", "tensorflow/tensorflow#50075", "getitem", (2, 3, 2), ((I([0, 1]), slice(None), I([1, 0])),), {}),
        *(np.full((2, 3), SIXTH), PLACES),
    ),
    case(
        *("C89", "tensorflow/tensorflow#50075", "take_along_axis", (2, 3, 2), (I([[[1]], [[0]]]), 2), {}),
        *(np.full((2, 3, 1), SIXTH), PLACES),
        form="along-axis",
    ),
    case(
        *("C90", "tensorflow/tfjs#7494", "take", (3, 2), (I([[2], [0], [2]]),), {}),
        *([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]], [[3, 4], [0, 0], [6, 8]]),
    ),
    case("C112", "pytorch/pytorch#971", "getitem", (3,), (MASK,), {}, [1.0, 1.0], [1, 0, 1]),
    case("C113", "aesara-devs/aesara#105", "getitem", (3,), (~MASK,), {}, [6.0], [0, 6, 0]),
    case(
        *("C116", "pytorch/pytorch#4666", "embedding", (10, 3), (I([1, 2]),), {}),
        *(np.full((2, 3), SIXTH), [[0] * 3, [SIXTH] * 3, [SIXTH] * 3, *[[0] * 3] * 7]),
    ),
    case(
        *("C142", "flagos-ai/FlagGems#6448", "take_along_axis", (3, 2), (np.broadcast_to([[0], [2], [0]], (3, 2)), 0), {}),
        *([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[6, 8], [0, 0], [3, 4]]),
    ),
    case(
        *("C152", "pytorch/pytorch#3506", "embedding", (3, 2), (I([0, 2, 0, 1]),), {"padding_idx": 0}),
        *(np.full((4, 2), 1.0), [[0, 0], [1, 1], [1, 1]]),
    ),
    case(
        *("C154", "pytorch/pytorch#26302", "embedding", (3, 1)),
        *((I([[[0, 1], [2, 0]], [[0, 0], [1, 1]]]),), {"padding_idx": 0}),
        *(np.full((2, 2, 2, 1), 1.0), [[0], [3], [1]]),
    ),
]
reads = pytest.mark.parametrize("rule, shape, arguments, keywords, cotangent, expected", READS)


def on_backend(xp, argument):
    """Index arrays and masks of the table as arrays of the backend; all else as it stands."""
    if isinstance(argument, tuple):
        return tuple(on_backend(xp, a) for a in argument)
    return array(xp, argument, argument.dtype.name) if isinstance(argument, np.ndarray) else argument


@reads
def test_gradient_of_a_read(xp, rule, shape, arguments, keywords, cotangent, expected):
    gradient = getattr(rules, f"{rule}_vjp")(array(xp, cotangent), shape, *on_backend(xp, arguments), **keywords)
    assert isinstance(gradient, IndexedSlices) and gradient.dtype == array(xp, 0.0).dtype
    same(gradient, expected)


@reads
def test_the_gradient_is_the_adjoint_on_random_values(xp, rule, shape, arguments, keywords, cotangent, expected):
    x, dy = random(shape), random(np.shape(cotangent), seed=8)
    if "padding_idx" in keywords:
        x[keywords["padding_idx"]] = 0  # the row that is read and gets no gradient
    arguments = on_backend(xp, arguments)
    value = dense(getattr(rules, rule)(array(xp, x), *arguments, **keywords))
    gradient = dense(getattr(rules, f"{rule}_vjp")(array(xp, dy), shape, *arguments, **keywords))
    assert value.shape == dy.shape
    assert np.sum(gradient * x) == pytest.approx(np.sum(dy * value), rel=1e-5, abs=1e-5)


def test_value_of_a_negative_id_along_an_axis(xp):
    """C40, pytorch/pytorch#146211."""
    x = array(xp, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    same(rules.take_along_axis(x, ids(xp, [[-1], [0]]), 1), [[3], [4]])


def test_empty_ids_that_do_not_fit_the_other_axes_raise(xp):
    """C58, pytorch/pytorch#78149: ids broadcast here, so the shapes of the report are an error, not a crash."""
    with pytest.raises(ValueError):
        rules.take_along_axis_vjp(array(xp, np.zeros((2, 0, 2))), (3, 2, 2), ids(xp, np.zeros((2, 0, 2))), -1)


def test_only_padding_stores_nothing(xp):
    """C61, pytorch/pytorch#5472."""
    gradient = rules.embedding_vjp(array(xp, random((2, 2))), (3, 2), ids(xp, [0, 0]), padding_idx=0)
    assert gradient.stored == 0 and gradient.shape == (3, 2)


def test_stored_rows_are_those_read(xp):
    """C116, pytorch/pytorch#4666."""
    gradient = rules.embedding_vjp(array(xp, np.full((2, 3), SIXTH)), (10, 3), ids(xp, [1, 2]))
    assert gradient.stored == 2 and float(dense(gradient).sum()) == pytest.approx(1.0, rel=1e-6)


def test_a_fill_value_counts_each_place_once(xp):
    """C09, pytorch/pytorch#57006: d_v of filling the places `ids` with v."""
    cotangent = from_dense(array(xp, [1.0, 2.0, 3.0, 4.0]))
    assert float(cotangent.__array_namespace__().sum(cotangent.retain(ids(xp, [2, 2, 0])))) == 4.0


@pytest.mark.parametrize("masked", [[10.0, 20.0, 30.0], [[1.5, -2.0], [0.25, 4.0], [3.0, 8.0]]])
def test_dense_rows_picked_by_repeated_ids_count_once(xp, masked):
    """C19, pytorch/pytorch#1447."""
    expected = np.zeros_like(masked)
    expected[1] = masked[1]
    same(from_dense(array(xp, masked)).retain(ids(xp, [1, 1])), expected)


def test_increment_broadcast_over_the_ids(xp):
    """C88, Theano/Theano#2535: ``base[ids] += increment``; d_increment."""
    read = rules.take(array(xp, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), ids(xp, [0, 2, 2]))
    same(rules.broadcast_to_vjp(read, (2,)), [11, 14])


def test_max_norm_lookup_leaves_the_ids_alone(xp):
    """C155, pytorch/pytorch#943: the fault was an id array that was sorted in place."""
    given = np.array([[1, 2], [1, 2]])
    index = ids(xp, given)
    rows = rules.embedding(array(xp, [[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), index)
    norms = xp.sqrt(xp.sum(rows * rows, axis=-1, keepdims=True))
    same(rows * xp.where(norms > 1, 1 / norms, xp.ones_like(norms)), [[[0.3, 0.4], [0.6, 0.8]]] * 2)
    unsorted = ids(xp, [2, 0, 1, 0])
    gradient = rules.embedding_vjp(array(xp, random((4, 2))), (3, 2), unsorted, scale_grad_by_freq=True)
    gradient.coalesce(), gradient.densify(), gradient * gradient
    assert dense(index).tolist() == given.tolist() and dense(unsorted).tolist() == [2, 0, 1, 0]


def test_labels_get_no_gradient(xp):
    """C110, FluxML/Flux.jl#912: the one-hot matrix built inside the loss is a constant for its integer ids."""
    assert {n for n in rules.__all__ if n.startswith("one_hot_matmul")} == {"one_hot_matmul", "one_hot_matmul_vjp"}
    labels, w = ids(xp, [0, 2]), array(xp, random((3, 2)))
    if xp.backend_name == "torch":
        w.requires_grad_()
        (OneHot(labels, 3) @ w * array(xp, [[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        assert labels.grad is None and not labels.requires_grad
        same(w.grad, [[1, 2], [0, 0], [3, 4]])
    elif xp.backend_name.startswith("jax"):
        import jax

        _, pull = jax.vjp(lambda i, m: OneHot(i, 3) @ m, labels, w)
        d_labels, d_w = pull(array(xp, [[1.0, 2.0], [3.0, 4.0]]))
        assert d_labels.dtype == jax.dtypes.float0
        same(d_w, [[1, 2], [0, 0], [3, 4]])
    else:
        gradient = rules.one_hot_matmul_vjp(array(xp, [[1.0, 2.0], [3.0, 4.0]]), OneHot(labels, 3), (3, 2))
        assert isinstance(gradient, Tangent)
        same(gradient, [[1, 2], [0, 0], [3, 4]])


def test_ids_are_never_differentiable(xp):
    """C125, pytorch/pytorch#107083."""
    values = array(xp, [1.5, 2.5])
    if xp.backend_name == "torch":
        values.requires_grad_()
    t = IndexedSlices(ids(xp, [0, 1]), values, (2,))
    for u in (t, 2 * t, t + t, t.coalesce(), t.T if t.ndim == 2 else t):
        assert xp.isdtype(u.indices.dtype, "integral")
        assert not getattr(u.indices, "requires_grad", False)
    if xp.backend_name == "torch":
        (t.densify() * array(xp, [3.0, 4.0])).sum().backward()
        same(values.grad, [3, 4])


def test_mask_set_to_a_constant(xp):
    """C113, aesara-devs/aesara#105: the cotangent reaches only the entries that were not set."""
    dy = array(xp, [5.0, 6.0, 7.0])
    kept = array(xp, ~MASK, "bool")
    same(rules.getitem_vjp(dy[kept], (3,), kept), [0, 6, 0])
    same(slices(xp, [0, 2], [-5.0, -7.0], (3,)) + dy, [0, 6, 0])
