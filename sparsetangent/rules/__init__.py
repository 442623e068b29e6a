"""Forward and reverse functions, each on its own, with saved values as arguments.

``NAME_vjp(dy, <the forward's arguments>)`` is the cotangent of the differentiable argument; where only the shape of an argument
matters, it is given as its shape. Cotangents may be arrays or tangents, so rules chain, and second derivatives are rules again:
the adjoint of a read is a tangent, and the adjoint of making the tangent is the read.
"""

from .embedding import embedding, embedding_vjp
from .gather import getitem, getitem_vjp, take, take_along_axis, take_along_axis_vjp, take_vjp
from .one_hot import one_hot_matmul, one_hot_matmul_vjp
from .reductions import broadcast_to, broadcast_to_vjp, sum, sum_vjp

__all__ = [
    "broadcast_to",
    "broadcast_to_vjp",
    "embedding",
    "embedding_vjp",
    "getitem",
    "getitem_vjp",
    "one_hot_matmul",
    "one_hot_matmul_vjp",
    "sum",
    "sum_vjp",
    "take",
    "take_along_axis",
    "take_along_axis_vjp",
    "take_vjp",
]
