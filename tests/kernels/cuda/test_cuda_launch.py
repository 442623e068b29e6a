"""Launch arithmetic, and what the launcher does with arrays before a kernel sees them."""

import re
import subprocess
import sys
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from sparsetangent.kernels.cuda.geometry import Limits, chunk_length, fold_levels, key_dtype, move_width, value_elements
from sparsetangent.kernels.cuda.instances import SIZES, all_instances, fold_type, source_of
from sparsetangent.kernels.cuda.launch import CudaKernels
from tests.cuda_emulator.device import EmulatedDevice
from tests.cuda_emulator.memory import reserved
from tests.cuda_emulator.module import MISSING
from tests.kernels import reference as ref
from tests.kernels.cuda.workload import PARTS

emulated = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

COUNTS = (1, 2, 31, 32, 33, 1000, 2**20, 2**31 - 1, 2**31, 2**31 + 1, 2**40, 2**62)
LIMITS = (Limits(), Limits(threads=64, blocks=4), Limits(threads=1024, blocks=2**31 - 1))


@pytest.mark.parametrize("limits", LIMITS)
def test_shapes_are_ones_that_the_hardware_takes(limits: Limits) -> None:
    shapes = [limits.rows(rows, packs) for rows, packs in product(COUNTS, COUNTS)]
    for shape in (*shapes, *map(limits.items, COUNTS), *map(limits.warps, COUNTS)):
        (grid_x, grid_y), (x, y) = shape
        assert 1 <= grid_x < 2**31
        assert 1 <= grid_y < 2**16
        assert 1 <= x * y <= limits.threads
        assert grid_x * grid_y <= limits.blocks


@pytest.mark.parametrize(("rows", "packs"), [(1, 1), (1000, 32), (10**6, 32), (7, 3), (10**6, 1), (3, 10**6)])
def test_a_launch_below_the_limit_has_a_thread_for_every_pack(rows: int, packs: int) -> None:
    (grid_x, grid_y), (x, y) = Limits().rows(rows, packs)
    assert grid_x * y >= rows
    assert grid_y * x >= packs


def test_short_rows_share_a_warp_and_long_rows_fill_the_block() -> None:
    assert Limits().rows(10**6, 4).block == (4, 64)
    assert Limits().rows(10**6, 32).block == (32, 8)
    assert Limits().rows(10**6, 10**4).block == (256, 1)


@pytest.mark.parametrize("n", COUNTS)
def test_levels_of_a_fold_end_in_one_chunk(n: int) -> None:
    levels = fold_levels(n)
    assert levels[0][0] == n
    assert levels[-1][2] == 1
    assert len(levels) <= 16
    for (count, chunk, chunks), (following, _, _) in pairwise(levels):
        assert (chunks - 1) * chunk < count <= chunks * chunk
        assert following == 2 * chunks < count
    assert all(8 <= chunk_length(count) <= 64 for count in range(1, 10_000))


def test_the_key_is_the_narrowest_that_holds_the_size() -> None:
    pairs = {0: "uint8", 255: "uint8", 256: "uint16", 2**16: "uint32", 2**32 - 1: "uint32", 2**32: "uint64", 2**62: "uint64"}
    assert {size: key_dtype(size) for size in pairs} == pairs


def test_packs_divide_rows_and_addresses() -> None:
    assert move_width(512, 0, 256) == 16
    assert move_width(512, 0, 4) == 4
    assert move_width(24, 16, 16) == 8
    assert move_width(5, 16, 16) == 1
    assert move_width(0, 16, 16) == 16
    assert value_elements("float32", 128, 0, 256) == 4
    assert value_elements("float32", 128, 0, 8) == 1
    assert value_elements("float16", 24, 0, 16) == 8
    assert value_elements("float16", 6, 0, 16) == 2
    for dtype, size in SIZES.items():
        assert value_elements(dtype, 1, size) == 1


def test_operations_without_meaning_are_refused() -> None:
    for op, dtype in (("mean", "int32"), ("max", "complex64"), ("min", "complex128"), ("add", "longdouble")):
        with pytest.raises(TypeError):
            fold_type(op, dtype)


@emulated
def test_every_instance_asked_for_is_one_that_the_compiler_gate_compiles() -> None:
    asked = set()
    for dtype, ids in product(SIZES, (np.int32, np.int64)):
        device = EmulatedDevice()
        kernels = CudaKernels(device, deterministic=False)
        name = getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype
        for inner in (1, 2, 6, 32):
            rows = np.ones((5, inner), name)
            for op in ref.ops_of(dtype):
                kernels.scatter_reduce(op, rows.copy(), np.zeros(5, ids), rows)  # type: ignore[arg-type]
            kernels.densify(np.zeros(5, ids), rows, 3)
            kernels.gather(rows, np.zeros(5, ids))
        asked |= {name for name, _, _ in device.launched}
    device = EmulatedDevice()
    for part in ("distinct", "steps", "scatter"):
        PARTS[part](device)
    asked |= {name for name, _, _ in device.launched}
    assert len(asked) > 100
    assert asked <= set(all_instances())


