"""What the rules of promotion and accumulation need to know of a dtype, the same on every backend."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Literal, NamedTuple

from .backend import Backend
from .kernels.base import DType

__all__ = ["DTypeFacts", "as_dtype", "cast_is_linear", "facts", "same_kind"]

Kind = Literal["bool", "signed", "unsigned", "real", "complex", "other"]

_STANDARD_KINDS: tuple[tuple[str, Kind], ...] = (
    ("bool", "bool"),
    ("signed integer", "signed"),
    ("unsigned integer", "unsigned"),
    ("real floating", "real"),
    ("complex floating", "complex"),
)
_ORDER: tuple[Kind, ...] = ("bool", "unsigned", "signed", "real", "complex")


@lru_cache(maxsize=1024)
def as_dtype(backend: Backend, dtype: Hashable) -> DType:
    """What arrays of `backend` made with `dtype` report: NumPy and JAX take scalar types as well, and `bool` is Python's."""
    return backend.xp.zeros((0,), dtype=backend.xp.bool if dtype is bool else dtype).dtype


class DTypeFacts(NamedTuple):
    """Kind and width of a dtype."""

    kind: Kind
    itemsize: int

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")


@lru_cache(maxsize=1024)
def facts(backend: Backend, dtype: DType) -> DTypeFacts:
    """Kind and width of `dtype`, a dtype of `backend`."""
    xp, dtype = backend.xp, as_dtype(backend, dtype)
    kind: Kind = "real"
    if str(dtype) != "bfloat16":  # the extension type of NumPy, which isdtype refuses
        kind = next((ours for theirs, ours in _STANDARD_KINDS if xp.isdtype(dtype, theirs)), "other")
    width = getattr(dtype, "itemsize", None) or xp.empty((1,), dtype=dtype).__array__().dtype.itemsize
    return DTypeFacts(kind, int(width))


def same_kind(backend: Backend, source: DType, target: DType) -> bool:
    """Whether NumPy's same-kind rule lets `source` be added into `target`: never from float to integer or complex to real."""
    a, b = facts(backend, source).kind, facts(backend, target).kind
    return a == b or ("other" not in (a, b) and _ORDER.index(a) < _ORDER.index(b))


@lru_cache(maxsize=4096)
def cast_is_linear(backend: Backend, source: DType, target: DType) -> bool:
    """Whether casting summands equals casting their sum.

    Wrapping makes it true of integers only when the cast narrows (200 + 100 is 44 in uint8, and stays 44 when the sum is
    widened), the *or* of bools makes it false of bools, and rounding is the only difference between floats when the cast widens.
    """
    if source == target:
        return True
    a, b = facts(backend, source), facts(backend, target)
    if a.is_integer and b.is_integer:
        return b.itemsize <= a.itemsize
    if a.kind == "real" and b.kind in ("real", "complex"):
        return b.itemsize >= a.itemsize * (2 if b.kind == "complex" else 1)
    if a.kind == "complex" and b.kind in ("real", "complex"):
        return b.itemsize >= a.itemsize // (2 if b.kind == "real" else 1)
    return False
