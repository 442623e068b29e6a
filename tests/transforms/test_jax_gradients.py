"""Derivatives under JAX, through every differentiable operation, compared with JAX's own of the dense operation."""

from functools import cache

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402  (after the skip)

import sparsetangent as st  # noqa: E402
from sparsetangent import IndexedSlices, rules  # noqa: E402
from tests.transforms.jax_support import NAMESPACE, as_jax, built, compiled, each  # noqa: E402
from tests.transforms.operations import (  # noqa: E402
    CORE,
    ENTRIES,
    LINEAR,
    SHAPE,
    SMOOTH,
    cases,
    constants,
    ours,
    random_entries,
    theirs,
)

pytestmark = pytest.mark.usefixtures("x64")

RUNS = {"built inside, hybrid": (0, 2), "coalesced, rows": (0,)}
NAMES = {
    "built inside, hybrid": [name for name in CORE if name in LINEAR or name in SMOOTH],
    "coalesced, rows": ["densify", "t / array", "sqrt", *(name for name in CORE if name in SMOOTH)],
}


def dense(ids, values, axes):
    """The dense array by JAX's own scatter, ids out of range left out."""
    inside = True
    for a, i in zip(axes, ids, strict=True):
        inside = inside & (i >= -SHAPE[a]) & (i < SHAPE[a])
    places = tuple(jnp.where(inside, i % SHAPE[a], SHAPE[a]) for a, i in zip(axes, ids, strict=True))
    order = (*axes, *(a for a in range(len(SHAPE)) if a not in axes))
    zeros = jnp.zeros([SHAPE[a] for a in order])
    return jnp.permute_dims(zeros.at[places].add(values, mode="drop"), np.argsort(order))


@cache
def pullbacks(run):
    """For each operation the cotangents of both values under one random cotangent, ours and the dense ones."""
    axes, failed = RUNS[run], {}
    (t_ids, t_values), (u_ids, u_values) = (as_jax(random_entries(seed, axes, wild=True)) for seed in (0, 100))
    c = as_jax(constants(0))

    def make(ids, values):
        t = built(axes, (ids, values))
        return t.coalesce(size=ENTRIES + 2) if run.startswith("coalesced") else t

    @compiled
    def everything(t_ids, t_values, u_ids, u_values):
        def both(name):
            result, pull = jax.vjp(
                lambda x, y: st.densify(ours(name)(NAMESPACE, make(t_ids, x), make(u_ids, y), c)), t_values, u_values
            )
            _, dense_pull = jax.vjp(
                lambda x, y: theirs(name)(jnp, dense(t_ids, x, axes), dense(u_ids, y, axes), c), t_values, u_values
            )
            cotangent = jnp.cos(jnp.arange(result.size, dtype=result.dtype)).reshape(result.shape)
            return pull(cotangent), dense_pull(cotangent)

        return each(NAMES[run], axes, both, failed)

    return everything(t_ids, t_values, u_ids, u_values), failed


