"""The kit: Hypothesis strategies that draw tangents, and the laws that every tangent type must satisfy."""

from . import laws, operations, oracle, strategies
from .oracle import assert_same, loop_densify, to_numpy

__all__ = ["assert_same", "laws", "loop_densify", "operations", "oracle", "strategies", "to_numpy"]
