"""The code in the documents runs, what it prints is what the page says, and links lead somewhere."""

import contextlib
import importlib
import io
import json
import re
import runpy
import sys
import tomllib
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import sparsetangent
from sparsetangent.registry import TABLE

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]
TAGS = {"": "runs", "cuda": "runs where there is a CUDA device: make test-gpu", "no-run": "does not run; the page says why"}

OPTIONAL = ("autograd", "jax", "safetensors", "sparse", "torch")


class Block(NamedTuple):
    """A block of Python in a page, with the tag after the language, and the line on which its code begins."""

    code: str
    tag: str
    line: int


def blocks_of(text):
    for found in re.finditer(r"^```python[ ]*([\w-]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield Block(found[2], found[1], text[: found.start(2)].count("\n"))


def run(path, blocks, monkeypatch):
    """The blocks of a page one after the other, as a reader who types them would. ``print(...)  # text``, the text perhaps on a line of its own,
    prints this text."""
    module = ModuleType("document")
    monkeypatch.setitem(sys.modules, "document", module)  # pickle looks for classes there
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, str(path), "exec"), vars(module))
        claims = re.findall(r"^ *print\(.*\)(?:  |\n *)# (.*)$", block.code, re.MULTILINE)
        if claims:
            wanted, got = "\n".join(claims) + "\n", printed.getvalue()
            if not OutputChecker().check_output(wanted, got, ELLIPSIS):
                raise AssertionError(f"{path}:{block.line}: prints\n{got}not\n{wanted}")


def pages_with(tag):
    blocks = {path: [block for block in blocks_of(path.read_text()) if block.tag == tag] for path in PAGES}
    return [pytest.param(path, found, id=str(path.relative_to(ROOT))) for path, found in blocks.items() if found]


@pytest.mark.parametrize(("path", "blocks"), pages_with(""))
def test_the_code_of_a_page_runs(path, blocks, monkeypatch):
    try:
        run(path, blocks, monkeypatch)
    except ModuleNotFoundError as missing:
        if missing.name not in OPTIONAL:
            raise
        pytest.skip(f"{missing.name} is not installed")


@pytest.mark.gpu
@pytest.mark.parametrize(("path", "blocks"), pages_with("cuda"))
def test_the_code_of_a_page_for_cuda_runs(path, blocks, monkeypatch):
    run(path, blocks, monkeypatch)


def test_no_code_is_skipped_in_silence():
    """Every block of Python has a tag that we know; those that do not run here are counted."""
    tags = {
        str(path.relative_to(ROOT)): [b.tag for b in found if b.tag]
        for path in PAGES
        if (found := list(blocks_of(path.read_text()))) and any(b.tag for b in found)
    }
    assert {tag for found in tags.values() for tag in found} <= set(TAGS)
    assert {page: len(found) for page, found in tags.items()} == {"docs/guides/cupy.md": 3}
    for path in PAGES:
        text = path.read_text()
        assert len(list(blocks_of(text))) == text.count("```python") + text.count("```py\n"), path


def test_what_a_block_prints_is_compared(monkeypatch):
    (block,) = blocks_of("A\n\n```python\nprint(1 + 1)  # 3\n```\n")
    assert block == ("print(1 + 1)  # 3\n", "", 3)
    run("page", [block._replace(code="if True:\n    print(5)\n    # 5\nprint(6)  # 6\n# 7\n")], monkeypatch)
    with pytest.raises(AssertionError, match="page:3: prints\n2\nnot\n3"):
        run("page", [block], monkeypatch)
    run("page", [block._replace(code="print(1 + 1, 5)  # 2 ...\n")], monkeypatch)


def test_links_between_documents_lead_somewhere():
    for path in PAGES:
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            assert target.startswith("https://") or (path.parent / target).exists(), f"{path}: {target}"


def test_the_page_of_what_keeps_structure_is_as_generated():
    script = runpy.run_path(str(DOCS / "structure.py"))
    assert (DOCS / "structure.md").read_text() == script["page"](), "run: python docs/structure.py"
    assert all(f"{name}`" in script["page"]() for name in TABLE)


def test_the_page_of_benchmarks_is_as_generated():
    script = runpy.run_path(str(DOCS / "benchmarks.py"))
    page = script["page"](json.loads((ROOT / "benchmarks" / "results.json").read_text()))
    assert (DOCS / "benchmarks.md").read_text() == page, "run: python docs/benchmarks.py"
    assert "length.svg" in page


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert sparsetangent.__version__ == project["version"] == cited[1]


# The API reference

NEIGHBOURS = "autograd jax memmap pydata safetensors scipy tensorflow torch torch_distributed"
PARTS = "conversion coordinates jax_lookups torch_clip torch_coo torch_split wire"
KIT = "laws operations oracle plugin standard strategies"
PUBLIC = [
    *("sparsetangent", "sparsetangent.rules", "sparsetangent.steps", "sparsetangent.tree", "sparsetangent.testing"),
    *(f"sparsetangent.testing.{name}" for name in KIT.split()),
    *("sparsetangent.interop", *(f"sparsetangent.interop.{name}" for name in NEIGHBOURS.split())),
    *("sparsetangent.kernels.base", "sparsetangent.registry", "sparsetangent.types.pytree"),
]


def test_the_reference_names_everything_public():
    """Each name of each `__all__` has an entry, under its module or the module in which users find it."""
    for library in OPTIONAL:
        pytest.importorskip(library)
    files = {file.stem for file in (ROOT / "sparsetangent" / "interop").glob("*.py")} - {"__init__"}
    assert files == {*NEIGHBOURS.split(), *PARTS.split()}
    entries = list(_entries())
    assert len(entries) > 150
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, ModuleType):
                assert any(entry is thing for entry in entries), f"docs/api has no entry for {module.__name__}.{name}"


def _entries():
    """What the pages of the reference describe."""
    for page in sorted((DOCS / "api").glob("*.md")):
        module = None
        for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: (\S+)$", page.read_text(), re.MULTILINE):
            if kind in ("currentmodule", "automodule"):
                module = importlib.import_module(name)
            if kind != "currentmodule":
                yield module if kind == "automodule" else getattr(module, name)
