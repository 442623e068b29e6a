"""NVRTC without a GPU: what the compiler makes of the kernels, for any architecture.

CuPy's own program class and options are used, so that what is compiled here is what CuPy compiles. They are private, so this is
the only place that names them.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from tests.cuda_emulator.module import cache_directory

__all__ = ["ARCHITECTURES", "Report", "compile_cubin", "disassembled", "missing_compiler", "missing_disassembler", "reports"]

ARCHITECTURES = (75, 80, 90, 100, 120)
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?(?P<spilled>\d+) bytes spill stores, .*?Used (?P<registers>\d+) registers",
    re.S,
)


class Report(NamedTuple):
    """What the assembler says of one instance: bytes of registers spilled to memory, and registers."""

    spilled: int
    registers: int


@cache
def missing_compiler() -> str | None:
    """Why nothing can be compiled here, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns where it finds no CUDA toolkit, which none of this needs
            from cupy.cuda import nvrtc

            nvrtc.getVersion()
    except ImportError:
        return "CuPy is not installed: the kernels are compiled through it"
    except Exception as error:  # whatever CuPy raises where the library does not load
        return f"NVRTC is not installed: {error}"
    return None


def compile_cubin(source: str, names: tuple[str, ...], arch: int) -> tuple[bytes, dict[str, str], str]:
    """The machine code, the mangled name of every instance, and the compiler's log."""
    from cupy._core import core
    from cupy.cuda import compiler

    log = io.StringIO()
    program = compiler._NVRTCProgram(source, "kernel.cu", name_expressions=names, method="cubin")
    options = (*core.assemble_cupy_compiler_options(()), "-ftz=true", f"-arch=sm_{arch}", "--device-as-default-execution-space")
    cubin, mangled = program.compile((*options, "--ptxas-options=-v"), log)
    # CuPy drops the last byte, and returns mangled names as they came from C.
    return cubin + b"\0", {name: _text(found) for name, found in mangled.items()}, log.getvalue()


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def reports(source: str, names: tuple[str, ...], arch: int) -> dict[str, Report]:
    """The report on every instance. Kept in the cache of the emulator's builds, as compiling takes a minute in all."""
    from cupy.cuda import nvrtc

    key = hashlib.sha256(json.dumps([source, names, arch, nvrtc.getVersion(), Path(__file__).read_text()]).encode()).hexdigest()
    path = cache_directory() / f"{key[:32]}.json"
    if not path.exists():
        _, mangled, log = compile_cubin(source, names, arch)
        found = {entry["name"]: (int(entry["spilled"]), int(entry["registers"])) for entry in _ENTRY.finditer(log)}
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({name: found[mangled[name]] for name in names}))
        unfinished.replace(path)
    return {name: Report(*numbers) for name, numbers in json.loads(path.read_text()).items()}


@cache
def missing_disassembler() -> str | None:
    return None if _nvdisasm() else "nvdisasm is not installed (nvidia-cuda-nvdisasm, or a CUDA toolkit with it)"


@cache
def _nvdisasm() -> str | None:
    try:
        packaged = [str(file.locate()) for file in distribution("nvidia-cuda-nvdisasm").files or () if file.name == "nvdisasm"]
    except PackageNotFoundError:
        packaged = []
    return shutil.which("nvdisasm") or next(iter(packaged), None)


def disassembled(name: str, source: str, arch: int) -> str:
    """The machine code of one instance, as text."""
    cubin, _, _ = compile_cubin(source, (name,), arch)
    path = cache_directory() / f"{hashlib.sha256(cubin).hexdigest()[:32]}.cubin"
    path.write_bytes(cubin)
    tool = _nvdisasm()
    assert tool
    return subprocess.run([tool, str(path)], capture_output=True, text=True, check=True).stdout
