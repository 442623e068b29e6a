"""Exchange by DLPack: it hands over memory, so a tangent hands over its dense array, under the densify policy."""

from __future__ import annotations

from typing import Any

from ..algebra.dense import implicit
from ..algebra.fallback import library_function
from ..backend import backend_of
from ..registry import implements
from ..types import Tangent

__all__: list[str] = []


@implements("__dlpack__", Tangent)
def _dlpack(t: Tangent, *, copy: bool | None = None, **options: Any) -> Any:
    """The dense array as a capsule. It is new in any case, so nobody shares its memory."""
    _refuse_to_share(copy)
    return implicit(t, "__dlpack__").__dlpack__(**{name: value for name, value in options.items() if value is not None})


@implements("from_dlpack", Tangent)
def _from_dlpack(t: Tangent, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """The dense array, by the library's own function where a device is asked for."""
    _refuse_to_share(copy)
    dense = implicit(t, "from_dlpack")
    return dense if device is None else library_function(backend_of(dense).xp, "from_dlpack")(dense, device=device)


def _refuse_to_share(copy: bool | None) -> None:
    if copy is False:
        raise BufferError("a tangent has no dense array to share: copy=False cannot be met")


@implements("__dlpack_device__", Tangent)
def _dlpack_device(t: Tangent) -> tuple[Any, int]:
    """The device of the arrays held, in DLPack's numbers."""
    device: tuple[Any, int] = t._frame().values.__dlpack_device__()
    return device
