"""The comparison with other systems: its scripts run, ours is the dense truth in every case, and the page is as generated."""

import importlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "docs" / "comparison"
RESULTS = json.loads((HERE / "results.json").read_text())
INSTALLED = {
    "JAX": "jax_bcoo",
    "NumPy": "numpy_add_at",
    "PyData sparse": "pydata_sparse",
    "PyTorch": "torch_sparse",
    "SciPy": "scipy_sparse",
}
ERRORS = {"IndexError", "ValueError", "UFuncTypeError"}


@pytest.fixture
def script(monkeypatch):
    """Imports a script of the folder as it imports its neighbours."""
    monkeypatch.syspath_prepend(str(HERE))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == HERE:
            del sys.modules[name]


@pytest.mark.parametrize("system", INSTALLED)
def test_ours_is_the_dense_truth(system, script):
    harness, module = script("harness"), script(INSTALLED[system])
    for case in module.CASES:
        truth, ours = (harness.outcome(code, vars(module)) for code in (case.truth, case.ours))
        assert not truth.error or truth.error in ERRORS, case
        assert harness.verdict(case, ours, truth) == "right", f"{case.ours} -> {ours}, not {truth}"
    written = [[x[k] for k in ("title", "run", "truth_by", "ours_by", "note")] for x in RESULTS[system]["cases"]]
    assert written == [[c.title, c.theirs, c.truth, c.ours, c.note] for c in module.CASES], f"run {INSTALLED[system]}.py --json"


@pytest.mark.long
@pytest.mark.parametrize("system", INSTALLED)
def test_the_system_still_answers_so(system, script):
    module = script(INSTALLED[system])
    found = script("harness").measure(module.CASES, vars(module))
    newer = {name: version(name) for name in RESULTS[system]["versions"]} != RESULTS[system]["versions"]
    assert newer or found == RESULTS[system]["cases"]


def test_ours_was_the_dense_truth_where_the_system_is_not_installed():
    assert set(RESULTS) == {*INSTALLED, "TensorFlow"}
    for system, found in RESULTS.items():
        assert all(case["ours_verdict"] == "right" for case in found["cases"]), system


def test_the_command_prints_the_cases_and_writes_them_beside_others(script, tmp_path, monkeypatch, capsys):
    file = tmp_path / "results.json"
    file.write_text('{"another": {}}')
    module = script("numpy_add_at")
    monkeypatch.setattr(sys, "argv", ["numpy_add_at.py", "--json", str(file)])
    script("harness").main("NumPy", ["numpy"], module.CASES, vars(module))
    printed = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert list(written) == ["NumPy", "another"] and len(written["NumPy"]["cases"]) == len(module.CASES)
    assert all(case.title in printed for case in module.CASES)


def test_verdicts(script):
    harness = script("harness")
    names = {"killed": lambda: harness.child("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), "child": harness.child}

    def verdict(theirs, truth, **options):
        case = harness.Case("", theirs, truth, "", **options)
        return harness.verdict(case, harness.outcome(theirs, names), harness.outcome(truth, names))

    assert verdict("[1.0, float('nan')]", "[1.0, float('nan')]") == "right"
    assert verdict("[1.0]", "1.0") == verdict("2.0", "1.0") == verdict("[float('nan')]", "[0.0]") == "wrong"
    assert verdict("1.0", "[][1]") == "wrong"
    assert verdict("[][1]", "1.0") == "refuses"
    assert verdict("[][1]", "{}[1]") == "right"
    assert verdict("5", "3", counts=True) == "more memory"
    assert verdict("3", "3", counts=True) == "right"
    assert verdict("killed()", "1.0") == "crashes"
    assert verdict("child('[][1]')", "1.0") == "refuses"
    assert verdict("child('print([1, 2])')", "[1.0, 2.0]") == "right"
    with pytest.raises(NameError):
        verdict("misspelt", "1.0")


def test_the_page_is_as_generated(script):
    text = (HERE.parent / "comparison.md").read_text()
    assert script("page").page(text, RESULTS) == text, "run: python docs/comparison/page.py"
