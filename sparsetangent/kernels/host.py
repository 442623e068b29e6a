"""The kernels for memory of the CPU that NumPy can see: with compiled loops where Numba is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from .numpy import NumpyKernels

__all__ = ["host_kernels"]


def host_kernels() -> NumpyKernels:
    """`NumbaKernels` if Numba is installed, unless the environment says ``SPARSETANGENT_NUMBA=0``; else `NumpyKernels`."""
    if os.environ.get("SPARSETANGENT_NUMBA") == "0" or find_spec("numba") is None:
        return NumpyKernels()
    from .numba import NumbaKernels

    return NumbaKernels()
