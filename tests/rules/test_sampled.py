"""Cross-entropy over sampled classes against a loop over labels; its cotangents stand in ``test_vjps.py``."""

import math

import numpy as np
import pytest

from sparsetangent import rules
from tests.rules.support import array, dense, normal, same


def test_sampled_classes_by_a_loop(xp64):
    xp = xp64
    rng = np.random.default_rng(8)
    weight, hidden, expected = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal(6)
    labels, sampled = np.array([5, 0, 2, 2]), np.array([2, 3, 2, 0])
    losses = []
    for h, label in zip(hidden, labels, strict=True):
        others = [c for c in sampled if c != label]
        logits = [h @ weight[c] - expected[c] for c in (label, *others)]
        losses.append(math.log(sum(math.exp(v) for v in logits)) - logits[0])
    given = [array(xp, x) for x in (weight, hidden, labels, sampled)]
    same(rules.sampled_cross_entropy(*given, log_expected=array(xp, expected)), losses, atol=1e-5)
    dw = rules.sampled_cross_entropy_vjp_weight(array(xp, rng.standard_normal(4)), *given)
    assert dw.stored == 8 and dw.axis == (0,) and (dense(dw)[[1, 4]] == 0).all()


def test_sampled_errors(xp):
    weight, hidden = array(xp, normal((4, 2))), array(xp, normal((3, 2)))
    labels, sampled = array(xp, np.array([0, 1, 2])), array(xp, np.array([3]))
    with pytest.raises(IndexError, match="sampled holds 4 at position 0"):
        rules.sampled_cross_entropy(weight, hidden, labels, array(xp, np.array([4])))
    with pytest.raises(IndexError, match="labels holds -1 at position 2"):
        rules.sampled_cross_entropy(weight, hidden, array(xp, np.array([0, 1, -1])), sampled)
    with pytest.raises(ValueError, match="hidden must have the shape"):
        rules.sampled_cross_entropy(weight, hidden, labels[:2], sampled)
    with pytest.raises(ValueError, match="log_expected must have the shape"):
        rules.sampled_cross_entropy(weight, hidden, labels, sampled, log_expected=hidden[:, 0])
    with pytest.raises(ValueError, match="weight must have two axes and sampled one"):
        rules.sampled_cross_entropy(weight, hidden, labels, array(xp, np.array([[3]])))
