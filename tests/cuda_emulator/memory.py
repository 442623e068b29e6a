"""Arrays larger than memory: address space is reserved, and pages exist once they are touched."""

import mmap
from math import prod
from typing import Any

import numpy as np

__all__ = ["reserved"]


def reserved(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros that take no memory until they are written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    pages = mmap.mmap(-1, prod(shape) * np.dtype(dtype).itemsize, flags=flags)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)
