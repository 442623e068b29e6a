"""The worked examples of the documents: they run, and the kit proves the types that they define."""

import importlib.util
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent.testing import laws, oracle, strategies
from tests.helpers import for_all

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def _example(name):
    """An example as the module that a user would import (pickle looks it up by name)."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture(scope="module")
def banded():
    yield from _example("banded")


@pytest.fixture(scope="module")
def tape():
    yield from _example("tape")


@hs.composite
def examples(draw, xp, banded):
    rows, columns = draw(hs.integers(0, 4)), draw(hs.integers(0, 4))
    offsets = draw(hs.lists(hs.integers(-4, 4), max_size=3))
    dtype = draw(hs.sampled_from(strategies.dtypes_of(xp, ["float32", "float64", "complex64", "int32", "bool"])))
    return banded.Banded(draw(strategies.arrays(xp, (len(offsets), rows), dtype)), offsets, columns)


# Eager JAX would compile every law for every shape.
@pytest.mark.parametrize("xp", ["numpy", "torch", "array_api_strict"], indirect=True)
def test_every_law_holds_of_the_banded_matrix(xp, banded):
    @hs.composite
    def pairs(draw):
        t = draw(examples(xp, banded))
        return t, draw(strategies.tangents(xp, hs.just(t.shape), [t.dtype]))

    for_all(xp, lambda pair: laws.check_all(*pair), pairs(), examples=10)


def test_what_is_registered_keeps_the_type(xp, banded):
    t = banded.Banded(xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), (0, -1), 3)
    for result in (t.T, t.mT, -t, t * 2, 3 * t.T):
        assert isinstance(result, banded.Banded) or result is not t.T
    assert all(isinstance(x, banded.Banded) for x in (t.T, -t, t * 2))
    wanted = np.array([[1.0, 0, 0], [5, 2, 0], [0, 6, 3]])
    st.testing.assert_same(t, xp.asarray(wanted, dtype=t.dtype))
    st.testing.assert_same(t.T, xp.asarray(wanted.T, dtype=t.dtype))


def test_it_takes_part_in_training(xp, banded):
    t = banded.Banded(xp.asarray([[1.0, 2.0], [3.0, 9.0]]), (0, 1), 2)
    wanted = np.array([[1.0, 3], [0, 2]])
    total = st.Accumulator()
    total.add(t)
    total.add(t)
    st.testing.assert_same(st.densify(total.value()), xp.asarray(2 * wanted, dtype=t.dtype))
    assert float(st.global_norm({"a": [t]})) == pytest.approx(np.sqrt(14))
    assert isinstance(st.tree.scale([t], 0.5)[0], st.Tangent)
    (matrix,) = st.update_rows(xp.ones((2, 2), dtype=t.dtype), t, st.steps.sgd(1.0))
    st.testing.assert_same(matrix, xp.asarray(1 - wanted, dtype=t.dtype))


def test_the_banded_example_runs(banded, capsys):
    banded.main()
    printed = capsys.readouterr().out
    assert printed.startswith("Banded(shape=(4, 4), dtype=float64") and "[[0.9 0.8 1.  1. ]" in printed


def _loss(table, weight, words, places, labels):
    """What the tape computes below, in NumPy alone."""
    hidden = np.tanh(table[words] * table[places]) + table[words]
    logits = hidden @ weight
    top = logits.max(1)
    mean = np.mean(top + np.log(np.exp(logits - top[:, None]).sum(1)) - logits[np.arange(len(labels)), labels])
    return mean + (table[places] * table[words]).sum()


def _differences(f, x, h=1e-6):
    """The gradient by central differences, an element at a time."""
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += h
        down[at] -= h
        gradient[at] = (f(up) - f(down)) / (2 * h)
    return gradient


def _recorded(tape, table, weight, words, places, labels):
    read, there = table[words], table[places]
    loss = tape.cross_entropy((tape.tanh(read * there) + read) @ weight, labels)
    return loss + tape.total(there * read)


def test_gradients_of_the_tape(xp, tape):
    rng = np.random.default_rng(5)
    table, weight = rng.standard_normal((9, 3)), rng.standard_normal((3, 4))
    words, places, labels = np.array([4, 8, 4, -9]), np.array([4, 0, 2, 2]), np.array([3, 0, 1, 1])
    wanted = [
        _differences(lambda x: _loss(x, weight, words, places, labels), table),
        _differences(lambda x: _loss(table, x, words, places, labels), weight),
    ]
    a, b, unused = (tape.Variable(xp.asarray(x)) for x in (table, weight, weight))
    output = _recorded(tape, a, b, *(xp.asarray(x) for x in (words, places, labels)))
    d_table, d_weight, nothing = tape.gradients(output, [a, b, unused])
    assert nothing is None and not isinstance(d_weight, st.Tangent)
    assert isinstance(d_table, st.IndexedSlices) and d_table.axis == (0,) and d_table.coalesce().stored == 4
    tolerance = 1e-4 if xp.backend_name == "jax32" else 1e-7
    for found, expected in zip((d_table, d_weight), wanted, strict=True):
        np.testing.assert_allclose(oracle.to_numpy(st.densify(found)), expected, rtol=tolerance, atol=tolerance)


def test_a_table_that_is_also_used_whole_has_a_dense_gradient(xp, tape):
    x = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
    table = tape.Variable(xp.asarray(x))
    (gradient,) = tape.gradients(tape.total(table[xp.asarray([1, 1])]) + tape.total(table * table), [table])
    assert not isinstance(gradient, st.Tangent)
    np.testing.assert_allclose(oracle.to_numpy(gradient), 2 * x + [[0, 0], [2, 2], [0, 0]])


def test_the_tape_makes_nothing_of_the_size_of_the_table(tape):
    table = tape.Variable(np.zeros((2_000_000, 8)))
    weight = tape.Variable(np.ones((8, 2)))
    words = np.array([7, 1_999_999, 7])
    tracemalloc.start()
    (gradient,) = tape.gradients(_recorded(tape, table, weight, words, words[::-1], np.array([0, 1, 0])), [table])
    assert tracemalloc.get_traced_memory()[1] < 2**20 < table.value.nbytes
    tracemalloc.stop()
    assert gradient.shape == (2_000_000, 8) and gradient.coalesce().stored == 2


def test_the_tape_example_learns(tape, capsys):
    tape.main()
    losses = [float(x) for x in re.findall(r"loss ([\d.]+), IndexedSlices", capsys.readouterr().out)]
    assert len(losses) == 4 and losses[-1] < 0.1 < 0.6 < losses[0]


def test_the_engine_of_the_tape_has_sixty_lines():
    text = (EXAMPLES / "tape.py").read_text()
    engine = text[text.index("class Variable") : text.index("def main")].splitlines()
    assert len([line for line in engine if line.strip()]) <= 60
