"""torch tensors on a GPU through our kernels: for those who want equal bits and sorted sums in torch too.

It is chosen by ``register_kernels(lambda x: is_torch_array(x) and x.is_cuda, TorchCudaKernels)`` and needs CuPy. Launches go to
torch's current stream and memory comes from torch's allocator. Tensors that autograd, a function transform or a compiler watches
keep torch's own operations. Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

import torch

from ..base import Array, ReduceOp
from ..torch import TorchKernels, is_unwatched, noted
from .device import CupyDevice
from .launch import CudaKernels, Step

__all__ = ["Bridge", "CupyBridge", "TorchCudaKernels"]

# What both libraries have and DLPack carries. bfloat16 is left to torch, since not every CuPy has it.
_SHARED = frozenset(
    {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16, torch.float32, torch.float64}
    | {torch.complex64, torch.complex128}
)


class Bridge(Protocol):
    """The way from tensors to the arrays of a `Device` and back, without a copy."""

    def takes(self, x: Array) -> bool:
        """Whether a tensor lies where the kernels run."""
        ...

    def scope(self, x: Array) -> AbstractContextManager[Any]:
        """On the stream that torch uses for `x` now, with memory of torch."""
        ...

    def array(self, x: Array) -> Array: ...

    def tensor(self, x: Array) -> Array: ...


class CupyBridge:
    """CuPy's arrays, through DLPack."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._allocator = cupy.cuda.memory.PythonFunctionAllocator(_allocate, _free)

    def takes(self, x: Array) -> bool:
        return bool(x.is_cuda)

    def scope(self, x: Array) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self._cupy.cuda.Device(x.device.index))
        stack.enter_context(self._cupy.cuda.ExternalStream(torch.cuda.current_stream(x.device).cuda_stream))
        stack.enter_context(self._cupy.cuda.using_allocator(self._allocator.malloc))
        return stack

    def array(self, x: Array) -> Array:
        return self._cupy.from_dlpack(x.detach())

    def tensor(self, x: Array) -> Array:
        return torch.from_dlpack(x)


def _allocate(size: int, device: int) -> int:
    return int(torch.cuda.caching_allocator_alloc(size, device))


def _free(address: int, device: int) -> None:
    torch.cuda.caching_allocator_delete(address)


class TorchCudaKernels(TorchKernels):
    """torch's kernels, with ours for sums, folds, distinct ids and optimizer rows of tensors that nobody watches."""

    def __init__(self, kernels: CudaKernels | None = None, bridge: Bridge | None = None) -> None:
        super().__init__()
        self._cuda = CudaKernels(CupyDevice(), "torch") if kernels is None else kernels
        self._bridge = CupyBridge() if bridge is None else bridge

    def check_errors(self) -> None:
        self._cuda.check_errors()

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        if not self._ours(ids, rows):
            return super().densify(ids, rows, size, unique=unique)
        return self._made(lambda ids, rows: self._cuda.densify(ids, rows, size, unique=unique), ids, rows)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: Any = 1, *, in_order: bool = False) -> Array:
        if isinstance(alpha, torch.Tensor) or not self._ours(dst, ids, rows):
            return super().scatter_add(dst, ids, rows, alpha, in_order=in_order)

        def add(dst: Array, ids: Array, rows: Array) -> Array:
            return self._cuda.scatter_add(dst, ids, rows, alpha, in_order=in_order)

        return self._written(add, dst, ids, rows)

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        if not self._ours(dst, ids, rows):
            return super().scatter_reduce(op, dst, ids, rows, include_self)
        return self._written(lambda dst, ids, rows: self._cuda.scatter_reduce(op, dst, ids, rows, include_self), dst, ids, rows)

    def segment_reduce(self, op: ReduceOp, rows: Array, starts: Array) -> Array:
        if not self._ours(rows, starts):
            return super().segment_reduce(op, rows, starts)
        return self._made(lambda rows, starts: self._cuda.segment_reduce(op, rows, starts), rows, starts)

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if not self._ours(ids):
            return super().unique_inverse(ids, size, length)
        distinct, inverse = self._made(lambda ids: self._cuda.unique_inverse(ids, size, length), ids)
        return distinct, inverse

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if not self._ours(ids, rows):
            return super().coalesce(ids, rows, size, length)
        distinct, sums = self._made(lambda ids, rows: self._cuda.coalesce(ids, rows, size, length), ids, rows)
        return distinct, sums

    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], unique_ids: Array, rows: Array) -> Array:
        """As `CudaKernels.update_rows`, on tensors of the GPU."""

        def update(dst: Array, ids: Array, rows: Array, *states: Array) -> Array:
            return self._cuda.update_rows(step, dst, states, ids, rows)

        return self._written(update, dst, unique_ids, rows, *states)

    def _ours(self, *tensors: Array) -> bool:
        return is_unwatched(*tensors) and all(self._bridge.takes(x) and x.dtype in _SHARED for x in tensors)

    def _made(self, call: Callable[..., Any], *tensors: Array) -> Any:
        with self._bridge.scope(tensors[0]):
            made = call(*map(self._bridge.array, tensors))
            return tuple(map(self._bridge.tensor, made)) if isinstance(made, tuple) else self._bridge.tensor(made)

    def _written(self, call: Callable[..., Any], dst: Array, *tensors: Array) -> Array:
        with self._bridge.scope(dst):
            call(*map(self._bridge.array, (dst, *tensors)))
        return noted(dst)
