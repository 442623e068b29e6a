"""The code in the documents runs."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import sparsetangent

ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(code, id=f"{file.relative_to(ROOT)}-{i}")
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL))
]
OPTIONAL = ("autograd", "jax", "safetensors", "sparse", "torch")


@pytest.mark.parametrize("code", BLOCKS)
def test_code_block(code):
    try:
        exec(compile(code, "block", "exec"), {})
    except ModuleNotFoundError as missing:
        if missing.name not in OPTIONAL:
            raise
        pytest.skip(f"{missing.name} is not installed")


def test_links_between_documents_lead_somewhere():
    for file in [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        for target in re.findall(r"\]\(([^)#]+)\)", file.read_text()):
            assert target.startswith("https://") or (file.parent / target).exists(), f"{file}: {target}"


def test_the_page_of_what_keeps_structure_is_as_generated():
    script = runpy.run_path(str(ROOT / "docs" / "structure.py"))
    assert (ROOT / "docs" / "structure.md").read_text() == script["page"](), "run: python docs/structure.py"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert sparsetangent.__version__ == project["version"] == cited[1]
