"""Who owns which rows; reads of split tables are tested over processes, in `ranks.py`."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from sparsetangent.interop.torch_distributed import Traffic, rows_of  # noqa: E402  (after the skip)
from sparsetangent.interop.torch_split import bounds_of, cuts_of  # noqa: E402


@pytest.mark.parametrize("size", [0, 1, 3, 4, 10, 17])
@pytest.mark.parametrize("world", [1, 2, 4, 7])
def test_rows_are_split_as_torch_chunks_them(size, world):
    chunks = [c.tolist() for c in torch.arange(size).chunk(world)] if size else []
    owned = [list(rows_of(size, rank, world)) for rank in range(world)]
    assert owned == chunks + [[]] * (world - len(chunks))
    bounds = bounds_of(size, None, world)
    assert [list(range(a, b)) for a, b in pairwise(bounds)] == owned


def test_given_counts_of_rows():
    assert bounds_of(6, [0, 4, 2], 3) == [0, 0, 4, 6]
    for rows in ([1, 2], [3, 4, -1], [1, 1, 1]):
        with pytest.raises(ValueError, match="rows must be 3 counts that add up to 6"):
            bounds_of(6, rows, 3)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_entries_are_cut_where_the_owner_changes(dtype):
    ids = torch.tensor([0, 0, 3, 4, 4, 9], dtype=dtype)
    bounds = [0, 3, 3, 5, 10]
    wanted = [sum(i < b for i in ids.tolist()) for b in bounds]
    assert cuts_of(ids, bounds) == wanted == [0, 2, 2, 5, 6]
    assert cuts_of(ids[:0], bounds) == [0] * 5


def test_traffic():
    assert Traffic().saved == float("inf") and Traffic(2, 7).saved == 3.5
