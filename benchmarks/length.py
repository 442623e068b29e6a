"""What the gradient of a table costs by the table's length: compact, and dense as far as that goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csc_array

import sparsetangent as st

from .inputs import Grid, bound, ids_of, rows_of
from .measure import Case

__all__ = ["length"]


def length(grid: Grid) -> Iterator[Case]:
    """The gradient of a table that is read twice at 1000 rows of 64 float32: made, summed, and clipped by its norm."""
    ids, rows, nx = ids_of(10**4, 1000, "uniform"), rows_of(1000, 64, "float32"), st.namespace(np)
    for size in (10**4, 10**5, 10**6, 10**9, 2**40, 2**50):
        # Apart, since a dense gradient leaves nothing of the other's in the caches.
        yield Case("length", {"V": size}, {"compact": bound(_clipped_sum, _compact, ids, rows, size, nx)}, {}, 6 * rows.nbytes)
        if size <= 10**6:
            yield Case("length", {"V": size}, {}, {"dense": bound(_clipped_sum, _dense, ids, rows, size, np)}, 6 * rows.nbytes)


def _clipped_sum(gradient: Callable[..., Any], ids: Any, rows: Any, size: int, xp: Any) -> Any:
    total = gradient(ids, rows, size) + gradient(ids[::-1], rows, size)
    return total * min(1.0, 1.0 / float(xp.linalg.vector_norm(total)))


def _compact(ids: Any, rows: Any, size: int) -> Any:
    return st.rules.take_vjp(rows, (size, rows.shape[1]), ids)


def _dense(ids: Any, rows: Any, size: int) -> Any:
    """The fastest dense way that SciPy and NumPy have."""
    n = len(ids)
    return csc_array((np.ones(n, rows.dtype), ids, np.arange(n + 1)), shape=(size, n)) @ rows
