"""``python -m benchmarks.guard``: the quick set's ratios to our peers, beside those that are committed.

Only ratios of runs that took turns are compared, since times differ from machine to machine. What moved by more than a third is
printed; a ratio more than twice the committed one, in three tries, fails. ``--write`` commits the ratios of now.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from .measure import Result

__all__ = ["ratios"]

COMMITTED = Path(__file__).with_name("ratios.json")
_TOLD, _FAILS, _TRIES = 4 / 3, 2.0, 3

# What depends on the number of cores, on page faults or on a few microseconds is looked at by people, in the tables.
GUARDED = ("densify", "add_into", "coalesce", "accumulate", "multiply", "norm")


def ratios(results: list[Result]) -> dict[str, float]:
    """Our time over the best peer's, by cell."""
    found = {}
    for r in results:
        if r.peers:
            cell = " ".join(f"{key}={value}" for key, value in r.on.items())
            found.update({f"{r.table} {cell}: {name}": ms / min(r.peers.values()) for name, ms in r.ours.items()})
    return found


def _measured(tables: tuple[str, ...]) -> dict[str, float]:
    from .grids import QUICK
    from .measure import measured
    from .tables import TABLES

    return ratios([measured(case, budget=0.5) for table in tables for case in TABLES[table](QUICK[table])])


def compare(now: dict[str, float], committed: dict[str, float]) -> tuple[list[str], list[str]]:
    """What to tell, and what fails."""
    moved = {cell: now[cell] / old for cell, old in committed.items() if cell in now}
    told = [f"{cell}: {committed[cell]:.2f} -> {now[cell]:.2f}" for cell, m in moved.items() if m > _TOLD or m < 1 / _TOLD]
    return told, [cell for cell, m in moved.items() if m > _FAILS]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if "BENCHMARK_CHILD" not in os.environ:
        from .__main__ import environment

        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.guard", *sys.argv[1:]], environment(1))
    now = _measured(GUARDED)
    if options.write:
        COMMITTED.write_text(json.dumps({cell: round(ratio, 3) for cell, ratio in now.items()}, indent=1) + "\n")
        return 0
    committed: dict[str, Any] = json.loads(COMMITTED.read_text())
    told, failing = compare(now, committed)
    for _ in range(_TRIES - 1):
        if not failing:
            break
        again = _measured(tuple({cell.split()[0] for cell in failing} & set(GUARDED)) or GUARDED)
        now |= {cell: min(ratio, now.get(cell, ratio)) for cell, ratio in again.items()}
        told, failing = compare(now, committed)
    print(*told or ["no ratio moved by more than a third"], sep="\n")
    if failing:
        print("more than twice the committed ratio:", *failing, sep="\n  ")
    return bool(failing)


if __name__ == "__main__":
    sys.exit(main())
