"""Forward and reverse functions, each on its own, with saved values as arguments.

``NAME_vjp(dy, <the forward's arguments>)`` is the cotangent of the differentiable argument; where only the shape of an argument
matters, it is given as its shape. Cotangents may be arrays or tangents, so rules chain, and second derivatives are rules again:
the adjoint of a read is a tangent, and the adjoint of making the tangent is the read.
"""

from .densify import densify, densify_vjp
from .embedding import embedding, embedding_vjp
from .embedding_bag import embedding_bag, embedding_bag_vjp_per_sample, embedding_bag_vjp_weight
from .extremes import max, max_vjp, min, min_vjp
from .gather import getitem, getitem_vjp, take, take_along_axis, take_along_axis_vjp, take_vjp
from .loss import cross_entropy, cross_entropy_vjp
from .one_hot import one_hot_matmul, one_hot_matmul_vjp
from .order import sort, sort_vjp, topk, topk_vjp
from .reductions import broadcast_to, broadcast_to_vjp, mean, mean_vjp, sum, sum_vjp
from .sampled import sampled_cross_entropy, sampled_cross_entropy_vjp_hidden, sampled_cross_entropy_vjp_weight
from .scatter import scatter, scatter_into, scatter_into_vjp_dst, scatter_into_vjp_src, scatter_vjp
from .segment import segment, segment_vjp
from .shapes import diagonal, diagonal_vjp, pad, pad_vjp
from .where import where, where_vjp_x, where_vjp_y

__all__ = [
    "broadcast_to",
    "broadcast_to_vjp",
    "cross_entropy",
    "cross_entropy_vjp",
    "densify",
    "densify_vjp",
    "diagonal",
    "diagonal_vjp",
    "embedding",
    "embedding_bag",
    "embedding_bag_vjp_per_sample",
    "embedding_bag_vjp_weight",
    "embedding_vjp",
    "getitem",
    "getitem_vjp",
    "max",
    "max_vjp",
    "mean",
    "mean_vjp",
    "min",
    "min_vjp",
    "one_hot_matmul",
    "one_hot_matmul_vjp",
    "pad",
    "pad_vjp",
    "sampled_cross_entropy",
    "sampled_cross_entropy_vjp_hidden",
    "sampled_cross_entropy_vjp_weight",
    "scatter",
    "scatter_into",
    "scatter_into_vjp_dst",
    "scatter_into_vjp_src",
    "scatter_vjp",
    "segment",
    "segment_vjp",
    "sort",
    "sort_vjp",
    "sum",
    "sum_vjp",
    "take",
    "take_along_axis",
    "take_along_axis_vjp",
    "take_vjp",
    "topk",
    "topk_vjp",
    "where",
    "where_vjp_x",
    "where_vjp_y",
]
