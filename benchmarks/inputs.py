"""What the tables are measured on: ids and rows, and the libraries that are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from sparsetangent.backend import backend_of
from sparsetangent.kernels.base import Kernels
from sparsetangent.kernels.host import host_kernels
from sparsetangent.kernels.numpy import NumpyKernels

from .measure import Run

__all__ = [
    "Grid",
    "bound",
    "cells",
    "coo",
    "ids_of",
    "jax_of",
    "kernels_of",
    "on_both",
    "onto",
    "pydata",
    "rows_of",
    "tensorflow",
    "torch_of",
]

Grid = list[tuple[int, int, int, str, str]]
"""Rows of the table, entries, width, dtype, and how ids are distributed."""


def ids_of(size: int, n: int, skew: str) -> Any:
    rng = np.random.default_rng(size + n)
    if skew == "uniform":
        return rng.integers(0, size, n)
    ranks = np.arange(1, size + 1, dtype=np.float64) ** -1.1  # a truncated Zipf law
    drawn = np.searchsorted(np.cumsum(ranks) / ranks.sum(), rng.random(n))
    return rng.permutation(size)[np.minimum(drawn, size - 1)]


def rows_of(n: int, d: int, dtype: str) -> Any:
    rows = np.random.default_rng(n).standard_normal((n, d), dtype=np.float32)
    return rows.astype(import_module("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)


def cells(grid: Grid) -> Iterator[tuple[dict[str, Any], Any, Any, int, int]]:
    for size, n, d, dtype, skew in grid:
        if dtype == "bfloat16" and _installed("ml_dtypes") is None:
            continue
        on = {"V": size, "n": n, "d": d, "dtype": dtype, "ids": skew}
        yield on, ids_of(size, n, skew), rows_of(n, d, dtype), size, d


def bound(call: Callable[..., Any], *arguments: Any) -> Run:
    return lambda: call(*arguments)


def kernels_of() -> dict[str, Kernels]:
    """Ours on NumPy arrays, without and with compiled loops."""
    fastest = host_kernels()
    kernels: dict[str, Kernels] = {"numpy": NumpyKernels()}
    return kernels if type(fastest) is NumpyKernels else {**kernels, "numpy+numba": fastest}


def on_both(run: Run) -> dict[str, Run]:
    """A public function on NumPy arrays, without and with compiled loops."""
    kernels: Any = backend_of(np.empty(0)).kernels
    if type(kernels) is NumpyKernels:
        return {"numpy": run}

    def without() -> Any:
        smallest, kernels.smallest = kernels.smallest, 2**62
        try:
            return run()
        finally:
            kernels.smallest = smallest

    return {"numpy": without, "numpy+numba": run}


def torch_of() -> Any:
    return _installed("torch")


def jax_of(dtype: str) -> Any:
    """JAX, if it has the dtype (float64 only where it is told so)."""
    return None if dtype == "float64" else _installed("jax")


def pydata() -> Any:
    return _installed("sparse")


def tensorflow() -> Any:
    return _installed("tensorflow")


def onto(torch: Any, x: Any) -> Any:
    """The same memory as a tensor; NumPy has no bfloat16 that torch knows."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def coo(torch: Any, ids: Any, rows: Any, shape: tuple[int, int]) -> Any:
    return torch.sparse_coo_tensor(torch.from_numpy(ids)[None], onto(torch, rows), shape, check_invariants=False)


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
