"""Folds over runs against a loop over slices; they agree with scatters to the numbers of the runs."""

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import rules
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, normal, same
from tests.rules.test_scatter import IDENTITY, OPS, TIES, cotangents_loop, fold_loop


@st.composite
def runs(draw):
    """Starts with empty runs at the ends and between, rows with any axes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.sampled_from([[2, 0, 4, 1], [0, 3, 3, 1], [7, 0, 0, 0], [1, 1, 5, 0], [0, 0], []]))
    op = draw(st.sampled_from(OPS))
    src = coarse(rng, (sum(lengths), *draw(st.sampled_from([(), (2,), (0,)]))), zero=op != "div")
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    return op, src, starts, draw(st.sampled_from(TIES))


def test_segments_and_their_cotangents(xp):
    def body(case):
        op, src, starts, ties = case
        key = [i for i, n in enumerate(np.diff(starts)) for _ in range(n)]
        start = np.full((len(starts) - 1, *src.shape[1:]), IDENTITY[op], float)
        a_src, a_starts = array(xp, src), array(xp, starts)
        y = rules.segment(op, a_src, a_starts)
        same(y, fold_loop(op, start, src, key), note=case)
        dy = normal(start.shape, 1)
        _, expected = cotangents_loop(op, dy, None, src, key, ties)
        for out in (None, y):
            same(rules.segment_vjp(op, array(xp, dy), a_src, a_starts, ties=ties, out=out), expected, note=case)

    for_all(xp, body, runs(), examples=120)


def test_compact_cotangents(xp64):
    xp = xp64
    src, starts = array(xp, normal((4, 2))), array(xp, np.array([0, 3, 3, 4]))
    dy = sp.IndexedSlices(array(xp, np.array([0, 0])), array(xp, normal((2, 2), 1)), (3, 2))
    dx = rules.segment_vjp("mul", dy, src, starts)
    assert isinstance(dx, sp.Tangent)
    same(dx, cotangents_loop("mul", dense(dy), None, dense(src), [0, 0, 0, 2], "even")[1])


@pytest.mark.parametrize("starts", [[1, 3], [0, 2], [0, 2, 1, 3], [0, 4], [-1, 3]])
def test_starts_that_do_not_ascend_from_0_to_n(xp, starts):
    with pytest.raises(ValueError, match="starts must ascend from 0 to the 3 rows"):
        rules.segment("add", array(xp, normal((3,))), array(xp, np.array(starts)))


def test_errors(xp):
    src = array(xp, normal((3,)))
    with pytest.raises(ValueError, match="starts must have one axis"):
        rules.segment("add", src, array(xp, np.array([[0, 3]])))
    with pytest.raises(ValueError, match="of at least one element"):
        rules.segment("add", src, array(xp, np.zeros(0, int)))
    with pytest.raises(TypeError, match="starts must have an integer dtype"):
        rules.segment("add", src, array(xp, [0.0, 3.0]))
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.segment_vjp("add", src, src, array(xp, np.array([0, 3])))
