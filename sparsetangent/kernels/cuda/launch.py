"""The kernel contract on our CUDA kernels.

Sums are deterministic unless `CudaKernels` is made with ``deterministic=False``: ids are sorted (stably, as the narrowest
unsigned integers) and rows folded in that order. With only a few thousand ids the launches of the sort take most of the time;
it is the default all the same, because equal bits are worth it.

Values are not read on the host, so a bad id cannot raise at once: kernels skip it and set a flag, which `check_errors` reads,
as does every call that waits for the device anyway.

Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from ..base import Array, ReduceOp
from ..generic import GenericKernels
from .arrays import check_factor, check_rows, check_target, id_array, in_place, row_elements, scalar, stored
from .device import BAD_ID, TOO_MANY_IDS, Device
from .distinct import Distinct, by_bitmap, by_sort, pays_off
from .geometry import Limits, move_width, value_elements
from .instances import gather_instance, id_instance, scatter_instance
from .launcher import Launcher
from .sorted_fold import fold, sort_ids
from .steps import Step, check_step, launch_step

__all__ = ["CudaKernels", "Step"]

# The dtypes whose atomic sums the hardware does without a loop of compare-and-swap.
_ATOMIC = ("float32", "float64")
# What a row of the target costs the inverse map of `densify`: its place is filled in, written and read, as 8 bytes each.
_INVERSE_BYTES = 24

Method = TypeVar("Method", bound=Callable[..., Any])


def _on_device_of(argument: int) -> Callable[[Method], Method]:
    """Run a method with the device of one of its positional arguments active: what it makes and launches is there."""

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
        False lets sums of float32 and float64 use atomics: no sort, but the last bits change from run to run.
    limits : Limits
        How large launches grow.
    """

    mutable = True

    def __init__(self, device: Device, name: str = "cupy", *, deterministic: bool = True, limits: Limits | None = None) -> None:
        super().__init__(device.xp, name)
        self.device = device
        self.deterministic = deterministic
        self._launcher = Launcher(device, limits or Limits())

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
            raise ValueError(
                "an earlier operation on the GPU met more distinct ids than the size it was given, and dropped the rest"
            )

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
        check_rows(unique_ids, rows, dst)
        size = int(dst.shape[0])
        inputs = (rows, id_array(self.device, unique_ids))
        return in_place(self.device, dst, inputs, lambda target, rows, ids: self._move("put_rows", target, rows, ids, size))

    def _move(self, kernel: str, to: Array, rows: Array, ids: Array, size: int) -> None:
        """A kernel that moves rows by id, in packs as wide as rows and addresses allow."""
        n, row_bytes = int(ids.shape[0]), row_elements(to) * to.dtype.itemsize
        if n == 0:
            return
        width = move_width(row_bytes, self.device.address(to), self.device.address(rows))
        name, packs = gather_instance(kernel, width, ids.dtype.name), row_bytes // width
        self._launcher.rows(name, n, packs, to, rows, ids, n, packs, size, self.device.flag())

    # Sums

    @_on_device_of(1)
    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        check_rows(ids, rows)
        ids, rows = id_array(self.device, ids), stored(self.device, rows)
        if unique and rows.nbytes > _INVERSE_BYTES * size:
            return self._gathered_by_inverse(ids, rows, size)
        out = self.xp.zeros((size, *rows.shape[1:]), dtype=rows.dtype)
        if unique:
            self._move("put_rows", out, rows, ids, size)
        elif self._atomic(rows):
            self._add_atomically(out, ids, rows, 1)
        else:
            self._fold_into("add", out, ids, rows)
        return out

    def _gathered_by_inverse(self, ids: Array, rows: Array, size: int) -> Array:
        """Every row of the target is written once, from where the inverse map says: less traffic than zeros and then rows."""
        n = int(ids.shape[0])
        places = self.xp.full(size, n, dtype=np.int64)  # n is padding of `rows`
        self._launcher.items(id_instance("invert_ids", ids.dtype.name), n, places, ids, n, size, self.device.flag())
        return self.gather(rows, places)

    @_on_device_of(0)
    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1, *, in_order: bool = False) -> Array:
        if not isinstance(alpha, int | float | complex | np.generic):
            rows, alpha = self._scaled(rows, alpha), 1  # an array: its value is on the device
        check_factor(alpha, dst.dtype.name)
        if not (in_order and self._atomic(dst)):  # atomics add entries as they come
            return self._reduce("add", dst, ids, rows, combine=True, alpha=alpha)
        check_target(dst)
        check_rows(ids, rows, dst)
        inputs = (id_array(self.device, ids), rows)
        return in_place(self.device, dst, inputs, lambda target, ids, rows: self._add_atomically(target, ids, rows, alpha))

    def _atomic(self, dst: Array) -> bool:
        return not self.deterministic and dst.dtype.name in _ATOMIC

    def _add_atomically(self, dst: Array, ids: Array, rows: Array, alpha: complex) -> None:
        n, elements, dtype = int(ids.shape[0]), row_elements(rows), dst.dtype.name
        if n == 0:
            return
        count = value_elements(dtype, elements, self.device.address(dst), self.device.address(rows))
        name, packs, size = scatter_instance(dtype, ids.dtype.name, count), elements // count, int(dst.shape[0])
        self._launcher.rows(name, n, packs, dst, ids, rows, n, packs, size, scalar(alpha, dtype), self.device.flag())

    # Folds

    @_on_device_of(1)
    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        return self._reduce(op, dst, ids, rows, combine=include_self)

    @_on_device_of(1)
    def segment_reduce(self, op: ReduceOp, rows: Array, starts: Array) -> Array:
        self._check_op(op, rows.dtype)
        n, segments = int(rows.shape[0]), int(starts.shape[0]) - 1
        out = self.xp.full((segments, *rows.shape[1:]), self._identity(op, rows.dtype), dtype=rows.dtype)
        if n == 0 or segments == 0:
            return out
        rows, starts = stored(self.device, rows), id_array(self.device, starts)
        keys = self.xp.empty(n, dtype=np.int64)
        self._launcher.items(id_instance("segment_keys", starts.dtype.name), n, keys, starts, n, segments)
        fold(self._launcher, op, out, keys, None, rows)
        return out

    def _reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, *, combine: bool, alpha: complex = 1) -> Array:
        self._check_op(op, dst.dtype)
        check_target(dst)
        check_rows(ids, rows, dst)
        inputs = (id_array(self.device, ids), rows)
        return in_place(
            self.device,
            dst,
            inputs,
            lambda target, ids, rows: self._fold_into(op, target, ids, rows, combine=combine, alpha=alpha),
        )

    def _fold_into(
        self, op: ReduceOp, out: Array, ids: Array, rows: Array, *, combine: bool = False, alpha: complex = 1
    ) -> None:
        if ids.shape[0] == 0:
            return
        keys, order = sort_ids(self._launcher, ids, int(out.shape[0]))
        fold(self._launcher, op, out, keys, order, rows, combine=combine, alpha=alpha)

    # Distinct ids

    @_on_device_of(0)
    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        ids = id_array(self.device, ids)
        found = self._distinct(ids, size, length, sort=not pays_off(int(ids.shape[0]), size))
        return found.ids, found.inverse

    @_on_device_of(0)
    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        distinct, summed, _ = self._coalesced(ids, rows, size, length)
        return distinct, summed

    @_on_device_of(0)
    def coalesce_padded(self, ids: Array, rows: Array, size: int, length: int) -> tuple[Array, Array, Array]:
        """`coalesce`, and the number of distinct ids as an array of one element on the device.

        Nothing waits for the device, so that a CUDA graph can capture it. The count is that of all distinct ids; if it passes
        `length`, the ids beyond are dropped and `check_errors` raises.
        """
        return self._coalesced(ids, rows, size, length)

    def _coalesced(self, ids: Array, rows: Array, size: int, length: int | None) -> tuple[Array, Array, Array]:
        check_rows(ids, rows)
        ids, rows = id_array(self.device, ids), stored(self.device, rows)
        atomic = self._atomic(rows)
        found = self._distinct(ids, size, length, sort=not (atomic and pays_off(int(ids.shape[0]), size)))
        summed = self.xp.zeros((found.ids.shape[0], *rows.shape[1:]), dtype=rows.dtype)
        if atomic:
            self._add_atomically(summed, found.inverse, rows, 1)
        elif found.places is not None:
            fold(self._launcher, "add", summed, found.places, found.order, rows)
        return found.ids, summed, found.count

    def _distinct(self, ids: Array, size: int, length: int | None, *, sort: bool) -> Distinct:
        if ids.shape[0] == 0:
            none = self.xp.full(length or 0, size, dtype=ids.dtype)
            return Distinct(none, ids, self.xp.zeros(1, dtype=np.int64))
        return (by_sort if sort else by_bitmap)(self._launcher, ids, size, length, self._read_count)

    def _read_count(self, counts: Array) -> int:
        """The last of a running count. This waits for the device, so what was flagged can be raised as well."""
        count = int(counts[-1])
        self.check_errors()
        return count

    # Optimizer steps

    @_on_device_of(1)
    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], unique_ids: Array, rows: Array) -> Array:
        """One step of an optimizer on the rows named by `unique_ids`, which do not repeat; `dst` and its `states` change."""
        check_step(step, dst, states, unique_ids, rows)
        kept = [stored(self.device, state) for state in states]
        ids = id_array(self.device, unique_ids)
        in_place(
            self.device, dst, (ids, rows), lambda target, ids, rows: launch_step(self._launcher, step, target, kept, ids, rows)
        )
        for state, written in zip(states, kept, strict=True):
            if written is not state:
                state[...] = written
        return dst
