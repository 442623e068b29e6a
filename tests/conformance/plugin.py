"""What the runner adds to the suite's pytest: a report of every outcome, the densify policy, and no shrinking of failures."""

from __future__ import annotations

import functools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.strategies._internal import strategies

import sparsetangent as st
from sparsetangent.algebra import dense

from .scores import function_of

_OUTCOMES: dict[str, dict[str, Any]] = {}
_KEPT = 6000  # characters of a failure: the error, the example and the end of the trace


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """After the suite's own profile: stop at the first failing example, for time; what is drawn stays the same."""
    current = settings()
    settings.register_profile(
        "conformance",
        parent=current,
        phases=(Phase.explicit, Phase.generate),
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    settings.load_profile("conformance")
    # Hypothesis also draws constants that it finds in the sources of local modules: other ones for us than for the bare backend.
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants
    st.densify_policy(os.environ.get("CONFORMANCE_POLICY", "allow"))  # type: ignore[arg-type]


def pytest_collection_finish(session: pytest.Session) -> None:
    """The policy is for the function under test: what the suite computes to draw an array or to judge a result may be dense."""
    for module in {item.module for item in session.items}:
        if module.__name__.endswith("test_manipulation_functions"):
            # It iterates an array of counts, which is no part of the standard and which tangents refuse.
            module.enumerate = lambda x, *start: enumerate(st.densify(x) if isinstance(x, st.Tangent) else x, *start)
    if os.environ.get("CONFORMANCE_POLICY") == "raise":
        from array_api_tests import array_helpers, pytest_helpers

        # What a drawn array is filtered by, as ``not xp.any(x == 0)``, is asked while it is drawn.
        strategies.FilteredStrategy.do_filtered_draw = _allowed(strategies.FilteredStrategy.do_filtered_draw)
        dense.note_densify = _unless_judging(dense.note_densify)
        for module in (pytest_helpers, array_helpers):
            for name, value in list(vars(module).items()):
                if name.startswith("assert_") and callable(value):
                    setattr(module, name, _allowed(value))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Two libraries refuse a tangent before it is asked, whatever it does: the suite mixes arrays and tangents, so they are made to
    leave it to the tangent, as every other library does: array_api_strict's operators, and torch's reads at a tangent.
    """
    if (strict := sys.modules.get("array_api_strict")) is not None:
        array = type(strict.asarray(0))
        for name in _OPERATORS:
            setattr(array, f"__{name}__", _deferring(getattr(array, f"__{name}__")))
    if (torch := sys.modules.get("torch")) is not None:
        read = torch.Tensor.__getitem__
        torch.Tensor.__getitem__ = lambda x, key: read(x, st.densify(key) if isinstance(key, st.Tangent) else key)


_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"),
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift", "irshift"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
)


def _deferring(operator: Any) -> Any:
    @functools.wraps(operator)
    def wrapped(left: Any, right: Any) -> Any:
        return NotImplemented if isinstance(right, st.Tangent) else operator(left, right)

    return wrapped


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
"""By these a test chooses and judges arrays; what it is about it computes by the function itself."""
_subject: list[str | None] = [None]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hypothesis's ``example()``, which some tests use, shuffles by the global generator."""
    random.seed(item.nodeid)
    _subject[0] = function_of(item.nodeid)


def _unless_judging(note: Any) -> Any:
    @functools.wraps(note)
    def wrapped(operation: str, *args: Any, **kwargs: Any) -> None:
        if operation not in _COMPARISONS or operation == _subject[0]:
            note(operation, *args, **kwargs)

    return wrapped


def _allowed(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with st.densify_policy("allow"):
            return function(*args, **kwargs)

    return wrapped


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    known = _OUTCOMES.setdefault(report.nodeid, {"outcome": "passed", "text": "", "seconds": 0.0})
    known["seconds"] += report.duration
    if report.outcome != "passed" and known["outcome"] == "passed":
        known["outcome"] = report.outcome
        known["text"] = str(report.longrepr)[-_KEPT:]


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(os.environ["CONFORMANCE_REPORT"]).write_text(json.dumps(_OUTCOMES, indent=1))
