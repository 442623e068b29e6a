"""What each rank runs in the tests of `torch_distributed`: ``python -m tests.interop.ranks SCENARIO RANK WORLD STORE ROUNDS``.

A rank draws the tangents of all ranks from a seed, so it can say itself what the sum is; it prints what it has checked.
"""

import os
import sys
import time
import zlib
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, Zero
from sparsetangent.interop.torch_distributed import Traffic, all_reduce, gather_rows, reduce_scatter_rows, rows_of
from sparsetangent.testing import loop_densify, to_numpy

PATIENCE = 3
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.uint8,
    torch.bool,
)
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.complex64: 1e-5}


def numbers(rng, shape, dtype):
    if dtype.is_complex:
        return torch.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).to(dtype)
    if dtype.is_floating_point:
        return torch.asarray(rng.normal(size=shape)).to(dtype)
    return torch.asarray(rng.integers(0, 2 if dtype == torch.bool else 200, shape)).to(dtype)


def tangent(rng, shape, dtype, axes):
    """Empty ranks, repeats, both widths of ids, other axes than the other ranks, padding, and the constant types."""
    kind = rng.choice(["slices"] * 8 + ["padded", "fill", "zero", "whole"])
    if kind == "fill":
        return Fill(numbers(rng, (), dtype), shape)
    if kind == "zero":
        return Zero(shape, xp=torch, dtype=dtype)
    if kind == "whole" or rng.random() < 0.15:
        axes = tuple(sorted(rng.permutation(len(shape))[: rng.integers(0, len(shape) + 1)].tolist()))
    n = 0 if rng.random() < 0.25 or any(shape[a] == 0 for a in axes) else int(rng.integers(0, 12))
    width = np.int32 if rng.random() < 0.3 else np.int64
    ids = tuple(
        torch.asarray(rng.integers(-shape[a], shape[a], n).astype(width)) if n else torch.zeros(0, dtype=torch.int64)
        for a in axes
    )
    t = IndexedSlices(ids, numbers(rng, (n, *(m for a, m in enumerate(shape) if a not in axes)), dtype), shape, axis=axes)
    return t.coalesce(size=n + 3) if kind == "padded" and axes else t


