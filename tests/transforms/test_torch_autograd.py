"""Derivatives under torch's tape, through every differentiable operation, compared with torch's own of the dense operation."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import array_api_compat.torch as compat  # noqa: E402  (after the skip)

import sparsetangent as st  # noqa: E402  (after the skip)
from sparsetangent import IndexedSlices, rules  # noqa: E402
from tests.transforms.operations import LAYOUTS, LINEAR, SHAPE, SMOOTH, cases, constants, ours, random_entries, theirs  # noqa: E402
from tests.transforms.torch_support import NAMESPACE, as_torch, built, dense  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::sparsetangent.DensifyWarning"),
    pytest.mark.filterwarnings("ignore:torch.asarray:UserWarning"),  # once a process; the last test here looks for it
]

NAMES = (*LINEAR, *SMOOTH)


@pytest.mark.parametrize(("layout", "name"), cases(NAMES, {"rows": (0,), "columns": (1,), "cells": (0, 1, 2)}))
def test_gradient(layout, name):
    axes = LAYOUTS[layout]
    c, untouched = as_torch(constants(0)), as_torch(constants(0))
    (t_ids, t_values), (u_ids, u_values) = (as_torch(random_entries(seed, axes)) for seed in (0, 100))
    values = t_values.requires_grad_(), u_values.requires_grad_()
    result = st.densify(ours(name)(NAMESPACE, built(axes, (t_ids, t_values)), built(axes, (u_ids, u_values)), c))
    wanted = theirs(name)(compat, dense(t_ids, t_values, axes), dense(u_ids, u_values, axes), untouched)
    torch.testing.assert_close(result, wanted)
    cotangent = torch.cos(torch.arange(wanted.numel(), dtype=wanted.dtype)).reshape(wanted.shape)
    got, by_torch = (
        torch.autograd.grad(y, values, cotangent, allow_unused=True, materialize_grads=True) for y in (result, wanted)
    )
    torch.testing.assert_close(got, by_torch, rtol=1e-10, atol=1e-12)


IDS = torch.tensor([[3, 0, 3], [-4, -1, 1]])


def random(*shape, seed=0):
    return torch.asarray(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


CHECKED = {
    "densify": lambda v, w: IndexedSlices(IDS, v, (4, 2)).densify(),
    "sum": lambda v, w: NAMESPACE.sum(IndexedSlices(IDS, v, (4, 2)), axis=0),
    "multiply": lambda v, w: (IndexedSlices(IDS, v, (4, 2)) * w).densify(),
    "divide": lambda v, w: (IndexedSlices(IDS, v, (4, 2)) / w).densify(),
    "add": lambda v, w: w + IndexedSlices(IDS, v, (4, 2)),
    "subtract": lambda v, w: IndexedSlices(IDS, v, (4, 2)) - w,
    "matmul": lambda v, w: (IndexedSlices(IDS, v, (4, 2)) @ w.mT).densify(),
    "matmul, right": lambda v, w: w.mT @ IndexedSlices(IDS, v, (4, 2)),
    "square": lambda v, w: (IndexedSlices(IDS, v, (4, 2)) ** 2).densify(),
    "product": lambda v, w: (IndexedSlices(IDS, v, (4, 2)) * rules.take_vjp(w[:3], (4, 2), [1, 3, 3])).densify(),
    "add_n": lambda v, w: st.add_n([w, IndexedSlices(IDS, v, (4, 2)), None]),
    "add_into": lambda v, w: st.add_into(w * 1, IndexedSlices(IDS, v, (4, 2)), 3),
    "take": lambda v, w: rules.take(w, IDS),
    "take_vjp": lambda v, w: rules.take_vjp(v, (4, 2), IDS).densify(),
    "embedding_vjp": lambda v, w: rules.embedding_vjp(v, (4, 2), IDS % 4, padding_idx=0, scale_grad_by_freq=True).densify(),
    "getitem": lambda v, w: rules.getitem(w, (IDS, 1)),
    "getitem_vjp": lambda v, w: rules.getitem_vjp(v[..., 0], (4, 2), (IDS, 1)).densify(),
}


@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck(name):
    """Against differences, to the second order."""
    inputs = random(2, 3, 2), (random(4, 2, seed=1).detach() + 3).requires_grad_()
    torch.autograd.gradcheck(CHECKED[name], inputs)
    torch.autograd.gradgradcheck(CHECKED[name], inputs)


def test_second_derivative_of_take():
    """Of ``sum(c * take(x, ids)**3)``: the rule's gradient, differentiated by torch, and its adjoint by the rules again."""
    x, c, w = random(4, 2), random(2, 3, 2, seed=1).detach(), random(4, 2, seed=2).detach()
    y = rules.take(x, IDS)
    (first,) = torch.autograd.grad((c * y**3).sum(), x, create_graph=True)
    by_rule = rules.take_vjp(3 * c * y**2, x.shape, IDS).densify()
    torch.testing.assert_close(by_rule, first)
    (by_torch,) = torch.autograd.grad(first, x, w, retain_graph=True)
    (through_the_rule,) = torch.autograd.grad(by_rule, x, w)
    by_hand = rules.take_vjp(6 * c * y * rules.take(w, IDS), x.shape, IDS).densify().detach()
    rows, wanted = x.detach()[IDS % 4], torch.zeros(4, 2, dtype=torch.float64)
    wanted.index_put_((IDS % 4,), 6 * c * rows * w[IDS % 4], accumulate=True)
    for second in (by_torch, through_the_rule, by_hand):
        torch.testing.assert_close(second, wanted)


