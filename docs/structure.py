"""Writes structure.md, "what keeps structure", from the table of `sparsetangent.registry`: ``python docs/structure.py``."""

from pathlib import Path

from sparsetangent.registry import EXTENSIONS, MAIN, TABLE, Structure

HEAD = """# What keeps structure

Every function of the array API standard (2025.12) takes tangents, through `sparsetangent.namespace(xp)` or `t.__array_namespace__()`, and
each is in one of the classes below. *Compact* means that nothing of the dense shape is made; the suite runs one call of every such
function on 2**50 rows. A result with a stored axis left is a tangent, one without is an array. Where there is no compact answer the dense
one is made under `densify_policy`. A `Fill`, which stores nothing but its number, is dense where a function isn't the same at every place.

This page is written by `python docs/structure.py` from `sparsetangent.registry.TABLE`.
"""


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *(_section(structure) for structure in Structure)])


def _section(structure: Structure) -> str:
    names = sorted(_written(name) for name, found in TABLE.items() if found is structure)
    text = structure.value[0].upper() + structure.value[1:]
    return f"## {structure.name.lower()}\n\n{text}.\n\n{', '.join(f'`{name}`' for name in names)}\n"


def _written(name: str) -> str:
    if name in MAIN:
        return name
    return next(f"{extension}.{name}" for extension, found in EXTENSIONS.items() if name in found)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
