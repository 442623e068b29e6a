"""The algebra: plain functions on the types, registered by name. Importing this package fills the registry."""

from . import binary, comparisons, contractions, dense, elementwise, indexing, products, reductions, shapes, sums

__all__ = [
    "binary",
    "comparisons",
    "contractions",
    "dense",
    "elementwise",
    "indexing",
    "products",
    "reductions",
    "shapes",
    "sums",
]