def drawn(seed, world):
    """One round: the tangents of every rank, and how to reduce them."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    first = int(rng.integers(0, 9))
    ranks = [[] for _ in range(world)]
    op = rng.choice(["sum", "mean"])
    for _ in range(count):
        shape = (first, *rng.integers(1, 4, rng.integers(0, 3)).tolist())
        dtype = DTYPES[rng.integers(6 if op == "mean" else len(DTYPES))]
        axes = tuple(sorted({0, int(rng.integers(len(shape)))})) if rng.random() < 0.4 else (int(rng.integers(len(shape))),)
        for rank in ranks:
            rank.append(tangent(rng, shape, dtype, axes))
    wire = [None, None, torch.bfloat16, torch.float16][rng.integers(4)]
    rows = None if rng.random() < 0.5 else np.diff([0, *sorted(rng.integers(0, first + 1, world - 1).tolist()), first]).tolist()
    return ranks, {"op": str(op), "wire": wire, "bucket_bytes": int(rng.choice([1, 200, 2**25]))}, rows


def summed(tangents, op):
    """The dense sum or mean in double precision (integers wrap, bools are or-ed), and the sum of magnitudes."""
    dense = [loop_densify(t) for t in tangents]
    kind = dense[0].dtype.kind
    if kind in "fc":
        dense = [x.astype(complex if kind == "c" else float) for x in dense]
    total, scale = dense[0], abs(dense[0])
    for x in dense[1:]:
        total, scale = (total | x if kind == "b" else total + x), scale + abs(x)
    return (total / len(dense), scale) if op == "mean" else (total, scale)


def check(got, wanted, scale, dtype, shape, wire):
    assert isinstance(got, IndexedSlices) and got.dtype == dtype and got.shape == shape, (got, dtype, shape)
    assert got.coalesce().stored == got.stored and got.unique
    tolerance = TOLERANCE.get(dtype, 1e-12 if dtype.is_floating_point or dtype.is_complex else 0)
    if wire is not None and tolerance:
        tolerance = max(tolerance, 1e-2 if wire == torch.bfloat16 else 2e-3)
    actual = loop_densify(got)
    np.testing.assert_array_equal(actual, to_numpy(got.densify()))
    assert np.all(abs(actual - wanted) <= tolerance * (scale + 1)) if tolerance else np.array_equal(actual, wanted), (
        actual,
        wanted,
    )


def same_bits_everywhere(results, world):
    own = zlib.crc32(b"".join(to_numpy(x).tobytes() for t in results for x in (*(i.long() for i in t.coords), t.values)))
    seen = [None] * world
    dist.all_gather_object(seen, own)
    assert len(set(seen)) == 1, seen


def rounds(rank, world, count):
    for seed in range(count):
        everybody, how, rows = drawn(seed, world)
        own = everybody[rank]
        given = own if len(own) > 1 or seed % 2 else own[0]
        traffic = Traffic()
        results = all_reduce(given, traffic=traffic, **how)
        results = results if isinstance(given, list) else [results]
        if seed % 8 == 0:
            same_bits_everywhere(results, world)
        parts = reduce_scatter_rows(given, rows=rows, **how)
        parts = parts if isinstance(given, list) else [parts]
        for k, (total, part) in enumerate(zip(results, parts, strict=True)):
            wanted, scale = summed([t[k] for t in everybody], how["op"])
            shape, dtype = own[k].shape, own[k].dtype
            check(total, wanted, scale, dtype, shape, how["wire"])
            mine = rows_of(shape[0], rank, world) if rows is None else range(sum(rows[:rank]), sum(rows[: rank + 1]))
            window = slice(mine.start, mine.stop)
            check(part, wanted[window], scale[window], dtype, (len(mine), *shape[1:]), how["wire"])
    print("rounds", count)


def reads(rank, world, count):
    """Rows of a split table, wherever they are: repeats, no ids, ranks that own nothing."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        size, dtype = int(rng.integers(0, 20)), DTYPES[rng.integers(len(DTYPES))]
        table = numbers(rng, (size, *rng.integers(0, 3, rng.integers(0, 3)).tolist()), dtype)
        rows = (
            None if rng.random() < 0.5 else np.diff([0, *sorted(rng.integers(0, size + 1, world - 1).tolist()), size]).tolist()
        )
        mine = rows_of(size, rank, world) if rows is None else range(sum(rows[:rank]), sum(rows[: rank + 1]))
        shapes = [
            (0,) if not size or rng.random() < 0.2 else tuple(rng.integers(0, 6, rng.integers(0, 3)).tolist())
            for _ in range(world)
        ]
        ids = [torch.asarray(rng.integers(0, max(size, 1), shape)) for shape in shapes][rank]
        got = gather_rows(table[mine.start : mine.stop].clone(), ids, size, rows=rows)
        wanted = np.array([to_numpy(table)[i] for i in ids.reshape(-1).tolist()], to_numpy(table).dtype).reshape(
            (*ids.shape, *table.shape[1:])
        )
        assert got.dtype == dtype and got.shape == (*ids.shape, *table.shape[1:])
        np.testing.assert_array_equal(to_numpy(got), wanted)
    part = torch.ones(len(rows_of(10, rank, world)), 2)
    raises(IndexError, "ids holds 10 at position 1", gather_rows, part, [0, 10], 10)
    raises(ValueError, f"rows that rank {rank} owns", gather_rows, torch.ones(7, 2), [0], 10)
    raises(ValueError, "read another table than rank", gather_rows, part.to(torch.float64) if rank == 1 else part, [0], 10)
    traffic = Traffic()
    gather_rows(part, [0, 0, 9], 10, traffic=traffic)
    served = {0: 3, 3: 3}.get(rank, 0)  # each of the other ranks asks once for each row
    asked = 2 if rank in (1, 2) else 1
    assert traffic.sent == 8 * asked + 8 * served + 8 * (1 + world) * (world - 1), traffic
    print("reads", count)


