"""What the CUDA kernels cost on a card, beside CuPy's and torch's own operations and a device copy.

    python -m benchmarks.gpu [--seconds 300] [--json gpu.json]     on a GPU, with CuPy; torch is measured too where it has CUDA
    python -m benchmarks.gpu --emulate                             tiny sizes on the CPU: that the script runs, no figures

Contenders of one case are interleaved and their medians compared. Cases that do not fit into `--seconds` are left out and named.
Not yet run on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from sparsetangent.kernels.cuda.launch import CudaKernels, Step

Run = Callable[[], Any]


class Case(NamedTuple):
    """One question: what is done, on what, by whom, and the bytes that must move."""

    question: str
    on: str
    contenders: dict[str, Run]
    nbytes: int


class Place(NamedTuple):
    """Where the measurement runs."""

    xp: Any
    kernels: CudaKernels
    atomic: CudaKernels
    torch: Any
    time: Callable[[Run], float]
    facts: dict[str, str]
    rows: tuple[int, ...]
    batch: int
    widths: tuple[int, ...]
    dtypes: tuple[str, ...]


def on_the_card() -> Place:
    import cupy

    from sparsetangent.kernels.cupy import CupyKernels

    def milliseconds(run: Run) -> float:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    facts = {
        "card": properties["name"].decode(),
        "cupy": cupy.__version__,
        "cuda": str(cupy.cuda.runtime.runtimeGetVersion()),
        "driver": str(cupy.cuda.runtime.driverGetVersion()),
    }
    torch = _torch_with_cuda()
    if torch is not None:
        facts["torch"] = torch.__version__  # both libraries use the null stream, so one pair of events times either
    dtypes = ("float32", "bfloat16") if hasattr(cupy, "bfloat16") else ("float32", "float16")
    atomic = CupyKernels(deterministic=False)
    return Place(
        cupy, CupyKernels(), atomic, torch, milliseconds, facts, (10_000, 1_000_000), 1_000_000, (16, 64, 128, 512), dtypes
    )


def _torch_with_cuda() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def emulated() -> Place:
    import array_api_compat.numpy

    from tests.cuda_emulator.device import EmulatedDevice

    def milliseconds(run: Run) -> float:
        start = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - start)

    kernels, atomic = CudaKernels(EmulatedDevice()), CudaKernels(EmulatedDevice(), deterministic=False)
    facts = {"card": "none: emulated on the CPU, so the times mean nothing"}
    return Place(array_api_compat.numpy, kernels, atomic, None, milliseconds, facts, (50,), 60, (4,), ("float32", "float16"))


def ids_by_skew(rows: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    half = rng.integers(0, rows, n)
    half[::2] = rows // 2
    uniform = rng.integers(0, rows, n)
    return {
        "uniform": uniform,
        "Zipf 1.05": _zipf(rng, 1.05, rows, n),
        "Zipf 1.5": _zipf(rng, 1.5, rows, n),
        "half on one": half,
    }


def _zipf(rng: np.random.Generator, exponent: float, rows: int, n: int) -> Any:
    """Ranks of a truncated Zipf law, scattered over the axis."""
    weights = np.arange(1, rows + 1, dtype=np.float64) ** -exponent
    ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n))
    return rng.permutation(rows)[np.minimum(ranks, rows - 1)]


def cases(place: Place) -> Iterator[Case]:
    """The cheapest first, so that a short run answers the most questions."""
    yield from launches(place)
    yield from sorts(place)
    for rows in place.rows:
        yield from distinct(place, rows)
        for skew, ids in ids_by_skew(rows, place.batch).items():
            for dtype in place.dtypes:
                for width in place.widths:
                    yield from moves(place, rows, skew, ids, dtype, width)
    yield from steps(place)


def launches(place: Place) -> Iterator[Case]:
    xp, k = place.xp, place.kernels
    ids, src = xp.zeros(1, dtype=np.int64), xp.zeros((1, 4), dtype=np.float32)
    yield Case("launch", "1 row of 4", {"ours": lambda: k.gather(src, ids), "take": lambda: xp.take(src, ids, axis=0)}, 40)


def sorts(place: Place) -> Iterator[Case]:
    xp, n = place.xp, place.batch
    given = np.random.default_rng(1).integers(0, min(n, 60_000), n)
    runs = {
        dtype: (lambda x: lambda: xp.argsort(x))(xp.asarray(given.astype(dtype))) for dtype in ("uint16", "uint32", "int64")
    }
    yield Case("argsort", f"{n} ids", {"ours": runs["uint16"], **runs}, 10 * n)


def distinct(place: Place, rows: int) -> Iterator[Case]:
    xp, k = place.xp, place.kernels
    ids = xp.asarray(ids_by_skew(rows, place.batch)["uniform"])
    runs = {"ours": lambda: k.unique_inverse(ids, rows), "unique": lambda: xp.unique(ids, return_inverse=True)}
    yield Case("distinct ids", f"{place.batch} of {rows}", runs, 24 * place.batch)


def moves(place: Place, rows: int, skew: str, given: Any, dtype: str, width: int) -> Iterator[Case]:
    """K1, K2, K3: rows read, rows added in place, rows summed into a new array and merged."""
    xp, n = place.xp, place.batch
    if n * width * 4 > 2**32:
        n = 2**32 // (width * 4)
    ids = xp.asarray(given[:n])
    values = np.random.default_rng(2).standard_normal((n, width), dtype=np.float32)
    src, table = xp.asarray(values).astype(dtype), xp.zeros((rows, width), dtype=dtype)
    on, row = f"{n} of {rows}, {width} x {dtype}, {skew}", width * table.dtype.itemsize
    theirs = _torch_moves(place.torch, ids, src, rows)
    k, atomic = place.kernels, place.atomic
    copy = {"copy of the rows": lambda: src.copy()}
    yield Case(
        "gather", on, {"ours": lambda: k.gather(table, ids), "take": lambda: xp.take(table, ids, axis=0), **copy}, 2 * n * row
    )
    added = {
        "ours": lambda: k.scatter_add(table, ids, src),
        "ours, atomic": lambda: atomic.scatter_add(table, ids, src, in_order=True),
    }
    if dtype == "float32" and place.torch is not None:
        import cupyx

        added["cupyx.scatter_add"] = lambda: cupyx.scatter_add(table, ids, src)
    yield Case("scatter_add", on, {**added, **theirs["add"], **copy}, n * row + 2 * min(n, rows) * row)
    summed = {"ours": lambda: k.densify(ids, src, rows), "ours, atomic": lambda: atomic.densify(ids, src, rows)}
    yield Case("densify", on, {**summed, **theirs["densify"], **copy}, (n + rows) * row)
    merged = {"ours": lambda: k.coalesce(ids, src, rows), "ours, atomic": lambda: atomic.coalesce(ids, src, rows)}
    yield Case("coalesce", on, {**merged, **theirs["coalesce"], **copy}, (n + min(n, rows)) * row)


def _torch_moves(torch: Any, ids: Any, src: Any, rows: int) -> dict[str, dict[str, Run]]:
    if torch is None:
        return {"add": {}, "densify": {}, "coalesce": {}}
    i, x = torch.from_dlpack(ids), torch.from_dlpack(src)
    dst = x.new_zeros((rows, x.shape[1]))
    slices = torch.sparse_coo_tensor(i[None], x, (rows, x.shape[1]), check_invariants=False)
    return {
        "add": {
            "index_add_": lambda: dst.index_add_(0, i, x),
            "index_put_": lambda: dst.index_put_((i,), x, accumulate=True),
        },
        "densify": {
            "embedding_dense_backward": lambda: torch.ops.aten.embedding_dense_backward(x, i, rows, -1, False),
            "zeros and index_add_": lambda: x.new_zeros(dst.shape).index_add_(0, i, x),
        },
        "coalesce": {"coalesce()": lambda: slices.coalesce()},
    }


def steps(place: Place) -> Iterator[Case]:
    """K11 on the distinct rows of a batch, beside torch's sparse and fused optimizers."""
    xp, k, rows, width = place.xp, place.kernels, place.rows[-1], place.widths[len(place.widths) // 2]
    n = max(1, min(place.batch, rows) // 10)
    ids = xp.asarray(np.random.default_rng(3).permutation(rows)[:n])
    grad = xp.asarray(np.random.default_rng(4).standard_normal((n, width), dtype=np.float32))
    for rule, states in (("sgd", 0), ("adagrad", 1), ("adam", 2)):
        table = xp.zeros((rows, width), dtype=np.float32)
        held = [xp.zeros((rows, width), dtype=np.float32) for _ in range(states)]
        step = Step(rule, 0.1)  # type: ignore[arg-type]
        ours = {"ours": (lambda s, t, h: lambda: k.update_rows(s, t, h, ids, grad))(step, table, held)}
        yield Case(
            rule,
            f"{n} rows of {rows} x {width}",
            {**ours, **_torch_step(place.torch, rule, ids, grad, rows)},
            n * width * 4 * (3 + 2 * states),
        )


def _torch_step(torch: Any, rule: str, ids: Any, grad: Any, rows: int) -> dict[str, Run]:
    if torch is None:
        return {}
    i, g = torch.from_dlpack(ids), torch.from_dlpack(grad)
    sparse = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.SparseAdam}[rule]
    dense = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[rule]

    def stepper(make: Any, gradient: Any, **options: Any) -> Run:
        parameter = torch.nn.Parameter(g.new_zeros((rows, g.shape[1])))
        optimizer = make([parameter], lr=0.1, **options)
        parameter.grad = gradient
        return lambda: optimizer.step()

    slices = torch.sparse_coo_tensor(i[None], g, (rows, g.shape[1])).coalesce()
    whole = torch.zeros((rows, g.shape[1]), device=g.device).index_copy_(0, i, g)
    return {"torch, sparse": stepper(sparse, slices), "torch, fused": stepper(dense, whole, fused=True)}


def measure(place: Place, case: Case, repeats: int) -> dict[str, float]:
    """Medians of interleaved runs, after one run of each that compiles and allocates."""
    for run in case.contenders.values():
        place.time(run)
    times: dict[str, list[float]] = {name: [] for name in case.contenders}
    for _ in range(repeats):
        for name, run in case.contenders.items():
            times[name].append(place.time(run))
    return {name: median(found) for name, found in times.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args(arguments)
    place = emulated() if options.emulate else on_the_card()
    started, results, left_out = time.monotonic(), [], 0
    print(*(f"{key}: {value}" for key, value in place.facts.items()), sep="\n")
    for case in cases(place):
        if time.monotonic() - started > options.seconds:
            left_out += 1
            continue
        times = measure(place, case, options.repeats)
        results.append({"question": case.question, "on": case.on, "bytes": case.nbytes, "ms": times})
        peers = "  ".join(f"{name} {ms / times['ours']:.2f}x" for name, ms in times.items() if name != "ours")
        print(
            f"{case.question:13} {case.on:48} {times['ours']:9.3f} ms {case.nbytes / times['ours'] / 1e6:8.1f} GB/s   {peers}"
        )
    if left_out:
        print(f"left out, for want of time: {left_out} cases")
    if options.json:
        options.json.write_text(json.dumps({"facts": place.facts, "left_out": left_out, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
