"""What the official suite asks and a tangent does not do, with the reason: the only failures that are excused.

An exemption excuses a failure of a test only where it is shown to be the cause: the message matches, or (`stored`) the test passes
when every element is stored, once, so that no zero is implicit. The runner names the exemptions that excused nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["DECLARED", "Exemption"]


class Exemption(NamedTuple):
    """Tests whose failure has one declared reason."""

    reason: str
    tests: tuple[str, ...]
    """Parts of test ids: the test's name, or the name and the beginning of its case in brackets."""

    message: str = ""
    """A pattern that the failure's text must hold."""

    stored: bool = False
    """The tests must pass when every element is stored."""

    def covers(self, test: str) -> bool:
        """Whether a test (its id in the suite) is one of those named."""
        name = test.rpartition("::")[2]
        return any(name == t or name.startswith(f"{t}[") or ("[" in t and name.startswith(t)) for t in self.tests)

    def excuses(self, test: str, text: str, passes_stored: bool) -> bool:
        """Whether a failure with this text is excused."""
        return self.covers(test) and bool(re.search(self.message, text)) and (passes_stored or not self.stored)


DECLARED: tuple[Exemption, ...] = ()
