"""``python -m benchmarks.guard``: ratios to our peers on a few small cells, beside those that are committed.

Only ratios of runs that took turns are compared, since times differ from machine to machine, and only of the fastest of many, since a
busy machine makes some of them ten times as long. What moved by more than a third is
printed; a ratio more than twice the committed one, in four tries, fails. ``--write`` commits the ratios of now, the median of four runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from statistics import median
from typing import Any

from .measure import Result

__all__ = ["ratios"]

COMMITTED = Path(__file__).with_name("ratios.json")
_TOLD, _FAILS, _TRIES = 4 / 3, 2.0, 4
# Not every machine has a compiler, and JAX's threads wait for cores where others are at work.
_LEFT_OUT = ("c loop", "jax", "jitted")


def ratios(results: list[Result]) -> dict[str, float]:
    """Our time over the best peer's, by cell."""
    found = {}
    for r in results:
        peers = [ms for name, ms in r.peers.items() if not name.startswith(_LEFT_OUT)]
        if peers:
            cell = " ".join(f"{key}={value}" for key, value in r.on.items())
            ours = {name: ms for name, ms in r.ours.items() if not name.startswith(_LEFT_OUT)}
            found.update({f"{r.table} {cell}: {name}": ms / min(peers) for name, ms in ours.items()})
    return found


def _measured(like: Collection[str] = ()) -> dict[str, float]:
    """The ratios of now; with `like`, of the tables in which these cells are."""
    from .grids import GUARD
    from .measure import measured
    from .tables import TABLES

    results = {
        table: [measured(case, budget=0.3, most=45, figure=min) for case in TABLES[table](grid)]
        for table, grid in GUARD.items()
        if _in(table, like)
    }
    return ratios([r for found in results.values() for r in found])


def _in(table: str, cells: Collection[str]) -> bool:
    return not cells or any(cell.startswith(table) for cell in cells)


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
    if options.write:
        runs = [_measured() for _ in range(_TRIES)]
        middle = {cell: round(median(run[cell] for run in runs), 3) for cell in runs[0]}
        COMMITTED.write_text(json.dumps(middle, indent=1) + "\n")
        return 0
    now = _measured()
    committed: dict[str, Any] = json.loads(COMMITTED.read_text())
    told, failing = compare(now, committed)
    for _ in range(_TRIES - 1):
        if not failing:
            break
        again = _measured(failing)
        now |= {cell: min(ratio, now.get(cell, ratio)) for cell, ratio in again.items()}
        told, failing = compare(now, committed)
    print(*told or ["no ratio moved by more than a third"], sep="\n")
    if failing:
        print("more than twice the committed ratio:", *failing, sep="\n  ")
    return bool(failing)


if __name__ == "__main__":
    sys.exit(main())
