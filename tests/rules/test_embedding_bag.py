"""Bags against a loop over bags: every mode, offsets, empty bags, padding, weights of samples, ties."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import rules
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, narrowest, normal, same
from tests.rules.test_scatter import share_loop

MODES = ("sum", "mean", "max")


def bag_loop(table, bags, mode, samples, padding):
    """Each bag's fold; `bags` holds the positions in `samples` and the id of each."""
    result = np.zeros((len(bags), *table.shape[1:]))
    for b, bag in enumerate(bags):
        rows = [samples[k] * table[i] for k, i in bag if i != padding]
        if rows:
            result[b] = {"sum": sum(rows), "mean": sum(rows) / len(rows), "max": np.max(rows, axis=0)}[mode]
    return result


def cotangents_loop(dy, table, bags, mode, samples, padding, ties):
    d_table, d_samples = np.zeros(table.shape), np.zeros(len(samples))
    for b, bag in enumerate(bags):
        members = [(k, i) for k, i in bag if i != padding]
        for place in np.ndindex(*table.shape[1:]):
            values = [table[(i, *place)] for _, i in members]
            shares = (
                share_loop(values, max, ties)
                if mode == "max"
                else [1 / len(members) if mode == "mean" else 1.0 for _ in members]
            )
            for (k, i), share in zip(members, shares, strict=True):
                d_table[(i, *place)] += dy[(b, *place)] * share * samples[k]
                d_samples[k] += dy[(b, *place)] * table[(i, *place)]
    return d_table, d_samples


