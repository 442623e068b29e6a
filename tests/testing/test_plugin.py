"""The pytest plugin, run in projects and processes of their own (libraries cannot be imported twice in one)."""

from pathlib import Path

import pytest

import sparsetangent

pytest_plugins = ["pytester"]

MODULE = """
import sparsetangent as st

def test_sum(xp):
    t = st.IndexedSlices(xp.asarray([1, 1]), xp.asarray([2.0, 3.0]), (3,))
    assert float(t.densify()[1]) == 5
    assert repr(xp) == xp.backend_name
    if "jax" in xp.backend_name:
        assert t.dtype == ("float32" if xp.backend_name == "jax32" else "float64")

def test_switch():
    import sys
    assert "jax" not in sys.modules or not sys.modules["jax"].config.jax_enable_x64
"""
PRETEND = """
from importlib import util
found = util.find_spec
util.find_spec = lambda name, *args: None if name in ("torch", "jax", "cupy") else found(name, *args)
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(sparsetangent.__file__).parents[1]))
    pytester.makepyfile(test_it=MODULE)
    return pytester


def run(project, *args):
    return project.runpytest_subprocess("-p", "sparsetangent.testing.plugin", "-p", "no:cacheprovider", "-rs", "-v", *args)


def test_a_test_runs_once_for_each_library(project):
    result = run(project)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] + outcomes.get("skipped", 0) == 7 and outcomes["passed"] >= 2
    assert not outcomes.keys() & {"failed", "errors", "error"}
    result.stdout.fnmatch_lines(["*test_sum?numpy? PASSED*"])


def test_what_is_missing_is_skipped_by_name(project):
    project.makeconftest(PRETEND)
    result = run(project)
    result.assert_outcomes(passed=3, skipped=4)
    for package in ("torch", "jax", "cupy"):
        result.stdout.fnmatch_lines([f"SKIPPED *: {package} is not installed"])


def test_libraries_are_chosen(project):
    result = run(project, "--xp=numpy, array_api_strict")
    result.assert_outcomes(passed=3, skipped=4)
    result.stdout.fnmatch_lines(["SKIPPED *: jax is not in --xp=numpy,array_api_strict"])


@pytest.mark.parametrize(
    ("choice", "message"), [("numpi", "--xp: numpi is none of numpy, torch"), ("numpy,torch", "torch (torch is not installed)")]
)
def test_a_choice_that_cannot_be_tested_is_an_error(project, choice, message):
    project.makeconftest(PRETEND)
    result = run(project, f"--xp={choice}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in str(result.stderr)


def test_a_fixture_of_the_projects_own_takes_precedence(project):
    project.makeconftest("import pytest\n@pytest.fixture\ndef xp():\n    return 'mine'")
    project.makepyfile(test_it="def test_mine(xp):\n    assert xp == 'mine'")
    run(project).assert_outcomes(passed=1)


def test_it_is_not_loaded_unasked(project):
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*fixture 'xp' not found*"])
