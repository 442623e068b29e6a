"""Optimizer steps on rows, for `update_rows`.

Each function gives a step ``step(param_rows, grad_rows, *state_rows, count=None) -> (param_rows, *state_rows)``. In the formulas ``g`` is
the gradient plus ``weight_decay * p``. A state starts at zero and has the shape of the parameter, unless it is said otherwise;
beside a parameter of a half type it is best held in float32.

A step changes the rows that the gradient names and no other. What a dense optimizer does to the others (momentum goes on, moments
and weights decay) is left out, unless the step is made dense-equivalent by `catch_up`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .backend import backend_of, device_of
from .dtypes import facts
from .kernels.base import Array
from .kernels.step import Step as Rule

__all__ = ["adagrad", "catch_up", "lazy_adam", "momentum", "replay", "rowwise_adagrad", "sgd"]

Step = Callable[..., tuple[Array, ...]]
Factor = Any
"""A Python number, or an array without axes, which may be traced."""


def sgd(lr: Factor, weight_decay: Factor = 0) -> Step:
    """Gradient descent: ``p -= lr * g``.

    Parameters
    ----------
    lr, weight_decay : number or Array of shape ()
        Of a real dtype, in the formula.

    Returns
    -------
    callable
        A step for `update_rows` without states.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> table = np.array([1.0, 2.0, 3.0])
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([4.0, 6.0]), (3,))
    >>> (table,) = st.update_rows(table, t, st.steps.sgd(0.5))
    >>> table.tolist()
    [1.0, -3.0, 3.0]
    >>> st.steps.sgd(0.5, weight_decay=0.1)(np.array([1.0]), np.array([2.0]))
    (array([-0.05]),)
    """
    return _step(_sgd, lr, weight_decay, rests=_is_zero(weight_decay))


def _sgd(lr: Factor, decay: Factor, p: Array, g: Array, *, count: Any = None) -> tuple[Array, ...]:
    return (p - lr * _decayed(g, p, decay),)


def momentum(lr: Factor, beta: Factor, weight_decay: Factor = 0) -> Step:
    """Gradient descent with momentum: ``v = beta * v + g; p -= lr * v``.

    Parameters
    ----------
    lr, beta, weight_decay : number or Array of shape ()
        Of a real dtype, in the formula.

    Returns
    -------
    callable
        A step for `update_rows` with one state, ``v``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.steps.momentum(0.5, 0.5)(np.array([1.0]), np.array([2.0]), np.array([4.0]))
    (array([-1.]), array([4.]))
    >>> table, v = np.zeros(2), np.zeros(2)
    >>> t = st.IndexedSlices(np.array([1]), np.array([1.0]), (2,))
    >>> table, v = st.update_rows(table, t, st.steps.momentum(0.5, 0.5), v)
    >>> table.tolist(), v.tolist()
    ([0.0, -0.5], [0.0, 1.0])
    """
    return _step(_momentum, lr, weight_decay, beta)


def _momentum(lr: Factor, decay: Factor, beta: Factor, p: Array, g: Array, v: Array, *, count: Any = None) -> tuple[Array, ...]:
    v = beta * v + _decayed(g, p, decay)
    return p - lr * v, v


def adagrad(lr: Factor, eps: Factor = 1e-10, weight_decay: Factor = 0) -> Step:
    """Adagrad: ``s += abs(g)**2; p -= lr * g / (sqrt(s) + eps)``.

    Parameters
    ----------
    lr, eps, weight_decay : number or Array of shape ()
        Of a real dtype, in the formula.

    Returns
    -------
    callable
        A step for `update_rows` with one state, ``s``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.steps.adagrad(1.0, 0.0)(np.array([1.0]), np.array([3.0]), np.array([16.0]))
    (array([0.4]), array([25.]))
    >>> table, s = np.zeros(2), np.zeros(2)
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([1.0, 2.0]), (2,))
    >>> table, s = st.update_rows(table, t, st.steps.adagrad(0.5), s)
    >>> s.tolist()
    [0.0, 9.0]
    """
    return _step(_adagrad, lr, weight_decay, eps, rests=_is_zero(weight_decay))


def _adagrad(lr: Factor, decay: Factor, eps: Factor, p: Array, g: Array, s: Array, *, count: Any = None) -> tuple[Array, ...]:
    xp = backend_of(p).xp
    g = _decayed(g, p, decay)
    s = s + _square(g)
    return p - lr * g / (xp.sqrt(s) + eps), s


def rowwise_adagrad(lr: Factor, eps: Factor = 1e-10, weight_decay: Factor = 0) -> Step:
    """Adagrad with one number a row: ``s += mean(abs(g)**2); p -= lr * g / (sqrt(s) + eps)``.

    Parameters
    ----------
    lr, eps, weight_decay : number or Array of shape ()
        Of a real dtype, in the formula.

    Returns
    -------
    callable
        A step for `update_rows` with one state, ``s``, of shape ``(rows,)``.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.steps.rowwise_adagrad(1.0, 0.0)(np.zeros((1, 2)), np.array([[1.0, 7.0]]), np.zeros(1))
    (array([[-0.2, -1.4]]), array([25.]))
    >>> table, s = np.zeros((2, 2)), np.zeros(2)
    >>> t = st.IndexedSlices(np.array([1]), np.array([[1.0, 7.0]]), (2, 2))
    >>> table, s = st.update_rows(table, t, st.steps.rowwise_adagrad(1.0), s)
    >>> s.tolist()
    [0.0, 25.0]
    """
    return _step(_rowwise_adagrad, lr, weight_decay, eps, rests=_is_zero(weight_decay))


def _rowwise_adagrad(
    lr: Factor, decay: Factor, eps: Factor, p: Array, g: Array, s: Array, *, count: Any = None
) -> tuple[Array, ...]:
    if not prod(p.shape[1:]):
        return p, s  # a row without elements has no mean
    xp = backend_of(p).xp
    g = _decayed(g, p, decay)
    square = _square(g)
    s = s + (xp.mean(square, axis=tuple(range(1, g.ndim))) if g.ndim > 1 else square)
    each = xp.reshape(s, (-1, *(1,) * (g.ndim - 1)))
    return p - lr * g / (xp.sqrt(each) + eps), s


def lazy_adam(lr: Factor, b1: Factor = 0.9, b2: Factor = 0.999, eps: Factor = 1e-8, weight_decay: Factor = 0) -> Step:
    """Adam on the rows that are named: the moments of the others stay as they are.

    Parameters
    ----------
    lr, b1, b2, eps, weight_decay : number or Array of shape ()
        Of a real dtype, in the formulas below.

    Returns
    -------
    callable
        A step for `update_rows` with two states, ``m`` and ``v``. It needs ``count``, the number of the step, from 1.

    Raises
    ------
    ValueError
        From the step, without such a ``count``.

    Notes
    -----
    ``m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * abs(g)**2; p -= lr * m' / (sqrt(v') + eps)`` with ``m' = m / (1 - b1**count)`` and
    ``v' = v / (1 - b2**count)`` (Kingma and Ba, algorithm 1; `torch.optim.SparseAdam` adds `eps` to the root before it is corrected).

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> step = st.steps.lazy_adam(0.1)
    >>> p, m, v = step(np.zeros(1), np.array([4.0]), np.zeros(1), np.zeros(1), count=1)
    >>> round(float(p[0]), 6)
    -0.1
    >>> step(np.zeros(1), np.array([4.0]), np.zeros(1), np.zeros(1))
    Traceback (most recent call last):
        ...
    ValueError: lazy_adam needs count, the number of the step from 1, not None
    """
    return _step(_lazy_adam, lr, weight_decay, b1, b2, eps)


def _lazy_adam(
    lr: Factor,
    decay: Factor,
    b1: Factor,
    b2: Factor,
    eps: Factor,
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    *,
    count: Any = None,
) -> tuple[Array, ...]:
    if count is None or (isinstance(count, int) and count < 1):
        raise ValueError(f"lazy_adam needs count, the number of the step from 1, not {count}")
    xp = backend_of(p).xp
    g = _decayed(g, p, decay)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * _square(g)
    fair_m, fair_v = m / (1 - b1**count), v / (1 - b2**count)
    return p - lr * fair_m / (xp.sqrt(fair_v) + eps), m, v


def catch_up(step: Step) -> Step:
    """The dense-equivalent form of a step, with one more state: the step at which each row was last touched.

    Before it takes a step, a row takes all those that it has missed, with a gradient of zero, as in dense training. The new state,
    the last, is an array of integers of shape ``(rows,)`` that starts at zero; ``count`` is needed. A row must be brought up to
    date with `replay` before it is read, and all of them at the end. A missed step costs as much as one that is taken,
    except where a gradient of zero changes nothing (`sgd` and the two of Adagrad without weight decay).

    Parameters
    ----------
    step : callable
        One of this module, or your own.

    Returns
    -------
    callable
        A step for `update_rows`, with one more state than `step`.

    Raises
    ------
    ValueError
        If ``count`` is no integer from 1 on.
    TypeError
        If the states cannot be seen, as under ``jax.jit``, and there may be steps to take: how many depends on them.

    Examples
    --------
    Row 0 is named in step 1 and again in step 4; in steps 2 and 3 its velocity carries it on.

    >>> import numpy as np, sparsetangent as st
    >>> step = st.steps.catch_up(st.steps.momentum(1.0, 0.5))
    >>> table, v, last = np.zeros(2), np.zeros(2), np.zeros(2, int)
    >>> t = st.IndexedSlices(np.array([0]), np.array([1.0]), (2,))
    >>> for count in (1, 4):
    ...     table, v, last = st.update_rows(table, t, step, v, last, count=count)
    >>> table.tolist(), v.tolist(), last.tolist()
    ([-2.875, 0.0], [1.125, 0.0], [4, 0])

    >>> everything = st.Fill(np.zeros(()), (2,))
    >>> up_to_date = st.steps.replay(st.steps.momentum(1.0, 0.5))
    >>> table, v, last = st.update_rows(table, everything, up_to_date, v, last, count=5)
    >>> table.tolist()
    [-3.4375, 0.0]
    """
    return _step(_catch_up, step)


def _catch_up(step: Step, p: Array, g: Array, *states: Array, count: Any = None) -> tuple[Array, ...]:
    p, *before, last = _replay(step, p, g, *states, count=_whole(count, "catch_up", 1) - 1)
    return *step(p, g, *before, count=count), _at_least(last, count)


def replay(step: Step) -> Step:
    """The companion of `catch_up`: every row named takes the steps that it has missed, up to ``count``, and no other.

    Only the places of the gradient matter, not its values. Call it with ``count - 1`` on the rows that step ``count`` reads, before
    they are read, and at the end on all of them (``Fill(zero, shape)`` names every row).

    Parameters
    ----------
    step : callable
        What was given to `catch_up`.

    Returns
    -------
    callable
        A step for `update_rows`, with the states of that of `catch_up`.

    Raises
    ------
    ValueError, TypeError
        As `catch_up`; ``count`` may be 0.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> step = st.steps.replay(st.steps.sgd(1.0, weight_decay=0.5))
    >>> p, last = step(np.array([8.0, 8.0]), np.zeros(2), np.array([0, 2]), count=2)
    >>> p.tolist(), last.tolist()
    ([2.0, 8.0], [2, 2])
    >>> step(p, np.zeros(2), last, count=2)[0].tolist()  # up to date
    [2.0, 8.0]
    """
    return _step(_replay, step)


def _replay(step: Step, p: Array, g: Array, *states: Array, count: Any = None) -> tuple[Array, ...]:
    *now, last = p, *states
    count = _whole(count, "replay", 0)
    if last.shape[0] and not getattr(step, "rests", False):
        xp, kernels = backend_of(p).xp, backend_of(p).kernels
        if not kernels.concrete(last):
            raise TypeError(
                "how many steps a row has missed depends on values that cannot be seen here: call catch_up and replay eagerly"
            )
        none = xp.zeros_like(g)
        for k in range(kernels.bounds(last)[0] + 1, count + 1):
            new = step(now[0], none, *now[1:], count=k)
            now = [_where_rows(last < k, a, b) for a, b in zip(new, now, strict=True)]
    return *now, _at_least(last, count)


def _whole(count: Any, name: str, least: int) -> int:
    if not isinstance(count, (int, np.integer)) or count < least:
        raise ValueError(f"{name} needs count, an integer from {least} on, not {count!r}")
    return int(count)


def _at_least(last: Array, count: int) -> Array:
    xp = backend_of(last).xp
    return xp.where(last < count, xp.asarray(count, dtype=last.dtype, device=device_of(last)), last)


def _where_rows(mask: Array, rows: Array, other: Array) -> Array:
    xp = backend_of(rows).xp
    return xp.where(xp.reshape(mask, (-1, *(1,) * (rows.ndim - 1))), rows, other)


def _decayed(g: Array, p: Array, decay: Factor) -> Array:
    return g if _is_zero(decay) else g + decay * p  # a weight may be infinite


def _square(g: Array) -> Array:
    xp = backend_of(g).xp
    return xp.real(xp.conj(g) * g) if facts(backend_of(g), g.dtype).kind == "complex" else g * g


def _is_zero(number: Factor) -> bool:
    return isinstance(number, (int, float)) and number == 0


def _step(function: Callable[..., Any], *numbers: Any, rests: bool = False) -> Step:
    """A step of a function and its numbers; `rests` tells that a gradient of zero changes nothing."""
    # NumPy's scalars would widen the rows.
    step: Any = partial(function, *(x.item() if isinstance(x, np.generic) else x for x in numbers))
    step.rests = rests
    return step  # type: ignore[no-any-return]


# The numbers of each function, in the order of its arguments, by the names of `Rule`.
_RULES: dict[Any, tuple[Any, tuple[str, ...]]] = {
    _sgd: ("sgd", ("rate", "weight_decay")),
    _momentum: ("momentum", ("rate", "weight_decay", "beta1")),
    _adagrad: ("adagrad", ("rate", "weight_decay", "epsilon")),
    _rowwise_adagrad: ("rowwise_adagrad", ("rate", "weight_decay", "epsilon")),
    _lazy_adam: ("adam", ("rate", "weight_decay", "beta1", "beta2", "epsilon")),
}


def as_rule(step: Step, count: Any) -> Rule | None:
    """A step of this module as data, for kernels that have a loop for it; None if its numbers are not known to Python."""
    if not isinstance(step, partial) or step.keywords or step.func not in _RULES:
        return None
    rule, names = _RULES[step.func]
    known = len(step.args) == len(names) and all(isinstance(x, (int, float)) for x in step.args)
    if not known or (rule == "adam" and not (isinstance(count, int) and count >= 1)):
        return None
    return Rule(rule, **dict(zip(names, step.args, strict=True)), count=count if rule == "adam" else 1)
