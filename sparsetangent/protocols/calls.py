"""How a library's function is called, as a line of text: ``"standard: operands | arguments"``, with ``theirs>standard`` for renamed ones."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["read_call"]


@lru_cache
def read_call(text: str) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The standard's name, the library's names of the operands, and of the other arguments with the standard's.

    Examples
    --------
    >>> read_call("var: a | axis ddof>correction")
    ('var', ('a',), {'axis': 'axis', 'ddof': 'correction'})
    >>> read_call("where: condition x y |")
    ('where', ('condition', 'x', 'y'), {})
    """
    standard, _, call = text.partition(":")
    operands, _, arguments = call.partition("|")
    pairs = (argument.partition(">") for argument in arguments.split())
    return standard, tuple(operands.split()), {theirs: ours or theirs for theirs, _, ours in pairs}
