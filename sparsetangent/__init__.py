"""Compact gradients for any array-API backend.

A tangent is the dense array that it stands for: ``densify(f(t)) == f(densify(t))`` for every operation, repeated indices included.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

# Importing these two fills the registry.
from . import algebra, protocols, rules, steps, tree
from .accumulate import Accumulator, add_n
from .algebra.comparisons import allclose, equal
from .algebra.dense import add_into, densify, from_dense
from .algebra.shapes import sum_to_shape
from .backend import register_kernels
from .config import show_config
from .norms import clip_by_global_norm, global_norm
from .policy import DensifyError, DensifyWarning, densify_policy
from .projection import Projector, project, register_projector
from .protocols import namespace
from .types import Fill, IndexedSlices, OneHot, Tangent, Zero, check_errors, pytree
from .types.pytree import register_tangent
from .update import update_rows

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "DensifyError",
    "DensifyWarning",
    "Fill",
    "IndexedSlices",
    "OneHot",
    "Projector",
    "Tangent",
    "Zero",
    "add_into",
    "add_n",
    "algebra",
    "allclose",
    "check_errors",
    "clip_by_global_norm",
    "densify",
    "densify_policy",
    "equal",
    "from_dense",
    "global_norm",
    "namespace",
    "project",
    "protocols",
    "pytree",
    "register_kernels",
    "register_projector",
    "register_tangent",
    "rules",
    "show_config",
    "steps",
    "sum_to_shape",
    "tree",
    "update_rows",
]


def __getattr__(name: str) -> _Any:
    """`sparsetangent.testing`, which needs Hypothesis, and `sparsetangent.interop` are imported when they are first used."""
    if name in ("interop", "testing"):
        return _import_module(f"sparsetangent.{name}")
    raise AttributeError(f"module 'sparsetangent' has no attribute {name!r}")
