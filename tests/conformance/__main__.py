"""Run the official array API test suite on tangents and on the bare backend, and print three scores.

    python -m tests.conformance --suite PATH [--backend numpy|torch|array_api_strict] [--examples N] [-k EXPR] [--report DIR] [--scores FILE]

PATH is a checkout of data-apis/array-api-tests with its submodule ``array-api``. Every run is derandomized, so the namespace and the
bare backend are drawn the same examples.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .exceptions import DECLARED
from .namespace import BACKENDS
from .scores import Outcomes, Scores

ROOT = Path(__file__).parents[2]
PASSING = (0, 1)  # pytest's exit codes of a run that ended: all passed, some failed


def run_suite(
    suite: Path,
    module: str,
    report: Path,
    examples: int,
    *,
    policy: str = "allow",
    expression: str = "",
    tests: tuple[str, ...] = (),
) -> Outcomes:
    """One run of the suite in a process of its own; the outcomes by test."""
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": module,
        "CONFORMANCE_POLICY": policy,
        "CONFORMANCE_REPORT": str(report),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }
    options = [
        "-p",
        "tests.conformance.plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:warnings",
        "-q",
        "--no-header",
        "--tb=short",
    ]
    options += [
        "--max-examples",
        str(examples),
        "--derandomize",
        "--disable-deadline",
        *(("-k", expression) if expression else ()),
    ]
    command = [sys.executable, "-m", "pytest", *options, *(tests or ("array_api_tests",))]
    report.unlink(missing_ok=True)
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in PASSING or not report.exists():
        raise SystemExit(
            f"the suite did not run (pytest exit code {done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    outcomes: Outcomes = json.loads(report.read_text())
    return outcomes


def tangent_module(backend: str, *, stored: bool = False) -> str:
    """What the suite executes to make the namespace under test."""
    arguments = f'"{backend}", stored={stored}'
    return f"exec('from tests.conformance.namespace import ConformanceNamespace as C; xp = C({arguments})')"


def measure(suite: Path, backend: str, examples: int, expression: str, folder: Path) -> Scores:
    """The runs of one backend and what they say together."""

    def run(name: str, module: str, **options: object) -> Outcomes:
        return run_suite(suite, module, folder / f"{backend}-{name}.json", examples, **options)  # type: ignore[arg-type]

    bare = run("bare", BACKENDS[backend], expression=expression)
    ours = run("tangents", tangent_module(backend), expression=expression)
    strict = run("raise", tangent_module(backend), expression=expression, policy="raise")
    scores = Scores(bare, ours, strict, {})
    doubtful = tuple(t for t in scores.beyond if any(e.covers(t) and e.stored for e in DECLARED))
    stored = run("stored", tangent_module(backend, stored=True), tests=doubtful) if doubtful else {}
    return scores._replace(stored=stored)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="The official array API test suite on tangents."
    )
    parser.add_argument(
        "--suite", type=Path, required=True, help="a checkout of data-apis/array-api-tests with array-api/ inside"
    )
    parser.add_argument("--backend", choices=BACKENDS, default="numpy")
    parser.add_argument("--examples", type=int, default=20, help="Hypothesis examples a test")
    parser.add_argument("-k", dest="expression", default="", help="pytest's -k: part of the suite")
    parser.add_argument("--report", type=Path, help="a folder in which the outcomes of every test are left as JSON")
    parser.add_argument("--scores", type=Path, help="a JSON file in which the scores of this backend are put")
    given = parser.parse_args(arguments)
    suite = given.suite.resolve()
    if not (suite / "array_api_tests").is_dir() or not (suite / "array-api" / "spec").is_dir():
        parser.error(f"--suite {given.suite}: no array_api_tests/ and array-api/spec/ there")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.report or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        scores = measure(suite, given.backend, given.examples, given.expression, folder)
    print(f"{given.backend}, {given.examples} examples a test, derandomized")
    print(scores.described(DECLARED, partial=bool(given.expression)))
    if given.scores:
        known = json.loads(given.scores.read_text()) if given.scores.exists() else {}
        known[given.backend] = {"examples": given.examples, **scores.counted(DECLARED)}
        given.scores.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return 1 if scores.unexcused(DECLARED) else 0


if __name__ == "__main__":
    sys.exit(main())
