"""Checks that need environments of their own: the oldest and the newest dependencies, what is published, types for a user.

``make matrix``, ``make dist`` and ``make types`` run them; each session makes a fresh virtual environment below ``.nox``.
"""

import hashlib
import re
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["dist", "types", "matrix"]

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The lower bounds exactly, so that what pyproject.toml promises is what is tested.
DEPENDENCIES = {
    "oldest": [bound.replace(">=", "==") for bound in PROJECT["dependencies"]],
    "newest": [bound.partition(">=")[0] for bound in PROJECT["dependencies"]],
}
TOOLS = ("array-api-strict", "hypothesis", "ml-dtypes", "pytest", "pytest-xdist")
# What the suite reads beside itself. The package is not among it: the installed one is tested.
BESIDE = (
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
)
# Tests of the repository's own tools and of CUDA sources, which no dependency changes.
NOT_CORE = (
    "conformance",
    "cuda_emulator",
    "kernels/cuda",
    "mutation",
    "test_benchmarks.py",
    "test_comparison.py",
    "test_examples.py",
    "test_mutation.py",
)


@nox.session
@nox.parametrize("dependencies", ["oldest", "newest"])
def matrix(session: nox.Session, dependencies: str) -> None:
    """The core suite on NumPy and array_api_strict, from the installed wheel."""
    session.install(".", *DEPENDENCIES[dependencies], *TOOLS)
    session.run("python", "-m", "pip", "list")
    folder = Path(session.create_tmp()).resolve() / "suite"
    shutil.rmtree(folder, ignore_errors=True)
    for name in BESIDE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    session.chdir(folder)
    session.run("python", "-c", "import sparsetangent as st; assert 'site-packages' in st.__file__; st.show_config()")
    left_out = [f"--ignore=tests/{name}" for name in NOT_CORE]
    session.run("python", "-m", "pytest", "-q", "-n", "2", "--xp=numpy,array_api_strict", *left_out, "tests", *session.posargs)


@nox.session
def dist(session: nox.Session) -> None:
    """Build what is published, look into it, and run it where nothing else is installed."""
    session.install("build", "twine")
    folder, again = ROOT / "dist", Path(session.create_tmp()).resolve() / "again"
    for old in (folder, again):
        shutil.rmtree(old, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder), str(ROOT))  # the wheel is built from the sdist
    session.run("python", "-m", "build", "--wheel", "--outdir", str(again), str(ROOT))
    session.run("twine", "check", "--strict", *map(str, folder.iterdir()))
    (wheel,), (direct,), (sdist,) = folder.glob("*.whl"), again.glob("*.whl"), folder.glob("*.tar.gz")
    found = _contents(wheel)
    if found != _contents(direct):
        session.error("the wheel from the sdist differs from the wheel from the tree")
    missing = [name for name in _package() if found.get(name) != hashlib.sha256((ROOT / name).read_bytes()).hexdigest()]
    if missing:
        session.error(f"not in the wheel: {missing}")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if missing := [name for name in (*_package(), "README.md", "LICENSE", "tests/conftest.py") if name not in held]:
        session.error(f"not in the sdist: {missing}")
    session.log(f"{wheel.name}: {len(found)} files; {sdist.name}: {len(held)}")

    empty = Path(session.create_tmp()).resolve() / "empty"
    python = str(empty / "bin" / "python")
    session.run("python", "-m", "venv", "--clear", str(empty))
    session.run(python, "-m", "pip", "install", "-q", str(wheel), external=True)
    session.run(python, "-m", "pip", "check", external=True)
    session.chdir(empty)
    session.run(python, "-m", "sparsetangent", external=True)
    for name, code in _quickstart():
        if not re.search(r"^(?:import|from) (?!numpy|sparsetangent)", code, re.MULTILINE):
            session.log(name)
            session.run(python, "-W", "error", "-c", code, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """pyright on the quickstart, with the installed package, as an editor shows it. Of libraries that are not installed nothing is asked."""
    session.install(".", "pyright")
    folder = Path(session.create_tmp()).resolve()
    for old in folder.glob("*.py"):
        old.unlink()
    for name, code in _quickstart():
        (folder / name).write_text(f"# pyright: reportMissingImports=false\n{code}")
    session.chdir(folder)
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"), ".")


def _quickstart() -> list[tuple[str, str]]:
    """The blocks of Python of the README and of the quickstart, under file names."""
    pages = [page for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md") if page.exists()]
    blocks = [(page.stem, code) for page in pages for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    return [(f"{stem}_{i}.py", code) for i, (stem, code) in enumerate(blocks)]


def _package() -> list[str]:
    """Every file of the package: modules, py.typed, the CUDA sources."""
    files = [file for file in (ROOT / "sparsetangent").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return [file.relative_to(ROOT).as_posix() for file in files]


def _contents(wheel: Path) -> dict[str, str]:
    """The files of a wheel and their digests."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
