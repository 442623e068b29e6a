"""When an operation has no compact answer: warn, raise or allow, and how much."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Literal, NamedTuple

__all__ = ["DensifyError", "DensifyWarning", "densify_policy", "note_densify"]


class DensifyWarning(RuntimeWarning):
    """An operation had no compact answer, so the dense array was made.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     dense = np.cos(st.OneHot(np.array(1), 2))
    >>> caught[0].category.__name__
    'DensifyWarning'
    """


class DensifyError(RuntimeError):
    """An operation had no compact answer, and the policy forbids the dense array.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> with st.densify_policy("raise"):
    ...     np.cos(st.OneHot(np.array(1), 2))
    Traceback (most recent call last):
        ...
    sparsetangent.policy.DensifyError: cos has no compact answer for a tangent of shape (2,); the dense array takes 16 bytes
    """


class _Policy(NamedTuple):
    mode: Literal["warn", "raise", "allow"]
    max_bytes: int


_DEFAULT = _Policy("warn", 2**30)
_POLICY: ContextVar[_Policy] = ContextVar("sparsetangent_densify_policy", default=_DEFAULT)


class densify_policy:
    """Set what happens when an operation has no compact answer; in a ``with`` block, until its end.

    The setting belongs to the current context (thread or asyncio task).

    Parameters
    ----------
    mode : {"warn", "raise", "allow"}
        Make the dense array with a `DensifyWarning` (the default at start), raise `DensifyError`, or make it silently.
    max_bytes : int
        In mode ``"warn"``, a dense array of more bytes raises `DensifyError` instead.

    Raises
    ------
    ValueError
        If `mode` is another, or `max_bytes` is negative.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([0]), np.array([1.0]), (2,))
    >>> with st.densify_policy("allow"):
    ...     (t + 1.0).tolist()
    [2.0, 1.0]
    >>> with st.densify_policy("raise"):
    ...     t + 1.0
    Traceback (most recent call last):
        ...
    sparsetangent.policy.DensifyError: add has no compact answer for a tangent of shape (2,); the dense array takes 16 bytes
    """

    _token: Token[_Policy]

    def __init__(self, mode: Literal["warn", "raise", "allow"], *, max_bytes: int = 2**30) -> None:
        if mode not in ("warn", "raise", "allow"):
            raise ValueError(f'mode must be "warn", "raise" or "allow", not {mode!r}')
        if max_bytes < 0:
            raise ValueError(f"max_bytes must be at least 0, not {max_bytes}")
        self._token = _POLICY.set(_Policy(mode, max_bytes))

    def __enter__(self) -> densify_policy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _POLICY.reset(self._token)


def note_densify(operation: str, shape: tuple[int, ...], nbytes: int, *, traced: bool) -> None:
    """Apply the policy to an implicit densification that is about to happen.

    While a compiler traces (`traced`) nothing is warned of: the warning would come once a compilation, not once a call.
    """
    policy = _POLICY.get()
    if policy.mode == "allow":
        return
    text = f"{operation} has no compact answer for a tangent of shape {shape}; the dense array takes {nbytes} bytes"
    if policy.mode == "raise":
        raise DensifyError(text)
    if nbytes > policy.max_bytes:
        raise DensifyError(f"{text}, more than the {policy.max_bytes} that densify_policy allows")
    if not traced:
        warnings.warn(text, DensifyWarning, stacklevel=_outside_the_package())


def _outside_the_package() -> int:
    """The stack level of the caller's own line, however deep inside the package the warning arises."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("sparsetangent."):
        level, frame = level + 1, frame.f_back
    return level
