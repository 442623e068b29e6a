"""The law under `torch.func`: batches of ids and values, per-example gradients, forward mode, transforms inside transforms."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import array_api_compat.torch as compat  # noqa: E402  (after the skip)
from torch.utils import _pytree  # noqa: E402  (after the skip)

import sparsetangent as st  # noqa: E402
from sparsetangent import IndexedSlices, OneHot, rules  # noqa: E402
from tests.transforms.operations import (  # noqa: E402
    ENTRIES,
    LAYOUTS,
    LINEAR,
    OPERATIONS,
    SEEDS,
    SMOOTH,
    cases,
    check,
    constants,
    expected,
    ours,
    random_entries,
    theirs,
)
from tests.transforms.torch_support import NAMESPACE, as_torch, built, dense, stacked  # noqa: E402

pytestmark = [
    # Said by torch of batched tensors, which no caller can lay out, and of its own code.
    pytest.mark.filterwarnings("ignore:torch.searchsorted:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]


def batch(shift, axes):
    return stacked([as_torch(random_entries(seed + shift, axes)) for seed in SEEDS])


# array-api-compat's sign writes through a mask, and dynamic shapes have no batching rule.
BATCHED = [name for name in OPERATIONS if name != "sign"]


@pytest.mark.parametrize(("layout", "name"), cases(BATCHED, {name: LAYOUTS[name] for name in ("rows", "hybrid", "cells")}))
def test_vmap(layout, name):
    """A batch holds one example for each seed, the constants included."""
    axes = LAYOUTS[layout]
    c = stacked([as_torch(constants(seed)) for seed in SEEDS])

    def f(t, u, c):
        return ours(name)(NAMESPACE, built(axes, t), built(axes, u), c)

    result = torch.func.vmap(f)(batch(0, axes), batch(100, axes), c)
    for seed in SEEDS:
        example = _pytree.tree_map(lambda x, seed=seed: x[seed], result)
        check(example, expected(name, axes, axes, seed, False))


@pytest.mark.parametrize("name", [name for name in LINEAR if name not in ("retain", "coalesce")])
def test_vmap_over_tangents(name):
    """Tangents are pytrees, so a batch of them is one with batched leaves; padded ones have equal static parts."""
    axes, c = (0,), as_torch(constants(0))
    tangents, others = (
        [built(axes, as_torch(random_entries(seed + shift, axes))).coalesce(size=ENTRIES) for seed in SEEDS]
        for shift in (0, 100)
    )
    result = torch.func.vmap(lambda t, u: ours(name)(NAMESPACE, t, u, c))(stacked(tangents), stacked(others))
    for k, (t, u) in enumerate(zip(tangents, others, strict=True)):
        example = _pytree.tree_map(lambda x, k=k: x[k], result)
        check(example, theirs(name)(compat, t.densify(), u.densify(), as_torch(constants(0))))


@pytest.mark.parametrize("transform", ["vjp", "jvp"])
@pytest.mark.parametrize(("layout", "name"), cases((*LINEAR, *SMOOTH), {"hybrid": (0, 2)}))
@pytest.mark.filterwarnings("ignore::sparsetangent.DensifyWarning")
def test_derivative(layout, name, transform):
    axes, (t_ids, t_values), (u_ids, u_values) = (
        LAYOUTS[layout],
        *(as_torch(random_entries(seed, LAYOUTS[layout])) for seed in (0, 100)),
    )

    def f(x, y):
        t, u = built(axes, (t_ids, x)), built(axes, (u_ids, y))
        return st.densify(ours(name)(NAMESPACE, t, u, as_torch(constants(0))))

    def g(x, y):
        return theirs(name)(compat, dense(t_ids, x, axes), dense(u_ids, y, axes), as_torch(constants(0)))

    if transform == "vjp":
        (y, pull), (z, dense_pull) = torch.func.vjp(f, t_values, u_values), torch.func.vjp(g, t_values, u_values)
        cotangent = torch.cos(torch.arange(z.numel(), dtype=z.dtype)).reshape(z.shape)
        got, wanted = (y, *pull(cotangent)), (z, *dense_pull(cotangent))
    else:
        moved = torch.sin(t_values * 7), torch.sin(u_values * 9)
        got, wanted = (torch.func.jvp(h, (t_values, u_values), moved) for h in (f, g))
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


def random(*shape, seed=0):
    return torch.asarray(np.random.default_rng(seed).normal(size=shape))


def test_gradients_for_each_example():
    """A batch of look-ups gives a batch of compact gradients, equal to what torch gives for each example alone."""
    weight, ids, c = random(5, 2), torch.tensor([[0, 3, 3], [1, 1, 4], [2, 0, -1]]), random(3, 3, 2, seed=1)

    def loss(weight, ids, c):
        return (c * rules.take(weight, ids) ** 2).sum()

    wanted = torch.stack([torch.func.grad(loss)(weight, i, k) for i, k in zip(ids, c, strict=True)])
    batched = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weight, ids, c)
    compact = torch.func.vmap(lambda i, k: rules.take_vjp(2 * k * rules.take(weight, i), (5, 2), i))(ids, c)
    by_rule = torch.stack([_pytree.tree_map(lambda x, k=k: x[k], compact).densify() for k in range(3)])
    by_hand = torch.zeros(3, 5, 2, dtype=torch.float64)
    for example, rows in enumerate(ids.tolist()):
        for k, i in enumerate(rows):
            by_hand[example, i] += 2 * c[example, k] * weight[i]
    for got in (wanted, batched, by_rule):
        torch.testing.assert_close(got, by_hand)


def test_second_derivative_of_take():
    x, c, w, ids = random(4, 2), random(2, 3, 2, seed=1), random(4, 2, seed=2), torch.tensor([[3, 0, 3], [-4, -1, 1]])

    def gradient(x):
        return rules.take_vjp(3 * c * rules.take(x, ids) ** 2, x.shape, ids).densify()

    wanted = torch.zeros(4, 2, dtype=torch.float64).index_put((ids % 4,), (6 * c * x[ids % 4] * w[ids % 4]), accumulate=True)
    torch.testing.assert_close(torch.func.jvp(gradient, (x,), (w,))[1], wanted)
    torch.testing.assert_close(torch.func.vjp(gradient, x)[1](w)[0], wanted)
    by_torch = torch.func.grad(lambda x: (c * rules.take(x, ids) ** 3).sum())
    torch.testing.assert_close(torch.func.jvp(by_torch, (x,), (w,))[1], wanted)


def test_nothing_outside_a_transform_is_written():
    x, t = random(4, 2), IndexedSlices(torch.tensor([1, 1]), random(2, 2, seed=1), (4, 2))
    before = x.clone()
    got = torch.func.vmap(lambda s: st.add_into(x.clone(), t * s))(torch.tensor([1.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(x, before)
    torch.testing.assert_close(got, torch.stack([before + t.densify(), before + 2 * t.densify()]))


def test_ids_are_checked_in_each_example():
    values = random(2, 2, 3)
    bad = torch.tensor([[0, 1], [2, 5]])
    with pytest.raises(IndexError, match="5"):
        torch.func.vmap(lambda i, v: IndexedSlices(i, v, (4, 3)).densify())(bad, values)


def test_one_hot():
    labels, w = torch.tensor([[2, 0], [1, 1]]), random(3, 2)
    product, scaled = torch.func.vmap(lambda i: (OneHot(i, 3) @ w, (OneHot(i, 3) * 2.0).densify()))(labels)
    ones = torch.nn.functional.one_hot(labels, 3).double()
    torch.testing.assert_close(product, ones @ w)
    torch.testing.assert_close(scaled.double(), 2 * ones)