@st.composite
def lookups(draw):
    """Ids of two axes, or of one with offsets (and perhaps the last one), with empty bags and padding."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mode, form = draw(st.sampled_from(MODES)), draw(st.sampled_from(["grid", "offsets", "last"]))
    table = coarse(rng, (4, *draw(st.sampled_from([(3,), (3,), (), (2, 1)]))))
    if form == "grid":
        ids, offsets = rng.integers(0, 4, draw(st.sampled_from([(3, 2), (2, 3), (0, 3), (3, 0)]))), None
        bags = [[(b * ids.shape[1] + k, i) for k, i in enumerate(row)] for b, row in enumerate(ids)]
    else:
        starts = np.array(draw(st.sampled_from([[0, 2, 2, 6], [0, 0, 5, 6], [0, 6, 6, 6], [0, 0]])))
        ids = rng.integers(0, 4, starts[-1])
        offsets = starts if form == "last" else starts[:-1]
        bags = [[(k, ids[k]) for k in range(a, b)] for a, b in pairwise(starts)]
    keywords = {"mode": mode, "include_last_offset": form == "last", "padding_idx": draw(st.sampled_from([None, 0, -1]))}
    weights = rng.standard_normal(ids.shape) if mode == "sum" and draw(st.booleans()) else None
    return table, ids, offsets, bags, keywords, weights, draw(st.sampled_from(["even", "all", "first"]))


def test_bags_and_their_cotangents(xp):
    def body(case):
        table, ids, offsets, bags, keywords, weights, ties = case
        samples = np.ones(ids.size) if weights is None else weights.reshape(-1)
        padding = None if keywords["padding_idx"] is None else keywords["padding_idx"] % 4
        a_table, a_ids, a_offsets, a_weights = (None if x is None else array(xp, x) for x in (table, ids, offsets, weights))
        keywords |= {"per_sample_weights": a_weights}
        y = rules.embedding_bag(a_table, a_ids, a_offsets, **keywords)
        same(y, bag_loop(table, bags, keywords["mode"], samples, padding), note=case)
        dy = normal(y.shape, 1)
        expected = cotangents_loop(dy, table, bags, keywords["mode"], samples, padding, ties)
        saved = [None, y] if keywords["mode"] == "max" else [None]
        for out in saved:
            dw = rules.embedding_bag_vjp_weight(array(xp, dy), a_table, a_ids, a_offsets, **keywords, ties=ties, out=out)
            assert (
                isinstance(dw, sp.IndexedSlices) and dw.axis == (0,) and dw.stored == sum(i != padding for i in ids.reshape(-1))
            )
            same(dw, expected[0], note=case)
        if keywords["mode"] != "max":
            by_shape = rules.embedding_bag_vjp_weight(array(xp, dy), table.shape, a_ids, a_offsets, **keywords)
            same(by_shape, expected[0])
        if keywords["mode"] == "sum":
            d_samples = rules.embedding_bag_vjp_per_sample(array(xp, dy), a_table, a_ids, a_offsets, **keywords)
            same(d_samples, expected[1].reshape(ids.shape), note=case)

    for_all(xp, body, lookups(), examples=80)


def test_a_compact_cotangent(xp):
    dy = sp.IndexedSlices(array(xp, np.array([1, 1])), array(xp, normal((2, 3))), (2, 3))
    ids = array(xp, np.array([[0, 2], [2, 3]]))
    with sp.densify_policy("allow"):
        dw = rules.embedding_bag_vjp_weight(dy, (4, 3), ids)
    expected = np.zeros((4, 3))
    expected[[2, 3]] = dense(dy)[1] / 2
    same(dw, expected)


def test_nan_in_a_bag(xp):
    table = array(xp, [[1.0], [np.nan], [3.0]])
    ids = array(xp, np.array([[0, 1, 1], [0, 2, 0]]))
    same(rules.embedding_bag(table, ids, mode="max"), [[np.nan], [3]])
    same(rules.embedding_bag_vjp_weight(array(xp, [[4.0], [5.0]]), table, ids, mode="max"), [[0], [4], [5]])


def test_half_types_are_rounded_once(xp):
    table = array(xp, np.full((1, 2), 1.0), narrowest(xp))
    ids = array(xp, np.zeros((1, 3000), int))
    y = rules.embedding_bag(table, ids, mode="sum")
    assert y.dtype == table.dtype and dense(y).tolist() == [[3000, 3000]]


def test_errors(xp):
    table, ids = array(xp, normal((4, 2))), array(xp, np.array([0, 1, 2]))
    grid, offsets, dy = array(xp, np.array([[0, 1]])), array(xp, np.array([0, 2])), array(xp, normal((2, 2)))
    with pytest.raises(ValueError, match='mode must be "sum", "mean" or "max", not \'min\''):
        rules.embedding_bag(table, grid, mode="min")
    with pytest.raises(ValueError, match="ids must have two axes, or one with offsets"):
        rules.embedding_bag(table, ids)
    with pytest.raises(ValueError, match="ids must have two axes, or one with offsets"):
        rules.embedding_bag(table, grid, offsets)
    with pytest.raises(ValueError, match="needs offsets"):
        rules.embedding_bag(table, grid, include_last_offset=True)
    for bad in ([1, 2], [0, 4], [0, 2, 1]):
        with pytest.raises(ValueError, match="offsets must ascend from 0 to the 3 rows"):
            rules.embedding_bag(table, ids, array(xp, np.array(bad)))
    for bad in (-1, 4):
        with pytest.raises(IndexError, match=f"ids holds {bad} at position 1.*0 <= id < 4"):
            rules.embedding_bag(table, array(xp, np.array([[0, bad]])))
    with pytest.raises(ValueError, match="padding_idx 4"):
        rules.embedding_bag(table, grid, padding_idx=4)
    with pytest.raises(ValueError, match="go with mode \"sum\", not 'mean'"):
        rules.embedding_bag(table, grid, per_sample_weights=array(xp, [[1.0, 2.0]]))
    with pytest.raises(ValueError, match="per_sample_weights must have the shape"):
        rules.embedding_bag(table, grid, mode="sum", per_sample_weights=array(xp, [1.0, 2.0]))
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.embedding_bag_vjp_weight(dy, (4, 2), grid)
    with pytest.raises(TypeError, match="must be the table, not its shape"):
        rules.embedding_bag_vjp_weight(dy, (4, 2), ids, offsets, mode="max")
    with pytest.raises(ValueError, match="go with mode \"sum\", not 'mean'"):
        rules.embedding_bag_vjp_per_sample(dy, table, ids, offsets)
