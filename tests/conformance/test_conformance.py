"""The harness itself: its arrays are tangents in disorder with the right values, and its scores count what they say."""

import json
import re
from pathlib import Path

import array_api_compat
import numpy as np
import pytest

import sparsetangent as st
from sparsetangent.testing.oracle import loop_densify, to_numpy
from tests.conformance.__main__ import main
from tests.conformance.exceptions import DECLARED, Exemption
from tests.conformance.namespace import BACKENDS, ConformanceNamespace, in_disorder, split
from tests.conformance.scores import Scores, can_keep, function_of

DTYPES = ("bool", "int8", "int64", "uint8", "uint16", "uint64", "float32", "float64", "complex64", "complex128")
SHAPES = ((), (1,), (7,), (0, 3), (5, 4), (3, 1, 4))


@pytest.fixture(params=BACKENDS)
def nx(request):
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return ConformanceNamespace(request.param)


def random_values(dtype, shape, seed=0):
    """Values over the whole range of a dtype, a third of them zero, some of these -0, some infinite or nan."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    else:
        scale = np.exp(rng.uniform(-60, 60, shape))
        x = (rng.standard_normal(shape) * scale).astype(dtype.char.lower())
        x = np.where(rng.random(shape) < 0.2, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), x)
        x = x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x
    return np.where(rng.random(shape) < 0.3, 0, x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_two_summands_are_exact(dtype):
    x = random_values(dtype, (2000,))
    x = x[np.isfinite(x)]
    first, second = split(x, np.random.default_rng(1))
    assert first.dtype == second.dtype == x.dtype
    assert np.array_equal(first | second if dtype == "bool" else first + second, x)
    if dtype.startswith("float"):
        assert np.array_equal(np.signbit(first), np.signbit(x)) and np.array_equal(np.signbit(second), np.signbit(x))
        assert np.all((second != 0) == (x != 0))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_those_given(nx, dtype, stored):
    for shape in SHAPES:
        for seed in range(6):
            x = random_values(dtype, shape, seed)
            t = in_disorder(nx._dense.asarray(x), stored=stored)
            assert isinstance(t, st.IndexedSlices) and t.shape == shape and t.dtype == getattr(nx, dtype)
            assert np.array_equal(loop_densify(t), x, equal_nan=dtype[0] in "fc")
            assert np.array_equal(to_numpy(t.densify()), x, equal_nan=dtype[0] in "fc")
            if np.dtype(dtype).kind == "f" and t.unique:
                assert np.array_equal(np.signbit(to_numpy(t.densify())), np.signbit(x)), "a -0 that is stored stays one"
            assert (t.unique or not stored) and (not stored or t.stored == x.size)


def test_entries_are_split_and_shuffled_and_zeros_left_out(nx):
    found = set()
    for seed in range(40):
        x = np.random.default_rng(seed).integers(-2, 3, (6, 5))
        t = nx.asarray(x.tolist())
        found.add(("axes", t.axis))
        if len(t.axis) == 1:
            ids = to_numpy(t.indices)
            found |= {("split", len(np.unique(ids)) < len(ids)), ("shuffled", bool(np.any(np.diff(ids) < 0)))}
        if len(t.axis) == 2:
            places = np.stack([to_numpy(i) for i in t.coords])
            held = np.unique(places, axis=1)
            assert held.shape[1] == np.count_nonzero(x), "implicit zeros are not stored"
            found |= {("split", held.shape[1] < t.stored)}
    assert found >= {("split", True), ("shuffled", True), *(("axes", a) for a in ((), (0,), (1,), (0, 1)))}


def test_the_same_array_is_always_held_in_the_same_way(nx):
    a, b = nx.asarray([[1.0, 0.0], [2.0, 3.0]]), nx.asarray([[1.0, 0.0], [2.0, 3.0]])
    assert a.axis == b.axis and to_numpy(a.values).tolist() == to_numpy(b.values).tolist()


def test_functions_are_those_of_the_library(nx):
    x, y = [[1.5, 0.0, -2.0], [0.0, 4.0, 0.5]], [[2.0, 3.0, 0.0], [0.0, -1.0, 1.0]]
    for function in ("add", "multiply", "subtract"):
        result = getattr(nx, function)(nx.asarray(x), nx.asarray(y))
        assert isinstance(result, st.Tangent)
        assert np.array_equal(to_numpy(result.densify()), getattr(np, function)(x, y))
    assert to_numpy(nx.arange(3).densify()).tolist() == [0, 1, 2]
    assert to_numpy(nx.linspace(0.0, 1.0, 3).densify()).tolist() == [0.0, 0.5, 1.0]
    held = nx.asarray(nx._dense.asarray(x))
    assert array_api_compat.is_array_api_obj(held)
    assert np.array_equal(to_numpy(st.densify(held)), x)


def outcomes(**found):
    return {name: {"outcome": found[name].split(": ")[0], "text": found[name], "seconds": 0.0} for name in found}


def test_scores():
    bare = outcomes(a="passed", b="failed", c="passed", d="passed", e="passed", f="skipped")
    ours = outcomes(a="passed", b="failed", c="failed: E   it is immutable", d="failed: wrong", e="failed: inf", f="skipped")
    raising = outcomes(a="failed", b="failed", c="failed", d="failed", e="failed", f="skipped")
    declared = (
        Exemption("immutable", ("c", "g"), message="is immutable"),
        Exemption("strong zeros", ("d", "e"), stored=True),
    )
    scores = Scores(bare, ours, raising, outcomes(d="failed: wrong", e="passed"))
    assert scores.beyond == ["c", "d", "e"]
    assert scores.unexcused(declared) == ["d"]
    text = scores.described(declared)
    assert "beyond the backend's own: 1, and 2 excused" in text
    assert "passed / collected: 1 / 6, the bare backend 4 / 6" in text
    assert "0 / 1 = 0.000" in text
    assert re.findall(r"excused nothing: (.*)", text) == ["g", "d"]
    assert "excused nothing" not in scores.described(declared, partial=True)


def test_a_test_that_vanished_is_a_failure():
    assert Scores(outcomes(a="passed"), {}, {}, {}).unexcused(()) == ["a"]


def test_exemptions_name_tests_exactly():
    exemption = Exemption("r", ("test_setitem", "test_binary[divide(x1_i is -0"))
    assert exemption.covers("array_api_tests/test_array_object.py::test_setitem")
    assert not exemption.covers("array_api_tests/test_array_object.py::test_setitem_masking")
    assert exemption.covers("m.py::test_binary[divide(x1_i is -0 and x2_i > 0) -> -0]")
    assert not exemption.covers("m.py::test_binary[divide(x1_i is +0 and x2_i > 0) -> +0]")


def test_every_exemption_has_a_reason_and_a_proof():
    for exemption in DECLARED:
        assert exemption.reason and exemption.tests and (exemption.message or exemption.stored)
        assert len(set(exemption.tests)) == len(exemption.tests)


def test_a_folder_that_is_no_suite_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--suite", str(tmp_path)])
    assert "no array_api_tests/" in capsys.readouterr().err


def test_a_run_of_a_suite(tmp_path, capsys):
    """A suite of four tests: one that passes, one that the backend fails too, one that tangents alone fail, one that they pass dense."""
    (tmp_path / "array-api" / "spec").mkdir(parents=True)
    package = tmp_path / "array_api_tests"
    package.mkdir()
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--max-examples', type=int)\n"
        "    parser.addoption('--derandomize', action='store_true')\n"
        "    parser.addoption('--disable-deadline', action='store_true')\n"
    )
    module = (
        "import importlib, os\n"
        "def module(name):\n"
        "    scope = {}\n"
        "    if name.startswith('exec('):\n"
        "        exec(name[6:-2], scope)\n"
        "        return scope['xp']\n"
        "    return importlib.import_module(name)\n"
        "xp = module(os.environ['ARRAY_API_TESTS_MODULE'])\n"
    )
    (package / "__init__.py").write_text(module)
    for helpers in ("array_helpers", "pytest_helpers"):
        (package / f"{helpers}.py").write_text("")
    (package / "test_few.py").write_text(
        "from array_api_tests import xp\n"
        "def test_sum():\n    assert int(xp.sum(xp.asarray([1, 0, 2]))) == 3\n"
        "def test_exp():\n    assert float(xp.exp(xp.asarray([0.0, 0.0, 1.0]))[0]) == 1\n"
        "def test_never():\n    assert False\n"
        "def test_type():\n    assert type(xp.asarray([1])).__name__ != 'IndexedSlices'\n"
    )
    scores = tmp_path / "scores.json"
    assert main(["--suite", str(tmp_path), "--examples", "1", "--scores", str(scores)]) == 1
    text = capsys.readouterr().out
    assert "numpy, 1 examples a test" in text
    assert "failures beyond the backend's own: 1, and 0 excused" in text
    assert "passed / collected: 2 / 4, the bare backend 3 / 4" in text
    assert 'raise") / passed: 1 / 2 = 0.500' in text
    assert "FAILED array_api_tests/test_few.py::test_type" in text
    found = json.loads(scores.read_text())["numpy"]
    assert [found[k] for k in ("examples", "beyond", "excused", "passed", "collected", "bare_passed", "kept")] == [
        1,
        1,
        0,
        2,
        4,
        3,
        1,
    ]
    assert [found[k] for k in ("able", "kept_of_able", "functions_able", "functions_kept")] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "test, name, keeps",
    [
        ("a/test_linalg.py::test_outer", "outer", True),
        ("a/test_linalg.py::test_linalg_tensordot", "tensordot", True),
        ("a/test_operators.py::test_add[__iadd__(x, s)]", "add", True),
        ("a/test_operators.py::test_bitwise_invert[__invert__]", "bitwise_invert", False),
        ("a/test_special_cases.py::test_binary[__truediv__(x1_i is -0 and x2_i > 0) -> -0]", "divide", True),
        ("a/test_special_cases.py::test_unary[exp(x_i is NaN) -> NaN]", "exp", False),
        ("a/test_special_cases.py::test_nan_propagation[max]", "max", True),
        ("a/test_signatures.py::test_func_signature[sum]", "sum", False),
        ("a/test_array_object.py::test_getitem", None, False),
    ],
)
def test_the_function_of_a_test(test, name, keeps):
    assert function_of(test) == name
    assert can_keep(test) == keeps


def test_the_scores_that_are_kept():
    """What documents quote: written by ``--scores`` at 100 examples a test."""
    kept = json.loads((Path(__file__).parent / "scores.json").read_text())
    assert set(kept) == set(BACKENDS)
    for found in kept.values():
        assert found["examples"] == 100 and found["collected"] == found["bare_collected"] == 1384
        assert found["beyond"] == 0 and found["passed"] + found["excused"] >= found["bare_passed"]
        assert found["kept_of_able"] >= 0.85 * found["able"]
