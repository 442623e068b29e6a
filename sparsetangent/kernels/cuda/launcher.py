"""Launches by the shape of the work: a thread an item, packs of rows, or a warp a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import Device
from .geometry import Limits, Shape

__all__ = ["Launcher"]


class Launcher:
    """Kernels of a device, with grids sized to the work. Python ints are passed as int64, which is what kernels count in, None as a null pointer."""

    def __init__(self, device: Device, limits: Limits) -> None:
        self.device = device
        self.limits = limits

    def items(self, name: str, count: int, *arguments: Any) -> None:
        self._launch(name, self.limits.items(count), arguments)

    def rows(self, name: str, rows: int, packs: int, *arguments: Any) -> None:
        self._launch(name, self.limits.rows(rows, packs), arguments)

    def warps(self, name: str, rows: int, *arguments: Any) -> None:
        self._launch(name, self.limits.warps(rows), arguments)

    def _launch(self, name: str, shape: Shape, arguments: tuple[Any, ...]) -> None:
        self.device.get(name)(shape.grid, shape.block, tuple(map(_typed, arguments)))


def _typed(argument: Any) -> Any:
    # CuPy takes None for an argument that is not there at all, and the driver would read through it.
    if argument is None:
        return np.uint64(0)
    return np.int64(argument) if type(argument) is int else argument
