"""The same functions by torch's and JAX's own engines, over random shapes, to 1e-10 in float64.

Where one of them is wrong or has no derivative (a product with repeats in JAX, extremes shared in another way), the other is asked.
"""

import numpy as np
import pytest
from hypothesis import strategies as st

from sparsetangent import rules
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, same

TORCH = pytest.importorskip("torch")
EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def torch_xp():
    """The torch namespace under its test name, for `for_all` and `array`."""
    import array_api_compat.torch as module

    from tests.conftest import Library

    return Library("torch", module)


def torch_gradients(f, dy, *inputs):
    """The value and gradients of a torch function, as NumPy arrays."""
    leaves = [TORCH.tensor(x, requires_grad=True) for x in inputs]
    y = f(*leaves)
    return dense(y), [dense(g) for g in TORCH.autograd.grad(y, leaves, TORCH.as_tensor(dy(tuple(y.shape))))]


@st.composite
def seeds(draw):
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


def shape_of(rng, low=1):
    return int(rng.integers(low, 9)), int(rng.integers(low, 5)), int(rng.integers(1, 6))


@pytest.mark.parametrize("op, theirs", [("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin"), ("mean", "mean")])
def test_scatter_reduce_of_torch(torch_xp, op, theirs):
    xp = torch_xp

    def body(rng):
        n, d, size = shape_of(rng)
        # torch's product has no derivative to be trusted with a zero in a group, and its mean counts what was there.
        src, dst = coarse(rng, (n, d), zero=op != "mul"), coarse(rng, (size, d), zero=op != "mul")
        ids = rng.integers(0, size, n)
        index = TORCH.as_tensor(ids)[:, None].expand(n, d)

        def f(base, rows):
            if op == "mean":
                return base + TORCH.zeros_like(base).scatter_reduce(0, index, rows, "mean", include_self=False)
            return base.scatter_reduce(0, index, rows, theirs, include_self=True)

        held = {}
        y, (d_dst, d_src) = torch_gradients(f, lambda s: held.setdefault("dy", rng.standard_normal(s)), dst, src)
        a_dst, a_src, a_ids, a_dy = (array(xp, x) for x in (dst, src, ids, held["dy"]))
        same(rules.scatter_into(op, a_dst, a_src, a_ids), y, **EXACT)
        same(rules.scatter_into_vjp_dst(op, a_dy, a_dst, a_src, a_ids), d_dst, **EXACT)
        same(rules.scatter_into_vjp_src(op, a_dy, a_dst, a_src, a_ids), d_src, **EXACT)

    for_all(xp, body, seeds(), examples=60)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_of_torch(torch_xp, mode):
    xp = torch_xp

    def body(rng):
        n, d, size = shape_of(rng)
        # torch gives a maximum to the first that attains it.
        table = rng.standard_normal((size, d))
        ids = rng.integers(0, size, n)
        offsets = np.sort(np.concatenate([[0], rng.integers(0, n + 1, 3)]))
        samples = rng.standard_normal(n) if mode == "sum" else None
        padding = int(rng.integers(0, size)) if rng.random() < 0.5 else None
        leaves = [TORCH.tensor(table, requires_grad=True)]
        if samples is not None:
            leaves.append(TORCH.tensor(samples, requires_grad=True))
        y = TORCH.nn.functional.embedding_bag(
            TORCH.as_tensor(ids),
            leaves[0],
            TORCH.as_tensor(offsets),
            mode=mode,
            per_sample_weights=leaves[1] if samples is not None else None,
            padding_idx=padding,
        )
        dy = rng.standard_normal(tuple(y.shape))
        gradients = TORCH.autograd.grad(y, leaves, TORCH.as_tensor(dy))
        a_table, a_ids, a_offsets, a_dy = (array(xp, x) for x in (table, ids, offsets, dy))
        keywords = {"mode": mode, "padding_idx": padding}
        keywords |= {"per_sample_weights": None if samples is None else array(xp, samples)}
        same(rules.embedding_bag(a_table, a_ids, a_offsets, **keywords), dense(y), **EXACT)
        dw = rules.embedding_bag_vjp_weight(a_dy, a_table, a_ids, a_offsets, ties="first", **keywords)
        same(dw, dense(gradients[0]), **EXACT)
        if samples is not None:
            ds = rules.embedding_bag_vjp_per_sample(a_dy, a_table, a_ids, a_offsets, **keywords)
            same(ds, dense(gradients[1]), **EXACT)

    for_all(xp, body, seeds(), examples=60)


