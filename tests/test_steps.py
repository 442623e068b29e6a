"""The steps against torch's optimizers and dense NumPy formulas; training with caught-up rows equals dense training."""

import numpy as np
import pytest

from sparsetangent import Fill, IndexedSlices, rules, steps, update_rows
from sparsetangent.testing import oracle

ROWS, DIM = 12, 3


def reference(name, lr, decay, beta=0.9, b1=0.9, b2=0.99, eps=1e-8):
    """The dense optimizer as a function of parameter, gradient, a dict of states and the step number, in plain NumPy."""

    def update(p, g, s, count):
        g = g + decay * p
        if name == "sgd":
            return p - lr * g
        if name == "momentum":
            s["v"] = beta * s.get("v", 0) + g
            return p - lr * s["v"]
        if name in ("adagrad", "rowwise_adagrad"):
            square = g * g if name == "adagrad" else (g * g).mean(axis=tuple(range(1, g.ndim)), keepdims=True)
            s["s"] = s.get("s", 0) + square
            return p - lr * g / (np.sqrt(s["s"]) + eps)
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        return p - lr * (s["m"] / (1 - b1**count)) / (np.sqrt(s["v"] / (1 - b2**count)) + eps)

    return update


def ours(name, lr, decay, beta=0.9, b1=0.9, b2=0.99, eps=1e-8):
    """The same as a step, with the shapes of its states for a parameter of shape ``(ROWS, DIM)``."""
    full, row = (ROWS, DIM), (ROWS,)
    made = {
        "sgd": (steps.sgd(lr, weight_decay=decay), []),
        "momentum": (steps.momentum(lr, beta, weight_decay=decay), [full]),
        "adagrad": (steps.adagrad(lr, eps, weight_decay=decay), [full]),
        "rowwise_adagrad": (steps.rowwise_adagrad(lr, eps, weight_decay=decay), [row]),
        "adam": (steps.lazy_adam(lr, b1, b2, eps, weight_decay=decay), [full, full]),
    }
    return made[name]


NAMES = ("sgd", "momentum", "adagrad", "rowwise_adagrad", "adam")


def start(xp, shapes, rng):
    table = oracle.as_backend(xp, rng.standard_normal((ROWS, DIM)), xp.float64)
    return table, [xp.zeros(shape, dtype=xp.float64) for shape in shapes]


