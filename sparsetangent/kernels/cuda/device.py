"""The seam between the launcher and an array library.

`Device` is all that the launcher needs beyond the array API: `CupyDevice` gives it on a GPU, and the tests give it on NumPy
arrays by running the same kernels on the CPU. Which of the two a launch uses follows from the arrays' type, by the kernels
object that is registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..base import Array, Namespace
from .instances import source_of

__all__ = ["BAD_ID", "TOO_MANY_IDS", "CupyDevice", "Device", "Launch"]

# The bits of an error flag; common.cu has the same.
BAD_ID = 1
TOO_MANY_IDS = 2

Launch = Callable[[tuple[int, ...], tuple[int, ...], Sequence[Any]], None]
"""``launch(grid, block, arguments)``; scalars are NumPy scalars of the exact type, arrays contiguous."""


class Device(Protocol):
    """Where kernels run and their arrays live."""

    xp: Namespace
    """The array API namespace of the arrays (with `view` on its arrays, as NumPy and CuPy have it)."""

    def get(self, name: str) -> Launch:
        """The compiled instance `name`, to be launched on the current stream of the active device."""
        ...

    def active(self, x: Array) -> AbstractContextManager[Any]:
        """Makes the device of `x` the one where arrays are made and kernels run."""
        ...

    def address(self, x: Array) -> int:
        """Of the first element."""
        ...

    def flag(self) -> Array:
        """The error flag of the active device: one int32, which kernels set and nothing but `take_errors` resets."""
        ...

    def take_errors(self) -> int:
        """The bits set in the flags of all devices, which are reset. Waits for what is queued."""
        ...


class CupyDevice:
    """CUDA through CuPy. Not yet run on a GPU."""

    def __init__(self) -> None:
        import array_api_compat.cupy
        import cupy

        self.xp = array_api_compat.cupy
        self._cupy = cupy
        self._kernels: dict[tuple[int, str], Launch] = {}
        self._flags: dict[int, Array] = {}

    def get(self, name: str) -> Launch:
        key = (self._current(), name)
        if key not in self._kernels:
            module = self._cupy.RawModule(code=source_of(name), name_expressions=(name,))
            self._kernels[key] = module.get_function(name)
        return self._kernels[key]

    def active(self, x: Array) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = x.device
        return device

    def address(self, x: Array) -> int:
        return int(x.data.ptr)

    def flag(self) -> Array:
        device = self._current()
        if device not in self._flags:
            self._flags[device] = self._cupy.zeros(1, self._cupy.int32)
        return self._flags[device]

    def take_errors(self) -> int:
        bits = 0
        for flag in self._flags.values():
            with flag.device:
                flag.device.synchronize()  # kernels of every stream set it
                bits |= int(flag[0])
                flag.fill(0)
        return bits

    def _current(self) -> int:
        return int(self._cupy.cuda.runtime.getDevice())