def test_index_select_amax_sort_topk_and_cross_entropy_of_torch(torch_xp):
    xp = torch_xp

    def check(f, rule, reverse, x, rng):
        held = {}
        y, (dx,) = torch_gradients(f, lambda s: held.setdefault("dy", rng.standard_normal(s)), x)
        a_x, a_dy = array(xp, x), array(xp, held["dy"])
        same(rule(a_x), y, **EXACT)
        same(reverse(a_dy, a_x), dx, **EXACT)

    def body(rng):
        n, d, size = shape_of(rng)
        axis = int(rng.integers(0, 3))
        x, distinct = coarse(rng, (n, d, size)), rng.standard_normal((n, d, size))
        ids = rng.integers(0, x.shape[axis], 7)
        a_ids, t_ids = array(xp, ids), TORCH.as_tensor(ids)
        check(
            lambda t: t.index_select(axis, t_ids),
            lambda t: rules.take(t, a_ids, axis),
            lambda dy, t: rules.take_vjp(dy, t.shape, a_ids, axis),
            x,
            rng,
        )
        axes = (axis, (axis + 1) % 3)
        for name in ("max", "min"):
            check(
                lambda t, name=name: getattr(TORCH, f"a{name}")(t, axes),
                lambda t, name=name: getattr(rules, name)(t, axes),
                lambda dy, t, name=name: getattr(rules, f"{name}_vjp")(dy, t, axes),
                x,
                rng,
            )
        check(
            lambda t: TORCH.sort(t, dim=axis, stable=True).values,
            lambda t: rules.sort(t, axis),
            lambda dy, t: rules.sort_vjp(dy, t, axis),
            x,
            rng,
        )
        k = int(rng.integers(0, x.shape[axis] + 1))
        check(
            lambda t: TORCH.topk(t, k, dim=axis).values,
            lambda t: rules.topk(t, k, axis),
            lambda dy, t: rules.topk_vjp(dy, t, k, axis),
            distinct,
            rng,
        )
        check(
            lambda t: TORCH.diagonal_copy(TORCH.nn.functional.pad(t, (1, 2, 0, 1)), 1, 0, 2),
            lambda t: rules.diagonal(rules.pad(t, ((0, 0), (0, 1), (1, 2))), 1, 0, 2),
            lambda dy, t: rules.pad_vjp(
                rules.diagonal_vjp(dy, (n, d + 1, size + 3), 1, 0, 2), t.shape, ((0, 0), (0, 1), (1, 2))
            ),
            x,
            rng,
        )
        labels = rng.integers(-1, size, (n, d))
        weight = rng.uniform(0.5, 2, size)
        reduction = ("none", "sum", "mean")[int(rng.integers(0, 3))]
        if (labels == -1).all():
            labels[0, 0] = 0  # torch's mean of nothing is nan
        a_labels, a_weight = array(xp, labels), array(xp, weight)
        check(
            lambda t: TORCH.nn.functional.cross_entropy(
                TORCH.movedim(t, -1, 1), TORCH.as_tensor(labels), TORCH.as_tensor(weight), ignore_index=-1, reduction=reduction
            ),
            lambda t: rules.cross_entropy(t, a_labels, weight=a_weight, ignore_index=-1, reduction=reduction),
            lambda dy, t: rules.cross_entropy_vjp(dy, t, a_labels, weight=a_weight, ignore_index=-1, reduction=reduction),
            distinct,
            rng,
        )

    for_all(xp, body, seeds(), examples=60)


