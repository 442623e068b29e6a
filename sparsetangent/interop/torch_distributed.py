"""Sums of compact gradients over the ranks of a torch process group: counts first, then the entries themselves, then one merge.

Every rank sends the bytes of its own entries and no padding. A rank without entries sends none. All ranks get the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Literal, NamedTuple

import torch

from ..algebra.frames import coalesce, expand, promote, store
from ..backend import backend_of
from ..types import Frame, IndexedSlices, Tangent
from .coordinates import without_padding
from .torch_split import Traffic, bounds_of, cuts_of, gather_rows, rows_of
from .wire import Layout, Ranks, pack, unpack

__all__ = ["Traffic", "all_reduce", "gather_rows", "reduce_scatter_rows", "rows_of"]

Op = Literal["sum", "mean"]


def all_reduce(
    t: Any,
    op: Op = "sum",
    group: Any = None,
    *,
    wire: torch.dtype | None = None,
    bucket_bytes: int = 2**25,
    traffic: Traffic | None = None,
) -> Any:
    """The sum (or mean) of the tangents of all ranks, on every rank.

    Parameters
    ----------
    t : Tangent, or a list of them
        Of torch tensors, and of one shape and dtype on all ranks; which axes are stored, and how many entries there are, may differ.
        A list is exchanged together, in few messages.
    op : {"sum", "mean"}
        The mean divides by the number of ranks; it needs a floating or complex dtype.
    group : process group, optional
        The default one if None; its timeout bounds the wait for a rank that does not come.
    wire : torch.dtype, optional
        ``torch.bfloat16`` or ``torch.float16``: wider rows travel in it, rounded once, and are summed in their own dtype. Every
        rank uses the rounded rows, its own too. float16 overflows at 65504.
    bucket_bytes : int
        About how many bytes to hold in messages at once; the tangents of a list are grouped accordingly.
    traffic : Traffic, optional
        Counts the bytes.

    Returns
    -------
    IndexedSlices, or a list of them
        Sorted and unique, of the shape and dtype given; not differentiable. Half types are summed in float32, and rounded once on
        each rank and once at the end.

    Raises
    ------
    TypeError
        If `t` is no tangent of torch tensors, or the dtype has no mean.
    ValueError
        If `op` or `wire` is none of the above, or (on all ranks) if the ranks do not agree on shapes, dtypes, `op` and `wire`.
    RuntimeError
        From torch, if a rank has died or does not come within the group's timeout.

    Notes
    -----
    With n entries a rank and W ranks each rank sends ``(W - 1) n`` rows, whatever the size of the table; a dense ring
    sends ``2 (W - 1) / W`` tables.

    Examples
    --------
    >>> import os, tempfile, torch, sparsetangent as st
    >>> from sparsetangent.interop.torch_distributed import all_reduce
    >>> store = torch.distributed.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> t = st.IndexedSlices(torch.tensor([7, 7]), torch.tensor([[1.0], [2.0]]), (1000, 1))
    >>> all_reduce(t).values.tolist()
    [[3.0]]
    >>> [x.dtype for x in all_reduce([t, st.Zero((4,), like=t)], "mean", wire=torch.bfloat16)]
    [torch.float32, torch.float32]
    >>> torch.distributed.destroy_process_group()
    """
    frames = _intake(t, op, wire)
    ranks = Ranks(group)
    frames = [coalesce(f) for f in frames]
    plan = _agree(frames, [[f.n] for f in frames], repr((op, wire)), wire, ranks)
    results = []
    for bucket in _buckets(plan, bucket_bytes):
        layouts = [plan[i].layout for i in bucket]
        own = pack(layouts, [_stored(frames[i], plan[i].layout) for i in bucket]).to(ranks.device)
        if traffic is not None:
            traffic.sent += (own.numel() + 16 * len(bucket)) * (ranks.world - 1)
            traffic.dense += sum(2 * _dense_bytes(frames[i]) * (ranks.world - 1) // ranks.world for i in bucket)
        sizes = [sum(plan[i].nbytes(rank, 0) for i in bucket) for rank in range(ranks.world)]
        received = ranks.gather_bytes(own, sizes)
        parts = [unpack(x, layouts, [plan[i].counts[rank][0] for i in bucket]) for rank, x in enumerate(received)]
        for k, i in enumerate(bucket):
            results.append(_merged([part[k] for part in parts], frames[i], op, ranks.world))
    return results if isinstance(t, (list, tuple)) else results[0]


def reduce_scatter_rows(
    t: Any,
    op: Op = "sum",
    group: Any = None,
    *,
    rows: Sequence[int] | None = None,
    wire: torch.dtype | None = None,
    bucket_bytes: int = 2**25,
    traffic: Traffic | None = None,
) -> Any:
    """The sum (or mean) of the tangents of all ranks, of which each rank receives the rows that are its own.

    For tables that are split over the ranks along the first axis. The parameters that are not named here are those of `all_reduce`.

    Parameters
    ----------
    t : Tangent, or a list of them
        Of the shape of the whole table.
    rows : sequence of int, optional
        How many rows each rank owns, in the order of ranks; for all tangents of a list alike. By default those of `rows_of`.
    op, group, wire, bucket_bytes, traffic
        As for `all_reduce`.

    Returns
    -------
    IndexedSlices, or a list of them
        Of the shape ``(own rows, *rest)`` of this rank's part of the table, sorted and unique, its ids counted from the first row
        that the rank owns: ready for `add_into`.

    Raises
    ------
    TypeError, RuntimeError
        As `all_reduce`.
    ValueError
        As `all_reduce`, or if `rows` do not add up to the first axis, or there is none.

    Examples
    --------
    >>> import os, tempfile, torch, sparsetangent as st
    >>> from sparsetangent.interop.torch_distributed import reduce_scatter_rows, rows_of
    >>> store = torch.distributed.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> t = st.IndexedSlices(torch.tensor([7, 7]), torch.tensor([[1.0], [2.0]]), (1000, 1))
    >>> part = reduce_scatter_rows(t)
    >>> part.shape, part.indices.tolist(), part.values.tolist()
    ((1000, 1), [7], [[3.0]])
    >>> [rows_of(10, rank, 4) for rank in range(4)]
    [range(0, 3), range(3, 6), range(6, 9), range(9, 10)]
    >>> torch.distributed.destroy_process_group()
    """
    frames = _intake(t, op, wire)
    ranks = Ranks(group)
    if any(not f.shape for f in frames):
        raise ValueError("t must have at least one axis, the table's rows")
    bounds = [bounds_of(f.shape[0], rows, ranks.world) for f in frames]
    frames = [coalesce(store(f, (0,))) for f in frames]
    cuts = [cuts_of(f.ids[0], b) for f, b in zip(frames, bounds, strict=True)]
    counts = [[b - a for a, b in pairwise(c)] for c in cuts]
    plan = _agree(frames, counts, repr((op, wire, rows)), wire, ranks)
    results = []
    for bucket in _buckets(plan, bucket_bytes):
        layouts = [plan[i].layout for i in bucket]
        outgoing = []
        for to in range(ranks.world):
            pieces = [_stored(_between(frames[i], cuts[i][to], cuts[i][to + 1]), plan[i].layout) for i in bucket]
            outgoing.append(pack(layouts, pieces).to(ranks.device))
        if traffic is not None:
            others = sum(x.numel() for to, x in enumerate(outgoing) if to != ranks.rank)
            traffic.sent += others + 8 * (1 + ranks.world) * len(bucket) * (ranks.world - 1)
            traffic.dense += sum(_dense_bytes(frames[i]) * (ranks.world - 1) // ranks.world for i in bucket)
        sizes = [sum(plan[i].nbytes(rank, ranks.rank) for i in bucket) for rank in range(ranks.world)]
        received = ranks.exchange_bytes(outgoing, sizes)
        parts = [unpack(x, layouts, [plan[i].counts[rank][ranks.rank] for i in bucket]) for rank, x in enumerate(received)]
        for k, i in enumerate(bucket):
            first, last = bounds[i][ranks.rank], bounds[i][ranks.rank + 1]
            shifted = [_shifted(part[k], first, last) for part in parts]
            results.append(_merged(shifted, frames[i], op, ranks.world))
    return results if isinstance(t, (list, tuple)) else results[0]


# What comes in


def _intake(t: Any, op: str, wire: torch.dtype | None) -> list[Frame]:
    """Tangents as frames without padding, off the tape."""
    if op not in ("sum", "mean"):
        raise ValueError(f'op must be "sum" or "mean", not {op!r}')
    if wire not in (None, torch.float16, torch.bfloat16):
        raise ValueError(f"wire must be torch.bfloat16, torch.float16 or None, not {wire}")
    frames = []
    for item in t if isinstance(t, (list, tuple)) else [t]:
        if not isinstance(item, Tangent) or backend_of(item._frame().values).name != "torch":
            raise TypeError(f"t must be a tangent of torch tensors or a list of them, not {type(item).__name__}")
        frame = item._frame()
        if op == "mean" and not (frame.values.is_floating_point() or frame.values.is_complex()):
            raise TypeError(f"a mean needs a floating or complex dtype, not {frame.values.dtype}")
        frame = without_padding(frame)
        frames.append(frame.with_values(frame.values.detach()))
    return frames


def _between(frame: Frame, start: int, stop: int) -> Frame:
    return frame._replace(ids=tuple(i[start:stop] for i in frame.ids), values=frame.values[start:stop])


# What the ranks agree on


class _Plan(NamedTuple):
    """How one tangent travels."""

    layout: Layout
    counts: list[list[int]]
    """The entries of each rank, for each receiver (one column if all get the same)."""

    def nbytes(self, rank: int, column: int) -> int:
        return self.layout.nbytes(self.counts[rank][column])


def _agree(frames: list[Frame], counts: list[list[int]], how: str, wire: torch.dtype | None, ranks: Ranks) -> list[_Plan]:
    """The layouts, in the union of the axes that any rank with entries stores, and everybody's counts."""
    given = repr([(f.shape, f.values.dtype) for f in frames])
    own = [zlib.crc32((how + given).encode()), len(frames)]
    different = [rank for rank, seen in enumerate(ranks.gather_numbers(own)) if seen != own]
    if different:
        raise ValueError(
            f"ranks {different} reduce something else than rank {ranks.rank}, which has {how} of shapes and dtypes {given}"
        )
    numbers = [n for f, c in zip(frames, counts, strict=True) for n in (sum(1 << a for a in f.axes), *c)]
    width = len(counts[0]) + 1 if counts else 1
    everybody = ranks.gather_numbers(numbers) if numbers else []
    plan = []
    for i, frame in enumerate(frames):
        columns = [seen[i * width : (i + 1) * width] for seen in everybody]
        filled = [c[0] for c in columns if any(c[1:])] or [c[0] for c in columns]
        axes = tuple(a for a in range(len(frame.shape)) if any(mask >> a & 1 for mask in filled))
        stretch = [prod([frame.shape[a] for a in axes if not mask >> a & 1]) for mask, *_ in columns]
        expected = [[n * factor for n in c[1:]] for c, factor in zip(columns, stretch, strict=True)]
        plan.append(_Plan(Layout(frame.shape, axes, frame.values.dtype, wire), expected))
    return plan


