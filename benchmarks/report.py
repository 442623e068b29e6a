"""Results as tables for a reader, and as JSON for `guard` and the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .measure import Result
from .targets import Verdict

__all__ = ["as_json", "show", "show_verdicts"]

# Of smaller peaks nothing is printed; the JSON has all.
_TOLD = 2**24


def show(results: Sequence[Result]) -> None:
    """One table of one question: milliseconds of ours, and for floor and peers how many times as long as each of ours they take."""
    if not results:
        return
    keys = list(results[0].on)
    ours = list(dict.fromkeys(name for r in results for name in r.ours))
    peers = list(dict.fromkeys(name for r in results for name in r.peers))
    table = Table(title=f"{results[0].table}: milliseconds (over the floor)")
    for name in (*keys, *ours, *peers, "floor"):
        table.add_column(escape(name), justify="right")
    for r in results:
        cells = [_cell(r.ours.get(name), r.floor) for name in ours] + [_cell(r.peers.get(name), r.floor) for name in peers]
        table.add_row(*(str(r.on.get(k, "")) for k in keys), *cells, f"{r.floor:.3g}")
    Console(width=220).print(table)
    if any(bytes_ >= _TOLD for r in results for bytes_ in r.peak.values()):
        _show_peaks(results, keys, [*ours, *peers])


def _show_peaks(results: Sequence[Result], keys: list[str], names: list[str]) -> None:
    table = Table(title=f"{results[0].table}: memory at the peak beyond what was held before, MiB")
    for name in (*keys, *names):
        table.add_column(escape(name), justify="right")
    for r in results:
        table.add_row(
            *(str(r.on.get(k, "")) for k in keys), *(f"{r.peak[n] / 2**20:.1f}" if n in r.peak else "" for n in names)
        )
    Console(width=220).print(table)


def _cell(ms: float | None, floor: float) -> str:
    return "" if ms is None else f"{ms:.3g} ({ms / floor:.1f}x)" if floor > 1e-4 else f"{1e3 * ms:.3g} us"


def show_verdicts(found: Sequence[Verdict]) -> None:
    """Each target, what was measured, and whether that hits it."""
    table = Table(title="targets")
    for name in ("question", "ours", "against", "where", "statistic", "target", "measured", "cells", ""):
        table.add_column(name)
    for v in found:
        measured = "not measured" if v.measured is None else f"{v.measured:.3g}"
        said = "" if v.hit is None else "hit" if v.hit else "miss"
        what = (v.table, v.column, v.against, v.where, v.statistic, f"{v.sense} {v.bound:g}", measured, str(v.cells), said)
        table.add_row(*map(escape, what))
    Console(width=220).print(table)


def as_json(results: Sequence[Result], found: Sequence[Verdict], facts: dict[str, str]) -> dict[str, Any]:
    return {"facts": facts, "results": [r._asdict() for r in results], "targets": [v._asdict() for v in found]}
