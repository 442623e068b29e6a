"""The compiler gate: every instance that the launcher can ask for compiles for every architecture, and to what was meant."""

import re

import pytest

from sparsetangent.kernels.cuda.instances import all_instances, scatter_instance, source_of
from tests.kernels.cuda.compiler import (
    ARCHITECTURES,
    disassembled,
    missing_compiler,
    missing_disassembler,
    reports,
)

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_disassembler = pytest.mark.skipif(missing_disassembler() is not None, reason=str(missing_disassembler()))

# The launch bounds of the kernels are 256 threads, of which a multiprocessor's 65536 registers serve two blocks.
MOST_REGISTERS = 128


def _group(name: str) -> str:
    """What is compiled in one go: the kernel, and of the many folds one operation."""
    kernel, _, parameters = name.partition("<")
    return f"{kernel} {parameters.partition(',')[0]}" if kernel == "fold_sorted" else source_of(name)


def _groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for name in all_instances():
        groups.setdefault(_group(name), []).append(name)
    return {names[0]: tuple(names) for names in groups.values()}


GROUPS = _groups()


def test_there_are_as_many_as_promised() -> None:
    assert len(all_instances()) >= 60
    assert sum(map(len, GROUPS.values())) == len(set(all_instances()))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("first", GROUPS)
def test_compiles_without_spills(first: str, arch: int) -> None:
    found = reports(source_of(first), GROUPS[first], arch)
    assert found.keys() == set(GROUPS[first])
    assert {name: report.spilled for name, report in found.items() if report.spilled} == {}
    assert {name: report.registers for name, report in found.items() if report.registers > MOST_REGISTERS} == {}


def code(name: str, arch: int) -> str:
    return disassembled(name, source_of(name), arch)


@needs_disassembler
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_wide_packs_move_in_one_instruction(arch: int) -> None:
    for name in ("gather_rows<uint4, i64>", "put_rows<uint4, i32>", "fold_sorted<Sum, float, float, float, 4>"):
        text = code(name, arch)
        assert re.search(r"LDG\.E\.(?:\w+\.)*128", text), name
        assert re.search(r"STG\.E\.(?:\w+\.)*128", text), name


@needs_disassembler
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_atomic_sums_are_reductions(arch: int) -> None:
    """No loop of compare-and-swap, no value that comes back; four floats at once from sm_90 on."""
    for dtype, elements in (("float32", 4), ("float32", 1), ("float64", 2), ("float64", 1)):
        text = code(scatter_instance(dtype, "int64", elements), arch)
        assert "CAS" not in text
        assert re.search(rf"REDG?\.E\.ADD\.(?:\w+\.)*F{dtype[-2:]}", text), (dtype, elements)
        if dtype == "float32" and elements == 4:
            assert bool(re.search(r"REDG?\.E\.ADD\.F32x4", text)) == (arch >= 90)


@needs_disassembler
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_folds_use_registers_alone(arch: int) -> None:
    """No atomics, no barriers, no local or shared memory: the order of a sum cannot depend on anything but the keys."""
    for name in ("fold_sorted<Sum, float, float, float, 4>", "fold_sorted<Sum, Half, float, Half, 8>"):
        found = set(re.findall(r"\b(ATOM|RED|BAR|LDL|STL|LDS|STS)\w*\.", code(name, arch)))
        assert found == set(), name


@needs_disassembler
def test_half_types_are_read_eight_at_once() -> None:
    for dtype in ("Half", "Bfloat16"):
        assert re.search(r"LDG\.E\.(?:\w+\.)*128", code(f"fold_sorted<Sum, {dtype}, float, {dtype}, 8>", 90))
