"""``python -m benchmarks.pictures results.json FOLDER``: what the tables say, drawn.

The gradient of a table against its length, compact and dense; ours and the peers over the floor by number of entries; the step of an
optimizer by density; and the cost of operations that keep structure against the length of the table.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

# The same bytes for the same figures.
mpl.rcParams["svg.hashsalt"] = "sparsetangent"

__all__ = ["draw"]

Results = list[dict[str, Any]]
_FLAT = ("t + t", "t * 2.0", "coalesce", "t @ w", "abs", "sum", "t[:, :8]")  # those that fit into a picture
_OURS = {"linewidth": 2.4, "marker": "o"}
_PEERS = {"linewidth": 1.0, "linestyle": "--", "marker": "."}


def draw(results: Results, folder: Path) -> list[Path]:
    """The pictures for which there are results."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_over_the_floor(results, table, folder) for table in ("densify", "add_into", "coalesce")]
    drawn += [_length(results, folder), _crossover(results, folder), _flat(results, folder)]
    return [path for path in drawn if path is not None]


def _over_the_floor(results: Results, table: str, folder: Path) -> Path | None:
    wanted = {"V": 10**6, "d": 64, "dtype": "float32", "ids": "uniform"}
    cells = [r for r in results if r["table"] == table and wanted.items() <= r["on"].items()]
    lines: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for r in cells:
        for part in ("ours", "peers"):
            for name, ms in r[part].items():
                lines[part, name].append((r["on"]["n"], ms / r["floor"]))
    title = f"{table}: rows of 64, V = $10^6$"
    return _plot(lines, title, "entries", "time / floor", folder / f"{table}.svg")


def _length(results: Results, folder: Path) -> Path | None:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for r in results:
        if r["table"] == "length":
            for part in ("ours", "peers"):
                for name, ms in r[part].items():
                    lines[part, name].append((r["on"]["V"], ms))
    title = "A gradient of 2 x 1000 rows: read, summed, clipped"
    return _plot(lines, title, "rows of the table", "milliseconds", folder / "length.svg")


def _crossover(results: Results, folder: Path) -> Path | None:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for r in results:
        if r["table"] == "crossover":
            density = r["on"]["n"] / r["on"]["V"]
            for part in ("ours", "peers"):
                for name, ms in r[part].items():
                    lines[part, name].append((density, ms))
    return _plot(
        lines, "One step: gradient, sum of two, update of the table", "entries / rows", "milliseconds", folder / "crossover.svg"
    )


def _flat(results: Results, folder: Path) -> Path | None:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for r in results:
        if r["table"] == "flat in V" and r["on"]["call"] in _FLAT:
            lines["ours", r["on"]["call"]].append((r["on"]["V"], r["ours"]["numpy"]))
    return _plot(
        lines,
        "1000 rows of 64: the cost does not grow with the table",
        "rows of the table",
        "milliseconds",
        folder / "flat.svg",
    )


def _plot(lines: dict[tuple[str, str], Any], title: str, x: str, y: str, path: Path) -> Path | None:
    if not lines:
        return None
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for (part, name), points in lines.items():
        along, up = zip(*sorted(points), strict=True)
        axes.plot(along, up, label=name, **(_OURS if part == "ours" else _PEERS))  # type: ignore[arg-type]
    axes.set(xscale="log", yscale="log", title=title, xlabel=x, ylabel=y)
    beside = {"bbox_to_anchor": (1.01, 1), "loc": "upper left", "fontsize": 9}
    axes.legend(frameon=False, **(beside if len(lines) > 2 else {"loc": "best"}))
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    print(*draw(json.loads(source.read_text())["results"], target), sep="\n")
