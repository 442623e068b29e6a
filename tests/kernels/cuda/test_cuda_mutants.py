"""The tests are worth what they catch: every planted bug is seen, and the kernels as they are pass in every mode."""

from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from sparsetangent.kernels.cuda import launch, launcher
from tests.cuda_emulator import sanitized
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.module import MISSING, EmulationError
from tests.kernels.cuda.mutants import MUTANTS
from tests.kernels.cuda.workload import PARTS, kernels_for, run

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

REPORTS = {"address": "AddressSanitizer", "undefined": "runtime error", "thread": "data race"}


def in_mode(sanitizer: str, *arguments: str) -> Any:
    reason = sanitized.missing(sanitizer)
    if reason:
        pytest.skip(reason)
    return sanitized.run(sanitizer, ["-m", "tests.kernels.cuda.workload", sanitizer, *arguments])


@pytest.mark.parametrize("part", PARTS)
def test_kernels_pass(part: str) -> None:
    run((part,), seeds=tuple(range(8)))


# The address build has the checks of undefined behaviour as well.
@pytest.mark.parametrize("sanitizer", ["address", pytest.param("thread", marks=pytest.mark.long)])
def test_kernels_pass_under_a_sanitizer(sanitizer: str) -> None:
    ran = in_mode(sanitizer, *(part for part in PARTS if part != "large"))
    assert ran.returncode == 0, ran.stderr


def test_rows_beyond_2_31_elements_without_undefined_behaviour() -> None:
    ran = in_mode("undefined", "large")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_changes_one_place(name: str) -> None:
    file, (old, _), _, _ = MUTANTS[name]
    source = (files("sparsetangent.kernels.cuda") / f"{file}.cu").read_text("utf-8")
    assert source.count(old) == 1


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.mode == "plain"])
def test_mutant_is_seen(name: str) -> None:
    with pytest.raises((AssertionError, EmulationError)):
        run((MUTANTS[name].part,), mutant=name, seeds=tuple(range(4)))


def seen_in_mode(name: str) -> None:
    mutant = MUTANTS[name]
    ran = in_mode(mutant.mode, mutant.part, "--mutant", name)
    assert ran.returncode != 0
    assert REPORTS[mutant.mode] in ran.stderr, ran.stderr


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.mode in ("address", "undefined")])
def test_mutant_is_seen_by_a_sanitizer(name: str) -> None:
    seen_in_mode(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.mode == "thread"])
def test_race_is_seen(name: str) -> None:
    seen_in_mode(name)


# Bugs on the side of the launcher


def test_a_mis_sized_argument_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher.np, "int64", np.int32)
    with pytest.raises(TypeError, match="int32 by value, the kernel takes i8"):
        kernels_for(EmulatedDevice()).gather(np.ones((3, 4), np.float32), np.arange(3))


def test_an_argument_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shorter(launcher.Launcher):
        def _launch(self, name: str, shape: Any, arguments: tuple[Any, ...]) -> None:
            super()._launch(name, shape, arguments[:-1])

    monkeypatch.setattr(launch, "Launcher", Shorter)
    with pytest.raises(TypeError, match="takes 7 arguments, got 6"):
        kernels_for(EmulatedDevice()).gather(np.ones((3, 4), np.float32), np.arange(3))


def test_an_array_of_another_dtype_is_seen() -> None:
    device = EmulatedDevice()
    kernel = device.get("mark_heads")
    with pytest.raises(TypeError, match="array of int32"):
        kernel((1,), (32,), (np.zeros(3, np.int32), np.zeros(3, np.int64), np.int64(3), np.int64(3)))


MISALIGNED = """
import numpy as np
from sparsetangent.kernels.cuda import launch
from tests.cuda_emulator.device import EmulatedDevice
launch.move_width = lambda row_bytes, *addresses: 16
odd = np.arange(41, dtype=np.float32)[1:].reshape(10, 4)
launch.CudaKernels(EmulatedDevice(sanitizer="undefined")).gather(odd, np.arange(10))
"""


def test_a_vector_load_from_a_misaligned_row_is_seen() -> None:
    reason = sanitized.missing("undefined")
    if reason:
        pytest.skip(reason)
    ran = sanitized.run("undefined", ["-c", MISALIGNED])
    assert "misaligned address" in ran.stderr, ran.stderr


def test_a_barrier_that_not_all_reach_is_seen() -> None:
    """In the row-wise step, which is the only kernel with a barrier: half of the warp leaves before it."""
    device = EmulatedDevice(mutation=("__syncwarp();", "if (lane < 16) __syncwarp();"))
    with pytest.raises(EmulationError, match="deadlock|joins"):
        PARTS["steps"](device)
