"""Optimizer rows in place: the formulas on dense float64 arrays, the bits of plain arithmetic, and what is refused."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

import sparsetangent as st
from sparsetangent import steps
from sparsetangent.backend import backend_of
from sparsetangent.kernels.generic import GenericKernels
from sparsetangent.kernels.numba import NumbaKernels
from sparsetangent.kernels.numpy import NumpyKernels
from sparsetangent.kernels.step import Step

SIZE = 23
WAYS = ("loops", "blocks", "arithmetic")
TOLERANCE = {"float16": 2e-3, "float32": 4e-6, "float64": 1e-13}
RATE, BETA1, BETA2, EPSILON, COUNT = 0.25, 0.75, 0.9, 0.01, 3


def sgd(p, g, states):
    return p - RATE * g, []


def momentum(p, g, states):
    v = BETA1 * states[0] + g
    return p - RATE * v, [v]


def adagrad(p, g, states):
    s = states[0] + g * g
    return p - RATE * g / (np.sqrt(s) + EPSILON), [s]


def rowwise_adagrad(p, g, states):
    s = states[0] + (g * g).reshape(SIZE, -1).mean(1)
    return p - RATE * g / (np.sqrt(s).reshape(-1, *(1,) * (g.ndim - 1)) + EPSILON), [s]


def adam(p, g, states):
    m = BETA1 * states[0] + (1 - BETA1) * g
    v = BETA2 * states[1] + (1 - BETA2) * g * g
    return p - RATE * (m / (1 - BETA1**COUNT)) / (np.sqrt(v / (1 - BETA2**COUNT)) + EPSILON), [m, v]


# The formula, the number of states, and the public step of the same numbers.
RULES = {
    "sgd": (sgd, 0, lambda decay: steps.sgd(RATE, decay)),
    "momentum": (momentum, 1, lambda decay: steps.momentum(RATE, BETA1, decay)),
    "adagrad": (adagrad, 1, lambda decay: steps.adagrad(RATE, EPSILON, decay)),
    "rowwise_adagrad": (rowwise_adagrad, 1, lambda decay: steps.rowwise_adagrad(RATE, EPSILON, decay)),
    "adam": (adam, 2, lambda decay: steps.lazy_adam(RATE, BETA1, BETA2, EPSILON, decay)),
}


def step_of(rule, decay=0.0):
    return Step(rule, RATE, decay, BETA1, BETA2, EPSILON, COUNT)


def tables_of(rng, rule, inner, dtype):
    held = "float32" if dtype == "float16" else dtype
    shape = (SIZE,) if rule == "rowwise_adagrad" else (SIZE, *inner)
    states = [np.abs(rng.standard_normal(shape)).astype(held) for _ in range(RULES[rule][1])]
    return rng.standard_normal((SIZE, *inner)).astype(dtype), states


@pytest.fixture(params=["loops", "blocks"])
def kernels(request, monkeypatch):
    """Compiled loops, and NumPy in blocks of a few rows."""
    monkeypatch.setattr("sparsetangent.kernels.block_steps._BLOCK", 10)
    return NumbaKernels(smallest=0) if request.param == "loops" else NumpyKernels()


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("inner", [(), (1,), (5,), (3, 7)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rule", RULES)
def test_step(kernels, rule, dtype, inner, decay):
    rng = np.random.default_rng(len(inner))
    held = np.float32 if dtype == "float16" else np.dtype(dtype)
    for ids in (rng.integers(0, SIZE + 1, 30).astype(np.int32), np.array([SIZE - 1, 0, 0]), np.full(400, 3), np.array([], int)):
        p, states = tables_of(rng, rule, inner, dtype)
        rows = rng.standard_normal((len(ids), *inner)).astype(held)
        wide = [x.astype(np.float64) for x in (p, *states)]
        gradient = np.zeros(wide[0].shape)
        for i, row in zip(ids.tolist(), rows, strict=True):
            if i < SIZE:
                gradient[i] += row
        named = sorted(set(ids.tolist()) - {SIZE})
        new, new_states = RULES[rule][0](wide[0], gradient + decay * wide[0], wide[1:])
        assert kernels.update_rows(step_of(rule, decay), p, states, ids, rows) is p
        scale = 1 + np.abs(rows).sum()
        for actual, before, after in zip((p, *states), wide, (new, *new_states), strict=True):
            want = before.copy()
            want[named] = after[named]
            np.testing.assert_allclose(actual, want, rtol=2 * TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)
            others = np.setdiff1d(np.arange(SIZE), named)
            np.testing.assert_array_equal(actual[others], before[others])


@pytest.fixture
def by(monkeypatch):
    """Choose how NumPy arrays, and torch's, take a step: by loops, by blocks, or by plain arithmetic."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def choose(way):
        for kernels in (backend_of(np.empty(0)).kernels, backend_of(torch.empty(0)).kernels._numpy):
            monkeypatch.setattr(kernels, "smallest", 0 if way == "loops" else 2**62)
            none = GenericKernels.update_rows.__get__(kernels)
            monkeypatch.setattr(
                kernels, "update_rows", none if way == "arithmetic" else type(kernels).update_rows.__get__(kernels)
            )

    return choose


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rule", RULES)
def test_update_rows_is_plain_arithmetic(rule, dtype, library, by):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(5)
    p, states = tables_of(rng, rule, (4,), dtype)
    ids, rows = rng.integers(-SIZE, SIZE, 40), rng.standard_normal((40, 4)).astype(dtype)
    found = []
    for way in WAYS:
        by(way)
        made = torch.from_numpy if library == "torch" else np.asarray
        tables = [made(x.copy()) for x in (p, *states)]
        t = st.IndexedSlices(made(ids), made(rows), (SIZE, 4))
        result = st.update_rows(tables[0], t, RULES[rule][2](0.1), *tables[1:], count=COUNT)
        assert all(a is b for a, b in zip(result, tables, strict=True))
        found.append([np.asarray(x) for x in result])
    for a, b in [pair for other in found[:-1] for pair in zip(other, found[-1], strict=True)]:
        # A mean has no one order, torch rounds factors in its own way, and gradient descent does not merge repeats.
        if rule in ("rowwise_adagrad", "sgd") or library == "torch":
            np.testing.assert_allclose(a, b, rtol=2 * TOLERANCE[dtype], atol=TOLERANCE[dtype])
        else:
            np.testing.assert_array_equal(a, b)


