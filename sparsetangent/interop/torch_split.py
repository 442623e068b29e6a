"""Tables that are split over the ranks of a torch process group by rows: who owns what, and reads of rows wherever they are."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import torch

from ..backend import backend_of
from ..types.indices import as_index_array, check_ids
from .wire import Ranks

__all__ = ["Traffic", "bounds_of", "cuts_of", "gather_rows", "rows_of"]


@dataclass
class Traffic:
    """Bytes that this rank had to send, added up over the calls that were given this object.

    Parameters
    ----------
    sent : int
        Bytes sent so far.
    dense : int
        Bytes that dense collectives would have sent.

    Examples
    --------
    >>> from sparsetangent.interop.torch_distributed import Traffic
    >>> Traffic()
    Traffic(sent=0, dense=0)
    >>> Traffic(sent=120, dense=3000).saved
    25.0
    """

    sent: int = 0
    """Of its own entries and their counts, once for each rank that gets them."""

    dense: int = 0
    """That the dense collective would have made of it, as a ring: 2 (W - 1) / W tables a rank for an all-reduce, half of that for
    a reduce-scatter or an all-gather."""

    @property
    def saved(self) -> float:
        """How many times fewer bytes were sent."""
        return self.dense / self.sent if self.sent else float("inf")


def rows_of(size: int, rank: int, world: int) -> range:
    """The rows that a rank owns of a table that is split as `torch.chunk` does: ``ceil(size / world)`` each, the last ones fewer.

    Parameters
    ----------
    size : int
        The rows of the table.
    rank : int
        Whose rows; ``0 <= rank < world``.
    world : int
        How many ranks share the table.

    Returns
    -------
    range
        The numbers of the rows; empty where none are left.

    Raises
    ------
    ZeroDivisionError
        If `world` is 0.

    Examples
    --------
    >>> from sparsetangent.interop.torch_distributed import rows_of
    >>> rows_of(10, 3, 4)
    range(9, 10)
    >>> len(rows_of(2, 3, 4))
    0
    """
    chunk = -(-size // world)
    return range(min(rank * chunk, size), min((rank + 1) * chunk, size))


def bounds_of(size: int, rows: Sequence[int] | None, world: int) -> list[int]:
    """Where each rank's rows start, and where the last one's end; `rows` counts them, by default as `rows_of`."""
    if rows is None:
        return [*(rows_of(size, rank, world).start for rank in range(world)), size]
    if len(rows) != world or min(rows) < 0 or sum(rows) != size:
        raise ValueError(f"rows must be {world} counts that add up to {size}, the first axis, not {list(rows)}")
    return [0, *accumulate(rows)]


def cuts_of(ascending: torch.Tensor, bounds: list[int]) -> list[int]:
    """Where the ids of each rank start among ascending ids, and where the last one's end."""
    edges = torch.tensor(bounds, dtype=torch.int64, device=ascending.device)
    return [int(i) for i in torch.searchsorted(ascending.to(torch.int64).contiguous(), edges).tolist()]


def gather_rows(
    part: torch.Tensor,
    ids: Any,
    size: int,
    group: Any = None,
    *,
    rows: Sequence[int] | None = None,
    traffic: Traffic | None = None,
) -> torch.Tensor:
    """The rows of a split table at `ids`, from the ranks that own them; every rank of the group calls it.

    Parameters
    ----------
    part : torch.Tensor
        The rows that this rank owns, shape ``(own rows, *rest)``.
    ids : torch.Tensor or list of int
        Positions in the whole table, any shape; ``0 <= i < size``. Each rank has its own, or none.
    size : int
        The rows of the whole table.
    group : process group, optional
        By default that of all ranks.
    rows : sequence of int, optional
        How many rows each rank owns, by default those of `rows_of`.
    traffic : Traffic, optional
        Counts the bytes: ids asked for and rows given to others.

    Returns
    -------
    torch.Tensor
        Shape ``(*ids.shape, *rest)``; not differentiable. A row that is asked for twice is sent once.

    Raises
    ------
    IndexError
        An id out of range.
    ValueError
        If `part` has not the rows that the rank owns, or (on all ranks) if the ranks do not agree on the table.
    RuntimeError
        From torch, if a rank has died or does not come within the group's timeout.

    Notes
    -----
    `reduce_scatter_rows` is the adjoint: it takes the gradient of what was read back to the owners.

    Examples
    --------
    >>> import os, tempfile, torch
    >>> from sparsetangent.interop.torch_distributed import gather_rows
    >>> store = torch.distributed.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> gather_rows(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 1, 0], 2).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    >>> gather_rows(torch.tensor([[1.0], [3.0]]), [], 2).shape
    torch.Size([0, 1])
    >>> torch.distributed.destroy_process_group()
    """
    ranks = Ranks(group)
    bounds = bounds_of(size, rows, ranks.world)
    part = part.detach()
    owned = bounds[ranks.rank + 1] - bounds[ranks.rank]
    if part.shape[0] != owned:
        raise ValueError(f"part must have the {owned} rows that rank {ranks.rank} owns, not {part.shape[0]}")
    kernels = backend_of(part).kernels
    wanted, _ = check_ids(as_index_array(ids, part, name="ids"), size, 0, negatives=False, validate="now", name="ids")
    distinct, inverse = kernels.unique_inverse(wanted.reshape(-1).to(torch.int64), size)

    cuts = cuts_of(distinct, bounds)
    counts = [b - a for a, b in pairwise(cuts)]
    table = repr((size, rows, tuple(part.shape[1:]), part.dtype))
    everybody = ranks.gather_numbers([zlib.crc32(table.encode()), *counts])
    if different := [rank for rank, seen in enumerate(everybody) if seen[0] != everybody[ranks.rank][0]]:
        raise ValueError(
            f"ranks {different} read another table than rank {ranks.rank}, which has (size, rows, rest, dtype) {table}"
        )

    asked_of_me = [seen[1 + ranks.rank] for seen in everybody]
    questions = [
        (distinct[a:b] - first).to(ranks.device).view(torch.uint8)
        for (a, b), first in zip(pairwise(cuts), bounds, strict=False)
    ]
    asked = ranks.exchange_bytes(questions, [8 * n for n in asked_of_me])
    width = prod(part.shape[1:]) * part.dtype.itemsize
    answers = [_as_bytes(kernels.gather(part, x.view(torch.int64).to(part.device))).to(ranks.device) for x in asked]
    received = torch.cat(ranks.exchange_bytes(answers, [n * width for n in counts]))
    if traffic is not None:
        mine = ranks.rank
        traffic.sent += 8 * (sum(counts) - counts[mine]) + width * (sum(asked_of_me) - asked_of_me[mine])
        traffic.sent += 8 * (1 + ranks.world) * (ranks.world - 1)
        traffic.dense += size * width * (ranks.world - 1) // ranks.world
    found = received.view(part.dtype).reshape((distinct.shape[0], *part.shape[1:])).to(part.device)
    return kernels.gather(found, inverse).reshape((*wanted.shape, *part.shape[1:]))


def _as_bytes(x: torch.Tensor) -> torch.Tensor:
    buffer = torch.empty(x.numel() * x.element_size(), dtype=torch.uint8, device=x.device)
    buffer.view(x.dtype).copy_(x.reshape(-1))
    return buffer