IN_PLACE = {
    "+=": lambda x, t: x.__iadd__(t),
    "-=": lambda x, t: x.__isub__(-t),
    "add_": lambda x, t: x.add_(t),
    "sub_, alpha": lambda x, t: x.sub_(t, alpha=-1),
    "add_into": lambda x, t: st.add_into(x, t),
    "densify(out)": lambda x, t: (t + x.clone()) if x.requires_grad else (IndexedSlices(*_full(t + x.clone())).densify(out=x)),
}


def _full(x):
    return torch.arange(x.shape[0]), x, x.shape


@pytest.mark.parametrize("axes", [(0,), (0, 2), (1,), (0, 1, 2)])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, axes):
    ids, values = as_torch(random_entries(0, axes))
    x = torch.asarray(np.random.default_rng(5).normal(size=SHAPE))
    before, version = x.clone(), x._version
    result = IN_PLACE[name](x, built(axes, (ids, values)))
    assert result is x
    assert x._version > version
    torch.testing.assert_close(x, before + dense(ids, values, axes))


@pytest.mark.parametrize("name", ["+=", "-=", "add_", "add_into"])
@pytest.mark.parametrize("axes", [(0,), (0, 2), (1,), (0, 1, 2)])
def test_in_place_on_the_tape(name, axes):
    """The target is a result of tracked operations: both it and the values get their gradients."""
    ids, values = as_torch(random_entries(0, axes))
    start = torch.asarray(np.random.default_rng(5).normal(size=SHAPE)).requires_grad_()
    w = torch.asarray(np.random.default_rng(6).normal(size=SHAPE))
    values.requires_grad_()
    x = start * 2
    assert IN_PLACE[name](x, built(axes, (ids, values))) is x
    got = torch.autograd.grad((x * x * w).sum(), (start, values))
    by_torch = torch.autograd.grad((w * (start * 2 + dense(ids, values, axes)) ** 2).sum(), (start, values))
    torch.testing.assert_close(got, by_torch)


def test_in_place_on_what_the_tape_has_saved():
    """Writing without a bump of the version would leave a wrong gradient, without a word."""
    t = IndexedSlices(torch.tensor([1, 1]), torch.ones(2, 2), (4, 2))
    for write in IN_PLACE.values():
        w, x = torch.ones(4, 2, requires_grad=True), torch.ones(4, 2)
        loss = (w * x).sum()
        write(x, t)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_in_place_on_a_leaf():
    weight = torch.nn.Parameter(torch.ones(4, 2))
    t = IndexedSlices(torch.tensor([1, 1]), torch.ones(2, 2), (4, 2))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        weight += t
    with torch.no_grad():
        weight -= t
    assert weight.detach().tolist() == [[1, 1], [-1, -1], [1, 1], [1, 1]]


def test_the_user_is_never_warned():
    """Torch warns once a process of each thing, so whoever comes first would see it."""
    ids, values = as_torch(random_entries(0, (0,)))
    t, c = built((0,), (ids, values.requires_grad_())), as_torch(constants(0))
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for name in LINEAR:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                ours(name)(NAMESPACE, t, t, {key: x.clone().requires_grad_() * 1 for key, x in c.items()})
    finally:
        torch.set_warn_always(before)
