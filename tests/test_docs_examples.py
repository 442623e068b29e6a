"""The worked examples of the documents: they run, and the kit proves the types that they define."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent.testing import laws, strategies
from tests.helpers import for_all

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


@pytest.fixture(scope="module")
def banded():
    """The example as the module that a user would import (pickle looks it up by name)."""
    spec = importlib.util.spec_from_file_location("banded", EXAMPLES / "banded.py")
    module = sys.modules["banded"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["banded"]


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
