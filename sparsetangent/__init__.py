"""Compact gradients for any array-API backend.

A tangent is the dense array that it stands for: ``densify(f(t)) == f(densify(t))`` for every operation, repeated indices included.
"""

from . import algebra as _algebra  # fills the registry
from . import protocols as _protocols
from . import rules
from .accumulate import add_n
from .algebra.comparisons import allclose, equal
from .algebra.dense import add_into, densify, from_dense
from .algebra.shapes import sum_to_shape
from .backend import register_kernels
from .policy import DensifyError, DensifyWarning, densify_policy
from .protocols import namespace
from .types import Fill, IndexedSlices, OneHot, Tangent, Zero, check_errors
from .types import pytree as _pytree

__version__ = "0.1.0"