def test_infinities_and_nan_are_those_of_numpy(by):
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e38, -2.5], np.float32)
    p, g = (x.reshape(-1, 1) for x in np.meshgrid(special, special))
    for rule, (_, count, make) in RULES.items():
        for decay in (0.0, 0.5, np.inf):
            found = []
            for way in WAYS:
                by(way)
                shape = (len(p),) if rule == "rowwise_adagrad" else p.shape
                tables = [p.copy(), *(np.full(shape, 0.5, np.float32) for _ in range(count))]
                t = st.IndexedSlices(np.arange(len(p)), g, p.shape)
                with np.errstate(all="ignore"):
                    found.append(st.update_rows(tables[0], t, make(decay), *tables[1:], count=COUNT))
            for a, b in [pair for other in found[:-1] for pair in zip(other, found[-1], strict=True)]:
                np.testing.assert_array_equal(a, b, err_msg=f"{rule} {decay}")


@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_in_the_memory_of_the_table(by, way):
    by(way)
    table = np.random.default_rng(1).standard_normal((6, 4))
    before = table.copy()
    ids = np.array([5, 4, 3, 2, 1, 0])
    st.update_rows(table, st.IndexedSlices(ids, table, (6, 4)), steps.sgd(0.5))
    np.testing.assert_array_equal(table, before - 0.5 * before[::-1])


def test_a_fault_leaves_everything(kernels):
    rng = np.random.default_rng(2)
    p, (s,) = tables_of(rng, "adagrad", (3,), "float32")
    kept = p.copy(), s.copy()
    for bad in (-1, SIZE + 1, 2**40):
        with pytest.raises(IndexError, match=rf"id {bad} at position 2"):
            kernels.update_rows(step_of("adagrad"), p, [s], np.array([1, 4, bad]), np.ones((3, 3), np.float32))
    np.testing.assert_array_equal(p, kept[0])
    np.testing.assert_array_equal(s, kept[1])


def test_what_is_left_to_arithmetic(kernels):
    ids, rows = np.array([1, 4]), np.ones((2, 4), np.float32)
    table, state = np.zeros((SIZE, 4), np.float32), np.zeros((SIZE, 4), np.float32)
    frozen = state.copy()
    frozen.flags.writeable = False
    whole = np.zeros((SIZE, 8), np.float32)
    other_dtype = np.zeros((SIZE, 4))
    cases = [
        (table, [other_dtype], rows),
        (table, [state[:, :3]], rows[:, :3]),
        (table, [state, state.copy()], rows),
        (table, [frozen], rows),
        (table, [table], rows),
        (table, [state], rows[:, :1]),
        (whole[:, :4], [state], rows),
        (table.astype(">f4"), [state], rows),
        (table.astype(np.complex64), [state.astype(np.complex64)], rows.astype(np.complex64)),
        (table.astype(np.longdouble), [state.astype(np.longdouble)], rows.astype(np.longdouble)),
    ]
    for p, states, gradient in cases:
        assert kernels.update_rows(step_of("momentum"), p, states, ids, gradient) is None
        assert not p.any() and not states[0].any()


def test_steps_as_rules():
    assert steps.as_rule(steps.sgd(0.5, 0.1), None) == Step("sgd", 0.5, 0.1)
    assert steps.as_rule(steps.lazy_adam(np.float32(0.5), 0.8, 0.9, 0.1), 7) == Step("adam", 0.5, 0, 0.8, 0.9, 0.1, 7)
    for step, count in (
        (steps.sgd(np.zeros(())), 1),  # a number in an array may be traced
        (steps.sgd(1j), 1),
        (steps.lazy_adam(0.5), None),
        (steps.lazy_adam(0.5), 0),
        (steps.catch_up(steps.sgd(0.5)), 1),
        (lambda p, g, count: (p,), 1),
    ):
        assert steps.as_rule(step, count) is None
