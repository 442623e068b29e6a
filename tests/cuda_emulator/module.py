"""Compile CUDA C with g++ and call it on NumPy arrays, in the style of `cupy.RawModule`.

    module = RawModule(code=source, name_expressions=("kernel<float>",))
    module.get_function("kernel<float>")((grid,), (block,), (array, np.int64(n)), seed=3)

Unlike CuPy, which checks nothing, every argument is compared with the kernel's signature: the number, whether it is an array or
a scalar, kind and size. Builds are kept in a cache directory of the user, under the hash of everything that they depend on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["COMPILER", "SANITIZERS", "CompileError", "EmulationError", "Kernel", "RawModule", "cache_directory"]

INCLUDE = Path(__file__).parent / "include"
COMPILER = os.environ.get("CXX", "g++")
MISSING = None if shutil.which(COMPILER) else f"{COMPILER} is not installed: the CUDA emulator compiles kernels with it"

_STRICT = ["-g1", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"]
SANITIZERS = {
    "plain": [],
    "undefined": [*_STRICT, "-fsanitize=undefined,float-cast-overflow"],
    "address": [*_STRICT, "-fsanitize=address,undefined,float-cast-overflow"],
    "thread": ["-g1", "-fsanitize=thread"],
}
# Not optimised: compiling takes longer than running.
# No contraction, and no type-based aliasing: packs are read through pointers of another type, which CUDA's compiler accepts.
_FLAGS = ["-x", "c++", "-std=c++17", "-O0", "-fPIC", "-shared", "-fno-strict-aliasing", "-ffp-contract=off", "-pipe"]
_WARNINGS = ["-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-unused-variable"]

_SHARED = re.compile(r"__shared__\s+([\w:]+(?:<[^;{}]*?>)?)\s+(\w+)\s*((?:\[[^\]]*\])*)\s*;")


class EmulationError(RuntimeError):
    """A kernel did what CUDA forbids."""


class CompileError(Exception):
    """The source is no CUDA C, or none that the emulator knows."""


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _Launch(ctypes.Structure):
    _fields_ = [("grid", _Dim3), ("block", _Dim3), ("seed", ctypes.c_uint64)]


def cache_directory() -> Path:
    """Where builds are kept: ``CUDA_EMULATOR_CACHE``, or a directory of the user among the temporary files."""
    path = Path(os.environ.get("CUDA_EMULATOR_CACHE") or Path(tempfile.gettempdir()) / f"cuda-emulator-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


class RawModule:
    """One translation unit: the source, and an entry point for each instance in `name_expressions`."""

    def __init__(
        self,
        *,
        code: str,
        name_expressions: Sequence[str],
        sanitizer: str = "plain",
        arch: int = 800,
        options: Sequence[str] = (),
    ) -> None:
        self.names = tuple(name_expressions)
        text = _translation_unit(code, self.names)
        command = [COMPILER, *_FLAGS, *_WARNINGS, *SANITIZERS[sanitizer], f"-DEMULATED_ARCH={arch}", f"-I{INCLUDE}", *options]
        self.path = _built(text, command)
        self._library = ctypes.CDLL(str(self.path))

    def get_function(self, name: str) -> Kernel:
        return Kernel(self._library, self.names.index(name), name)


def _translation_unit(code: str, names: Sequence[str]) -> str:
    body = _SHARED.sub(r"auto& \2 = emulator::shared<\1\3>([]{});", code)
    if "__shared__" in body:
        raise CompileError("write each __shared__ variable as a declaration of its own: __shared__ T name[N];")
    entries = "\n".join(_ENTRY.format(number=i, name=name) for i, name in enumerate(names))
    return f'#include "cuda_on_cpu.h"\n#line 1 "kernel.cu"\n{body}\n#line 1 "entries.cpp"\n{entries}\n'


_ENTRY = """
extern "C" const char* launch_{number}(const emulator::Launch* launch, void** arguments) {{
  return emulator::run(&emulator::Instance<&{name}>::call, *launch, arguments);
}}
extern "C" const char* signature_{number}() {{ return emulator::Instance<&{name}>::signature(); }}"""


def _built(text: str, command: Sequence[str]) -> Path:
    """The shared library of a translation unit: from the cache, or compiled now. Two processes may do so at once."""
    headers = b"".join(path.read_bytes() for path in sorted(INCLUDE.iterdir()))
    key = hashlib.sha256(headers + text.encode() + "\0".join(command).encode()).hexdigest()[:32]
    path = cache_directory() / f"{key}.so"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        run = subprocess.run([*command, "-o", str(unfinished), "-"], input=text, text=True, capture_output=True)
        if run.returncode:
            raise CompileError(run.stderr[:3000])
        unfinished.replace(path)
    return path


class Kernel:
    """One compiled instance, called as ``kernel(grid, block, arguments)``."""

    def __init__(self, library: ctypes.CDLL, number: int, name: str) -> None:
        self.name = name
        self._launch = getattr(library, f"launch_{number}")
        self._launch.restype = ctypes.c_char_p
        describe = getattr(library, f"signature_{number}")
        describe.restype = ctypes.c_char_p
        self.signature: list[str] = describe().decode().split()

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any], *, seed: int = 0) -> None:
        if len(arguments) != len(self.signature):
            raise TypeError(f"{self.name} takes {len(self.signature)} arguments, got {len(arguments)}")
        held = [self._pointer(place, *pair) for place, pair in enumerate(zip(self.signature, arguments, strict=True))]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(buffer) for buffer in held))
        message = self._launch(ctypes.byref(_Launch(_dim3(grid), _dim3(block), seed)), pointers)
        if message:
            raise EmulationError(f"{self.name}: {message.decode()}")

    def _pointer(self, place: int, wanted: str, argument: Any) -> Any:
        """The bytes of one argument, as the kernel takes it: an address for an array, else the value."""
        where = f"{self.name}: argument {place}"
        if wanted.startswith("P") and isinstance(argument, np.uint64) and argument == 0:
            return ctypes.c_void_p(None)  # the null pointer; for None, CuPy passes no argument at all
        if isinstance(argument, np.ndarray):
            _check_array(where, wanted, argument)
            return ctypes.c_void_p(argument.ctypes.data)
        if not isinstance(argument, np.generic):
            raise TypeError(f"{where} is a {type(argument).__name__}; scalars are passed as NumPy scalars of the exact type")
        if wanted.startswith("P") or not _agrees(wanted, argument.dtype):
            raise TypeError(f"{where} is {argument.dtype} by value, the kernel takes {wanted}")
        return ctypes.create_string_buffer(argument.tobytes(), max(argument.nbytes, 1))


def _check_array(where: str, wanted: str, array: np.ndarray[Any, Any]) -> None:
    if not (wanted == "Pv0" or (wanted.startswith("P") and _agrees(wanted[1:], array.dtype))):
        raise TypeError(f"{where} is an array of {array.dtype}, the kernel takes {wanted}")
    if not array.flags.c_contiguous:
        raise TypeError(f"{where} is not contiguous, and kernels know no strides")


def _agrees(wanted: str, dtype: np.dtype[Any]) -> bool:
    """Kind and size. A struct of the kernel (V: half types, complex numbers) is known by its size, and never a plain type."""
    kind, size = wanted[0], int(wanted[1:])
    if kind == "V":
        return size == dtype.itemsize and (dtype.kind in "cV" or dtype == np.float16)
    return (kind, size) == (dtype.kind, dtype.itemsize)


def _dim3(extents: tuple[int, ...]) -> _Dim3:
    return _Dim3(*extents, *(1,) * (3 - len(extents)))
