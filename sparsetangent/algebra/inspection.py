"""Questions about shapes and dtypes: a tangent answers for the dense array that it stands for."""

from __future__ import annotations

from typing import Any

from ..kernels.base import DType
from ..registry import implements
from ..types import Tangent

__all__ = ["can_cast", "finfo", "iinfo", "result_type"]


@implements("result_type")
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that an operation on these gives; a tangent counts as an array of its shape."""
    xp = next(x for x in arrays_and_dtypes if isinstance(x, Tangent))._frame().backend.xp
    probes = [xp.zeros((0,) if x.ndim else (), dtype=x.dtype) if isinstance(x, Tangent) else x for x in arrays_and_dtypes]
    return xp.result_type(*probes)


@implements("can_cast", Tangent)
def can_cast(from_: Tangent, to: DType, /) -> bool:
    """Whether the dtype of a tangent may be cast to another by the rules of promotion."""
    return bool(from_._frame().backend.xp.can_cast(from_.dtype, to))


@implements("finfo", Tangent)
def finfo(x: Tangent, /) -> Any:
    """The limits of the floating dtype of a tangent."""
    return x._frame().backend.xp.finfo(x.dtype)


@implements("iinfo", Tangent)
def iinfo(x: Tangent, /) -> Any:
    """The limits of the integer dtype of a tangent."""
    return x._frame().backend.xp.iinfo(x.dtype)
