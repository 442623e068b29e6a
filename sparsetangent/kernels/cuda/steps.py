"""Optimizer steps on the rows that a gradient names, fused: parameter, state and gradient in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import Array
from ..step import STATES, Step
from .arrays import check_rows, check_target, row_elements, scalar
from .geometry import value_elements
from .instances import HELD, update_instance
from .launcher import Launcher

__all__ = ["Step", "check_step", "launch_step"]

_KERNELS = {
    "sgd": "Sgd",
    "momentum": "Momentum",
    "adagrad": "Adagrad",
    "rowwise_adagrad": "RowwiseAdagrad",
    "adam": "LazyAdam",
}
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def check_step(step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> None:
    """Everything that a raw kernel would read or write out of bounds, before anything is written."""
    check_target(dst)
    check_rows(ids, rows, dst)
    dtype = dst.dtype.name
    if dtype not in _FLOATS:
        raise TypeError(f"optimizer steps need a real floating dtype, not {dtype}")
    shapes = step.state_shapes(dst.shape)
    if [state.shape for state in states] != shapes:
        raise ValueError(f"{step.rule} needs states of shapes {shapes}, got {[state.shape for state in states]}")
    for state in states:
        check_target(state)
        if state.dtype.name != HELD.get(dtype, dtype):
            raise TypeError(f"the states of a {dtype} parameter are {HELD.get(dtype, dtype)}, not {state.dtype}")


def launch_step(launcher: Launcher, step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> None:
    """One launch, on contiguous arrays that were checked."""
    elements, n, dtype = row_elements(rows), int(ids.shape[0]), dst.dtype.name
    if n == 0 or elements == 0:
        return
    kernel, kinds = _KERNELS[step.rule], STATES[step.rule]
    whole = [state for state, kind in zip(states, kinds, strict=True) if kind == "full"]
    address = launcher.device.address
    count = value_elements(dtype, elements, address(dst), address(rows))
    if any(address(state) % 16 for state in whole):
        count = 1  # a state's elements may be wider than the parameter's, and its packs end where no parameter's does
    held = HELD.get(dtype, dtype)
    name = update_instance(kernel, dtype, ids.dtype.name, count)
    packs, size, flag = elements // count, int(dst.shape[0]), launcher.device.flag()
    rate, decay, epsilon = (scalar(value, held) for value in (step.rate, step.weight_decay, step.epsilon))
    if kernel == "RowwiseAdagrad":
        launcher.warps(name, n, dst, states[0], ids, rows, n, packs, size, rate, decay, epsilon, flag)
        return
    beta1, beta2 = scalar(step.beta1, held), scalar(step.beta2, held)
    corrections = [scalar(1 / (1 - beta**step.count) if step.rule == "adam" else 1, held) for beta in (step.beta1, step.beta2)]
    padded = (*whole, None, None)[:2]
    numbers = (rate, decay, beta1, beta2, epsilon, *corrections)
    launcher.rows(name, n, packs, dst, *padded, ids, rows, n, packs, size, *numbers, flag)
