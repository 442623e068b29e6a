"""``python -m tests.mutation [-k PART] [-j JOBS]``: plant each fault in a copy of the project and run the tests that must see it."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = ("sparsetangent", "tests", "benchmarks", "examples", "docs", "pyproject.toml", "README.md")


def caught(name: str, fault: Fault) -> str | None:
    """The first line of what failed, or None if nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        for item in COPIED:
            source, target = ROOT / item, Path(folder) / item
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        path = Path(folder) / "sparsetangent" / fault.file
        text = path.read_text()
        if text.count(fault.old) < 1:
            raise LookupError(f"{name}: {fault.file} no longer holds {fault.old!r}")
        path.write_text(text.replace(fault.old, fault.new, 1))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *shlex.split(fault.tests)]
        environment = {**os.environ, "PYTHONPATH": folder, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        return None
    if done.returncode != 1:
        raise RuntimeError(f"{name}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-500:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else done.stdout[-200:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("-k", default="", help="only faults whose name holds this")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()
    chosen = {name: fault for name, fault in FAULTS.items() if options.k in name}
    missed = 0
    with ThreadPoolExecutor(options.j) as pool:
        for name, seen in zip(chosen, pool.map(lambda item: caught(*item), chosen.items()), strict=True):
            missed += seen is None
            print(f"{'caught' if seen else 'MISSED'}  {name}: {seen or chosen[name].tests}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
