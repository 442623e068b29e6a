"""``python -m benchmarks.import_time``: what ``import sparsetangent`` takes on top of NumPy's own import, in fresh processes.

Both imports are timed in each process, so that what disturbs the machine disturbs both; the medians are printed. The exit
status is 1 where ours is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

LIMIT_MS = 60.0
CHILD = """
from time import perf_counter as now
a = now()
import numpy
b = now()
import sparsetangent
print(1e3 * (b - a), 1e3 * (now() - b))
"""


def measure(runs: int) -> dict[str, float]:
    """Medians in milliseconds, after one run that fills the file cache and writes the bytecode, as an installation has it."""
    times = []
    with tempfile.TemporaryDirectory() as bytecode:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": bytecode}
        for _ in range(runs + 1):
            child = [sys.executable, "-c", CHILD]
            printed = subprocess.run(child, env=environment, capture_output=True, text=True, check=True).stdout
            times.append([float(x) for x in printed.split()])
    numpy, ours = (median(column) for column in zip(*times[1:], strict=True))
    return {"numpy_ms": round(numpy, 1), "sparsetangent_ms": round(ours, 1), "limit_ms": LIMIT_MS, "runs": runs}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.import_time", description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.runs)
    print(
        "import numpy {numpy_ms} ms, then sparsetangent {sparsetangent_ms} ms (limit {limit_ms}; medians of {runs})".format(
            **found
        )
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(found["sparsetangent_ms"] > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
