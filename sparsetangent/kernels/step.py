"""Steps of optimizers as data: what kernels that fuse a step with its reads and writes are told to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["STATES", "Rule", "Step"]

Rule = Literal["sgd", "momentum", "adagrad", "rowwise_adagrad", "adam"]

STATES: dict[str, tuple[Literal["full", "row"], ...]] = {
    "sgd": (),
    "momentum": ("full",),
    "adagrad": ("full",),
    "rowwise_adagrad": ("row",),
    "adam": ("full", "full"),
}
"""The states of each rule: of the shape of the parameter, or one number a row."""


@dataclass(frozen=True)
class Step:
    """A rule and its numbers; ``g`` is the gradient plus ``weight_decay * p``, and each formula is per element.

    - ``sgd``: ``p -= rate * g``.
    - ``momentum``: ``v = beta1 * v + g; p -= rate * v``.
    - ``adagrad``: ``s += g**2; p -= rate * g / (sqrt(s) + epsilon)``; ``rowwise_adagrad`` the same with one ``s`` a row, to
      which the mean of ``g**2`` over the row is added.
    - ``adam``: ``m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2``, each divided by ``1 - beta**count`` for
      ``p -= rate * m / (sqrt(v) + epsilon)``. Lazy: rows that are not named keep their moments as they are.
    """

    rule: Rule
    rate: float
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    count: int = 1

    def state_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shapes of the states of a parameter of `shape`."""
        return [shape if kind == "full" else shape[:1] for kind in STATES[self.rule]]
