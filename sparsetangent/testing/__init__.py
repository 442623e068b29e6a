"""The kit: strategies that draw tangents, the laws that every tangent type must satisfy, reverse functions against differences."""

from . import laws, operations, oracle, strategies
from .gradcheck import check_vjp
from .oracle import assert_same, loop_densify, to_numpy

__all__ = ["assert_same", "check_vjp", "laws", "loop_densify", "operations", "oracle", "strategies", "to_numpy"]
