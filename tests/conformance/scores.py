"""The three scores of a run: failures beyond the backend's own, passed of collected, and how much keeps structure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from sparsetangent.registry import TABLE, Structure

from .exceptions import Exemption

__all__ = ["Outcomes", "Scores", "can_keep", "function_of"]

_NEVER = (Structure.DENSE, Structure.LIBRARY, Structure.INSPECTION)
_METHODS = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_invert",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "neg": "negative",
    "pos": "positive",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}

Outcomes = dict[str, dict[str, Any]]
"""By test id: its outcome ("passed", "failed", "skipped"), the text of its failure, its seconds."""


def function_of(test: str) -> str | None:
    """The function of the standard that a test is about, by its name or by the case in brackets; None for another subject."""
    name = (
        test.rpartition("::")[2] if "[" not in test else test[: test.index("[")].rpartition("::")[2] + test[test.index("[") :]
    )
    subject, _, case = name.removeprefix("test_").partition("[")
    first = re.split(r"[(\]]", case)[0]
    inner = first.strip("_").removeprefix("i") if first.startswith("__i") and first != "__invert__" else first.strip("_")
    for candidate in (inner, _METHODS.get(inner), subject, subject.removeprefix("linalg_")):
        if candidate in TABLE:
            return candidate
    return None


def can_keep(test: str) -> bool:
    """Whether the table says that the function of a test can keep structure; a signature or a name keeps nothing."""
    name = function_of(test)
    return name is not None and "signature" not in test and "has_names" not in test and TABLE[name] not in _NEVER


def _passed(outcomes: Outcomes) -> set[str]:
    return {test for test, found in outcomes.items() if found["outcome"] == "passed"}


class Scores(NamedTuple):
    """The outcomes of the runs of one backend."""

    bare: Outcomes
    """The backend's own namespace."""

    ours: Outcomes
    """Tangents, dense results allowed."""

    raising: Outcomes
    """Tangents under ``densify_policy("raise")``."""

    stored: Outcomes
    """Those failing tests that an exemption may excuse, with every element stored."""

    @property
    def beyond(self) -> list[str]:
        """The tests that fail on tangents and not on the backend's arrays; a test that is not there or skipped fails too."""
        return sorted(_passed(self.bare) - _passed(self.ours))

    def _text(self, test: str) -> str:
        return str(self.ours.get(test, {}).get("text", "not collected"))

    def excused_by(self, test: str, declared: Sequence[Exemption]) -> list[Exemption]:
        """The exemptions that excuse a failing test."""
        passes_stored = test in _passed(self.stored)
        return [e for e in declared if e.excuses(test, self._text(test), passes_stored)]

    def unexcused(self, declared: Sequence[Exemption]) -> list[str]:
        """The tests that fail beyond the backend's own for no declared reason."""
        return [test for test in self.beyond if not self.excused_by(test, declared)]

    def counted(self, declared: Sequence[Exemption]) -> dict[str, int]:
        """The scores as numbers: of tests, and of the functions that can keep structure by the table."""
        ours, kept = _passed(self.ours), _passed(self.ours) & _passed(self.raising)
        able, held = {t for t in ours if can_keep(t)}, {t for t in kept if can_keep(t)}
        by_name = {name for t in able if (name := function_of(t))}
        whole = [n for n in by_name if all(t in held for t in able if function_of(t) == n and "special_cases" not in t)]
        failing = len(self.unexcused(declared))
        return {
            "beyond": failing,
            "excused": len(self.beyond) - failing,
            "passed": len(ours),
            "collected": len(self.ours),
            "bare_passed": len(_passed(self.bare)),
            "bare_collected": len(self.bare),
            "kept": len(kept),
            "kept_of_able": len(held),
            "able": len(able),
            "functions_kept": len(whole),
            "functions_able": len(by_name),
        }

    def described(self, declared: Sequence[Exemption], *, partial: bool = False) -> str:
        """The scores as text; after a part of the suite nothing is said of exemptions without use."""
        beyond, failing, n = self.beyond, self.unexcused(declared), self.counted(declared)

        def share(part: str, of: str) -> str:
            return f"{n[part]} / {n[of]} = {n[part] / max(1, n[of]):.3f}"

        lines = [
            f"failures beyond the backend's own: {n['beyond']}, and {n['excused']} excused",
            f"passed / collected: {n['passed']} / {n['collected']}, the bare backend {n['bare_passed']} / {n['bare_collected']}",
            f'structure, passed under densify_policy("raise") / passed: {share("kept", "passed")}',
            f"  of tests of functions that can keep structure by the table: {share('kept_of_able', 'able')}",
            f"  of these functions, those that pass all their own tests so: {share('functions_kept', 'functions_able')}",
        ]
        lines += [f"FAILED {test}\n    {last_error(self._text(test))}" for test in failing]
        for exemption in declared:
            excused = [t for t in beyond if exemption in self.excused_by(t, declared)]
            unused = [t for t in exemption.tests if not any(exemption._replace(tests=(t,)).covers(x) for x in excused)]
            lines.append(f"excused {len(excused)}: {exemption.reason}")
            if unused and not partial:
                lines.append(f"    excused nothing: {', '.join(unused)}")
        return "\n".join(lines)


def last_error(text: str) -> str:
    """The first line of a failure's error."""
    errors = re.findall(r"^E   +(\S.*)$", text, re.MULTILINE)
    return errors[0][:200] if errors else text.strip()[-200:]
