"""Compact reverses on 2**50 rows, and ids that nobody can see."""

import numpy as np
import pytest

from sparsetangent import IndexedSlices, rules
from tests.rules.support import array, dense, normal, same


def test_reverses_of_huge_arrays_stay_compact(xp64):
    """Nothing of 2**50 rows is made; the first rows are those of the same rule on eight."""
    xp, rows = xp64, 2**50
    dy = array(xp, normal((3, 2)))
    ids, offsets = array(xp, np.array([1, 7, 1])), array(xp, np.array([0, 2]))
    table = IndexedSlices(ids, dy, (rows, 2))
    small = np.zeros((8, 2))
    for i, row in zip([1, 7, 1], dense(dy), strict=True):
        small[i] += row
    bag = rules.embedding_bag_vjp_weight(dy[:2, ...], (rows, 2), ids, offsets)
    same(bag[:8], dense(rules.embedding_bag_vjp_weight(dy[:2, ...], (8, 2), ids, offsets)))
    same(rules.pad_vjp(table, (rows - 1, 2), ((1, 0), (0, 0)))[:7], small[1:])
    same(rules.pad(table, ((1, 0), (0, 0)))[1:9], small)
    same(rules.diagonal_vjp(dy[:2, 0], (rows, 2))[:2], np.diag(dense(dy)[:2, 0]))
    same(rules.mean_vjp(dy[:1, ...], (rows, 2), 0, True)[:2], np.stack([dense(dy)[0]] * 2) / rows, rtol=1e-11, atol=0)
    same(rules.where_vjp_x(table, array(xp, np.array([True, False])), (rows, 2), ())[:8], small * [1, 0])
    same(rules.densify_vjp(table, IndexedSlices(ids, dy, (rows, 2))), small[[1, 7, 1]])
    for op in ("add", "sub", "mul", "div"):
        dx = rules.scatter_vjp(op, table, dy, ids, rows)
        same(dx, dense(rules.scatter_vjp(op, array(xp, small), dy, ids, 8)))


def test_ids_out_of_range_under_jit_are_dropped_in_value_and_gradient():
    jax = pytest.importorskip("jax")
    from tests.conftest import Library

    xp = Library("jax32" if not jax.config.jax_enable_x64 else "jax", jax.numpy)
    src, dy, ids = array(xp, normal((4, 2))), array(xp, normal((3, 2), 1)), array(xp, np.array([0, 5, -1, -9]))
    kept = np.array([0, 2])
    into = np.array([0, 2])
    for op in ("add", "mul", "mean", "max"):
        y = jax.jit(lambda s, i, op=op: rules.scatter(op, s, i, 3))(src, ids)
        same(y, dense(rules.scatter(op, src[kept], array(xp, into), 3)))
        dx = jax.jit(lambda dy, s, i, op=op: rules.scatter_vjp(op, dy, s, i, 3))(dy, src, ids)
        expected = np.zeros((4, 2))
        expected[kept] = dense(rules.scatter_vjp(op, dy, src[kept], array(xp, into), 3))
        same(dx, expected)
    table, bags = array(xp, normal((3, 2), 2)), array(xp, np.array([[0, 2], [7, 1]]))
    y = jax.jit(lambda w, i: rules.embedding_bag(w, i))(table, bags)
    same(y, [dense(table)[[0, 2]].mean(0), dense(table)[1]])
    dw = jax.jit(lambda dy, i: rules.embedding_bag_vjp_weight(dy, (3, 2), i))(dy[:2], bags)
    same(dw, [dense(dy)[0] / 2, dense(dy)[1], dense(dy)[0] / 2])
    labels = array(xp, np.array([0, 4, 1, -1]))
    logits = array(xp, normal((4, 3), 3))
    loss = jax.jit(rules.cross_entropy)(logits, labels)
    assert (dense(loss) != 0).tolist() == [True, False, True, False]
