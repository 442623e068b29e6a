"""Cases of scatters, segments and bags: what takes part in a fold, ties, zeros, dropped ids, empty bags, writes with repeats."""

import numpy as np
import pytest

from sparsetangent import rules
from tests.cases.support import array, case, dense, ids, random, same

DROPPED = {"mode": "drop"}

# Case, report, operation, rows, ids, slots, keywords, the right value, cotangent of the slots, the right gradient of the rows.
FOLDS = [
    case(
        *("C34", "tensorflow/tensorflow#478", "add", [1.0, 2.0, 3.0, 4.0], [0, -1, 1, 0], 2, DROPPED),
        *([5, 3], [1.0, 10.0], [1, 0, 10, 1]),
    ),
    case("C70", "rusty1s/pytorch_scatter#24", "max", [-5.0, -2.0, -7.0], [1, 0, 1], 2, {}, [-2, -5], [3.0, 4.0], [4, 3, 0]),
    case(
        *("C71", "rusty1s/pytorch_scatter#472", "max", [-5.0, -2.0, -7.0], [1, 0, 1], 2, {"init": 0.0}),
        *([0, 0], [3.0, 4.0], [0, 0, 0]),
        form="base-takes-part",
    ),
    case(
        *("C72", "rusty1s/pytorch_scatter#399", "max", [2.0, 2.0, 1.0], [0, 0, 0], 1, {}, [2], [6.0], [3, 3, 0]),
        form="shared",
    ),
    case(
        *("C72", "rusty1s/pytorch_scatter#399", "max", [2.0, 2.0, 1.0], [0, 0, 0], 1, {"ties": "first"}, [2], [6.0], [6, 0, 0]),
        form="first",
    ),
    case(
        *("C79", "tensorflow/tensorflow#15858", "mul", [0.0, 3.0, 5.0, 0.0, 0.0], [0, 0, 0, 1, 1], 2, {}),
        *([0, 0], [1.0, 1.0], [15, 0, 0, 0, 0]),
    ),
]


@pytest.mark.parametrize("op, rows, index, size, keywords, value, cotangent, gradient", FOLDS)
def test_a_fold_and_its_gradient(xp, op, rows, index, size, keywords, value, cotangent, gradient):
    src, places = array(xp, rows), ids(xp, index)
    forward = {k: v for k, v in keywords.items() if k != "ties"}
    same(rules.scatter(op, src, places, size, **forward), value)
    same(rules.scatter_vjp(op, array(xp, cotangent), src, places, size, **keywords), gradient)


def test_every_occurrence_multiplies(xp):
    """C06, data-apis/array-api-compat#205."""
    base, factor = array(xp, [1.0, 1.0]), array(xp, [3.0, 3.0])
    same(rules.scatter_into("mul", base, factor, ids(xp, [0, 0])), [9, 1])
    same(base, [1, 1])


def last_write(xp, base, rows, index):
    """Where a row of `base` is written, and by which of `rows` last, as plain reads."""
    n, size = len(index), base.shape[0]
    order = rules.scatter("max", ids(xp, range(n)), ids(xp, index), size, init=-1)
    return order >= 0, xp.where(order < 0, xp.zeros_like(order), order)


@pytest.mark.parametrize(
    "base, rows, index, cotangent, value, d_base, d_rows",
    [
        case(
            *("C07", "tensorflow/tensorflow#56961", [1.0, 2.0, 3.0], [5.0, 7.0], [1, 1], [10.0, 20.0, 30.0]),
            *([1, 7, 3], [10, 0, 30], [0, 20]),
        ),
        case(
            *("C08", "pytorch/pytorch#473", np.zeros((3, 2)), [[1.0, 2.0], [3.0, 4.0]], [0, 0]),
            *([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]], [[3, 4], [0, 0], [0, 0]]),
            *([[0, 0], [30, 40], [50, 60]], [[0, 0], [10, 20]]),
        ),
        case(
            *("C159", "apache/mxnet#11899", [0.0, 0.0], [5.0, 7.0], [1, 1], [10.0, 20.0]),
            *([0, 7], [10, 0], [0, 20]),
        ),
    ],
)
def test_a_write_with_repeats(xp, base, rows, index, cotangent, value, d_base, d_rows):
    """There is no "set" among the operations; "last wins", said with reads, sends the cotangent to the row that was kept, every time."""
    held, given, dy = array(xp, base), array(xp, rows), array(xp, cotangent)
    with pytest.raises(ValueError, match="op must be one of"):
        rules.scatter_into("set", held, given, ids(xp, index))
    written, last = last_write(xp, held, given, index)
    mask = xp.reshape(written, (-1, *(1,) * (held.ndim - 1)))
    same(rules.where(mask, rules.take(given, last), held), value)
    same(rules.where_vjp_y(dy, mask, held.shape, held.shape), d_base)
    runs = []
    for _ in range(5):
        kept = rules.where_vjp_x(dy, mask, held.shape, held.shape)
        runs.append(dense(rules.take_vjp(kept, given.shape, last)))
    same(array(xp, runs[0]), d_rows)
    assert len({r.tobytes() for r in runs}) == 1


