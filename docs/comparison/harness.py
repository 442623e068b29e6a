"""What each script beside this file shares: cases as expressions, their outcomes, the verdict, and the file of results.

``python docs/comparison/SYSTEM.py`` prints every case; ``--json docs/comparison/results.json`` also writes them into that file.
"""

import argparse
import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np

import sparsetangent as st

RIGHT, WRONG, REFUSES, CRASHES, DENSE = "right", "wrong", "refuses", "crashes", "more memory"


@dataclass(frozen=True)
class Case:
    """One expression in the system's words, in plain NumPy on the dense array, and in ours."""

    title: str
    theirs: str
    truth: str
    ours: str
    note: str = ""
    rtol: float = 1e-6
    counts: bool = False
    """The expressions count numbers that are held; more than the truth is no wrong answer but costs memory."""


@dataclass(frozen=True)
class Outcome:
    """What an expression gave: an array, or the name of what was raised."""

    value: Any = None
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return self.error
        return np.array2string(self.value, separator=", ", precision=6, threshold=12, formatter=_FORMATS).replace("\n", "")


_FORMATS: dict[str, Any] = {"float_kind": lambda x: f"{x:.7g}", "bool": str}


class Killed(Exception):
    """A child process was ended by a signal."""


def child(code: str) -> Any:
    """What `code` prints as JSON, run by a process of its own."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    if done.returncode < 0:
        raise Killed(Signals(-done.returncode).name)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def dense(x: Any) -> np.ndarray:
    """Any system's answer as a NumPy array."""
    for name in ("to_dense", "todense", "toarray"):
        if hasattr(x, name):
            x = getattr(x, name)()
            break
    if hasattr(x, "detach"):
        x = x.detach()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
    x = np.asarray(x)
    return x if x.dtype.kind in "bc" else x.astype(np.float64)


def outcome(code: str, names: dict[str, Any]) -> Outcome:
    """Evaluate the expression. Whatever it raises is an outcome too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome(dense(eval(code, names)))
    except Killed as killed:
        return Outcome(error=f"process killed: {killed}")
    except (NameError, SyntaxError):
        raise  # a mistake of the case's
    except Exception as raised:
        return Outcome(error=type(raised).__name__)


def verdict(case: Case, found: Outcome, truth: Outcome) -> str:
    """How an outcome stands to the dense truth."""
    if found.error.startswith("process killed"):
        return CRASHES
    if found.error:
        return RIGHT if truth.error else REFUSES
    if truth.error:
        return WRONG
    if case.counts:
        return DENSE if found.value > truth.value else RIGHT
    same = found.value.shape == truth.value.shape and np.allclose(found.value, truth.value, case.rtol, 1e-12, equal_nan=True)
    return RIGHT if same else WRONG


def measure(cases: list[Case], names: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases with their outcomes, ready for JSON."""
    return [_measured(case, dict(names)) for case in cases]


def _measured(case: Case, names: dict[str, Any]) -> dict[str, Any]:
    theirs, truth, ours = (outcome(code, names) for code in (case.theirs, case.truth, case.ours))
    return {
        "title": case.title,
        "run": case.theirs,
        "gave": str(theirs),
        "truth_by": case.truth,
        "truth": str(truth),
        "ours_by": case.ours,
        "ours": str(ours),
        "verdict": verdict(case, theirs, truth),
        "ours_verdict": verdict(case, ours, truth),
        "note": case.note,
    }


def main(system: str, packages: list[str], cases: list[Case], names: dict[str, Any]) -> None:
    """The command line of a script."""
    parser = argparse.ArgumentParser(description=f"{system} beside the dense truth and sparsetangent")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put the results into this file, beside those of other systems"
    )
    file = parser.parse_args().json
    found = measure(cases, names)
    for x in found:
        print(f"\n{x['title']}  [{x['verdict']}; ours {x['ours_verdict']}]")
        for label, code, gave in (("theirs", "run", "gave"), ("dense", "truth_by", "truth"), ("ours", "ours_by", "ours")):
            print(f"  {label:6} {x[code]}\n      -> {x[gave]}")
        if x["note"]:
            print(f"  note   {x['note']}")
    print("\n" + ", ".join(f"{sum(x['verdict'] == v for x in found)} {v}" for v in (WRONG, CRASHES, REFUSES, DENSE, RIGHT)))
    if file:
        results = json.loads(file.read_text()) if file.exists() else {}
        versions = {name: version(name) for name in [*packages, "numpy"]} | {"sparsetangent": st.__version__}
        results[system] = {"versions": versions, "cases": found}
        file.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
