"""Our loops as a C compiler has them: built when they are asked for, into a folder that goes away; None where there is no compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CLoops", "c_loops"]

_SOURCE = Path(__file__).parent / "c" / "loops.c"
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


class CLoops:
    """The loops of ``c/loops.c`` on NumPy arrays of float32, with ids of int64."""

    def __init__(self, library: Any) -> None:
        self._c = library
        library.distinct_ids.restype = ctypes.c_int64

    def densify(self, ids: Any, rows: Any, size: int) -> Any:
        return self.add_into(np.zeros((size, rows.shape[1]), rows.dtype), ids, rows)

    def add_into(self, dst: Any, ids: Any, rows: Any) -> Any:
        self._c.add_rows(_at(dst), _at(ids), _at(rows), *_sizes(rows, len(dst)))
        return dst

    def gather(self, src: Any, ids: Any) -> Any:
        rows = np.empty((len(ids), src.shape[1]), src.dtype)
        self._c.gather_rows(_at(src), _at(ids), _at(rows), *_sizes(rows, len(src)))
        return rows

    def coalesce(self, ids: Any, rows: Any, size: int) -> tuple[Any, Any]:
        distinct, inverse = np.empty_like(ids), np.empty_like(ids)
        count = self._c.distinct_ids(_at(ids), ctypes.c_int64(len(ids)), ctypes.c_int64(size), _at(distinct), _at(inverse))
        return distinct[:count].copy(), self.densify(inverse, rows, count)

    def sgd(self, p: Any, ids: Any, rows: Any, rate: float) -> None:
        self._c.add_multiples(_at(p), _at(ids), _at(rows), *_sizes(rows, len(p)), ctypes.c_float(-rate))

    def adagrad(self, p: Any, s: Any, ids: Any, rows: Any, rate: float, epsilon: float) -> None:
        numbers = ctypes.c_float(rate), ctypes.c_float(epsilon)
        self._c.adagrad(_at(p), _at(s), _at(ids), _at(rows), *_sizes(rows, len(p)), *numbers)


@cache
def c_loops() -> CLoops | None:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        print("no C compiler: the column 'c loop' is left out", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loops.so"
        done = subprocess.run([compiler, *_FLAGS, str(_SOURCE), "-o", str(library), "-lm"], capture_output=True, text=True)
        if done.returncode:
            print(f"{compiler} failed, the column 'c loop' is left out: {done.stderr}", file=sys.stderr)
            return None
        return CLoops(ctypes.CDLL(str(library)))


def _at(x: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def _sizes(rows: Any, size: int) -> tuple[ctypes.c_int64, ...]:
    return tuple(map(ctypes.c_int64, (*rows.shape, size)))
