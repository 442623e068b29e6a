"""Tensors from NumPy data, and the namespace of torch that takes tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

import sparsetangent as st
from sparsetangent import IndexedSlices
from tests.transforms.operations import SHAPE

__all__ = ["NAMESPACE", "as_torch", "built", "dense", "stacked"]

NAMESPACE = st.namespace(torch.zeros(()))


def as_torch(tree: Any) -> Any:
    return _pytree.tree_map(lambda x: torch.asarray(np.array(x)), tree)


def built(axes: tuple[int, ...], entries: Any) -> IndexedSlices:
    ids, values = entries
    return IndexedSlices(ids, values, SHAPE, axis=axes)


def stacked(trees: list[Any]) -> Any:
    return _pytree.tree_map(lambda *leaves: torch.stack(leaves), *trees)


def dense(ids: Any, values: Any, axes: tuple[int, ...]) -> Any:
    """The dense tensor by torch's own accumulating index_put."""
    order = (*axes, *(a for a in range(len(SHAPE)) if a not in axes))
    zeros = torch.zeros([SHAPE[a] for a in order], dtype=values.dtype)
    scattered = zeros.index_put(tuple(i % SHAPE[a] for a, i in zip(axes, ids, strict=True)), values, accumulate=True)
    return scattered.permute(*np.argsort(order).tolist())
