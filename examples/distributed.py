"""The word vectors of `word_vectors.py` on several processes: data-parallel, first with a whole table each, then with a split one.

Every process draws batches of its own. With a table each, the gradients of a step are summed by `all_reduce`, and every process
makes the same update. With a split table each process owns some of the rows: `gather_rows` fetches those that a batch reads,
and `reduce_scatter_rows` takes their gradients back to the owners, who alone update them. Both ways are the same computation.

    torchrun --standalone --nproc-per-node 4 examples/distributed.py [--steps 200] [--rows 262144] [--dim 64] [--wire bfloat16]
"""

import argparse
import os
import time
import zlib
from itertools import islice
from statistics import fmean
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
import torch.distributed as dist
from corpus import read_corpus, subword_table
from word_vectors import MIB, RATE, SUBWORDS, Batch, Sampler, backward, new_table

import sparsetangent as st
from sparsetangent import rules
from sparsetangent.interop.torch_distributed import Traffic, all_reduce, gather_rows, reduce_scatter_rows, rows_of

DENSE_STEPS = 3  # enough to time them


def gradient_of(table: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, st.IndexedSlices]:
    """The loss and its gradient on one process: the rows that the batch has read."""
    loss, reads = backward(xp, table, batch)
    first, second = (rules.take_vjp(cotangent, tuple(table.shape), ids) for ids, cotangent in reads)
    return loss, first + second


def replicated_step(table: torch.Tensor, batch: Batch, rate: float, **how: Any) -> torch.Tensor:
    """Every process has the whole table, and makes the same update of it."""
    loss, gradient = gradient_of(table, batch)
    st.add_into(table, all_reduce(gradient, "mean", **how) * -rate)
    return loss


def split_step(part: torch.Tensor, size: int, batch: Batch, rate: float, traffic: Traffic, **how: Any) -> torch.Tensor:
    """Every process has some rows, and updates those alone. What a batch reads is a small table of its own meanwhile."""
    ids, places = torch.unique(torch.cat([batch.inputs.reshape(-1), batch.outputs.reshape(-1)]), return_inverse=True)
    read = gather_rows(part, ids, size, traffic=traffic)
    inputs, outputs = places.split([batch.inputs.numel(), batch.outputs.numel()])
    here = batch._replace(inputs=inputs.reshape(batch.inputs.shape), outputs=outputs.reshape(batch.outputs.shape))
    loss, gradient = gradient_of(read, here)
    whole = st.IndexedSlices(ids[gradient.indices], gradient.values, (size, part.shape[1]))
    st.add_into(part, reduce_scatter_rows(whole, "mean", traffic=traffic, **how) * -rate)
    return loss


def dense_step(table: torch.Tensor, batch: Batch, rate: float) -> torch.Tensor:
    """What one does without compact gradients: a gradient of the table's shape, summed by an all-reduce."""
    loss, gradient = gradient_of(table, batch)
    dense = gradient.densify()
    dist.all_reduce(dense)
    table -= dense * (rate / dist.get_world_size())
    return loss


def mean_over_ranks(x: torch.Tensor) -> float:
    dist.all_reduce(x)
    return float(x) / int(dist.get_world_size())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2**18, help="rows of the table (default 2**18)")
    parser.add_argument("--dim", type=int, default=64, help="length of a vector (default 64)")
    parser.add_argument("--batch", type=int, default=64, help="centres a step and process (default 64)")
    parser.add_argument("--min-count", type=int, default=15, help="rarer words are left out (default 15)")
    parser.add_argument("--wire", choices=["bfloat16", "float16"], help="send gradients in half precision")
    return parser.parse_args()


def start() -> torch.device:
    """Join the other processes: on GPUs with nccl if each process can have one, else with gloo."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        torch.cuda.set_device(local)
        dist.init_process_group("nccl")
        return torch.device("cuda", local)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dist.init_process_group("gloo")
    return torch.device("cpu")


def main() -> None:
    options = parse()
    device = start()
    rank, world = dist.get_rank(), dist.get_world_size()

    def say(line: str) -> None:
        if rank == 0:
            print(line, flush=True)

    corpus = read_corpus(options.min_count)
    words, size = len(corpus.vocabulary), options.rows
    if size < 3 * words:
        raise SystemExit(f"--rows must be at least {3 * words}: words, contexts and buckets")
    subwords, weights = subword_table(corpus.vocabulary, 2 * words, size, SUBWORDS)
    sampler = Sampler(xp, corpus, subwords, weights, options.batch, np.random.default_rng(rank))
    batches = [Batch(*(x.to(device) for x in batch)) for batch in islice(sampler.batches(), options.steps)]
    table = torch.from_numpy(new_table(words, size, options.dim, np.random.default_rng(0))).to(device)
    mine = rows_of(size, rank, world)
    part = table[mine.start : mine.stop].clone()
    say(
        f"{world} processes with {dist.get_backend()}, a table of {size:,} x {options.dim} float32 = {table.nbytes / MIB:.0f} MiB"
    )

    wire = getattr(torch, options.wire) if options.wire else None
    tables = {"replicated": Traffic(), "split": Traffic()}
    for name, traffic in tables.items():
        losses, begin = [], time.perf_counter()
        for number, batch in enumerate(batches):
            rate = RATE * (1 - number / len(batches))
            if name == "split":
                loss = split_step(part, size, batch, rate, traffic, wire=wire)
            else:
                loss = replicated_step(table, batch, rate, traffic=traffic, wire=wire)
            losses.append(mean_over_ranks(loss))
        milliseconds = (time.perf_counter() - begin) / len(batches) * 1e3
        tenth = max(1, len(losses) // 10)
        say(
            f"{name}: loss {fmean(losses[:tenth]):.4f} -> {fmean(losses[-tenth:]):.4f}, {milliseconds:.1f} ms a step; "
            f"{traffic.sent / len(batches) / MIB:.3f} MiB sent a step and process, dense {traffic.dense / len(batches) / MIB:.1f}"
        )

    copy, begin = table.clone(), time.perf_counter()
    for batch in batches[:DENSE_STEPS]:
        mean_over_ranks(dense_step(copy, batch, RATE))
    say(f"dense all-reduce, for comparison: {(time.perf_counter() - begin) / DENSE_STEPS * 1e3:.1f} ms a step")

    sums: list[Any] = [None] * world
    dist.all_gather_object(sums, zlib.crc32(table.cpu().numpy().tobytes()))
    apart = (part - table[mine.start : mine.stop]).abs().max() if len(mine) else torch.zeros((), device=device)
    dist.all_reduce(apart, dist.ReduceOp.MAX)
    say(f"the tables of all processes are equal to the bit: {len(set(sums)) == 1}")
    say(f"the split table differs from them by at most {float(apart):.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