@emulated
@pytest.mark.parametrize("part", ["gather", "put", "scatter_add", "fold"])
def test_rows_beyond_2_31_elements(part: str) -> None:
    """At their true addresses, in memory that is reserved and never touched."""
    size, width = 2**29 + 7, 5
    kernels = CudaKernels(EmulatedDevice(), deterministic=part != "scatter_add")
    table = reserved((size, width), np.float32)
    ids, rows = np.array([size - 1, 1]), np.arange(10, dtype=np.float32).reshape(2, 5)
    table[size - 1] = 1
    call: Any = {
        "gather": lambda: kernels.gather(table, ids),
        "put": lambda: kernels.put(table, ids, rows),
        "scatter_add": lambda: kernels.scatter_add(table, ids, rows, in_order=True),
        "fold": lambda: kernels.scatter_reduce("add", table, ids, rows),
    }[part]
    held = np.array([[1.0] * 5, [0.0] * 5])
    wanted = {"gather": held, "put": rows}.get(part, held + rows).tolist()
    got = call()
    assert (got if part == "gather" else table[ids]).tolist() == wanted


@emulated
def test_a_narrower_pack_is_used_for_a_misaligned_view() -> None:
    device = EmulatedDevice()
    kernels = CudaKernels(device)
    for offset, width in ((0, "uint4"), (1, "u32"), (2, "uint2")):
        odd = np.arange(44, dtype=np.float32)[offset : offset + 40].reshape(10, 4)
        np.testing.assert_array_equal(kernels.gather(odd, np.arange(10)), odd)
        assert device.launched[-1][0] == f"gather_rows<{width}, i64>"


@emulated
def test_an_array_misaligned_to_its_elements_is_copied() -> None:
    memory = np.zeros(41, np.uint8)
    odd = memory[1:].view(np.float32).reshape(5, 2)
    odd[...] = np.arange(10).reshape(5, 2)
    kernels = CudaKernels(EmulatedDevice())
    np.testing.assert_array_equal(kernels.gather(odd, np.array([3])), [[6, 7]])
    kernels.scatter_add(odd, np.array([1]), np.array([[1, 1]], np.float32))
    assert odd[1].tolist() == [3, 4]


@emulated
def test_an_empty_axis() -> None:
    kernels = CudaKernels(EmulatedDevice())
    none = np.zeros(0, np.int64)
    assert kernels.gather(np.zeros((0, 3)), none).shape == (0, 3)
    assert kernels.densify(none, np.zeros((0, 3)), 0).shape == (0, 3)
    assert kernels.coalesce(none, np.zeros((0, 3)), 0)[1].shape == (0, 3)
    ids, rows = np.array([1, 0]), np.ones((2, 3))
    for call in (lambda: kernels.gather(np.zeros((0, 3)), ids), lambda: kernels.densify(ids, rows, 0)):
        call()
        with pytest.raises(IndexError, match="out of range"):
            kernels.check_errors()


@emulated
def test_what_a_kernel_would_read_out_of_bounds_is_refused() -> None:
    kernels = CudaKernels(EmulatedDevice())
    dst, ids, rows = np.zeros((4, 3)), np.array([1, 2]), np.ones((2, 3))
    refused: list[tuple[type[Exception], Any]] = [
        (ValueError, lambda: kernels.scatter_add(dst, ids, rows[:1])),
        (ValueError, lambda: kernels.put(dst, ids, rows[:, :2])),
        (ValueError, lambda: kernels.densify(ids[:, None], rows, 4)),
        (TypeError, lambda: kernels.scatter_add(dst, ids, rows.astype(np.float32))),
        (TypeError, lambda: kernels.gather(dst, ids.astype(float))),
        (ValueError, lambda: kernels.put(np.broadcast_to(dst[:1], (4, 3)), ids, rows)),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    frozen = dst.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernels.put(frozen, ids, rows)
    assert not dst.any()


@emulated
@pytest.mark.parametrize("n", [3, 60])
def test_unique_rows_are_placed_or_gathered_by_what_moves_fewer_bytes(n: int) -> None:
    device = EmulatedDevice()
    rng = np.random.default_rng(4)
    ids, rows = rng.permutation(80)[:n], rng.normal(size=(n, 20))
    want = np.zeros((80, 20))
    want[ids] = rows
    np.testing.assert_array_equal(CudaKernels(device).densify(ids, rows, 80, unique=True), want)
    used = {name.partition("<")[0] for name, _, _ in device.launched}
    assert used == ({"put_rows"} if n == 3 else {"invert_ids", "gather_rows"})


@emulated
def test_distinct_ids_go_by_bitmap_only_while_the_axis_is_short() -> None:
    ids = np.arange(50)
    for size, kernel in ((10_000, "mark_rows<i64>"), (10**6, "mark_heads")):
        device = EmulatedDevice()
        assert CudaKernels(device).unique_inverse(ids, size)[0].tolist() == ids.tolist()
        assert kernel in {name for name, _, _ in device.launched}


def test_nothing_imports_cupy() -> None:
    code = "import sys, sparsetangent.kernels.cuda.launch, sparsetangent.kernels.cuda.device; assert 'cupy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_blocks_are_no_larger_than_the_launch_bounds_of_the_kernels() -> None:
    sources = [source_of(name) for name in ("gather_rows<u8, i32>", "mark_heads", "fold_sorted<", "scatter_add_rows<")]
    bounds = {int(bound) for source in sources for bound in re.findall(r"__launch_bounds__\((\d+)", source)}
    assert bounds == {Limits().threads}
