"""Results as tables for a reader, and as JSON for `guard` and the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .measure import Result

__all__ = ["as_json", "show"]


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


def _cell(ms: float | None, floor: float) -> str:
    return "" if ms is None else f"{ms:.3g} ({ms / floor:.1f}x)" if floor > 1e-4 else f"{1e3 * ms:.3g} us"


def as_json(results: Sequence[Result], facts: dict[str, str]) -> dict[str, Any]:
    return {"facts": facts, "results": [r._asdict() for r in results]}
