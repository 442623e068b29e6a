"""Writes benchmarks.md and its pictures from benchmarks/results.json: ``python docs/benchmarks.py``.

The figures come from ``make bench ARGS="--full --json benchmarks/results.json"``. The page has the cells of the quick set, and says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.grids import QUICK  # noqa: E402
from benchmarks.tables import TABLES  # noqa: E402

Results = list[dict[str, Any]]

RESULTS = ROOT / "benchmarks" / "results.json"
PICTURES = Path(__file__).parent / "pictures"

HEAD = """# Benchmarks

<!-- Written by `python docs/benchmarks.py` from benchmarks/results.json; a test compares. -->

Times are medians in milliseconds of runs that take turns. The *floor* is the time of a copy that moves the bytes that must be moved at
least. *V* is the rows of the table, *n* the entries of the gradient, *d* the numbers in a row. The same figures for your machine come from
`make bench ARGS="--full --json benchmarks/results.json"` and `python docs/benchmarks.py`.
"""

TITLES = {
    "length": "The gradient of a table, by its length",
    "flat in V": "Operations that keep structure, by the length of the table",
    "linear in k": "Sums of more and more gradients",
    "crossover": "A step of training, by density",
    "densify": "The dense gradient from the compact one",
    "add_into": "Rows added into a table",
    "coalesce": "Repeats merged",
    "accumulate": "The sum of 100 gradients",
    "optimizer rows": "Steps of optimizers",
    "gather": "The read",
    "multiply": "Times a dense array",
    "norm": "Clipping",
    "tiny inputs": "What a call costs",
}
FILES = {"flat in V": "flat"}  # pictures that are not called as their table
FUNCTIONS = {"flat in V": "structure", "linear in k": "growth", "optimizer rows": "optimizer", "tiny inputs": "tiny"}
ALTS = {
    "length": "Milliseconds against rows of the table: compact is flat up to 2**50 rows, dense grows with the table.",
    "flat in V": "Milliseconds against rows of the table, for some of them: every line is flat.",
    "crossover": "Milliseconds of a step against density, compact and dense.",
}


def page(found: dict[str, Any]) -> str:
    """The text of the page."""
    results = found["results"]
    parts = [HEAD, _facts(found["facts"])]
    for name, title in TITLES.items():
        cells = [r for r in results if r["table"] == name and _in_quick_set(r)]
        if cells:
            parts += [
                f"## {title}\n",
                f"{TABLES[FUNCTIONS.get(name, name)].__doc__}\n",
                *_picture(name, results),
                _table(name, cells),
            ]
    if found.get("targets"):
        parts.append(_targets(found["targets"]))
    return "\n".join(parts)


def _in_quick_set(result: dict[str, Any]) -> bool:
    """Whether the page has the cell; the steps of growing density are all there."""
    on, table = result["on"], result["table"]
    cell = tuple(on.get(key) for key in ("V", "n", "d", "dtype", "ids"))
    return "n" not in on or table == "crossover" or cell in QUICK[FUNCTIONS.get(table, table)]


def _facts(facts: dict[str, str]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items() if value != "unset") + ".\n"


def _picture(name: str, results: Results) -> Iterator[str]:
    """For tables that are drawn: those by entries only where there are several sizes."""
    by_entries = {r["on"]["n"] for r in results if r["table"] == name and "n" in r["on"]}
    if name in ALTS or (name in ("densify", "add_into", "coalesce") and len(by_entries) > 2):
        alt = ALTS.get(name, f"{name}: time over the floor against the number of entries, ours and the peers.")
        yield f"![{alt}](pictures/{FILES.get(name, name)}.svg)\n"


def _table(name: str, cells: Results) -> str:
    if name == "flat in V":
        calls = list(dict.fromkeys(r["on"]["call"] for r in cells))
        sizes = list(dict.fromkeys(r["on"]["V"] for r in cells))
        by_cell = {(r["on"]["call"], r["on"]["V"]): r["ours"]["numpy"] for r in cells}
        rows = [[f"`{call}`", *(_ms(by_cell.get((call, size))) for size in sizes)] for call in calls]
        return _markdown(["call", *(f"V = {_count(size)}" for size in sizes)], rows)
    if name == "length":
        sizes = list(dict.fromkeys(r["on"]["V"] for r in cells))
        times = {(r["on"]["V"], who): ms for r in cells for who, ms in (*r["ours"].items(), *r["peers"].items())}
        rows = [[_count(size), _ms(times.get((size, "compact"))), _ms(times.get((size, "dense")))] for size in sizes]
        return _markdown(["V", "compact", "dense"], rows)
    keys = [key for key in cells[0]["on"] if len({str(r["on"][key]) for r in cells}) > 1]
    fixed = ", ".join(f"{key} = {_said(value)}" for key, value in cells[0]["on"].items() if key not in keys)
    return (f"With {fixed}.\n\n" if fixed else "") + _contenders(keys, cells, floor=name != "tiny inputs")


def _contenders(keys: list[str], cells: Results, *, floor: bool) -> str:
    """Cells beside contenders, the longer of the two downwards, so that a table fits into the page."""
    by_name: dict[str, list[float | None]] = {}
    for part, written in (("ours", "**ours, {}**"), ("peers", "{}")):
        names = dict.fromkeys(who for r in cells for who in r[part] if who != "an empty call")
        by_name |= {written.format(who): [r[part].get(who) for r in cells] for who in names}
    if floor:
        by_name["*floor*"] = [r["floor"] for r in cells]
    times = [[_ms(ms) for ms in line] for line in by_name.values()]
    if len(by_name) <= len(cells):
        rows = [
            [*(_said(r["on"][key]) for key in keys), *line] for r, line in zip(cells, zip(*times, strict=True), strict=True)
        ]
        return _markdown([*keys, *by_name], rows)
    header = [", ".join(f"{key} = {_said(r['on'][key])}" for key in keys) or "milliseconds" for r in cells]
    return _markdown(["", *header], [[name, *line] for name, line in zip(by_name, times, strict=True)])


def _targets(targets: Results) -> str:
    verdicts = {True: "hit", False: "**miss**", None: ""}
    rows = [
        [
            *(t[key] for key in ("table", "column", "against", "where", "statistic")),
            f"{t['sense']} {t['bound']:g}",
            "not measured" if t["measured"] is None else f"{t['measured']:.3g}",
            verdicts[t["hit"]],
        ]
        for t in targets
    ]
    header = ["table", "ours", "against", "where", "statistic", "target", "measured", "verdict"]
    text = "What was aimed at, and what was measured: ratios to the time of a peer or of the floor, and microseconds of tiny calls. Misses stay."
    return f"## Targets\n\n{text}\n\n{_markdown(header, rows)}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def _ms(ms: float | None) -> str:
    """Three digits, and no exponent."""
    if ms is None:
        return ""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:#.3g}" if ms >= 0.001 else f"{ms:.5f}"


def _count(size: int) -> str:
    """A power as a power."""
    power = size.bit_length() - 1
    if size == 2**power and size > 2**20:
        return f"2<sup>{power}</sup>"
    digits = len(str(size)) - 1
    return f"10<sup>{digits}</sup>" if size == 10**digits and digits > 2 else str(size)


def _said(value: Any) -> str:
    return _count(value) if isinstance(value, int) else str(value)


def main() -> None:
    from benchmarks.pictures import draw

    found = json.loads(RESULTS.read_text())
    draw(found["results"], PICTURES)
    Path(__file__).with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    main()
