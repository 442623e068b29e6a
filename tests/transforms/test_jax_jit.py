"""The law under `jax.jit`: tangents built inside from traced ids, half of them out of range, passed as arguments, and padded."""

from functools import cache

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from tests.transforms.jax_support import NAMESPACE, as_jax, built, compiled, each  # noqa: E402  (after the skip)
from tests.transforms.operations import (  # noqa: E402
    CORE,
    ENTRIES,
    OPERATIONS,
    SEEDS,
    cases,
    check,
    constants,
    expected,
    ours,
    random_entries,
)

pytestmark = pytest.mark.usefixtures("x64")

# How the tangents come about, and the stored axes of the first and the second one.
RUNS = {
    "built inside, rows": ((0,), (0,)),
    "built inside, cells": ((0, 1, 2), (0, 1, 2)),
    "argument, columns and hybrid": ((1,), (0, 2)),
    "coalesced, hybrid": ((0, 2), (0, 2)),
}


def padded(axes, entries):
    return built(axes, entries).coalesce(size=ENTRIES + 2)


def names(run):
    return OPERATIONS if run == "built inside, rows" else CORE


@cache
def results(run):
    """What every operation gives in one compiled function, for each seed, and what they raised."""
    t_axes, u_axes = RUNS[run]
    how = run.partition(",")[0]
    outside = {"built inside": lambda axes, entries: entries, "argument": built, "coalesced": padded}[how]
    inside = built if how == "built inside" else lambda axes, t: t
    failed = {}

    @compiled
    def everything(t, u, c):
        return each(
            names(run),
            t_axes,
            lambda name: ours(name)(NAMESPACE, inside(t_axes, t), inside(u_axes, u), c),
            failed,
        )

    given = []
    for seed in SEEDS:
        t, u = (
            as_jax(random_entries(s, axes, wild=how == "built inside")) for s, axes in ((seed, t_axes), (seed + 100, u_axes))
        )
        given.append(everything(outside(t_axes, t), outside(u_axes, u), as_jax(constants(seed))))
    return given, failed


CASES = [case for run, (axes, _) in RUNS.items() for case in cases(names(run), {run: axes})]


@pytest.mark.parametrize(("run", "name"), CASES)
def test_law(run, name):
    given, failed = results(run)
    if name in failed:
        raise failed[name]
    for seed in SEEDS:
        check(given[seed][name], expected(name, *RUNS[run], seed, run.startswith("built")))


def test_reads_of_broadcast_values_at_ids_out_of_range():
    """Where an axis is held once for all its positions, an id out of range reads 0 there too, as it does from the dense array."""
    import jax.numpy as jnp
    import numpy as np

    import sparsetangent as st
    from sparsetangent.testing import oracle

    ids, others = np.array([0, 4, -1, 9, -7]), np.array([2, 1, 0, 3, 2])
    row = st.IndexedSlices(jnp.asarray([1, 1]), jnp.asarray([[2.0, 3.0, 4.0], [0.5, 0.0, 1.0]]), (2, 3))
    tangents = {
        "fill": st.Fill(jnp.asarray(2.5), (4, 3)),
        "slab": NAMESPACE.broadcast_to(st.IndexedSlices((), jnp.asarray([[1.0, 2.0, 3.0]]), (3,), axis=()), (4, 3)),
        "an axis of size 1": st.IndexedSlices(jnp.asarray([0, 2]), jnp.asarray([[1.5], [2.0]]), (4, 1)),
        "a stored axis beside": NAMESPACE.broadcast_to(row[:, None, :], (2, 4, 3)),
    }
    axes = {"a stored axis beside": 1}
    for name, t in tangents.items():
        dense, axis = oracle.loop_densify(t), axes.get(name, 0)
        inside = (ids >= -4) & (ids < 4)
        want = np.take(dense, np.where(inside, ids, 0), axis=axis) * inside.reshape(-1, *(1,) * (dense.ndim - axis - 1))
        got = jax.jit(lambda t, i, axis=axis: st.densify(NAMESPACE.take(t, i, axis=axis)))(t, jnp.asarray(ids))
        assert np.array_equal(np.asarray(got), want), name
        got = jax.jit(lambda d, i, axis=axis: st.rules.take(d, i, axis))(jnp.asarray(dense), jnp.asarray(ids))
        assert np.array_equal(np.asarray(got), want), name

    def pairs(t, i, j):
        return st.densify(t[i, j])

    for name in ("fill", "slab", "an axis of size 1"):
        t = tangents[name]
        dense = oracle.loop_densify(t)
        want = [
            dense[i, j] if -dense.shape[0] <= i < dense.shape[0] and j < dense.shape[1] else 0.0
            for i, j in zip(ids, others, strict=True)
        ]
        assert np.array_equal(np.asarray(jax.jit(pairs)(t, jnp.asarray(ids), jnp.asarray(others))), want), name
    both = tangents["a stored axis beside"]
    dense = oracle.loop_densify(both)
    want = np.array([dense[j % 2, i] if -4 <= i < 4 else np.zeros(3) for i, j in zip(ids, others, strict=True)])
    got = jax.jit(lambda t, j, i: st.densify(t[j, i]))(both, jnp.asarray(others % 2), jnp.asarray(ids))
    assert np.array_equal(np.asarray(got), want)
