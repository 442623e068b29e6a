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


_EITHER_ZERO = "(x1_i is +0 or x1_i == -0) and (x2_i is +0 or x2_i == -0)"
_INFINITE_LEFT = "(x1_i is +infinity or x1_i == -infinity) and (x2_i is +0 or x2_i == -0)"
_INFINITE_RIGHT = "(x1_i is +0 or x1_i == -0) and (x2_i is +infinity or x2_i == -infinity)"


def _cases(names: dict[str, tuple[str, ...]], *cases: str) -> tuple[str, ...]:
    """The special cases of functions, by the test that runs them."""
    return tuple(f"{test}[{name}({case})" for test, group in names.items() for name in group for case in cases)


_MULTIPLY = {"test_binary": ("multiply", "__mul__"), "test_iop": ("__imul__",)}
_DIVIDE = {"test_binary": ("divide", "__truediv__"), "test_iop": ("__itruediv__",)}
_ADD = {"test_binary": ("add", "__add__"), "test_iop": ("__iadd__",)}

DECLARED: tuple[Exemption, ...] = (
    Exemption(
        "strong zeros: what is not stored stays 0 when it is multiplied by inf or nan, or divided by 0; to look for these in the "
        "other operand would cost a pass over the dense shape",
        (
            *_cases(_MULTIPLY, "x1_i is NaN or x2_i is NaN", _INFINITE_LEFT, _INFINITE_RIGHT),
            *_cases(_DIVIDE, _EITHER_ZERO),
        ),
        stored=True,
    ),
    Exemption(
        "signed zeros: what is not stored is +0, whatever it is multiplied with or divided by; it is not added to a stored -0; and a sum begins at +0, "
        "so that two summands that are -0 after a division make +0",
        (
            *_cases(_DIVIDE, "x1_i is +0 and x2_i < 0", "isfinite(x1_i) and x1_i < 0 and x2_i is +infinity"),
            *_cases(_ADD, "x1_i is -0 and x2_i is +0", "x1_i is +0 and x2_i is -0"),
            "test_outer",
        ),
        stored=True,
    ),
    Exemption(
        "a tangent is immutable and holds no dense array: nothing is assigned into it, nothing shares the memory of what it stands for",
        ("test_setitem", "test_setitem_masking", "test_asarray_arrays", "test_dunder_dlpack", "test_from_dlpack"),
        message="is immutable|no dense array to share",
    ),
)