def _stored(frame: Frame, layout: Layout) -> Frame:
    """The frame on the axes of the layout; one without entries has whatever axes are asked for."""
    if frame.n:
        return expand(store(frame, layout.axes))
    none = torch.zeros(0, dtype=torch.int64, device=frame.values.device)
    dense = tuple(n for a, n in enumerate(frame.shape) if a not in layout.axes)
    return Frame(layout.axes, (none,) * len(layout.axes), frame.values.new_zeros((0, *dense)), frame.shape)


def _buckets(plan: list[_Plan], limit: int) -> Iterator[list[int]]:
    """Consecutive tangents whose messages, of all ranks together, take about `limit` bytes; the same on every rank."""
    bucket: list[int] = []
    held = 0
    for i, one in enumerate(plan):
        size = sum(one.layout.nbytes(n) for counts in one.counts for n in counts)
        if bucket and held + size > limit:
            yield bucket
            bucket, held = [], 0
        bucket.append(i)
        held += size
    if bucket:
        yield bucket


# What comes out


def _shifted(frame: Frame, first: int, last: int) -> Frame:
    """The frame as one of the rows ``[first, last)`` alone."""
    return frame._replace(ids=(frame.ids[0] - first, *frame.ids[1:]), shape=(last - first, *frame.shape[1:]))


def _merged(parts: list[Frame], own: Frame, op: Op, world: int) -> IndexedSlices:
    """The sum of all ranks' entries, in the order of ranks, so that every rank rounds alike."""
    first = parts[0]
    ids = tuple(torch.cat(columns) for columns in zip(*(p.ids for p in parts), strict=True))
    frame = first._replace(ids=ids, values=torch.cat([p.values for p in parts]))
    dtype = frame.values.dtype
    frame = coalesce(promote(frame, frame.backend.kernels.accumulator(dtype)))
    values = frame.values / world if op == "mean" else frame.values
    wanted = own.ids[0].dtype if own.ids else torch.int64
    device = own.values.device
    return IndexedSlices._of(
        frame._replace(ids=tuple(i.to(device, wanted) for i in frame.ids), values=values.to(device, dtype))
    )


def _dense_bytes(frame: Frame) -> int:
    return prod(frame.shape) * int(frame.values.element_size())
