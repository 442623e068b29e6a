"""The types: data, metadata and checks. Operations on them live in `algebra` and are found through the registry."""

from .fill import Fill
from .frame import Frame
from .indexed_slices import IndexedSlices
from .indices import check_errors
from .one_hot import OneHot
from .tangent import Tangent
from .zero import Zero

__all__ = ["Fill", "Frame", "IndexedSlices", "OneHot", "Tangent", "Zero", "check_errors"]
