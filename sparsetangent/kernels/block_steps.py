"""Steps of optimizers on blocks of named rows, in NumPy: what lies between the reads and the writes stays in the cache.

The formulas of `sparsetangent.steps`, in their order and with their bits, written over the rows that were read and over the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from .base import Array
from .step import Step

__all__ = ["is_a_sum", "is_steppable", "step_blocks"]

# Elements of a block: 256 KiB of float32, of which a step holds four or five.
_BLOCK = 2**16


def is_steppable(step: Step, dst: Array, states: Sequence[Array], held: Any) -> bool:
    """Whether a step can be taken in place: dtypes and layouts are plain, and no two tables lie in the same memory."""
    tables = (dst, *states)
    return (
        held in (np.float32, np.float64)
        and dst.dtype.isnative
        and prod(dst.shape[1:]) > 0
        and [x.shape for x in states] == step.state_shapes(dst.shape)
        and all(x.dtype == held and x.dtype.isnative for x in states)
        and all(x.flags.c_contiguous and x.flags.writeable for x in tables)
        and not any(np.may_share_memory(a, b) for a, b in combinations(tables, 2))
    )


def is_a_sum(step: Step) -> bool:
    """Whether a step only adds multiples of the rows, for which repeats need not be merged."""
    return step.rule == "sgd" and not step.weight_decay


def step_blocks(step: Step, dst: Array, states: Sequence[Array], ids: Array, gradient: Array) -> None:
    """The step on distinct `ids`, all of them in range; `gradient`, in the dtype of the states, is written over."""
    many = max(1, _BLOCK // prod(dst.shape[1:]))
    for first in range(0, ids.shape[0], many):
        at, g = ids[first : first + many], gradient[first : first + many]
        p = dst.take(at, axis=0).astype(g.dtype, copy=False)
        rows = [x.take(at, axis=0) for x in states]
        if step.weight_decay:
            g += step.weight_decay * p
        _FORMULAS[step.rule](step, p, g, *rows)
        dst[at] = p.astype(dst.dtype, copy=False)
        for x, new in zip(states, rows, strict=True):
            x[at] = new


def _sgd(step: Step, p: Array, g: Array) -> None:
    g *= step.rate
    p -= g


def _momentum(step: Step, p: Array, g: Array, v: Array) -> None:
    v *= step.beta1
    v += g
    p -= np.multiply(v, step.rate, out=g)


def _adagrad(step: Step, p: Array, g: Array, s: Array) -> None:
    s += g * g
    _descend(step, p, g, np.sqrt(s))


def _rowwise_adagrad(step: Step, p: Array, g: Array, s: Array) -> None:
    square = g * g
    s += square.mean(axis=tuple(range(1, g.ndim))) if g.ndim > 1 else square
    _descend(step, p, g, np.sqrt(s).reshape(-1, *(1,) * (g.ndim - 1)))


def _adam(step: Step, p: Array, g: Array, m: Array, v: Array) -> None:
    m *= step.beta1
    m += (1 - step.beta1) * g
    v *= step.beta2
    g *= g
    g *= 1 - step.beta2
    v += g
    np.divide(m, 1 - step.beta1**step.count, out=g)
    _descend(step, p, g, np.sqrt(v / (1 - step.beta2**step.count)))


def _descend(step: Step, p: Array, g: Array, root: Array) -> None:
    """``p -= rate * g / (root + epsilon)``."""
    root += step.epsilon
    g *= step.rate
    g /= root
    p -= g


_FORMULAS: dict[str, Callable[..., None]] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adagrad": _adagrad,
    "rowwise_adagrad": _rowwise_adagrad,
    "adam": _adam,
}
