"""Public reports on optimizers, norms and groups of gradients; each case by its id, with the right value."""

import math

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import Fill, steps, update_rows
from tests.cases.support import array, case, dense, same, slices

INF = math.inf


@pytest.mark.parametrize("index, rows", [case("C20", "tensorflow/tensorflow#28090", [0, 0], [1.0, 2.0])])
def test_adagrad_sums_repeated_rows_before_it_squares(xp, index, rows):
    param, squares = array(xp, [1.0, 1.0]), array(xp, [0.1, 0.1])
    param, squares = update_rows(param, slices(xp, index, rows, (2,)), steps.adagrad(1.0, eps=0.0), squares)
    same(param, [1 - 3 / math.sqrt(9.1), 1.0])
    same(squares, [9.1, 0.1])


@pytest.mark.parametrize("lr, decay", [case("C136", "pytorch/pytorch#25560", 1.0, 0.1)])
def test_weight_decay_reaches_every_row_once_it_is_caught_up(xp, lr, decay):
    step = steps.sgd(lr, weight_decay=decay)
    param, last = array(xp, [1.0, 1.0]), xp.zeros((2,), dtype=xp.int32)
    t = slices(xp, [0], [0.5], (2,))
    param, last = update_rows(param, t, steps.catch_up(step), last, count=1)
    same(param, [0.4, 1.0])
    everything = Fill(array(xp, 0.0), (2,))
    param, last = update_rows(param, everything, steps.replay(step), last, count=1)
    same(param, [0.4, 0.9])
    (by_name,) = update_rows(array(xp, [1.0, 1.0]), t, step)  # lazy: only the rows named
    same(by_name, [0.4, 1.0])


@pytest.mark.parametrize(
    "rows, max_norm",
    [
        case("C56", "tensorflow/tensorflow#21363", [[INF], [1.0]], 6.0, form="inf"),
        case("C56", "tensorflow/tensorflow#21363", [[math.nan], [1.0]], 6.0, form="nan"),
    ],
)
def test_clipping_does_not_hide_an_overflow(xp, rows, max_norm):
    t = slices(xp, [1, 2], rows, (3, 1))
    for given in (t, t.densify()):
        (clipped,), norm = sp.clip_by_global_norm([given], max_norm)
        assert not math.isfinite(float(norm))
        assert clipped.shape == (3, 1) and np.isnan(dense(clipped)).all()


@pytest.mark.parametrize(
    "together",
    [
        case("C130", "horovod/horovod#3813", f, form=n)
        for n, f in (
            ("add", lambda group: sp.tree.add(group)),
            ("scale", lambda group: sp.tree.scale(group, 1.0)),
            ("clip", lambda group: sp.clip_by_global_norm(group, 100.0)[0]),
            ("map", lambda group: sp.tree.map(lambda g: g.coalesce(), group)),
        )
    ],
)
def test_each_gradient_of_a_group_keeps_its_own_ids(xp, together):
    group = {"a": slices(xp, [0, 2], [[1.0], [2.0]], (3, 1)), "b": slices(xp, [1, 1], [[3.0], [4.0]], (2, 1))}
    result = together(group)
    same(result["a"], [[1], [0], [2]])
    same(result["b"], [[0], [7]])


@pytest.mark.parametrize(
    "together",
    [
        case("C131", "horovod/horovod#3994", f, form=n)
        for n, f in (
            ("add", lambda group: sp.tree.add(group, None)),
            ("scale", lambda group: sp.tree.scale(group, 1.0)),
            ("clip", lambda group: sp.clip_by_global_norm(group, 100.0)[0]),
            ("project", lambda group: [sp.project(g, g) for g in group]),
        )
    ],
)
def test_a_mixed_group_keeps_each_shape(xp, together):
    first, second = together([array(xp, [1.0, 2.0]), slices(xp, [1], [[5.0]], (4, 1))])
    same(first, [1, 2])
    assert isinstance(second, sp.Tangent) and second.shape == (4, 1)
    same(second, [[0], [5], [0], [0]])