@pytest.mark.parametrize(("run", "name"), [case for run, axes in RUNS.items() for case in cases(NAMES[run], {run: axes})])
def test_gradient(run, name):
    given, failed = pullbacks(run)
    if name in failed:
        raise failed[name]
    for got, wanted in zip(*given[name], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


IDS = np.array([[3, 0, 3], [-4, -1, 9], [-5, 2, 3]])
"""Of an axis of size 4: repeats, negatives, and two that are out of range."""
INSIDE = (IDS >= -4) & (IDS < 4)
KNOWN, PLACES = IDS[INSIDE], np.argwhere(INSIDE)
"""The ids that are in range, and where they stand."""


def rows_of(x):
    """The rows of an array of shape ``(*IDS.shape, ...)`` whose id is in range."""
    return np.asarray(x)[tuple(PLACES.T)]


def scattered(rows, axis=0):
    out = np.zeros((4, *rows.shape[1:]))
    for i, row in zip(KNOWN, rows, strict=True):
        out[i] += row
    return np.moveaxis(out, 0, axis)


def test_take_by_traced_ids():
    x, dy = random(4, 2), random(*IDS.shape, 2, seed=1)

    @compiled
    def f(x, dy, ids):
        y, pull = jax.vjp(lambda x: rules.take(x, ids), x)
        compact = rules.take_vjp(dy, x.shape, ids)
        back, pull_back = jax.vjp(lambda dy: rules.take_vjp(dy, x.shape, ids).densify(), dy)
        return y, pull(dy)[0], compact, back, pull_back(x)[0]

    y, by_jax, compact, back, adjoint = f(x, dy, IDS)
    wanted = np.zeros((*IDS.shape, 2))
    wanted[tuple(PLACES.T)] = np.asarray(x)[KNOWN]
    np.testing.assert_allclose(y, wanted)  # an id out of range reads zeros,
    for gradient in (by_jax, compact.densify(), back):  # and gets no gradient
        np.testing.assert_allclose(gradient, scattered(rows_of(dy)), rtol=1e-12)
    np.testing.assert_allclose(adjoint, wanted)
    assert compact.stored == IDS.size


def test_take_along_another_axis_by_traced_ids():
    x, dy = random(2, 4, 3), random(2, *IDS.shape, 3, seed=1)
    y, compact = compiled(lambda x, dy, ids: (rules.take(x, ids, 1), rules.take_vjp(dy, x.shape, ids, 1)))(x, dy, IDS)
    wanted = np.zeros((*IDS.shape, 2, 3))
    wanted[tuple(PLACES.T)] = np.moveaxis(np.asarray(x), 1, 0)[KNOWN]
    np.testing.assert_allclose(y, np.moveaxis(wanted, 2, 0))
    rows = rows_of(jnp.moveaxis(dy, 0, 2))
    np.testing.assert_allclose(compact.densify(), scattered(rows, axis=1), rtol=1e-12)


def test_embedding_by_traced_ids():
    weight, dy = random(4, 2), random(*IDS.shape, 2, seed=1)
    inside = (IDS >= 0) & (IDS < 4)  # negatives are out of range here
    rows, ids = np.asarray(dy)[inside], IDS[inside]

    @compiled
    def f(weight, dy, ids):
        keywords = ({}, {"padding_idx": 3}, {"padding_idx": -1, "scale_grad_by_freq": True})
        return rules.embedding(weight, ids), [rules.embedding_vjp(dy, weight.shape, ids, **k) for k in keywords]

    y, (plain, skipping, scaled) = f(weight, dy, IDS)
    np.testing.assert_allclose(y, np.where(inside[..., None], np.asarray(weight)[IDS % 4], 0))
    wanted = np.zeros((4, 2))
    for i, row in zip(ids, rows, strict=True):
        wanted[i] += row
    np.testing.assert_allclose(plain.densify(), wanted, rtol=1e-12)
    wanted[3] = 0
    np.testing.assert_allclose(skipping.densify(), wanted, rtol=1e-12)
    counts = np.maximum(np.bincount(ids, minlength=4), 1)
    np.testing.assert_allclose(scaled.densify(), wanted / counts[:, None], rtol=1e-12)


KEYS = {
    "ids": lambda ids: ids,
    "slice and ids": lambda ids: (slice(1, None), ids),
    "ids and ids": lambda ids: (ids, ids % 3),
    "ids, slice, int": lambda ids: (ids, slice(None), 1),
    "int, None, ids": lambda ids: (-1, None, ids),
    "step": lambda ids: (slice(None, None, -2), ..., 1),
}


def test_getitem_and_its_adjoint_by_traced_ids():
    x, ids = random(4, 3, 2), np.array([[2, 0], [-1, 2]])
    wanted = {name: np.asarray(x)[key(ids)] for name, key in KEYS.items()}
    cotangents = {name: random(*y.shape, seed=1) for name, y in wanted.items()}

    @compiled
    def f(x, dy, ids):
        return {
            name: (rules.getitem(x, key(ids)), rules.getitem_vjp(dy[name], x.shape, key(ids))) for name, key in KEYS.items()
        }

    for name, (y, compact) in f(x, cotangents, ids).items():
        np.testing.assert_allclose(y, wanted[name], err_msg=name)
        adjoint = np.zeros(x.shape)
        np.add.at(adjoint, KEYS[name](ids), np.asarray(cotangents[name]))
        np.testing.assert_allclose(compact.densify(), adjoint, rtol=1e-12, err_msg=name)


def test_take_along_axis_by_traced_ids():
    x, ids = random(4, 3), np.array([[2], [0], [-1], [2]])
    dy = random(4, 1, seed=1)
    y, compact = compiled(
        lambda x, dy, ids: (rules.take_along_axis(x, ids, 1), rules.take_along_axis_vjp(dy, x.shape, ids, 1))
    )(x, dy, ids)
    np.testing.assert_allclose(y, np.take_along_axis(np.asarray(x), ids % 3, 1))
    wanted = np.zeros((4, 3))
    np.put_along_axis(wanted, ids % 3, np.asarray(dy), 1)
    np.testing.assert_allclose(compact.densify(), wanted)


def test_second_derivative_of_take():
    """Of ``sum(c * take(x, ids)**3)``: the rule's gradient, differentiated by JAX, and its adjoint by the rules again."""
    x, c, w = random(4, 2), random(*IDS.shape, 2, seed=1), random(4, 2, seed=2)

    def loss(x, ids):
        return jnp.sum(c * rules.take(x, ids) ** 3)

    def gradient(x, ids):
        y = rules.take(x, ids)
        return rules.take_vjp(3 * c * y**2, x.shape, ids).densify()

    @compiled
    def f(x, ids):
        by_rule = jax.vjp(lambda x: gradient(x, ids), x)[1](w)[0]
        by_jax = jax.jvp(jax.grad(lambda x: loss(x, ids)), (x,), (w,))[1]
        y, dw = rules.take(x, ids), rules.take(w, ids)
        by_hand = rules.take_vjp(6 * c * y * dw, x.shape, ids).densify()
        return by_rule, by_jax, by_hand, gradient(x, ids), jax.grad(loss)(x, ids)

    *seconds, first, first_by_jax = f(x, IDS)
    rows = np.asarray(x)[KNOWN]
    np.testing.assert_allclose(first, scattered(3 * rows_of(c) * rows**2), rtol=1e-12)
    np.testing.assert_allclose(first_by_jax, first, rtol=1e-12)
    for second in seconds:
        np.testing.assert_allclose(second, scattered(6 * rows_of(c) * rows * np.asarray(w)[KNOWN]), rtol=1e-12)


def test_gradient_without_compilation():
    """Ids that are known are checked, also while values are traced."""
    ids, w = jnp.asarray([2, 0, -2]), random(4, 2)
    gradient = jax.grad(lambda v: jnp.sum(w * IndexedSlices(ids, v, (4, 2)).densify()))(random(3, 2, seed=1))
    np.testing.assert_allclose(gradient, np.asarray(w)[[2, 0, 2]])
    with pytest.raises(IndexError, match="holds 4 at position 1"):
        jax.grad(lambda v: jnp.sum(IndexedSlices(jnp.asarray([0, 4, 1]), v, (4, 2)).densify()))(random(3, 2))


def test_gradient_with_respect_to_a_tangent():
    """JAX takes the pytree apart, so the cotangent has float0 in the place of the indices and nothing trips over it."""
    t, w = IndexedSlices(jnp.asarray([1, 1, 3]), random(3, 2), (4, 2)), random(4, 2, seed=1)
    gradient = jax.grad(lambda t: jnp.sum(w * t.densify()), allow_int=True)(t)
    assert gradient.indices.dtype == jax.dtypes.float0
    np.testing.assert_allclose(gradient.values, np.asarray(w)[[1, 1, 3]])
    assert "float64" in repr(gradient)
    with pytest.raises(TypeError, match="tree-map"):
        gradient + gradient
