"""A step of an optimizer on the rows that a gradient with repeats names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparsetangent as st

from .c_loops import CLoops, c_loops
from .inputs import Grid, bound, cells, coo, on_both, onto, torch_of
from .measure import Case, Run

__all__ = ["optimizer"]

_RATE, _EPSILON = 1e-3, 1e-10
# A step, its number of states, and the class of torch.optim.
_STEPS: dict[str, tuple[Callable[..., Any], int, str, dict[str, Any]]] = {
    "sgd": (st.steps.sgd(_RATE), 0, "SGD", {}),
    "momentum": (st.steps.momentum(_RATE, 0.9), 1, "SGD", {"momentum": 0.9}),
    "adagrad": (st.steps.adagrad(_RATE, _EPSILON), 1, "Adagrad", {"eps": _EPSILON}),
    "adam": (st.steps.lazy_adam(_RATE), 2, "SparseAdam", {}),
}


def optimizer(grid: Grid) -> Iterator[Case]:
    """SGD, momentum, Adagrad and lazy Adam. (torch's momentum makes its buffer dense, and is no peer.)"""
    for on, ids, rows, size, d in cells(grid):
        for name, (step, states, peer, options) in _STEPS.items():
            tables = [np.full((size, d), value, rows.dtype) for value in (1.0, 0.1, 0.2)[: 1 + states]]
            t = st.IndexedSlices(ids, rows, (size, d))
            ours = on_both(bound(_stepped, tables, t, step))
            peers: dict[str, Run] = {}
            if torch := torch_of():
                tensors = [onto(torch, table) for table in tables]
                ours["torch"] = bound(
                    _stepped, tensors, st.IndexedSlices(torch.from_numpy(ids), onto(torch, rows), (size, d)), step
                )
                if name != "momentum":
                    peers["torch sparse"] = _torch_step(torch, peer, options, tables[0], coo(torch, ids, rows, (size, d)))
            if on["dtype"] == "float32" and name in ("sgd", "adagrad") and (loops := c_loops()):
                peers["c loop"] = _c_step(loops, name, tables, ids, rows)
            moved = len(np.unique(ids)) * d * rows.itemsize
            yield Case("optimizer rows", {"step": name, **on}, ours, peers, rows.nbytes + 2 * (1 + states) * moved)


def _stepped(tables: list[Any], t: Any, step: Any) -> Any:
    return st.update_rows(tables[0], t, step, *tables[1:], count=10)


def _torch_step(torch: Any, name: str, options: dict[str, Any], table: Any, gradient: Any) -> Run:
    parameter = torch.nn.Parameter(onto(torch, table.copy()))
    peer = getattr(torch.optim, name)([parameter], lr=_RATE, **options)
    parameter.grad = gradient

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own sparse tensors, which it does not check
            peer.step()

    return run


def _c_step(loops: CLoops, name: str, tables: list[Any], ids: Any, rows: Any) -> Run:
    if name == "sgd":
        return bound(loops.sgd, tables[0], ids, rows, _RATE)
    return bound(loops.adagrad, *tables, ids, rows, _RATE, _EPSILON)
