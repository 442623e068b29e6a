"""Instances of the kernel templates: their C++ names, the file each stands in, the list of all that can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["HELD", "SIZES", "WIDTHS", "FoldType", "all_instances", "fold_type", "source_of"]

WIDTHS = (16, 8, 4, 2, 1)
"""Bytes of a pack, the widest first."""

_CPP = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "Half",
    "bfloat16": "Bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "Complex<float>",
    "complex128": "Complex<double>",
}
SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
HELD = {"float16": "float32", "bfloat16": "float32"}
"""The dtype that sums are held in, where it is another."""

_IDS = ("int32", "int64")
_PACKS = {16: "uint4", 8: "uint2", 4: "u32", 2: "u16", 1: "u8"}
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
_STEPS = ("Sgd", "Momentum", "Adagrad", "LazyAdam")

# Every kernel by the file that it stands in.
_FILES = {
    "gather": ("gather_rows", "put_rows", "invert_ids"),
    "keys": ("narrow_keys", "ordered_keys", "mark_heads", "emit_runs", "segment_keys"),
    "fold": ("fold_sorted",),
    "scatter": ("scatter_add_rows",),
    "bitmap": ("mark_rows", "count_bits", "emit_distinct", "rank_ids"),
    "optimizer": ("update_rows", "update_rows_rowwise"),
}
_FILE_OF = {kernel: file for file, kernels in _FILES.items() for kernel in kernels}


@cache
def source_of(name: str) -> str:
    """The text that instance `name` is compiled from: the shared helpers and the file of its kernel."""
    file = _FILE_OF[name.partition("<")[0]]
    folder = files(__package__)
    return "\n".join((folder / f"{part}.cu").read_text("utf-8") for part in ("common", file))


class FoldType(NamedTuple):
    """What a fold of some dtype runs as: the operation of the kernel, and the dtype that arrays are viewed as."""

    operation: str
    dtype: str

    def instance(self, carried: bool, elements: int) -> str:
        """The instance for packs of so many elements, on the rows themselves or on what an earlier level carried."""
        held = HELD.get(self.dtype, self.dtype)
        rows = held if carried else self.dtype
        return f"fold_sorted<{self.operation}, {_CPP[rows]}, {_CPP[held]}, {_CPP[self.dtype]}, {elements}>"


_OPERATIONS = {"add": "Sum", "mul": "Product", "max": "Max", "min": "Min", "mean": "Mean"}
# On bools: or, and. One kernel for both names.
_BOOL_OPERATIONS = {"add": "Sum", "mul": "Product", "max": "Sum", "min": "Product"}


def fold_type(op: str, dtype: str) -> FoldType:
    """How `op` runs on `dtype`; a `TypeError` where it has no meaning."""
    if dtype not in _CPP:
        raise TypeError(f"no CUDA kernel for {dtype}")
    if op == "mean" and dtype not in (*_FLOATS, "complex64", "complex128"):
        raise TypeError(f"a mean needs a floating or complex dtype, not {dtype}")
    if op in ("max", "min") and dtype.startswith("complex"):
        raise TypeError(f"{op} has no meaning on {dtype}: complex numbers have no order")
    if dtype == "bool":
        return FoldType(_BOOL_OPERATIONS[op], dtype)
    # Sums and products wrap, so that they are the same on signed and unsigned integers.
    return FoldType(_OPERATIONS[op], _SIGNED.get(dtype, dtype) if op in ("add", "mul") else dtype)


def gather_instance(kernel: str, width: int, ids: str) -> str:
    return f"{kernel}<{_PACKS[width]}, {_CPP[ids]}>"


def id_instance(kernel: str, ids: str) -> str:
    return f"{kernel}<{_CPP[ids]}>"


def narrow_instance(ids: str, key: str) -> str:
    return f"narrow_keys<{_CPP[ids]}, {_CPP[key]}>"


def scatter_instance(dtype: str, ids: str, elements: int) -> str:
    return f"scatter_add_rows<{_CPP[dtype]}, {_CPP[ids]}, {elements}>"


def update_instance(step: str, dtype: str, ids: str, elements: int) -> str:
    types = f"{_CPP[dtype]}, {_CPP[HELD.get(dtype, dtype)]}, {_CPP[ids]}, {elements}>"
    return f"update_rows_rowwise<{types}" if step == "RowwiseAdagrad" else f"update_rows<{step}, {types}"


MAX_ELEMENTS = 8
"""In a pack whose elements are computed with: sixteen held values would fill the registers."""


def pack_elements(dtype: str) -> list[int]:
    """How many elements of a dtype a pack may hold, the most first: 16 bytes, 4 bytes, or one element.

    The widths between them would add a third to the instances and serve few rows, whose loads a warp joins anyway.
    """
    size = SIZES[dtype]
    return sorted({min(16 // size, MAX_ELEMENTS), max(4 // size, 1), 1}, reverse=True)


def all_instances() -> list[str]:
    """Every instance that the launcher can ask for."""
    return list(dict.fromkeys([*_moves(), *_keys(), *_folds(), *_scatters(), *_bitmaps(), *_updates()]))


def _moves() -> Iterator[str]:
    for ids in _IDS:
        for kernel in ("gather_rows", "put_rows"):
            yield from (gather_instance(kernel, width, ids) for width in WIDTHS)
        yield id_instance("invert_ids", ids)


def _keys() -> Iterator[str]:
    for key in ("uint8", "uint16", "uint32", "uint64"):
        yield from (narrow_instance(ids, key) for ids in _IDS)
        yield id_instance("ordered_keys", key)
    yield "mark_heads"
    for kernel in ("emit_runs", "segment_keys"):
        yield from (id_instance(kernel, ids) for ids in _IDS)


def _folds() -> Iterator[str]:
    for op in _OPERATIONS:
        for dtype in _CPP:
            try:
                kind = fold_type(op, dtype)
            except TypeError:
                continue
            for carried in (False, True):
                yield from (kind.instance(carried, elements) for elements in pack_elements(dtype))


def _scatters() -> Iterator[str]:
    for dtype in ("float32", "float64"):
        for ids in _IDS:
            yield from (scatter_instance(dtype, ids, elements) for elements in pack_elements(dtype))


def _bitmaps() -> Iterator[str]:
    yield "count_bits"
    for kernel in ("mark_rows", "emit_distinct", "rank_ids"):
        yield from (id_instance(kernel, ids) for ids in _IDS)


def _updates() -> Iterator[str]:
    for step in (*_STEPS, "RowwiseAdagrad"):
        for dtype in _FLOATS:
            for ids in _IDS:
                yield from (update_instance(step, dtype, ids, elements) for elements in pack_elements(dtype))
