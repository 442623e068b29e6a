"""Interleaved runs, medians, and the floor: the time that the memory takes for the bytes that must move."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import log2
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Case", "Result", "facts", "floor_ms", "measured"]

Run = Callable[[], Any]


class Case(NamedTuple):
    """One cell of a table: what is done, on what, by whom, and the bytes that must move at least."""

    table: str
    on: dict[str, Any]
    ours: dict[str, Run]
    peers: dict[str, Run]
    nbytes: int


class Result(NamedTuple):
    """Medians in milliseconds, the floor, and by how many bytes the resident memory grew at the highest (0: not known)."""

    table: str
    on: dict[str, Any]
    ours: dict[str, float]
    peers: dict[str, float]
    floor: float
    peak: dict[str, int]


def measured(
    case: Case, *, budget: float, least: int = 3, most: int = 15, figure: Callable[[list[float]], float] = median
) -> Result:
    """Runs of all contenders in turn, another one first each time, so that what disturbs the machine disturbs all of them.

    As many rounds as fit into `budget` seconds, at least `least` and an odd number; `figure` is what is made of them.
    """
    able = {name: run for name, run in case.peers.items() if _is_able(run)}
    runs = {**case.ours, **able}
    for run in case.ours.values():  # imports, compiles and warms up
        _wait(run())
    loops, peak = {}, {}
    for name, run in runs.items():  # the second runs, none of which compiles
        before = _resident("VmRSS") if _forget_highest() else 0
        loops[name] = _loops(run)
        peak[name] = max(0, _resident("VmHWM") - before) if before else 0
    times: dict[str, list[float]] = {name: [] for name in runs}
    started = time.perf_counter()
    for done in range(most):
        if done >= least and done % 2 and time.perf_counter() - started > budget:
            break
        for name, run in _rotated(list(runs.items()), done):
            times[name].append(_seconds(run, loops[name]))
    found = {name: 1e3 * figure(x) for name, x in times.items()}
    ours, peers = ({name: found[name] for name in part} for part in (case.ours, able))
    return Result(case.table, case.on, ours, peers, floor_ms(case.nbytes), peak)


def _rotated(runs: list[tuple[str, Run]], places: int) -> list[tuple[str, Run]]:
    first = places % len(runs)
    return runs[first:] + runs[:first]


def _is_able(run: Run) -> bool:
    """Whether a peer, here run for the first time, has what is asked of it: not all have every dtype."""
    try:
        _wait(run())
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        return False
    return True


def _loops(run: Run) -> int:
    """How often to run for one figure: small things until a millisecond has passed."""
    once = _seconds(run, 1)
    return max(1, min(1000, int(1e-3 / max(once, 1e-7))))


def _seconds(run: Run, loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        result = run()
    _wait(result)
    return (time.perf_counter() - start) / loops


def _forget_highest() -> bool:
    """Let the kernel count the highest resident size from now on; False where it cannot.

    What the allocator keeps of earlier runs is given back first, or a run that takes it again would seem to need nothing.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is None:
        return False
    trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _resident(name: str) -> int:
    return next((1024 * int(line.split()[1]) for line in _lines("/proc/self/status") if line.startswith(name)), 0)


def _wait(x: Any) -> None:
    """JAX returns before it is done, of an array or of a tangent's values."""
    for part in x if isinstance(x, (tuple, list)) else (x,):
        wait = getattr(getattr(part, "values", part), "block_until_ready", None)
        if wait is not None:
            wait()


def floor_ms(nbytes: int) -> float:
    """Milliseconds of a copy that moves as many bytes, at that footprint."""
    size = 1 << max(13, round(log2(max(nbytes, 1))))
    return _copy_ms(size) * nbytes / size


@cache
def _copy_ms(nbytes: int) -> float:
    source, target = np.ones(nbytes // 16), np.zeros(nbytes // 16)
    rounds = max(1, 2**22 // nbytes)
    times: list[float] = [_seconds(lambda: np.copyto(target, source), rounds) for _ in range(7)]
    return 1e3 * median(times)


def facts() -> dict[str, str]:
    """The machine and the versions, without which no figure means anything."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine()
    )
    packages = ("sparsetangent", "numpy", "scipy", "numba", "torch", "jax", "sparse", "tensorflow")
    return {
        "cpu": cpu,
        "cores": str(os.cpu_count()),
        "threads": os.environ.get("OMP_NUM_THREADS", "unset"),
        **{name: os.environ.get(name, "unset") for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")},
        "python": platform.python_version(),
        **{name: found for name in packages if (found := _version(name))},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
