"""The law under `jax.vmap`: batches of ids and values, and batches of tangents as pytrees."""

from functools import cache

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402  (after the skip)

from sparsetangent import IndexedSlices, OneHot, rules  # noqa: E402
from tests.transforms.jax_support import NAMESPACE, as_jax, built, compiled, each  # noqa: E402
from tests.transforms.operations import (  # noqa: E402
    CORE,
    ENTRIES,
    SEEDS,
    cases,
    check,
    constants,
    expected,
    ours,
    random_entries,
)

pytestmark = pytest.mark.usefixtures("x64")

RUNS = {"batches of entries": (0,), "batches of tangents": (0, 2)}
NAMES = {"batches of entries": CORE, "batches of tangents": CORE[::2]}


@cache
def results(run):
    """What every operation gives for a batch that holds one example for each seed, and what they raised."""
    axes, failed = RUNS[run], {}
    wild = run == "batches of entries"

    def everything(t, u, c):
        t, u = (built(axes, x) if wild else x for x in (t, u))
        return each(NAMES[run], axes, lambda name: ours(name)(NAMESPACE, t, u, c), failed)

    def batch(shift):
        examples = [as_jax(random_entries(seed + shift, axes, wild=wild)) for seed in SEEDS]
        if not wild:
            examples = [built(axes, x).coalesce(size=ENTRIES + 1) for x in examples]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *examples)

    c = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(as_jax(constants(seed)) for seed in SEEDS))
    return compiled(jax.vmap(everything))(batch(0), batch(100), c), failed


@pytest.mark.parametrize(("run", "name"), [case for run, axes in RUNS.items() for case in cases(NAMES[run], {run: axes})])
def test_law(run, name):
    given, failed = results(run)
    if name in failed:
        raise failed[name]
    for seed in SEEDS:
        example = jax.tree.map(lambda x, seed=seed: x[seed], given[name])
        check(example, expected(name, RUNS[run], RUNS[run], seed, run == "batches of entries"))


def test_without_compilation():
    """Under a bare vmap each operation runs at once, but nobody can see the ids of all examples: bad ones are dropped."""
    ids = np.array([[0, 2, 2], [-1, 3, 1], [1, -4, 0]])  # of 3 rows: one too large, one too small
    values = np.random.default_rng(0).normal(size=(3, 3, 2))
    got = jax.vmap(lambda i, v: (2 * IndexedSlices(i, v, (3, 2))).densify())(jnp.asarray(ids), jnp.asarray(values))
    wanted = np.zeros((3, 3, 2))
    for b in range(3):
        for i, row in zip(ids[b], values[b], strict=True):
            if -3 <= i < 3:
                wanted[b, i] += 2 * row
    np.testing.assert_allclose(got, wanted)


def test_gradients_for_each_example():
    """One compact gradient for each example of a batch, which a sum over examples turns into the whole one."""
    rng = np.random.default_rng(0)
    ids, dy = rng.integers(0, 5, (4, 3)), rng.normal(size=(4, 3, 2))
    each_one = jax.vmap(lambda i, d: rules.take_vjp(d, (5, 2), i))(jnp.asarray(ids), jnp.asarray(dy))
    assert each_one.shape == (5, 2)
    assert each_one.values.shape == (4, 3, 2)
    flat = IndexedSlices(each_one.indices, each_one.values, (5, 2))
    wanted = np.zeros((5, 2))
    np.add.at(wanted, ids, dy)
    np.testing.assert_allclose(flat.densify(), wanted, rtol=1e-12)


def test_one_hot():
    rng = np.random.default_rng(0)
    labels, w = np.array([[2, 0], [3, -1], [1, 1]]), rng.normal(size=(3, 2))  # 3 and -1 are out of range
    got = jax.vmap(lambda i: (OneHot(i, 3) @ jnp.asarray(w), (OneHot(i, 3) * 2.0).densify()))(jnp.asarray(labels))
    ones = (labels[..., None] == np.arange(3)).astype(float)
    np.testing.assert_allclose(got[0], ones @ w)
    np.testing.assert_allclose(got[1], 2 * ones)
