"""Imports run downwards only, backends are imported when met, and files stay small."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparsetangent
from sparsetangent import registry

ROOT = Path(sparsetangent.__file__).parent
FLOORS = {
    "kernels": 0,
    **dict.fromkeys(("backend", "dtypes", "registry", "policy"), 1),
    **dict.fromkeys(("config", "types"), 2),
    "algebra": 3,
    "protocols": 4,
    **dict.fromkeys(("norms", "tree", "accumulate", "projection", "steps", "update"), 5),
    "rules": 6,
    **dict.fromkeys(("testing", "interop"), 7),
}
FILES = sorted(ROOT.rglob("*.py"))


def imported(file):
    """The modules of the package that a file imports, as paths below the package, with the line."""
    here = ("sparsetangent", *file.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            for found in [module] if node.module else [(*module, alias.name) for alias in node.names]:
                if found[:1] == ("sparsetangent",):
                    yield found[1:], node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_run_downwards(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    here = FLOORS.get(parts[0])
    if here is not None:
        above = [(m, line) for m, line in imported(file) if m and FLOORS.get(m[0], 0) > here]
        assert not above, f"{file} imports from a higher floor: {above}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_small(file):
    assert len(file.read_text().splitlines()) <= 400


def test_types_never_import_the_algebra():
    for file in (ROOT / "types").glob("*.py"):
        assert not any(m[:1] == ("algebra",) for m, _ in imported(file))


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_imports_no_backend_and_no_scipy():
    code = "import sys, sparsetangent; print(*[m for m in ('torch', 'jax', 'cupy', 'scipy', 'numba', 'optree', 'hypothesis') if m in sys.modules])"
    assert run(code) == []


def test_importing_imports_nothing_slow_beyond_numpy():
    """What made up four fifths of the time once; `python -m benchmarks.import_time` measures."""
    code = (
        "import sys, numpy; before = set(sys.modules); import sparsetangent; new = set(sys.modules) - before;"
        "print(*[m for m in ('array_api_compat.numpy', 'importlib.metadata', 'numpy.f2py', 'numpy.typing', 'numpy.random') if m in new])"
    )
    assert run(code) == []


def test_an_operation_on_numpy_imports_no_other_backend():
    code = (
        "import sys, numpy as np, sparsetangent as st;"
        "t = st.IndexedSlices(np.array([0, 1]), np.zeros((2, 3)), (4, 3)); (t + t * 2).densify(); repr(t);"
        "print(*[m for m in ('torch', 'jax', 'cupy') if m in sys.modules])"
    )
    assert run(code) == []


def test_every_name_in_the_zero_table_is_implemented():
    assert set(registry.ZERO_TABLE) <= registry.names()


def test_the_floor_plan_names_every_file():
    """With its floor, and once."""
    plan = {}
    for line in (Path(__file__).parents[1] / "docs" / "architecture.md").read_text().splitlines():
        if row := re.match(r"\| (\d) \| (`.*`) \|", line):
            folder = ""
            for name in re.findall(r"`([^`]*)`", row[2].split("|")[0]):
                folder = name.rpartition("/")[0] if "/" in name else folder
                path = f"{folder}/{Path(name).name}".removeprefix("/")
                assert path not in plan, f"{path} stands twice"
                plan[path] = int(row[1])
    for file in FILES:
        path = file.relative_to(ROOT)
        if path.name != "__init__.py":
            floor = FLOORS.get(path.with_suffix("").parts[0], 2)
            assert plan.pop(path.as_posix(), None) == floor, f"{path} is not in the floor plan on floor {floor}"
    assert set(plan) == {"kernels/cuda/*.cu"}
