"""Tables on disk, larger than memory, for updates of a few rows: `add_into` and ``table -= t`` touch only the pages of the rows stored."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..types.axes import as_shape

__all__ = ["open_table"]


def open_table(
    path: str | os.PathLike[str], dtype: Any, shape: Sequence[int], *, mode: Literal["r", "r+", "w+", "c"] = "r+"
) -> np.memmap[Any, Any]:
    """A `numpy.memmap` whose pages are read one by one, as they are asked for.

    The system reads ahead of a fault, as for a file that is read through: up to megabytes for each row. Here it is told not to.

    Parameters
    ----------
    path : path
        The file.
    dtype : dtype
        Of the table, as NumPy names it.
    shape : tuple of int
        Of the table, rows first.
    mode : {"r", "r+", "w+", "c"}
        As for `numpy.memmap`; ``"w+"`` makes a file of zeros, which takes no room on the disk until rows are written.

    Returns
    -------
    numpy.memmap
        ``flush()`` writes changed pages to the disk.

    Raises
    ------
    OSError
        If there is no such file (but for ``"w+"``).

    Examples
    --------
    >>> import numpy as np, os, sparsetangent as st, tempfile
    >>> from sparsetangent.interop.memmap import open_table
    >>> path = os.path.join(tempfile.mkdtemp(), "table")
    >>> table = open_table(path, np.float32, (1_000_000, 8), mode="w+")
    >>> table -= st.IndexedSlices(np.array([7, 7]), np.ones((2, 8), np.float32), table.shape)
    >>> table[7, :3].tolist(), os.stat(path).st_blocks * 512 < 20_000
    ([-2.0, -2.0, -2.0], True)
    >>> open_table(path, np.float32, (1_000_000, 8), mode="r")[6:8, 0].tolist()
    [0.0, -2.0]
    """
    table = np.memmap(path, dtype, mode, shape=as_shape(shape))
    if hasattr(mmap, "MADV_RANDOM") and isinstance(table.base, mmap.mmap):
        table.base.madvise(mmap.MADV_RANDOM)
    return table
