"""Kernels for CuPy arrays: our CUDA kernels, on the current stream and the device of the arrays.

Not yet run on a GPU: the same kernels and the same launch code are tested on the CPU (`sparsetangent.kernels.cuda`).
"""

from __future__ import annotations

from .cuda.device import CupyDevice
from .cuda.launch import CudaKernels

__all__ = ["CupyKernels"]


class CupyKernels(CudaKernels):
    """`CudaKernels` on a real card.

    Parameters
    ----------
    deterministic : bool
        Whether sums have the same bits every time (by a sort, the default) or use atomics, which saves the sort for small batches
        of float32 and float64. ``register_kernels(is_cupy_array, lambda: CupyKernels(deterministic=False))`` selects atomics.
    """

    def __init__(self, *, deterministic: bool = True) -> None:
        super().__init__(CupyDevice(), "cupy", deterministic=deterministic)
