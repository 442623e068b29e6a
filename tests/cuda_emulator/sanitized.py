"""Run Python under a sanitizer: its runtime must be there before the interpreter, and it ends the process that it faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from .module import COMPILER, MISSING

__all__ = ["missing", "run"]

_ROOT = Path(__file__).parents[2]
_RUNTIMES = {"undefined": "libubsan.so", "address": "libasan.so", "thread": "libtsan.so"}
_OPTIONS = {
    # Python itself leaks by design.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=66",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:report_bugs=1",
}


@cache
def missing(sanitizer: str) -> str | None:
    """Why this sanitizer cannot run here, or None."""
    if MISSING or sanitizer == "plain":
        return MISSING
    if not Path(_runtime(sanitizer)).is_file():
        return f"{_RUNTIMES[sanitizer]} is not installed beside {COMPILER}"
    first = run(sanitizer, ["-c", "import numpy"])
    return None if first.returncode == 0 else f"Python does not start under {_RUNTIMES[sanitizer]}: {first.stderr[-200:]}"


def run(sanitizer: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """``python *arguments`` with the runtime of the sanitizer loaded first."""
    environment = {**os.environ, **_OPTIONS, "PYTHONPATH": os.pathsep.join((str(_ROOT), os.environ.get("PYTHONPATH", "")))}
    if sanitizer != "plain":
        environment["LD_PRELOAD"] = _runtime(sanitizer)
    return subprocess.run([sys.executable, *arguments], env=environment, text=True, capture_output=True)


@cache
def _runtime(sanitizer: str) -> str:
    asked = subprocess.run([COMPILER, f"-print-file-name={_RUNTIMES[sanitizer]}"], text=True, capture_output=True)
    return asked.stdout.strip()
