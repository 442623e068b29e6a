"""Every rule against central differences in float64, with repeats, zeros, negatives and pairs of ties; on JAX both sides under jit.

The second half is second derivatives: reverses that are linear in the cotangent have a rule as their adjoint, and engines
differentiate the others.
"""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import rules
from sparsetangent.testing import check_vjp
from tests.rules.support import array, normal

IDS = np.array([3, 0, 3, 1, 0, 3])
OPS = ("add", "sub", "mul", "div", "min", "max", "mean")


def away_from_ties(shape, seed=0):
    """Distinct values of both signs, so that no step of a difference changes their order, and none near zero."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    return (rng.permutation(n) - n / 2 + 0.25 + rng.uniform(0, 0.1, n)).reshape(shape) / max(n, 4) * 4


def with_zeros(shape, seed=0):
    """Some zeros, some of them alone in their group of `IDS`, some not."""
    x = normal(shape, seed)
    x[[0, 1, 4]] = 0
    return x


# name: forward, reverse, arguments (arrays of any kind), which of them are differentiated
TABLE = {
    "take": (
        lambda x, i: rules.take(x, i, 1),
        lambda dy, x, i: rules.take_vjp(dy, x.shape, i, 1),
        (normal((2, 4)), IDS - 2),
        0,
    ),
    "getitem": (
        lambda x, i: rules.getitem(x, (slice(None, None, -2), i, None, i)),
        lambda dy, x, i: rules.getitem_vjp(dy, x.shape, (slice(None, None, -2), i, None, i)),
        (normal((3, 4, 4)), np.array([1, -1, 1])),
        0,
    ),
    "take_along_axis": (
        lambda x, i: rules.take_along_axis(x, i, 0),
        lambda dy, x, i: rules.take_along_axis_vjp(dy, x.shape, i, 0),
        (normal((3, 2)), np.array([[0, -1], [0, 1], [2, 1], [0, 0]])),
        0,
    ),
    "embedding": (
        rules.embedding,
        lambda dy, x, i: rules.embedding_vjp(dy, x.shape, i),
        (normal((4, 2)), IDS.reshape(2, 3)),
        0,
    ),
    "one_hot_matmul": (
        lambda w, i: rules.one_hot_matmul(sp.OneHot(i, 4), w),
        lambda dy, w, i: rules.one_hot_matmul_vjp(dy, sp.OneHot(i, 4), w.shape),
        (normal((4, 2)), IDS),
        0,
    ),
    "sum": (lambda x: rules.sum(x, (0, 2)), lambda dy, x: rules.sum_vjp(dy, x.shape, (0, 2)), (normal((2, 3, 2)),), 0),
    "mean": (lambda x: rules.mean(x, 1), lambda dy, x: rules.mean_vjp(dy, x.shape, 1), (normal((2, 3, 2)),), 0),
    "mean of all": (rules.mean, lambda dy, x: rules.mean_vjp(dy, x.shape), (normal((2, 3)),), 0),
    "broadcast_to": (
        lambda x: rules.broadcast_to(x, (2, 3, 2)),
        lambda dy, x: rules.broadcast_to_vjp(dy, x.shape),
        (normal((3, 1)),),
        0,
    ),
    "pad": (
        lambda x: rules.pad(x, ((1, 0), (2, 1)), 3.0),
        lambda dy, x: rules.pad_vjp(dy, x.shape, ((1, 0), (2, 1)), 3.0),
        (normal((2, 3)),),
        0,
    ),
    "diagonal": (
        lambda x: rules.diagonal(x, 1, 2, 0),
        lambda dy, x: rules.diagonal_vjp(dy, x.shape, 1, 2, 0),
        (normal((4, 2, 3)),),
        0,
    ),
    "where": (
        lambda c, x, y: rules.where(c, x, y),
        lambda dy, c, x, y: (rules.where_vjp_x(dy, c, x.shape, y.shape), rules.where_vjp_y(dy, c, x.shape, y.shape)),
        (np.array([[True, False, True], [False, False, True]]), normal((3,)), normal((2, 1))),
        (1, 2),
    ),
    "densify": (
        lambda v, i: rules.densify(sp.IndexedSlices((i, i), v, (4, 2, 4), axis=(0, 2))),
        lambda dy, v, i: rules.densify_vjp(dy, sp.IndexedSlices((i, i), v, (4, 2, 4), axis=(0, 2))),
        (normal((6, 2)), IDS),
        0,
    ),
    "densify a fill": (
        lambda v: rules.densify(sp.Fill(v, (2, 3))),
        lambda dy, v: rules.densify_vjp(dy, sp.Fill(v, (2, 3))),
        (normal(()),),
        0,
    ),
    "sort": (lambda x: rules.sort(x, 0), lambda dy, x: rules.sort_vjp(dy, x, 0), (away_from_ties((4, 2)),), 0),
    "topk": (lambda x: rules.topk(x, 2, 0), lambda dy, x: rules.topk_vjp(dy, x, 2, 0), (away_from_ties((4, 2)),), 0),
    "max": (lambda x: rules.max(x, (0, 2)), lambda dy, x: rules.max_vjp(dy, x, (0, 2)), (away_from_ties((2, 3, 2)),), 0),
    "max, first": (
        lambda x: rules.max(x, 1),
        lambda dy, x: rules.max_vjp(dy, x, 1, ties="first"),
        (away_from_ties((2, 4)),),
        0,
    ),
    "min": (
        lambda x: rules.min(x, -1, True),
        lambda dy, x: rules.min_vjp(dy, x, -1, True, ties="all"),
        (away_from_ties((2, 4)),),
        0,
    ),
    # The difference over both sides of a tie of two is what an even share is.
    "max of ties": (rules.max, rules.max_vjp, (np.array([1.0, 3.0, 3.0, -2.0]),), 0),
    "cross_entropy": (
        lambda x, i, w: rules.cross_entropy(x, i, weight=w, ignore_index=1, reduction="mean"),
        lambda dy, x, i, w: rules.cross_entropy_vjp(dy, x, i, weight=w, ignore_index=1, reduction="mean"),
        (normal((6, 4)), IDS, np.array([0.5, 2.0, 1.0, 3.0])),
        0,
    ),
    "cross_entropy of each": (
        lambda x, i: rules.cross_entropy(x, i),
        lambda dy, x, i: rules.cross_entropy_vjp(dy, x, i),
        (normal((2, 3, 4)), IDS.reshape(2, 3)),
        0,
    ),
}
for _reduction in ("none", "mean"):
    TABLE[f"sampled_cross_entropy, {_reduction}"] = (
        lambda w, h, i, s, q, reduction=_reduction: rules.sampled_cross_entropy(
            w, h, i, s, log_expected=q, reduction=reduction
        ),
        lambda dy, w, h, i, s, q, reduction=_reduction: tuple(
            reverse(dy, w, h, i, s, log_expected=q, reduction=reduction)
            for reverse in (rules.sampled_cross_entropy_vjp_weight, rules.sampled_cross_entropy_vjp_hidden)
        ),
        (normal((5, 2)), normal((2, 3, 2), 1), IDS.reshape(2, 3), np.array([4, 3, 4, 1]), normal((5,), 2)),
        (0, 1),
    )
STARTS = np.array([0, 2, 2, 5, 6])
GRID = (np.array([[0, 1, 0], [1, 0, 0]]), np.array([[2, 0, 2], [0, 1, 2]]))
for _op in OPS:
    _x = away_from_ties if _op in ("min", "max", "div") else with_zeros
    TABLE[f"scatter {_op}"] = (
        lambda x, i, op=_op: rules.scatter(op, x, i, 4),
        lambda dy, x, i, op=_op: rules.scatter_vjp(op, dy, x, i, 4),
        (_x((6, 2)), IDS),
        0,
    )
    if _op in ("min", "max"):  # an untouched slot is infinite, where differences say nothing
        TABLE[f"scatter {_op}"] = (
            lambda x, i, op=_op: rules.scatter(op, x, i, 2),
            lambda dy, x, i, op=_op: rules.scatter_vjp(op, dy, x, i, 2),
            (_x((6, 2)), IDS % 2),
            0,
        )
    TABLE[f"scatter {_op} with a start, at coordinates"] = (
        lambda x, i, j, op=_op: rules.scatter(op, x, (i, j), (2, 3), init=0.1),
        lambda dy, x, i, j, op=_op: rules.scatter_vjp(op, dy, x, (i, j), (2, 3), init=0.1),
        (_x((6,)).reshape(2, 3), *GRID),
        0,
    )
    TABLE[f"scatter_into {_op}, dropping"] = (
        lambda d, x, i, op=_op: rules.scatter_into(op, d, x, i, mode="drop"),
        lambda dy, d, x, i, op=_op: (
            rules.scatter_into_vjp_dst(op, dy, d, x, i, mode="drop"),
            rules.scatter_into_vjp_src(op, dy, d, x, i, mode="drop"),
        ),
        (normal((3, 2), 5) + 0.01, _x((6, 2)), IDS - 1),
        (0, 1),
    )
    TABLE[f"segment {_op}"] = (
        lambda x, s, op=_op: rules.segment(op, x, s)[:1, ...],
        lambda dy, x, s, op=_op: rules.segment_vjp(op, rules.pad(dy, ((0, 3), (0, 0))), x, s),
        (_x((6, 2)), STARTS),
        0,
    )
for _mode in ("sum", "mean", "max"):
    TABLE[f"embedding_bag {_mode}"] = (
        lambda w, i, o, mode=_mode: rules.embedding_bag(w, i, o, mode=mode, padding_idx=1),
        lambda dy, w, i, o, mode=_mode: rules.embedding_bag_vjp_weight(dy, w, i, o, mode=mode, padding_idx=1),
        (away_from_ties((4, 2)), np.array([3, 0, 2, 1, 0, 3]), STARTS[:-1]),
        0,
    )
TABLE["embedding_bag of weighted samples"] = (
    lambda w, i, s: rules.embedding_bag(w, i, mode="sum", per_sample_weights=s),
    lambda dy, w, i, s: (
        rules.embedding_bag_vjp_weight(dy, w, i, mode="sum", per_sample_weights=s),
        rules.embedding_bag_vjp_per_sample(dy, w, i, mode="sum", per_sample_weights=s),
    ),
    (normal((4, 2)), IDS.reshape(2, 3), normal((2, 3), 1)),
    (0, 2),
)
WITH_ORDER = ("min", "max", "sort", "topk", "cross")  # and logarithms, in the loss
COMPLEX = sorted(name for name in TABLE if not any(word in name for word in WITH_ORDER))


# What JAX compiles where all of the table would take a minute.
FEW = ("scatter mul", "scatter_into div, dropping", "segment mean", "take", "where", "cross_entropy", "max")


def on_backends(names):
    """Each name on each backend, on JAX a few."""
    pairs = [(backend, n) for backend in ("numpy", "torch", "array_api_strict") for n in names]
    pairs += [("jax", n) for n in names if n in FEW]
    pairs += [pytest.param("cupy", n, marks=pytest.mark.gpu) for n in names]
    return pytest.mark.parametrize("xp64, name", pairs, indirect=["xp64"])


def jitted(xp, f):
    """The function under jit where there is one: what it gets are tracers, ids too."""
    if xp.backend_name != "jax":
        return f
    import jax

    return jax.jit(f)


def check(xp, forward, reverse, args, argnums, **tolerances):
    given = [array(xp, a) for a in args]
    check_vjp(jitted(xp, forward), jitted(xp, reverse), given, argnums=argnums, **tolerances)


@pytest.mark.parametrize("name", TABLE)
def test_reverse_is_the_derivative(xp64, name):
    check(xp64, *TABLE[name])


@on_backends(COMPLEX)
def test_reverse_in_complex_numbers(xp64, name):
    forward, reverse, args, argnums = TABLE[name]
    args = [a + 1j * normal(a.shape, 9) if a.dtype.kind == "f" else a for a in args]
    check(xp64, forward, reverse, args, argnums)


@pytest.mark.parametrize(
    "name", [n for n in TABLE if n.split()[0] in ("take", "embedding", "scatter", "scatter_into", "segment")]
)
def test_no_entries(xp64, name):
    forward, reverse, args, argnums = TABLE[name]
    if "coordinates" in name:
        args = (np.zeros((0, 3)), np.zeros((0, 3), int), np.zeros((0, 3), int))
    elif name.startswith("segment"):
        args = (np.zeros((0, 2)), np.zeros(5, int))
    elif name.startswith("scatter_into"):
        args = (args[0], np.zeros((0, 2)), np.zeros(0, int))
    elif name.startswith("scatter"):
        args = (np.zeros((0, 2)), np.zeros(0, int))
    else:
        args = (args[0], np.zeros(0, int))
    if name.split()[-1] in ("min", "max") and not name.startswith("scatter_into"):
        y = forward(*(array(xp64, a) for a in args))
        dx = reverse(y, *(array(xp64, a) for a in args))
        assert dx.shape == args[0].shape
    else:
        check(xp64, forward, reverse, args, argnums)


# Reverses as linear maps of the cotangent: map, the rule that is its adjoint, cotangent, constants.
ADJOINTS = {
    "take": (lambda dy, i: rules.take_vjp(dy, (4, 2), i), rules.take, (normal((6, 2)), IDS)),
    "take_along_axis": (
        lambda dy, i: rules.take_along_axis_vjp(dy, (3, 2), i, 0),
        lambda ddx, i: rules.take_along_axis(ddx, i, 0),
        (normal((4, 2)), np.array([[0, -1], [0, 1], [2, 1], [0, 0]])),
    ),
    "getitem": (
        lambda dy, i: rules.getitem_vjp(dy, (2, 4), (slice(None, None, -1), i)),
        lambda ddx, i: rules.getitem(ddx, (slice(None, None, -1), i)),
        (normal((2, 6)), IDS),
    ),
    "embedding": (lambda dy, i: rules.embedding_vjp(dy, (4, 2), i), rules.embedding, (normal((6, 2)), IDS)),
    "scatter": (
        lambda dy, i, src: rules.scatter_vjp("mean", dy, src, i, 4),
        lambda v, i, src: rules.scatter("mean", v, i, 4),
        (normal((4, 2)), IDS, normal((6, 2))),
    ),
    "segment": (
        lambda dy, s, src: rules.segment_vjp("sub", dy, src, s),
        lambda v, s, src: rules.segment("sub", v, s),
        (normal((4, 2)), STARTS, normal((6, 2))),
    ),
    "sum": (lambda dy: rules.sum_vjp(dy, (3, 2), 0), lambda ddx: rules.sum(ddx, 0), (normal((2,)),)),
    "mean": (lambda dy: rules.mean_vjp(dy, (3, 2), 0), lambda ddx: rules.mean(ddx, 0), (normal((2,)),)),
    "broadcast_to": (
        lambda dy: rules.broadcast_to_vjp(dy, (3, 1)),
        lambda ddx: rules.broadcast_to(ddx, (2, 3, 2)),
        (normal((2, 3, 2)),),
    ),
    "pad": (lambda dy: rules.pad_vjp(dy, (2, 2), (1, 0)), lambda ddx: rules.pad(ddx, (1, 0)), (normal((3, 3)),)),
    "diagonal": (lambda dy: rules.diagonal_vjp(dy, (3, 2), -1), lambda ddx: rules.diagonal(ddx, -1), (normal((2,)),)),
    "where": (
        lambda dy, c: rules.where_vjp_x(dy, c, (3,), (3,)),
        lambda ddx, c: rules.where(c, ddx, 0.0),
        (normal((3,)), np.array([True, False, True])),
    ),
    "densify": (
        lambda dy, i, src: rules.densify_vjp(dy, sp.IndexedSlices(i, src, (4, 2))),
        lambda v, i, src: rules.densify(sp.IndexedSlices(i, v, (4, 2))),
        (normal((4, 2)), IDS, normal((6, 2))),
    ),
}


@on_backends(ADJOINTS)
def test_the_adjoint_of_a_reverse_is_a_rule(xp64, name):
    reverse, adjoint, args = ADJOINTS[name]
    check(xp64, reverse, lambda ddx, dy, *rest: adjoint(ddx, *rest), args, 0)


def by_engine(xp, f, argnum):
    """The reverse of a function by the library's own engine, which goes through our code."""

    def of_one(args, x):
        return f(*args[:argnum], x, *args[argnum + 1 :])

    if xp.backend_name == "torch":
        import torch

        def torch_vjp(dy, *args):
            x = args[argnum].clone().requires_grad_()
            y = of_one(args, x)
            return torch.autograd.grad(y, x, dy)[0] if y.requires_grad else torch.zeros_like(x)

        return torch_vjp
    import jax

    return jax.jit(lambda dy, *args: jax.vjp(lambda x: of_one(args, x), args[argnum])[1](dy)[0])


TWICE = [n for n in TABLE if n.startswith(("scatter", "segment")) and not any(w in n for w in ("coordinates", "add", "sub"))]
TWICE += ["embedding_bag mean", "cross_entropy", "max", "sort"]


@pytest.mark.parametrize("argnum", [0, 1])
@pytest.mark.parametrize(
    "engine, name", [("torch", n) for n in TWICE] + [("jax", n) for n in TWICE if n in FEW], indirect=["engine"]
)
def test_engines_differentiate_the_reverses(engine, name, argnum):
    """Second derivatives: of each reverse with respect to the cotangent and to the first argument."""
    forward, reverse, args, argnums = TABLE[name]
    given = [array(engine, a) for a in args]
    dy = array(engine, normal(forward(*given).shape, 3))

    def first(dy, *rest):
        result = reverse(dy, *rest)
        result = result[-1] if isinstance(argnums, tuple) else result
        return sp.densify(result)

    check_vjp(jitted(engine, first), by_engine(engine, first, argnum), [dy, *given], argnums=argnum)