def test_clipped_ids_have_a_finite_derivative(xp):
    """C28, jax-ml/jax#40626: f(t) = sum(weights * scatter_max(x, clip(ids), [2 + t, 7 - t])) at 0.25."""
    x, weights = array(xp, [2.0, 5.0, 7.0]), array(xp, [3.0, 1.0, 2.0])
    places = xp.clip(ids(xp, [-4, 9]), 0, 2)
    updates = array(xp, [2.25, 6.75])
    y = rules.scatter_into("max", x, updates, places)
    assert float(xp.sum(weights * y)) == 25.75
    d_updates = rules.scatter_into_vjp_src("max", weights, x, updates, places)
    assert float(xp.sum(d_updates * array(xp, [1.0, -1.0]))) == 3.0


def test_the_number_of_segments_is_one_more_than_the_greatest_id(xp):
    """C32, jax-ml/jax#4034: no rule infers it from the number of rows."""
    index = ids(xp, [0, 3, 3])
    same(rules.scatter("add", array(xp, [1.0, 2.0, 3.0]), index, int(xp.max(index)) + 1), [1, 0, 0, 5])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_bags(xp, mode):
    """C63, pytorch/pytorch#50286."""
    table, none = array(xp, random((10, 5))), ids(xp, np.zeros((0, 3)))
    assert rules.embedding_bag(table, none, mode=mode).shape == (0, 5)
    gradient = rules.embedding_bag_vjp_weight(array(xp, np.zeros((0, 5))), table, none, mode=mode)
    assert gradient.stored == 0 and gradient.shape == (10, 5)


def test_empty_bags_are_zero(xp):
    """C64, pytorch/pytorch#4169: bags 1 and 3 of four are empty."""
    table, index = array(xp, [[2.0, 4.0], [6.0, 8.0], [1.0, 1.0]]), ids(xp, [0, 1, 2])
    for keywords in ({"offsets": ids(xp, [0, 2, 2, 3])}, {"offsets": ids(xp, [0, 2, 2, 3, 3]), "include_last_offset": True}):
        same(rules.embedding_bag(table, index, **keywords), [[4, 6], [0, 0], [1, 1], [0, 0]])
        gradient = rules.embedding_bag_vjp_weight(array(xp, np.full((4, 2), 1.0)), (3, 2), index, **keywords)
        same(gradient, [[0.5, 0.5], [0.5, 0.5], [1, 1]])
    rows = rules.take(table, index)
    same(rules.scatter("mean", rows, ids(xp, [0, 0, 2]), 4), [[4, 6], [0, 0], [1, 1], [0, 0]])


def test_a_base_that_takes_no_part(xp):
    """C71 (rusty1s/pytorch_scatter#472) without the base, and C73 (pytorch/pytorch#168358), where a tie count of 0 made nan."""
    same(rules.scatter("max", array(xp, [-5.0, -2.0, -7.0]), ids(xp, [1, 0, 1]), 2), [-2, -5])
    base, rows, index = array(xp, [5.0, 0.0]), array(xp, [2.0, 3.0]), ids(xp, [1, 1])
    named = rules.scatter("add", array(xp, [1.0, 1.0]), index, 2) > 0
    same(rules.where(named, rules.scatter("max", rows, index, 2), base), [5, 3])
    dy = array(xp, [1.0, 1.0])
    same(rules.scatter_vjp("max", rules.where_vjp_x(dy, named, (2,), (2,)), rows, index, 2), [0, 1])
    same(rules.where_vjp_y(dy, named, (2,), (2,)), [1, 0])


def test_the_derivative_of_a_product_of_overlapping_updates(xp):
    """C80, jax-ml/jax#12469: the directional derivative, one slot at a time."""
    base, updates, index = array(xp, [1.0, 1.0, 1.0, 1.0]), array(xp, [2.0, 3.0]), ids(xp, [1, 1])
    same(rules.scatter_into("mul", base, updates, index), [1, 6, 1, 1])
    slopes = [
        float(xp.sum(rules.scatter_into_vjp_src("mul", array(xp, unit), base, updates, index))) for unit in np.identity(4)
    ]
    assert slopes == [0, 5, 0, 0]
