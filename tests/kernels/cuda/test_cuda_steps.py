"""Optimizer steps against their formulas, written out on NumPy rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparsetangent.kernels.cuda.geometry import Limits
from sparsetangent.kernels.cuda.launch import CudaKernels, Step
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.module import MISSING

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}
SIZE = 9


def sgd(p: Any, g: Any, s: list[Any], step: Step) -> tuple[Any, list[Any]]:
    return p - step.rate * g, []


def momentum(p: Any, g: Any, s: list[Any], step: Step) -> tuple[Any, list[Any]]:
    v = step.beta1 * s[0] + g
    return p - step.rate * v, [v]


def adagrad(p: Any, g: Any, s: list[Any], step: Step) -> tuple[Any, list[Any]]:
    squares = s[0] + g * g
    return p - step.rate * g / (np.sqrt(squares) + step.epsilon), [squares]


def rowwise_adagrad(p: Any, g: Any, s: list[Any], step: Step) -> tuple[Any, list[Any]]:
    squares = s[0] + (g * g).mean(axis=tuple(range(1, g.ndim)))
    each = squares.reshape(-1, *(1,) * (g.ndim - 1))
    return p - step.rate * g / (np.sqrt(each) + step.epsilon), [squares]


def adam(p: Any, g: Any, s: list[Any], step: Step) -> tuple[Any, list[Any]]:
    m = step.beta1 * s[0] + (1 - step.beta1) * g
    v = step.beta2 * s[1] + (1 - step.beta2) * g * g
    fair_m, fair_v = m / (1 - step.beta1**step.count), v / (1 - step.beta2**step.count)
    return p - step.rate * fair_m / (np.sqrt(fair_v) + step.epsilon), [m, v]


RULES: dict[str, tuple[Callable[..., Any], int]] = {
    "sgd": (sgd, 0),
    "momentum": (momentum, 1),
    "adagrad": (adagrad, 1),
    "rowwise_adagrad": (rowwise_adagrad, 1),
    "adam": (adam, 2),
}


def dtype_of(name: str) -> Any:
    if name == "bfloat16":
        return pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    return np.dtype(name)


def kernels() -> CudaKernels:
    return CudaKernels(EmulatedDevice(seed=3), limits=Limits(threads=64, blocks=3))


@pytest.mark.parametrize("ids_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("inner", [(16,), (3,), (2, 45), (), (0,)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rule", RULES)
def test_step(rule: Any, dtype: str, inner: tuple[int, ...], ids_dtype: Any) -> None:
    rng = np.random.default_rng(2)
    formula, count = RULES[rule]
    step = Step(rule, rate=0.1, weight_decay=0.01, epsilon=1e-3, count=3)
    held = np.float64 if dtype == "float64" else np.float32
    param = rng.normal(size=(SIZE, *inner)).astype(dtype_of(dtype))
    shape = (SIZE,) if rule == "rowwise_adagrad" else param.shape
    states = [rng.random(shape).astype(held) for _ in range(count)]
    ids = np.array([7, 0, SIZE, 3], ids_dtype)  # one is padding
    rows = rng.normal(size=(4, *inner)).astype(param.dtype)
    named, used = [7, 0, 3], [0, 1, 3]
    before = param.astype(np.float64)[named]
    gradient = rows.astype(np.float64)[used] + step.weight_decay * before
    want, want_states = param.astype(np.float64), [state.astype(np.float64) for state in states]
    if param.size:
        want[named], new = formula(before, gradient, [state[named] for state in want_states], step)
        for state, rows_of_state in zip(want_states, new, strict=True):
            state[named] = rows_of_state
    assert kernels().update_rows(step, param, states, ids, rows) is param
    np.testing.assert_allclose(param.astype(np.float64), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for state, expected in zip(states, want_states, strict=True):
        np.testing.assert_allclose(state, expected, rtol=1e-5, atol=1e-6)


def test_strided_parameter_and_states() -> None:
    whole, states = np.ones((6, 8), np.float32), [np.zeros((6, 8), np.float32)]
    rows = np.ones((2, 4), np.float32)
    kernels().update_rows(Step("momentum", 1.0), whole[:, ::2], [states[0][:, ::2]], np.array([1, 4]), rows)
    assert whole[1].tolist() == [0, 1] * 4
    assert states[0][4].tolist() == [1, 0] * 4
    assert whole[[0, 2, 3, 5]].all()


def test_a_misaligned_state_is_stepped_by_single_elements() -> None:
    """Its packs may be wider than the parameter's, so that the parameter's address says nothing of it."""
    device = EmulatedDevice()
    param, rows = np.zeros((3, 2), np.float16), np.ones((2, 2), np.float16)
    velocity = np.zeros(7, np.float32)[1:].reshape(3, 2)
    CudaKernels(device).update_rows(Step("momentum", 1.0), param, [velocity], np.array([0, 2]), rows)
    assert velocity.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert param.tolist() == [[-1, -1], [0, 0], [-1, -1]]
    assert device.launched[-1][0].endswith(" 1>")


def test_what_is_refused() -> None:
    param, rows, ids = np.ones((4, 2), np.float32), np.ones((2, 2), np.float32), np.array([1, 2])
    step = Step("adagrad", 0.1)
    refused: list[tuple[type[Exception], Any]] = [
        (ValueError, lambda: kernels().update_rows(step, param, [], ids, rows)),
        (ValueError, lambda: kernels().update_rows(step, param, [np.zeros(4, np.float32)], ids, rows)),
        (TypeError, lambda: kernels().update_rows(step, param, [np.zeros((4, 2))], ids, rows)),
        (ValueError, lambda: kernels().update_rows(step, param, [np.zeros((4, 2), np.float32)], ids, rows[:, :1])),
        (TypeError, lambda: kernels().update_rows(step, param, [np.zeros((4, 2), np.float32)], ids, np.ones((2, 2)))),
        (TypeError, lambda: kernels().update_rows(Step("sgd", 0.1), np.ones((4, 2), int), [], ids, np.ones((2, 2), int))),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    assert (param == 1).all()
