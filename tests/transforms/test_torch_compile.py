"""`torch.compile(fullgraph=True)`: linear operations and the rules of reads in one graph, without a word about densifying."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import sparsetangent as st  # noqa: E402  (after the skip)
from sparsetangent import IndexedSlices, rules  # noqa: E402
from sparsetangent.testing import oracle  # noqa: E402
from tests.transforms.torch_support import NAMESPACE as nx  # noqa: E402

pytestmark = [
    # Said by Dynamo of caches that it looks through; what they hold depends on dtypes alone.
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]

SHAPE = (5, 4)


def random(*shape, seed=0):
    return torch.asarray(np.random.default_rng(seed).normal(size=shape))


W, ROW, RIGHT, LEFT, X = random(5, 4), random(4, seed=1), random(4, 3, seed=2), random(2, 5, seed=3), random(5, 4, seed=4)
ZERO = np.zeros(SHAPE)

# Name -> the operation on (t, u), and on the dense tensors that they stand for. One graph for each: what breaks is named.
LINEAR = {
    "densify": (lambda t, u: t.densify(), lambda t, u: t),
    "sums": (lambda t, u: (t + u, t - u, -t), None),
    "sums with tensors": (lambda t, u: (t + W, W + t, t - W, W - t), None),
    "sums with a row": (lambda t, u: (t + ROW, ROW - t), None),
    "products": (lambda t, u: (t * W, W * t, t * ROW, t / W, 2.5 * t, t * -2, t / 4), None),
    "reductions": (
        lambda t, u: (nx.sum(t), nx.sum(t, axis=0), nx.sum(t, axis=1), nx.mean(t, axis=0)),
        lambda t, u: (t.sum(), t.sum(0), t.sum(1), t.mean(0)),
    ),
    "matmul": (lambda t, u: (nx.matmul(t, RIGHT), nx.matmul(LEFT, t)), lambda t, u: (t @ RIGHT, LEFT @ t)),
    "add_n": (lambda t, u: st.add_n([t, u, None, W]), lambda t, u: t + u + W),
    "add_into": (lambda t, u: st.add_into(W * 1, t, -2), lambda t, u: W - 2 * t),
    "shapes": (
        lambda t, u: (t.T, nx.expand_dims(t, axis=0), nx.broadcast_to(t, (2, 5, 4)), nx.flip(t, axis=0), nx.roll(t, 1, axis=1)),
        lambda t, u: (t.T, t[None], t.expand(2, 5, 4), t.flip(0), t.roll(1, 1)),
    ),
    "concat": (
        lambda t, u: (nx.concat([t, u], axis=0), nx.stack([t, u])),
        lambda t, u: (torch.cat([t, u]), torch.stack([t, u])),
    ),
    "reads": (lambda t, u: (t[1], t[1:3], t[:, 2], t[torch.tensor([4, 0, 0])]), None),
    "coalesce": (lambda t, u: t.coalesce(), lambda t, u: t),
}


@pytest.fixture(autouse=True)
def forget():
    torch._dynamo.reset()


FIRST_USE = """
import sparsetangent as st, torch
step = lambda i, v: (st.IndexedSlices(i, v, (4,)) * 2.0).densify()
print(torch.compile(step, fullgraph=True, backend="eager")(torch.tensor([2, 0, 2]), torch.tensor([1.0, 5.0, 3.0])).tolist())
"""


def test_first_use_in_a_compiled_function():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIRST_USE], capture_output=True, text=True)
    assert done.stdout.strip() == "[10.0, 0.0, 8.0, 0.0]", done.stderr


@pytest.fixture(autouse=True)
def first_use_is_compiled():
    """The compiler is the first to meet each function of the namespace, whatever ran before."""
    for name in [name for name in vars(nx) if not name.startswith("_")]:
        del vars(nx)[name]


def compiled(f):
    return torch.compile(f, fullgraph=True, backend="eager")


def entries(seed, n=6):
    rng = np.random.default_rng(seed)
    ids = rng.integers(-5, 5, n)
    ids[1] = ids[0]
    return torch.asarray(ids), torch.asarray(rng.normal(size=(n, 4)))


def dense(ids, values, shape=SHAPE):
    out = np.zeros(shape)
    for i, row in zip(ids.tolist(), values.detach().numpy(), strict=True):
        if -shape[0] <= i < shape[0]:
            out[i] += row
    return out


def check(got, wanted):
    if isinstance(got, tuple):
        for one, other in zip(got, wanted, strict=True):
            check(one, other)
    else:
        np.testing.assert_allclose(oracle.to_numpy(st.densify(got)), np.asarray(wanted), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_linear_operations(name):
    ours, theirs = LINEAR[name]
    theirs = theirs or ours  # where the operators say it all

    @compiled
    def f(t_ids, t_values, u_ids, u_values):
        return ours(IndexedSlices(t_ids, t_values, SHAPE), IndexedSlices(u_ids, u_values, SHAPE))

    for seed in range(2):  # the second call runs the same graph on other ids
        t, u = entries(seed), entries(seed + 100)
        check(f(*t, *u), theirs(torch.asarray(dense(*t)), torch.asarray(dense(*u))))


def test_tangents_as_arguments():
    t, u = IndexedSlices(*entries(0), SHAPE), IndexedSlices(*entries(1), SHAPE)
    check(compiled(lambda t, u: (t + u) * W)(t, u), (dense(*entries(0)) + dense(*entries(1))) * W.numpy())


def test_rules():
    ids = torch.tensor([[3, 0], [-2, 3]])
    dy = random(2, 2, 4, seed=5)

    @compiled
    def f(x, dy, ids):
        return (
            rules.take(x, ids),
            rules.take_vjp(dy, x.shape, ids),
            rules.embedding_vjp(dy, x.shape, ids % 5, padding_idx=3),
            rules.getitem_vjp(dy[..., 0], x.shape, (ids, 1)),
        )

    wanted = dense(ids.reshape(-1), dy.reshape(-1, 4))
    one_column = np.zeros(SHAPE)
    np.add.at(one_column, (ids.numpy(), 1), dy[..., 0].numpy())
    skipping = wanted.copy()

    skipping[3] = 0
    check(f(X, dy, ids), (X.numpy()[ids.numpy()], wanted, skipping, one_column))


def test_ids_out_of_range_are_dropped():
    ids, values = torch.tensor([0, 7, -6, -1]), random(4, 4)
    check(compiled(lambda i, v: IndexedSlices(i, v, SHAPE) * 2)(ids, values), 2 * dense(ids, values))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_step(backend):
    """Look-up, compact gradient and update in one graph, with the gradient of the loss by torch beside it."""
    weight, ids, c = random(5, 4), torch.tensor([1, 3, 1]), random(3, 4, seed=1)

    @torch.compile(fullgraph=True, backend=backend)
    def step(weight, ids, c):
        rows = rules.take(weight, ids)
        gradient = rules.take_vjp(2 * c * rows, weight.shape, ids)
        return (c * rows**2).sum(), st.add_into(weight * 1, gradient, -0.5)

    loss, updated = step(weight, ids, c)
    tracked = weight.clone().requires_grad_()
    wanted = (c * tracked[ids] ** 2).sum()
    wanted.backward()
    torch.testing.assert_close(loss, wanted.detach())
    torch.testing.assert_close(updated, weight - 0.5 * tracked.grad)


def test_gradient_through_a_compiled_function():
    ids, values = entries(0)
    values.requires_grad_()
    f = torch.compile(lambda i, v: (IndexedSlices(i, v, SHAPE) * W).densify(), fullgraph=True, backend="aot_eager")
    (gradient,) = torch.autograd.grad((f(ids, values) * X).sum(), values)
    torch.testing.assert_close(gradient, (W * X)[ids])


def test_matmul_is_never_turned_around():
    """Dynamo of torch 2.13 hands ``t @ w`` over as ``w @ t``, which for square tensors only the values show."""
    ids, values = torch.tensor([0, 2, 2]), random(3, 3)
    w = random(3, 3, seed=1)
    wanted = dense(ids, values, (3, 3)) @ w.numpy()
    try:
        got = compiled(lambda i, v: (IndexedSlices(i, v, (3, 3)) @ w).densify())(ids, values)
    except Exception as error:
        assert "matmul" in str(error)  # refused, with what to write instead
    else:
        check(got, wanted)


def test_no_warning_while_compiling():
    ids, values = entries(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", st.DensifyWarning)
        got = compiled(lambda i, v: nx.exp(IndexedSlices(i, v, SHAPE)))(ids, values)
    check(got, np.exp(dense(ids, values)))
    with pytest.warns(st.DensifyWarning, match="exp"):
        nx.exp(IndexedSlices(ids, values, SHAPE))
