"""How array libraries reach the registry: the array API namespace, DLPack, NumPy's protocols, torch's. Importing this package registers them."""

from . import array_api, dlpack, numpy, torch
from .array_api import namespace

__all__ = ["array_api", "dlpack", "namespace", "numpy", "torch"]
