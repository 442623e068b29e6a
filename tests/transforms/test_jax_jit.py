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
