"""The kernel contract on our CUDA kernels.

Sums are deterministic unless `CudaKernels` is made with ``deterministic=False``: ids are sorted (stably, as the narrowest unsigned
integers) and rows folded in that order by `SortedFold`. Values are not read on the host, so a bad id cannot raise at once: kernels
skip it and set a flag, which `check_errors` reads, as does every call that waits for the device anyway.

Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..base import Array, ReduceOp
from ..generic import GenericKernels
from . import instances
from .arrays import check_target, flat, id_array, overlaps, row_array, scalar, stored
from .device import BAD_ID, TOO_MANY_IDS, Device
from .geometry import Limits, key_dtype, move_width, value_elements
from .sorted_fold import Launcher, Sorted, SortedFold
from .steps import update

__all__ = ["CudaKernels"]

# An axis this many times longer than the ids costs more to scan as a bitmap than the ids do to sort.
_BITMAP_RATIO = 1000
_BITMAP_SIZE = 2**31
# Bytes of the inverse map that each row of a dense array costs: written, filled in, read.
_INVERSE_BYTES = 24

Method = TypeVar("Method", bound=Callable[..., Any])


def _on_device_of(argument: int) -> Callable[[Method], Method]:
    """Run a method with the device of one of its arguments active, so that what it makes and launches is there."""

    def decorate(method: Method) -> Method:
        @wraps(method)
        def run(self: CudaKernels, *args: Any, **kwargs: Any) -> Any:
            with self.device.active(args[argument]):
                return method(self, *args, **kwargs)

        return run  # type: ignore[return-value]

    return decorate


class CudaKernels(GenericKernels):
    """The contract of `sparsetangent.kernels.base.Kernels` on a `Device`.

    Parameters
    ----------
    device : Device
        Where kernels run.
    name : str
        Short name of the array library.
    deterministic : bool
        False lets sums of float32 and float64 use atomics: faster where ids hardly repeat, but the last bits change from run to run.
    limits : Limits
        How large launches grow.
    """

    mutable = True

    def __init__(self, device: Device, name: str = "cupy", *, deterministic: bool = True, limits: Limits | None = None) -> None:
        super().__init__(device.xp, name)
        self.device = device
        self.deterministic = deterministic
        self._launch = Launcher(device, limits or Limits())
        self._fold = SortedFold(self._launch)

    def synchronous(self, x: Array) -> bool:
        return False

    def check_errors(self) -> None:
        """Raise what kernels have flagged since the last call, and forget it. Waits for the device."""
        bits = self.device.take_errors()
        if bits & BAD_ID:
            raise IndexError(
                "an id given to an earlier operation on the GPU was out of range, and its entry was skipped; "
                'validate="now" checks ids where they enter and names the first bad one'
            )
        if bits & TOO_MANY_IDS:
            raise ValueError("an earlier operation on the GPU met more distinct ids than the size it was given, and dropped the rest")

    # Rows moved

    @_on_device_of(0)
    def gather(self, src: Array, ids: Array) -> Array:
        src, ids = stored(self.device, src), id_array(self.device, ids)
        out = self.xp.empty((ids.shape[0], *src.shape[1:]), dtype=src.dtype)
        self._move("gather_rows", out, src, ids, int(src.shape[0]))
        return out

    @_on_device_of(0)
    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        check_target(dst)
        ids, rows = id_array(self.device, unique_ids), row_array(self.device, rows, unique_ids, dst)
        return self._into(dst, rows, lambda target, rows: self._move("put_rows", target, rows, ids, int(dst.shape[0])))

    def _move(self, kernel: str, out: Array, rows: Array, ids: Array, size: int) -> None:
        """A kernel that moves rows by id, in packs as wide as rows and addresses allow."""
        n, row_bytes = int(ids.shape[0]), prod(out.shape[1:]) * out.dtype.itemsize
        width = move_width(row_bytes, self.device.address(out), self.device.address(rows))
        name = instances.gather_instance(kernel, width, ids.dtype.name)
        packs = row_bytes // width
        unsigned = [flat(x).view(f"u{min(width, x.dtype.itemsize)}") for x in (out, rows)]
        self._launch.rows(name, n, packs, *unsigned, ids, np.int64(n), np.int64(packs), np.int64(size), self.device.flag())
