"""What raw kernels demand of arrays: they know no strides, no dtypes and no shapes, so all of that is settled here."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..base import Array
from .device import Device

__all__ = ["check_factor", "check_rows", "check_target", "id_array", "in_place", "row_elements", "scalar", "stored"]


def stored(device: Device, x: Array) -> Array:
    """`x`, copied only if it is not contiguous, or not aligned to its own elements."""
    return x if x.flags.c_contiguous and device.address(x) % x.dtype.itemsize == 0 else x.copy()


def id_array(device: Device, ids: Array) -> Array:
    """Ids as kernels take them: int32 or int64, contiguous."""
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids are integers, not {ids.dtype}")
    return stored(device, ids if ids.dtype.name in ("int32", "int64") else ids.astype(np.int64))


def row_elements(rows: Array) -> int:
    return prod(rows.shape[1:])


def check_target(dst: Array) -> None:
    """A write into overlapping elements has no defined result, and a read-only array must stay what it is."""
    if dst.size and any(step == 0 and n > 1 for step, n in zip(dst.strides, dst.shape, strict=True)):
        raise ValueError("dst overlaps itself: an axis has stride 0")
    if not getattr(dst.flags, "writeable", True):
        raise ValueError("dst is read-only")


def check_rows(ids: Array, rows: Array, dst: Array | None = None) -> None:
    """Kernels read ``n * row`` elements whatever the shapes are, so a wrong one would be a read out of bounds."""
    inner = rows.shape[1:] if dst is None else dst.shape[1:]
    if ids.ndim != 1 or rows.shape != (ids.shape[0], *inner):
        raise ValueError(f"rows of shape {rows.shape} do not fit ids of shape {ids.shape} and rows of shape {inner}")
    if dst is not None and rows.dtype != dst.dtype:
        raise TypeError(f"rows are {rows.dtype}, dst is {dst.dtype}; cast one of them first")


def in_place(device: Device, dst: Array, inputs: tuple[Array, ...], write: Callable[..., None]) -> Array:
    """Call ``write(target, *inputs)`` on contiguous arrays, no input overlapping the target; the result is in `dst`."""
    target = stored(device, dst)
    apart = [x.copy() if _overlap(device, x, target) else x for x in (stored(device, x) for x in inputs)]
    write(target, *apart)
    if target is not dst:
        dst[...] = target
    return dst


def _overlap(device: Device, a: Array, b: Array) -> bool:
    """Whether two contiguous arrays share memory."""
    start_a, start_b = device.address(a), device.address(b)
    return bool(start_a < start_b + b.nbytes and start_b < start_a + a.nbytes)


def check_factor(alpha: complex, dtype: str) -> None:
    """A factor that would change the dtype of what it scales is an error, as it is on every backend."""
    if dtype == "bool" or dtype.startswith("complex"):
        return
    if isinstance(alpha, complex) or (isinstance(alpha, float | np.floating) and "int" in dtype):
        raise TypeError(f"alpha={alpha!r} would change the dtype of rows of {dtype}")


def scalar(value: complex, dtype: str) -> Any:
    """A scalar argument of the exact type. Integers wrap, as they do in the kernels."""
    return np.asarray(value).astype(dtype)[()]
