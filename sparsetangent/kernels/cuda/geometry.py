"""Widths of packs, grids and blocks, and the chunks of a fold: arithmetic on Python ints, which do not overflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .instances import SIZES, WIDTHS, pack_elements

__all__ = ["Limits", "Shape", "chunk_length", "fold_levels", "key_dtype", "move_width", "value_elements"]

_GRID_X, _GRID_Y = 2**31 - 1, 65535  # the hardware's limits
_WARP = 32


class Shape(NamedTuple):
    """Of a launch: blocks, and threads in a block, both along x and y."""

    grid: tuple[int, int]
    block: tuple[int, int]


@dataclass(frozen=True)
class Limits:
    """How large launches grow; beyond that, kernels stride. Tests make them small."""

    threads: int = 256
    blocks: int = 2**20

    def items(self, count: int) -> Shape:
        """A thread an item."""
        blocks = min(_ceil(count, self.threads), self.blocks, _GRID_X)
        return Shape((max(1, blocks), 1), (self.threads, 1))

    def rows(self, rows: int, packs: int) -> Shape:
        """Packs of a row along x (several short rows share a warp), rows along y."""
        x = min(_power_of_two(packs), self.threads)
        y = min(_power_of_two(rows), self.threads // x)
        along_rows = max(1, min(_ceil(rows, y), self.blocks, _GRID_X))
        along_packs = max(1, min(_ceil(packs, x), self.blocks // along_rows, _GRID_Y))
        return Shape((along_rows, along_packs), (x, y))

    def warps(self, rows: int) -> Shape:
        """A warp a row."""
        y = min(_power_of_two(rows), max(1, self.threads // _WARP))
        return Shape((max(1, min(_ceil(rows, y), self.blocks, _GRID_X)), 1), (_WARP, y))


def _ceil(count: int, step: int) -> int:
    return -(-count // step)


def _power_of_two(count: int) -> int:
    """The least that holds `count`."""
    return 1 << max(0, count - 1).bit_length()


def move_width(row_bytes: int, *addresses: int) -> int:
    """The widest pack that divides a row and every address, for kernels that only move bytes."""
    return next(width for width in WIDTHS if all(n % width == 0 for n in (row_bytes, *addresses)))


def value_elements(dtype: str, row_elements: int, *addresses: int) -> int:
    """The most elements of a pack that divides a row and every address, for kernels that compute with them."""
    size = SIZES[dtype]
    return next(
        count
        for count in pack_elements(dtype)
        if row_elements % count == 0 and all(address % (count * size) == 0 for address in addresses)
    )


def key_dtype(size: int) -> str:
    """The narrowest unsigned dtype that holds every id and `size` itself, which stands for padding."""
    return next(f"uint{bits}" for bits in (8, 16, 32, 64) if size < 2**bits)


# Positions that a group of threads folds in sequence, by the number of them: few are cut fine, so that they fill the card; many
# coarse, so that less is carried. Up to one coarse chunk is not cut at all: that saves a launch.
_LONGEST = 64
_CHUNKS = ((_LONGEST, _LONGEST), (2**12, 8), (2**15, 16), (2**18, 32))


def chunk_length(n: int) -> int:
    """The chunk of a fold over `n` positions. It depends on nothing else, so that sums have the same bits on every card."""
    return next((chunk for limit, chunk in _CHUNKS if n <= limit), _LONGEST)


def fold_levels(n: int) -> list[tuple[int, int, int]]:
    """For every level of a fold: positions, chunk, chunks. Each chunk carries two positions on; a single chunk is the last."""
    levels = []
    while True:
        chunk = chunk_length(n)
        chunks = _ceil(n, chunk)
        levels.append((n, chunk, chunks))
        if chunks == 1:
            return levels
        n = 2 * chunks
