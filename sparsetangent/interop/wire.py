"""Entries of tangents as bytes, and the collectives of torch that carry them: ids as narrow as their axis allows, rows in the dtype agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ..types import Frame

__all__ = ["Layout", "Ranks", "pack", "unpack"]

# Segments start where every dtype may start.
_ALIGNED = 16


class Layout(NamedTuple):
    """What both ends know of a tangent, so that its bytes need no description."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: torch.dtype
    wire: torch.dtype | None = None
    """The dtype in which real numbers travel, if it is narrower than their own."""

    @property
    def id_dtypes(self) -> tuple[torch.dtype, ...]:
        return tuple(torch.int32 if self.shape[a] < 2**31 else torch.int64 for a in self.axes)

    @property
    def row_dtype(self) -> torch.dtype:
        """Of the rows on their way; complex numbers travel as pairs of reals."""
        own = self.dtype.to_real() if self.dtype.is_complex else self.dtype
        narrower = self.wire is not None and own.is_floating_point and self.wire.itemsize < own.itemsize
        return self.wire if narrower and self.wire is not None else own

    @property
    def row_shape(self) -> tuple[int, ...]:
        dense = tuple(n for a, n in enumerate(self.shape) if a not in self.axes)
        return (*dense, 2) if self.dtype.is_complex else dense

    def sizes(self, n: int) -> list[int]:
        """The bytes of each segment of `n` entries: the ids of each axis, and the rows."""
        columns = [n * dtype.itemsize for dtype in self.id_dtypes]
        return [*columns, n * prod(self.row_shape) * self.row_dtype.itemsize]

    def nbytes(self, n: int) -> int:
        return sum(map(_aligned, self.sizes(n)))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def pack(layouts: Sequence[Layout], frames: Sequence[Frame]) -> torch.Tensor:
    """The entries of frames, one after the other, as one tensor of bytes."""
    pairs = list(zip(layouts, frames, strict=True))
    device = frames[0].values.device if frames else None
    buffer = torch.zeros(sum(layout.nbytes(frame.n) for layout, frame in pairs), dtype=torch.uint8, device=device)
    start = 0
    for layout, frame in pairs:
        rows = torch.view_as_real(frame.values.resolve_conj()) if layout.dtype.is_complex else frame.values
        columns = zip((*frame.ids, rows), (*layout.id_dtypes, layout.row_dtype), layout.sizes(frame.n), strict=True)
        for column, dtype, size in columns:
            buffer[start : start + size].view(dtype).copy_(column.reshape(-1))
            start += _aligned(size)
    return buffer


def unpack(buffer: torch.Tensor, layouts: Sequence[Layout], counts: Sequence[int]) -> list[Frame]:
    """The frames that `pack` was given, of so many entries each; their rows have the tangent's dtype again, and int64 ids."""
    frames, start = [], 0
    for layout, n in zip(layouts, counts, strict=True):
        pieces = []
        for size in layout.sizes(n):
            pieces.append(buffer[start : start + size])
            start += _aligned(size)
        ids = tuple(x.view(dtype).to(torch.int64) for x, dtype in zip(pieces[:-1], layout.id_dtypes, strict=True))
        rows = pieces[-1].view(layout.row_dtype).reshape(n, *layout.row_shape)
        if layout.dtype.is_complex:
            rows = torch.view_as_complex(rows.to(layout.dtype.to_real()))
        frames.append(Frame(layout.axes, ids, rows.to(layout.dtype), layout.shape))
    return frames


class Ranks:
    """The collectives that are needed, of plain numbers and of bytes."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is no rank of the group")
        on_gpu = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def gather_numbers(self, numbers: list[int]) -> list[list[int]]:
        """The integers of every rank; all ranks give as many."""
        own = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        received = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(received, own, group=self.group)
        return [[int(n) for n in x.tolist()] for x in received]

    def gather_bytes(self, own: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
        """The bytes of every rank; `sizes` says how many each one has."""
        buffers = [own if r == self.rank else own.new_empty(size) for r, size in enumerate(sizes)]
        pending = [
            dist.broadcast(buffer, self._global(r), group=self.group, async_op=True)
            for r, buffer in enumerate(buffers)
            if buffer.numel()
        ]
        for work in pending:
            work.wait()
        return buffers

    def exchange_bytes(self, outgoing: list[torch.Tensor], sizes: list[int]) -> list[torch.Tensor]:
        """The bytes that every rank has for this one."""
        received = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        given = [x.numel() for x in outgoing]
        dist.all_to_all_single(received, torch.cat(outgoing), sizes, given, group=self.group)
        return list(received.split(sizes))

    def _global(self, rank: int) -> int:
        return rank if self.group is None else int(dist.get_global_rank(self.group, rank))
