"""The three scores of a run: failures beyond the backend's own, passed of collected, and how much keeps structure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .exceptions import Exemption

__all__ = ["Outcomes", "Scores"]

Outcomes = dict[str, dict[str, Any]]
"""By test id: its outcome ("passed", "failed", "skipped"), the text of its failure, its seconds."""


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

    def described(self, declared: Sequence[Exemption], *, partial: bool = False) -> str:
        """The scores as text; after a part of the suite nothing is said of exemptions without use."""
        beyond, failing = self.beyond, self.unexcused(declared)
        ours, bare, kept = _passed(self.ours), _passed(self.bare), _passed(self.ours) & _passed(self.raising)
        lines = [
            f"failures beyond the backend's own: {len(failing)}, and {len(beyond) - len(failing)} excused",
            f"passed / collected: {len(ours)} / {len(self.ours)}, the bare backend {len(bare)} / {len(self.bare)}",
            f'structure, passed under densify_policy("raise") / passed: {len(kept)} / {len(ours)} = {len(kept) / max(1, len(ours)):.3f}',
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