@pytest.mark.parametrize("decay", [0, 0.1])
@pytest.mark.parametrize("name", NAMES)
def test_rows_named_take_the_dense_step(xp64, name, decay):
    """Repeats are summed before the step; rows that are not named keep parameter and states."""
    rng = np.random.default_rng(1)
    step, shapes = ours(name, 0.1, decay)
    table, states = start(xp64, shapes, rng)
    expected, dense = oracle.to_numpy(table).copy(), reference(name, 0.1, decay)
    kept = {}
    for count in range(1, 6):
        ids = rng.permutation([1, 1, 4, 7, 7, 7, 0])
        rows = rng.standard_normal((7, DIM))
        gradient = np.zeros((ROWS, DIM))
        for i, row in zip(ids, rows, strict=True):
            gradient[i] += row
        named = [0, 1, 4, 7]
        expected[named] = dense(expected[named], gradient[named], kept, count)
        t = IndexedSlices(xp64.asarray(ids), oracle.as_backend(xp64, rows, xp64.float64), (ROWS, DIM))
        table, *states = update_rows(table, t, step, *states, count=count)
    np.testing.assert_allclose(oracle.to_numpy(table), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decay", [0, 0.1])
@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "adam"])
def test_torch_optimizers_on_dense_gradients(name, decay):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(2)
    step, shapes = ours(name, 0.1, decay)
    weight = torch.tensor(rng.standard_normal((ROWS, DIM)), requires_grad=True)
    table, states = weight.detach().clone(), [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    optimizer = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, weight_decay=decay),
        "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=decay),
        "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, weight_decay=decay, eps=1e-8),
        "adam": lambda p: torch.optim.Adam(p, 0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=decay),
    }[name]([weight])
    for count in range(1, 8):
        weight.grad = torch.tensor(rng.standard_normal((ROWS, DIM)))
        table, *states = update_rows(table, weight.grad.clone(), step, *states, count=count)
        optimizer.step()
    torch.testing.assert_close(table, weight.detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_torch_optimizers_on_sparse_gradients(name):
    """SparseAdam puts its epsilon elsewhere (beside the root before the correction), so it is made negligible."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(3)
    step, shapes = ours(name, 0.1, 0, eps=1e-30)
    weight = torch.tensor(rng.standard_normal((ROWS, DIM)), requires_grad=True)
    table, states = weight.detach().clone(), [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    optimizer = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1),
        "adagrad": lambda p: torch.optim.Adagrad(p, 0.1, eps=1e-30),
        "adam": lambda p: torch.optim.SparseAdam(p, 0.1, betas=(0.9, 0.99), eps=1e-30),
    }[name]([weight])
    for count in range(1, 8):
        ids, rows = torch.tensor(rng.integers(0, ROWS, 6)), torch.tensor(rng.standard_normal((6, DIM)))
        weight.grad = torch.sparse_coo_tensor(ids[None], rows, (ROWS, DIM), check_invariants=True)
        table, *states = update_rows(table, IndexedSlices(ids, rows, (ROWS, DIM)), step, *states, count=count)
        with torch.sparse.check_sparse_tensor_invariants():
            optimizer.step()
    torch.testing.assert_close(table, weight.detach(), rtol=1e-10, atol=1e-10)


# Training


class Model:
    """Bags of tokens: ``y = tanh(sum of their rows) @ W``, half the squared distance to a target. The gradient of the rows, by hand."""

    def __init__(self, rng):
        self.weights = rng.standard_normal((DIM, 2))

    def gradient(self, xp, rows, target):
        """The cotangent of rows of shape ``(bags, tokens, DIM)``."""
        weights = oracle.as_backend(xp, self.weights, xp.float64)
        hidden = xp.tanh(xp.sum(rows, axis=1))
        error = hidden @ weights - oracle.as_backend(xp, target, xp.float64)
        one = (error @ weights.T) * (1 - hidden * hidden)
        return xp.broadcast_to(one[:, None, :], tuple(rows.shape))


def batches(rng, count):
    """Bags of repeated tokens: 4 tokens of the 12 in 10 places (always 4, so that JAX compiles once)."""
    for _ in range(count):
        tokens = rng.choice(ROWS, 4, replace=False)
        yield rng.permutation([*tokens, *rng.choice(tokens, 6)]).reshape(2, 5), rng.standard_normal((2, 2))


@pytest.mark.parametrize(
    ("name", "decay"), [("sgd", 0.05), ("momentum", 0), ("momentum", 0.05), ("adagrad", 0), ("adam", 0), ("adam", 0.05)]
)
def test_training_equals_dense_training(xp64, name, decay):
    """50 steps; the dense model is NumPy throughout, and every row of it takes every step."""
    rng = np.random.default_rng(4)
    step, shapes = ours(name, 0.1, decay)
    caught, up_to_date = steps.catch_up(step), steps.replay(step)
    table, states = start(xp64, shapes, rng)
    states.append(xp64.zeros((ROWS,), dtype=xp64.int64))
    expected, dense, kept, model = oracle.to_numpy(table).copy(), reference(name, 0.1, decay), {}, Model(rng)
    for count, (ids, target) in enumerate(batches(rng, 50), 1):
        places = xp64.asarray(ids)
        none = xp64.zeros((10, DIM), dtype=xp64.float64)
        named = IndexedSlices(xp64.reshape(places, (-1,)), none, (ROWS, DIM))
        table, *states = update_rows(table, named, up_to_date, *states, count=count - 1)
        read = rules.take(table, places)
        np.testing.assert_allclose(oracle.to_numpy(read), expected[ids], rtol=1e-10, atol=1e-10)
        t = rules.take_vjp(model.gradient(xp64, read, target), (ROWS, DIM), places)
        table, *states = update_rows(table, t, caught, *states, count=count)

        cotangent, gradient = model.gradient(np, expected[ids], target), np.zeros((ROWS, DIM))
        for place in np.ndindex(*ids.shape):
            gradient[ids[place]] += cotangent[place]
        expected = dense(expected, gradient, kept, count)
    everything = Fill(xp64.asarray(0.0, dtype=xp64.float64), (ROWS, DIM))
    table, *states = update_rows(table, everything, up_to_date, *states, count=50)
    np.testing.assert_allclose(oracle.to_numpy(table), expected, rtol=1e-10, atol=1e-10)
    assert oracle.to_numpy(states[-1]).tolist() == [50] * ROWS


def test_lazy_training_differs_and_says_so(xp64):
    """What `catch_up` is for: without it rows that are not named stand still."""
    rng = np.random.default_rng(5)
    step, shapes = ours("momentum", 0.1, 0)
    table, states = start(xp64, shapes, rng)
    before = oracle.to_numpy(table).copy()
    one = xp64.ones((1, DIM), dtype=xp64.float64)
    table, *states = update_rows(table, IndexedSlices(xp64.asarray([2]), one, (ROWS, DIM)), step, *states)
    table, *states = update_rows(table, IndexedSlices(xp64.asarray([3]), one, (ROWS, DIM)), step, *states)
    change = before - oracle.to_numpy(table)
    np.testing.assert_allclose(change[[2, 3]], 0.1)
    assert (np.delete(change, [2, 3], 0) == 0).all()


def test_catch_up_of_a_step_that_rests_takes_no_time(xp64):
    """A gradient of zero changes nothing, so a billion missed steps are not taken one by one."""
    table, squares, last = xp64.ones((2, 1)), xp64.zeros((2, 1)), xp64.zeros((2,), dtype=xp64.int64)
    t = IndexedSlices(xp64.asarray([1]), xp64.ones((1, 1)) * 2, (2, 1))
    table, squares, last = update_rows(table, t, steps.catch_up(steps.adagrad(0.5, 0.0)), squares, last, count=10**9)
    assert oracle.to_numpy(table)[:, 0].tolist() == [1, 0.5]
    assert oracle.to_numpy(last).tolist() == [0, 10**9]


def test_replay_leaves_rows_that_are_up_to_date(xp64):
    step = steps.replay(steps.sgd(1.0, weight_decay=0.5))
    p, last = xp64.ones((4, 1)) * 16, xp64.asarray([0, 1, 3, 9])
    rows, now = step(p, xp64.zeros((4, 1)), last, count=3)
    assert oracle.to_numpy(rows)[:, 0].tolist() == [2, 4, 16, 16]
    assert oracle.to_numpy(now).tolist() == [3, 3, 3, 9]


def test_counts_are_checked(xp):
    rows, last = xp.ones((2, 1)), xp.zeros((2,), dtype=xp.int32)
    for make in (steps.catch_up, steps.replay):
        for count in (None, -1, 1.5):
            with pytest.raises(ValueError, match=f"needs count, an integer from . on, not {count}"):
                make(steps.sgd(0.1))(rows, rows, last, count=count)
    for count in (None, 0):
        with pytest.raises(ValueError, match=f"lazy_adam needs count.*not {count}"):
            steps.lazy_adam(0.1)(rows, rows, rows, rows, count=count)


def test_catch_up_under_jit_says_what_is_wrong():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    rows, last = jnp.ones((2, 1)), jnp.zeros((2,), jnp.int32)
    with pytest.raises(TypeError, match="cannot be seen here"):
        jax.jit(lambda p, s: steps.catch_up(steps.momentum(0.1, 0.9))(p, p, p, s, count=3))(rows, last)
    p, _, _ = jax.jit(lambda p, s: steps.catch_up(steps.adagrad(0.1))(p, p, p, s, count=3))(rows, last)
    np.testing.assert_allclose(p, 1 - 0.1 / np.sqrt(2), rtol=1e-6)


def test_a_weight_that_is_infinite_does_not_become_nan_without_decay():
    (p,) = steps.sgd(0.1)(np.array([np.inf]), np.array([1.0]))
    assert p[0] == np.inf


def test_numbers_of_numpy_do_not_widen(xp):
    rows = xp.ones((2, 1), dtype=xp.float32)
    p, v = steps.momentum(np.float64(0.1), np.float64(0.9), np.float64(0.1))(rows, rows, rows)
    assert p.dtype == v.dtype == xp.float32


def test_complex_parameters(xp):
    if xp.backend_name == "jax32":
        dtype, tolerance = xp.complex64, 1e-5
    else:
        dtype, tolerance = xp.complex128, 1e-12
    rng = np.random.default_rng(6)
    p, g = rng.standard_normal((2, 3, 2)) + 1j * rng.standard_normal((2, 3, 2))
    real = xp.real(xp.zeros((3, 2), dtype=dtype))
    rows, gradient = (oracle.as_backend(xp, x, dtype) for x in (p, g))
    new, s = steps.adagrad(0.1, 0.0)(rows, gradient, real)
    np.testing.assert_allclose(oracle.to_numpy(s), np.abs(g) ** 2, rtol=tolerance)
    np.testing.assert_allclose(oracle.to_numpy(new), p - 0.1 * g / np.abs(g), rtol=tolerance)
    (table,) = update_rows(rows, IndexedSlices(xp.asarray([1, 1]), gradient[:2, ...], (3, 2)), steps.sgd(0.5))
    p[1] -= 0.5 * (g[0] + g[1])
    np.testing.assert_allclose(oracle.to_numpy(table), p, rtol=tolerance)
