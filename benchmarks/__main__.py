"""``python -m benchmarks [--quick | --full] [--only TABLE] [--json PATH]``: our kernels beside their peers and the floor."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """One thread unless asked, and nothing that picks OpenBLAS's kernels by hand."""
    kept = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**kept, **dict.fromkeys(THREADS, str(threads)), "XLA_FLAGS": one if threads == 1 else "", "BENCHMARK_CHILD": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="every size (within 25 minutes); the default is --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", help="a table; may be given again")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=20, help="after these, what is left is run once instead of three times"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "BENCHMARK_CHILD" not in os.environ:  # thread counts are read when libraries are imported
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], environment(options.threads))

    from .grids import FULL, QUICK
    from .measure import Result, facts, measured
    from .report import as_json, show, show_verdicts
    from .tables import TABLES
    from .targets import verdicts

    grids = FULL if options.full else QUICK
    results: list[Result] = []
    started = time.monotonic()
    for name in options.only or TABLES:
        found = []
        for case in TABLES[name](grids.get(name, [])):
            late = time.monotonic() - started > 60 * options.minutes
            found.append(measured(case, budget=1.5 if options.full else 0.5, least=1 if late else 3, most=1 if late else 15))
        show(found)
        results += found
        if options.json:  # what is measured is kept, should the run be stopped
            options.json.write_text(json.dumps(as_json(results, verdicts(results), facts()), indent=1) + "\n")
    show_verdicts(verdicts(results))
    print(*(f"{key}: {value}" for key, value in facts().items()), f"seconds: {time.monotonic() - started:.0f}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
