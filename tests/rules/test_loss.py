"""Cross-entropy against a loop over labels: class weights, ignored labels, reductions, extreme logits."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from sparsetangent import rules
from tests.helpers import for_all
from tests.rules.support import array, narrowest, normal, same


def loss_loop(logits, labels, weight, ignore, reduction):
    """The loss and, for a cotangent of 1 everywhere, the cotangent of each logit, one label at a time."""
    losses, slopes, weights = np.zeros(labels.shape), np.zeros(logits.shape), np.zeros(labels.shape)
    for place in np.ndindex(*labels.shape):
        label = labels[place]
        if ignore is not None and label == ignore:
            continue
        weights[place] = 1.0 if weight is None else weight[label]
        total = math.fsum(math.exp(v - max(logits[place])) for v in logits[place])
        losses[place] = weights[place] * (math.log(total) + max(logits[place]) - logits[place][label])
        for c, v in enumerate(logits[place]):
            slopes[place][c] = weights[place] * (math.exp(v - max(logits[place])) / total - (c == label))
    if reduction == "none":
        return losses, slopes
    over = (weights.sum() or 1.0) if reduction == "mean" else 1.0
    return losses.sum() / over, slopes / over


@st.composite
def losses(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(4,), (4,), (2, 2), (0,)]))
    logits = rng.standard_normal((*shape, 3)) * draw(st.sampled_from([1, 300]))
    labels = rng.integers(0, 3, shape)
    ignore = draw(st.sampled_from([None, 1, -100]))
    if ignore == -100:
        labels = np.where(rng.random(shape) < 0.4, -100, labels)
    weight = rng.uniform(0.5, 2, 3) if draw(st.booleans()) else None
    return logits, labels, weight, ignore, draw(st.sampled_from(["none", "sum", "mean"]))


def test_cross_entropy_and_its_cotangent(xp):
    def body(case):
        logits, labels, weight, ignore, reduction = case
        a_logits, a_labels = array(xp, logits), array(xp, labels)
        keywords = {"weight": None if weight is None else array(xp, weight), "ignore_index": ignore, "reduction": reduction}
        expected, slope = loss_loop(logits, labels, weight, ignore, reduction)
        y = rules.cross_entropy(a_logits, a_labels, **keywords)
        scale = max(1, float(np.abs(logits).max(initial=0)))
        tolerance = (1e-6 if xp.backend_name == "jax32" else 1e-13) * scale
        same(y, expected, atol=4 * tolerance, note=case)
        dy = normal(np.shape(expected), 1)
        dx = rules.cross_entropy_vjp(array(xp, dy), a_logits, a_labels, **keywords)
        assert dx.dtype == a_logits.dtype
        same(dx, slope * np.asarray(dy)[..., None], atol=40 * tolerance, note=case)

    for_all(xp, body, losses(), examples=60)


def test_no_label_that_counts_gives_zero(xp64):
    xp = xp64
    logits, labels = array(xp, normal((2, 3))), array(xp, np.array([-1, -1]))
    for reduction, shape in (("none", (2,)), ("sum", ()), ("mean", ())):
        keywords = {"ignore_index": -1, "reduction": reduction}
        same(rules.cross_entropy(logits, labels, **keywords), np.zeros(shape))
        same(rules.cross_entropy_vjp(array(xp, normal(shape)), logits, labels, **keywords), np.zeros((2, 3)))


def test_masked_logits_and_ignored_nan(xp64):
    xp = xp64
    logits = array(xp, [[1.0, -np.inf, 2.0], [np.nan, 0.0, 1.0]])
    labels = array(xp, np.array([2, -1]))
    lost = math.log(1 + math.exp(-1))
    same(rules.cross_entropy(logits, labels, ignore_index=-1), [lost, 0], atol=1e-6)
    slope = math.exp(-1) / (1 + math.exp(-1))
    dx = rules.cross_entropy_vjp(array(xp, [1.0, 1.0]), logits, labels, ignore_index=-1)
    same(dx, [[slope, 0, -slope], [0, 0, 0]], atol=1e-6)


def test_half_logits_are_computed_in_float32(xp64):
    xp = xp64
    logits = array(xp, np.zeros((1, 5000)), narrowest(xp))
    labels = array(xp, np.array([0]))
    y = rules.cross_entropy(logits, labels)
    assert y.dtype == logits.dtype and abs(float(y[0]) - math.log(5000)) < 4e-3
    assert rules.cross_entropy_vjp(y, logits, labels).dtype == logits.dtype


def test_errors(xp):
    logits, labels = array(xp, normal((2, 3))), array(xp, np.array([0, 1]))
    for bad in (-1, 3, -100):
        with pytest.raises(IndexError, match=f"labels holds {bad} at position 1.*0 <= id < 3"):
            rules.cross_entropy(logits, array(xp, np.array([0, bad])))
    with pytest.raises(ValueError, match="logits must have the shape"):
        rules.cross_entropy(logits, array(xp, np.array([0])))
    with pytest.raises(ValueError, match='reduction must be "none", "sum" or "mean"'):
        rules.cross_entropy(logits, labels, reduction="max")
    with pytest.raises(ValueError, match="weight must have the shape"):
        rules.cross_entropy(logits, labels, weight=array(xp, [1.0, 2.0]))
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.cross_entropy_vjp(array(xp, [1.0, 2.0]), logits, labels, reduction="sum")
    with pytest.raises(TypeError, match="labels must have an integer dtype"):
        rules.cross_entropy(logits, array(xp, [0.0, 1.0]))
    with pytest.raises(TypeError, match="floating"):
        rules.cross_entropy(array(xp, np.zeros((2, 3), int)), labels)