JAX_SHAPES = [(7, 3, 4), (5, 1, 2)]


@pytest.mark.parametrize("shape", JAX_SHAPES)
def test_the_same_by_jax(shape):
    """``jax.vjp`` of JAX's own functions, compiled once a shape."""
    jax = pytest.importorskip("jax")
    jnp, lax = jax.numpy, jax.lax
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        n, d, size = shape
        rng = np.random.default_rng(n)
        ids, src, dst = (
            jnp.asarray(rng.integers(0, size, n)),
            jnp.asarray(coarse(rng, (n, d))),
            jnp.asarray(coarse(rng, (size, d))),
        )
        x, labels = jnp.asarray(rng.standard_normal((n, d, size))), jnp.asarray(rng.integers(0, size, (n, d)))

        def check(f, rule, reverses, *inputs):
            y, pull = jax.vjp(jax.jit(f), *inputs)
            dy = jnp.asarray(rng.standard_normal(y.shape))
            same(jax.jit(rule)(*inputs), np.asarray(y), **EXACT)
            for reverse, expected in zip(reverses, pull(dy), strict=True):
                same(jax.jit(reverse)(dy, *inputs), np.asarray(expected), **EXACT)

        for op, method in (("add", "add"), ("max", "max"), ("min", "min")):
            check(
                lambda b, s, method=method: getattr(b.at[ids], method)(s),
                lambda b, s, op=op: rules.scatter_into(op, b, s, ids),
                [
                    lambda dy, b, s, op=op: rules.scatter_into_vjp_dst(op, dy, b, s, ids),
                    lambda dy, b, s, op=op: rules.scatter_into_vjp_src(op, dy, b, s, ids),
                ],
                dst,
                src,
            )
        # A product with repeats has no derivative in JAX: the loop is differentiated instead.
        members = [[k for k in range(n) if int(ids[k]) == j] for j in range(size)]
        check(
            lambda s: jnp.stack([jnp.prod(s[jnp.asarray(m, int)], axis=0) for m in members]),
            lambda s: rules.scatter("mul", s, ids, size),
            [lambda dy, s: rules.scatter_vjp("mul", dy, s, ids, size)],
            src,
        )
        check(
            lambda s: jax.ops.segment_sum(s, ids, size) / jnp.maximum(jax.ops.segment_sum(jnp.ones((n, 1)), ids, size), 1),
            lambda s: rules.scatter("mean", s, ids, size),
            [lambda dy, s: rules.scatter_vjp("mean", dy, s, ids, size)],
            src,
        )
        check(
            lambda t: jnp.take(t, ids, axis=2),
            lambda t: rules.take(t, ids, 2),
            [lambda dy, t: rules.take_vjp(dy, t.shape, ids, 2)],
            x,
        )
        check(lambda t: jnp.max(t, (0, 2)), lambda t: rules.max(t, (0, 2)), [lambda dy, t: rules.max_vjp(dy, t, (0, 2))], x)
        check(lambda s: jnp.min(s, 0), lambda s: rules.min(s, 0), [lambda dy, s: rules.min_vjp(dy, s, 0)], src)
        check(lambda s: jnp.sort(s, 0), lambda s: rules.sort(s, 0), [lambda dy, s: rules.sort_vjp(dy, s, 0)], src)
        check(
            lambda t: lax.top_k(t, size)[0],
            lambda t: rules.topk(t, size),
            [lambda dy, t: rules.topk_vjp(dy, t, size)],
            x,
        )
        check(
            lambda t: -jnp.take_along_axis(jax.nn.log_softmax(t), labels[..., None], -1)[..., 0],
            lambda t: rules.cross_entropy(t, labels),
            [lambda dy, t: rules.cross_entropy_vjp(dy, t, labels)],
            x,
        )
    finally:
        jax.config.update("jax_enable_x64", before)
