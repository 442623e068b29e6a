"""The package's seam, `sparsetangent.kernels.cuda.device.Device`, on NumPy arrays: the real launch code runs on it as it is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import array_api_compat.numpy
import numpy as np

from sparsetangent.kernels.cuda.device import Launch
from sparsetangent.kernels.cuda.instances import all_instances, source_of

from .module import Kernel, RawModule

__all__ = ["EmulatedDevice"]


@cache
def _modules() -> dict[str, tuple[str, ...]]:
    """For every instance those that are compiled together with it: the same kernel file and element type.

    One by one they would each parse the headers; all at once a test of one would wait for hundreds.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for name in all_instances():
        together.setdefault(_family(name), []).append(name)
    return {name: tuple(names) for names in together.values() for name in names}


def _family(name: str) -> tuple[str, str]:
    kernel, _, parameters = name.rstrip(">").partition("<")
    types = parameters.split(", ")
    if kernel == "fold_sorted":
        return kernel, types[3]
    if kernel.startswith("update_rows"):
        return "update_rows", types[0 if kernel == "update_rows_rowwise" else 1]
    return source_of(name), ""


Mutation = tuple[str, str]
"""A piece of source text, and what is put in its place."""


@cache
def compiled(name: str, sanitizer: str = "plain", arch: int = 800, mutation: Mutation | None = None) -> Kernel:
    """An instance of the package's kernels, compiled for the CPU; with a deliberate bug, if the source has the place for it."""
    source = source_of(name)
    applies = mutation is not None and mutation[0] in source
    arch = arch if "__CUDA_ARCH__" in source else 800  # most kernels are the same on every card
    together = _modules()[name]
    if applies or sanitizer != "plain":  # built for a few cases, and slow to build: only packs of the same width
        width = name.rpartition(", ")[2]
        together = tuple(other for other in together if other.rpartition(", ")[2] == width)
    return _module(together, sanitizer, arch, mutation if applies else None).get_function(name)


@cache
def _module(names: tuple[str, ...], sanitizer: str, arch: int, mutation: Mutation | None) -> RawModule:
    code = source_of(names[0])
    if mutation:
        code = code.replace(*mutation)
    return RawModule(code=code, name_expressions=names, sanitizer=sanitizer, arch=arch)


class EmulatedDevice:
    """One pretended GPU whose memory is NumPy arrays. `seed` chooses the schedule of the launches that follow.

    `launched` records what ran: instance, grid and block.
    """

    xp = array_api_compat.numpy

    def __init__(self, *, sanitizer: str = "plain", arch: int = 800, seed: int = 0, mutation: Mutation | None = None) -> None:
        self.sanitizer = sanitizer
        self.mutation = mutation
        self.arch = arch
        self.seed = seed
        self.launched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self._flag = np.zeros(1, np.int32)

    def get(self, name: str) -> Launch:
        kernel = compiled(name, self.sanitizer, self.arch, self.mutation)

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: Any) -> None:
            self.launched.append((name, grid, block))
            kernel(grid, block, arguments, seed=self.seed)

        return launch

    def active(self, x: Any) -> AbstractContextManager[Any]:
        if not isinstance(x, np.ndarray):
            raise TypeError(f"the device of a {type(x).__name__} was asked for")
        return nullcontext()

    def address(self, x: Any) -> int:
        return int(x.ctypes.data)

    def flag(self) -> Any:
        return self._flag

    def take_errors(self) -> int:
        bits = int(self._flag[0])
        self._flag[0] = 0
        return bits
