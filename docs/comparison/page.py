"""Writes the measured part of comparison.md from results.json: ``python docs/comparison/page.py``."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "comparison.md"
START, END = "<!-- measured: written by docs/comparison/page.py -->", "<!-- end of what is measured -->"
SCRIPTS = {
    "JAX": "jax_bcoo.py",
    "NumPy": "numpy_add_at.py",
    "PyData sparse": "pydata_sparse.py",
    "PyTorch": "torch_sparse.py",
    "SciPy": "scipy_sparse.py",
    "TensorFlow": "tensorflow_slices.py",
}
VERDICTS = ("wrong", "crashes", "more memory", "refuses", "right")


def page(text: str, results: dict[str, Any]) -> str:
    """The page with its measured part written anew."""
    before, rest = text.split(START)
    return before + START + "\n\n" + measured(results) + "\n" + END + rest.split(END)[1]


def measured(results: dict[str, Any]) -> str:
    """The summary, and a section a system."""
    return "\n".join([_summary(results), *(_section(system, found) for system, found in results.items())])


def _summary(results: dict[str, Any]) -> str:
    rows = []
    for system, found in results.items():
        counts = [sum(case["verdict"] == v for case in found["cases"]) for v in VERDICTS]
        rows.append([f"[{system}](#{_anchor(system)})", _versions(found["versions"]), *map(str, counts)])
    return _table(["system", "versions", "wrong answer", "process ended", "more memory", "refused", "right"], rows)


def _section(system: str, found: dict[str, Any]) -> str:
    cases = found["cases"]
    wrong = [_columns(c, c["gave"], c["truth"]) for c in cases if c["verdict"] in ("wrong", "crashes")]
    memory = [_columns(c, c["gave"], c["ours"]) for c in cases if c["verdict"] == "more memory"]
    refused = [_columns(c, c["gave"]) for c in cases if c["verdict"] == "refuses"]
    right = [c["title"] for c in cases if c["verdict"] == "right"]
    parts = [
        f"({_anchor(system)})=\n\n## {system}\n",
        f"By [{SCRIPTS[system]}](comparison/{SCRIPTS[system]}), {_versions(found['versions'])}.\n",
    ]
    if wrong:
        parts += ["Wrong answers:\n", _table(["case, and what was run", "it gave", "dense truth, and ours", "remark"], wrong)]
    if memory:
        parts += [
            "Right, but with more memory:\n",
            _table(["case, and what was run", "it holds", "ours holds", "remark"], memory),
        ]
    if refused:
        parts += [
            "Refused, where ours gives the dense truth:\n",
            _table(["case, and what was run", "raised", "remark"], refused),
        ]
    parts.append(f"Right in both: {'; '.join(right)}.\n")
    return "\n".join(parts)


def _columns(case: dict[str, str], *results: str) -> list[str]:
    return [f"{case['title']}<br>`{case['run']}`", *(f"`{x}`" for x in results), case["note"]]


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {found}" for name, found in versions.items() if name != "sparsetangent")


def _anchor(system: str) -> str:
    return "measured-" + system.lower().replace(" ", "-")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads((HERE / "results.json").read_text())))
