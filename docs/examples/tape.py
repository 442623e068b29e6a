"""A tape engine of sixty lines whose gradients are compact, on real arrays of any library.

A `Variable` is a value and, for each variable that it was computed from, the reverse rule that leads there. Nothing in the engine
knows about tangents but three lines: rules are taken from `sparsetangent.rules`, cotangents are brought into the space of their
variable by a `Projector`, and they are summed by an `Accumulator`. So the gradient of a table that was read is as small as the reads,
and that of a table used in another way too is an array.

Run it: ``python docs/examples/tape.py``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sparsetangent as st
from sparsetangent import rules

Pullback = Callable[[Any], Any]


class Variable:
    """A value on the tape. A parent is kept with its pullback, from this value's cotangent to the parent's."""

    def __init__(self, value: Any, *parents: tuple[Variable, Pullback]) -> None:
        self.value, self.parents = value, parents
        self.project = st.Projector(value)  # keeps shape and dtype, not the array

    def __getitem__(self, key: Any) -> Variable:
        shape = self.value.shape
        return Variable(rules.getitem(self.value, key), (self, lambda dy: rules.getitem_vjp(dy, shape, key)))

    def __add__(self, other: Variable) -> Variable:
        return Variable(self.value + other.value, (self, lambda dy: dy), (other, lambda dy: dy))

    def __mul__(self, other: Variable) -> Variable:
        a, b = self.value, other.value
        return Variable(a * b, (self, lambda dy: dy * b), (other, lambda dy: dy * a))

    def __matmul__(self, other: Variable) -> Variable:
        a, b = self.value, other.value
        return Variable(a @ b, (self, lambda dy: dy @ b.T), (other, lambda dy: a.T @ dy))


def tanh(x: Variable) -> Variable:
    y = st.namespace(x.value).tanh(x.value)
    return Variable(y, (x, lambda dy: dy * (1 - y * y)))


def total(x: Variable) -> Variable:
    shape = x.value.shape
    return Variable(rules.sum(x.value), (x, lambda dy: rules.sum_vjp(dy, shape)))


def cross_entropy(logits: Variable, labels: Any) -> Variable:
    z = logits.value
    loss = rules.cross_entropy(z, labels, reduction="mean")
    return Variable(loss, (logits, lambda dy: rules.cross_entropy_vjp(dy, z, labels, reduction="mean")))


def gradients(output: Variable, wanted: list[Variable]) -> list[Any]:
    """The cotangents of the variables `wanted`, None for one that the scalar `output` does not depend on."""
    sums = {output: st.Accumulator()}
    sums[output].add(st.namespace(output.value).ones_like(output.value))
    for node in reversed(_in_order(output)):
        dy = sums[node].value()
        for parent, pullback in node.parents:
            sums.setdefault(parent, st.Accumulator()).add(parent.project(pullback(dy)))
    return [sums[x].value() if x in sums else None for x in wanted]


def _in_order(output: Variable) -> list[Variable]:
    """Every variable that `output` depends on, each after those that it was computed from."""
    order: dict[Variable, None] = {}
    waiting = [(output, False)]
    while waiting:
        node, parents_done = waiting.pop()
        if parents_done:
            order[node] = None
        elif node not in order:
            waiting += [(node, True), *((parent, False) for parent, _ in node.parents)]
    return list(order)


def main() -> None:
    """Word vectors that learn to tell even ids from odd ones, by reads of 32 rows of a million."""
    import numpy as np

    rng = np.random.default_rng(0)
    table = rng.standard_normal((1_000_000, 8)).astype(np.float32)
    weight = np.zeros((8, 2), np.float32)
    words = rng.integers(0, 1_000_000, 32)
    for step in range(40):
        rows, output = Variable(table), Variable(weight)
        loss = cross_entropy(tanh(rows[words]) @ output, words % 2)
        d_table, d_weight = gradients(loss, [rows, output])
        table -= 5.0 * d_table  # 32 rows are written
        weight -= 0.5 * d_weight
        if step % 13 == 0:
            print(f"step {step:2}: loss {float(loss.value):.3f}, {d_table}")


if __name__ == "__main__":
    main()
