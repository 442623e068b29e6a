"""Sphinx: ``make docs``. Nothing is loaded from elsewhere, neither when the pages are built nor when they are read."""

from typing import Any

import sparsetangent

project = "sparsetangent"
author = "The sparsetangent developers"
copyright = f"2026, {author}"
version = release = sparsetangent.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "sparsetangent"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sphinx = False
html_copy_source = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# Docstrings say the types in words; annotations would say them twice.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["cupy", "cupyx", "tensorflow"]
autosummary_generate = False  # the tables only; the entries stand on the same page
numpydoc_show_class_members = False
default_role = "py:obj"


def _link_or_code(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """What docstrings put into single quotes: a public name of the package is linked, anything else is code."""
    if node.get("reftype") != "obj":
        return None
    found = None
    for prefix in ("sparsetangent.", "sparsetangent.rules.", "sparsetangent.steps."):
        found = found or env.get_domain("py").resolve_xref(
            env, node["refdoc"], app.builder, "obj", prefix + node["reftarget"], node, shown
        )
    return found or shown


def setup(app: Any) -> None:
    app.connect("missing-reference", _link_or_code)