def details(rank, world):
    """What is said of bytes, errors, subgroups, and of inputs, which stay as they are."""
    # A table of a million rows, of which each rank has read a thousand.
    ids = torch.as_tensor(np.random.default_rng(rank).integers(0, 1_000_000, 1000))
    distinct = len(set(ids.tolist()))
    t = IndexedSlices(ids, torch.ones(1000, 64), (1_000_000, 64))
    for wire, itemsize in ((None, 4), (torch.bfloat16, 2)):
        traffic = Traffic()
        all_reduce(t, wire=wire, traffic=traffic)
        payload = distinct * (4 + 64 * itemsize)
        assert 0 <= traffic.sent - (world - 1) * payload <= (world - 1) * 64, traffic
        assert traffic.dense == 2 * 1_000_000 * 64 * 4 * (world - 1) // world
        scattered = Traffic()
        reduce_scatter_rows(t, wire=wire, traffic=scattered)
        assert scattered.sent < payload + 1000 and scattered.dense == traffic.dense // 2
        if rank == 0:
            print(
                f"sent {traffic.sent} of {traffic.dense} bytes, {traffic.saved:.0f} times fewer; scattered {scattered.sent}; wire {wire}"
            )

    # A rank without entries sends none.
    traffic = Traffic()
    some = IndexedSlices(torch.zeros(rank, dtype=torch.int64), torch.ones(rank, 4), (9, 4))
    assert all_reduce(some, traffic=traffic).densify()[0].tolist() == [sum(range(world))] * 4
    assert rank or traffic.sent == 16 * (world - 1)
    assert all_reduce([]) == [] and reduce_scatter_rows([]) == []

    # Half types: summed in single precision and rounded once.
    half = IndexedSlices(torch.zeros(1000, dtype=torch.int64), torch.ones(1000, dtype=torch.float16), (3,))
    assert all_reduce(half).values.tolist() == [1000.0 * world]
    big = IndexedSlices(torch.tensor([0]), torch.full((1,), 60000.0, dtype=torch.float16), (3,))
    assert all_reduce(big, "mean").values.tolist() == [60000.0]

    # The tape is left, and inputs stay as they are.
    values = torch.ones(2, 1, requires_grad=True)
    live = IndexedSlices(torch.tensor([1, 1]), values, (3, 1))
    assert not all_reduce(live).values.requires_grad and live.stored == 2 and live.indices.tolist() == [1, 1]
    narrow = IndexedSlices(torch.tensor([1], dtype=torch.int32), torch.ones(1), (3,))
    assert all_reduce(narrow).indices.dtype == torch.int32

    # Beyond 32 bits.
    wide = IndexedSlices(torch.tensor([2**50 - 1 - rank, 5]), torch.ones(2, 1), (2**50, 1))
    assert all_reduce(wide).indices.tolist() == [5, *(2**50 - world + r for r in range(world))]
    part = reduce_scatter_rows(wide)
    assert part.shape == (2**50 // world, 1) and part.stored == (rank == 0) + (world if rank == world - 1 else 0)

    # Part of the ranks.
    group = dist.new_group([1, 3])
    if rank in (1, 3):
        row = IndexedSlices(torch.tensor([rank]), torch.tensor([float(rank)]), (4,))
        assert all_reduce(row, group=group).densify().tolist() == [0, 1, 0, 3]
        assert reduce_scatter_rows(row, group=group).densify().tolist() == ([0, 1] if rank == 1 else [0, 3])

    # Errors are the same on all ranks, and the group lives on.
    for given, keywords in (
        (IndexedSlices(torch.tensor([0]), torch.ones(1), (4 + (rank == 2),)), {}),
        (narrow, {"op": "sum" if rank else "mean"}),
        ([narrow] * (1 + (rank == 3)), {}),
        (narrow, {"wire": torch.bfloat16 if rank == 1 else None}),
    ):
        raises(ValueError, "reduce something else than rank", all_reduce, given, **keywords)
    raises(TypeError, "t must be a tangent of torch tensors or a list of them, not Tensor", all_reduce, torch.ones(3))
    raises(TypeError, "t must be a tangent of torch tensors", all_reduce, st.Zero((3,)))
    raises(
        TypeError,
        "a mean needs a floating or complex dtype, not torch.int64",
        all_reduce,
        Zero((3,), xp=torch, dtype=torch.int64),
        "mean",
    )
    raises(ValueError, 'op must be "sum" or "mean", not \'max\'', all_reduce, narrow, "max")
    raises(
        ValueError,
        "wire must be torch.bfloat16, torch.float16 or None, not torch.float32",
        all_reduce,
        narrow,
        wire=torch.float32,
    )
    raises(ValueError, "rows must be 4 counts that add up to 3", reduce_scatter_rows, narrow, rows=[1, 1, 1, 1])
    raises(ValueError, "at least one axis", reduce_scatter_rows, Zero((), xp=torch))
    assert all_reduce(narrow).values.tolist() == [float(world)]
    print("details")


def raises(error, message, function, *args, **keywords):
    try:
        function(*args, **keywords)
    except error as raised:
        assert message in str(raised), raised
    else:
        raise AssertionError(f"no {error.__name__} with {message!r}")


def lost(rank, world):
    """One rank does not come, and then dies: the others raise, within the timeout of the group, and do not hang."""
    t = IndexedSlices(torch.tensor([rank]), torch.ones(1, 4), (9, 4))
    impatient = dist.new_group(timeout=timedelta(seconds=PATIENCE))
    all_reduce(t), reduce_scatter_rows(t, group=impatient)
    if rank == 2:
        time.sleep(PATIENCE + 3)
        os._exit(3)
    for what, group in (("absence", impatient), ("death", None)):
        start = time.monotonic()
        raises(RuntimeError, "", all_reduce, t, group=group)
        print(f"{what}: raised after {time.monotonic() - start:.1f} s", flush=True)
    os._exit(0)  # the groups are beyond repair


def main(scenario, rank, world, store, count):
    rank, world = int(rank), int(world)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, world), rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    if scenario == "lost":
        lost(rank, world)
    rounds(rank, world, int(count))
    reads(rank, world, int(count) // 4)
    details(rank, world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
