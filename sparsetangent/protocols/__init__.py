"""How array libraries reach the registry: the array API namespace, NumPy's protocols, torch's. Importing this package registers them."""

from . import array_api, numpy, torch
from .array_api import namespace

__all__ = ["array_api", "namespace", "numpy", "torch"]
