"""Kernels for torch tensors.

Plain CPU tensors share memory with the NumPy kernels, which is 2 to 5 times faster than torch's own indexed sums. Tensors that
autograd, a function transform or a compiler watches, and those on a device, take torch's operations, all of them differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.torch
import torch
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version

from .base import Array, DType, ReduceOp
from .generic import _COMBINE, GenericKernels
from .host import host_kernels
from .numpy import _SMALL
from .step import Step

__all__ = ["TorchKernels", "is_unwatched", "noted"]

_HELD = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
# NumPy has no such dtypes, but the same bits as integers can be moved.
_BITS = {torch.bfloat16: torch.int16, torch.complex32: torch.int32}
# torch has these dtypes but does not add them; as signed ones they wrap to the same bits.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
# A sum in the wider dtype keeps every digit of the narrower one.
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_TORCH_REDUCE: dict[ReduceOp, str] = {"mul": "prod", "min": "amin", "max": "amax"}

_is_wrapped: Callable[[Any], bool] = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", lambda x: False)
_is_batched: Callable[[Any], bool] = getattr(torch._C._functorch, "is_batchedtensor", lambda x: False)
_unwrap: Callable[[Any], Any] = getattr(torch._C._functorch, "get_unwrapped", lambda x: x)
_transform: Callable[[], Any] = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)
_dispatch_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


class TorchKernels(GenericKernels):
    """NumPy's kernels on shared memory, or torch's differentiable operations."""

    def __init__(self) -> None:
        super().__init__(array_api_compat.torch, "torch")
        self._numpy = host_kernels()

    @property
    def mutable(self) -> bool:  # type: ignore[override]
        # What is not made inside a function transform cannot be written there: the kernels give new tensors.
        return not _is_transformed()

    def concrete(self, x: Array) -> bool:
        if torch.compiler.is_compiling():
            return False
        while _is_wrapped(x):
            if _is_batched(x):  # other values in each example of a vmap
                return False
            x = _unwrap(x)
        return _has_values(x)

    def seen(self, x: Array) -> Array | None:
        if torch.compiler.is_compiling():
            return None
        while _is_wrapped(x):
            x = _unwrap(x)
        return x if _has_values(x) else None

    def synchronous(self, x: Array) -> bool:
        return bool(x.device.type == "cpu")

    def index_dtype(self, x: Array) -> DType:
        return torch.int64

    def accumulator(self, dtype: DType) -> DType:
        return _HELD.get(dtype, dtype)

    def bounds(self, ids: Array) -> tuple[int, int]:
        if ids.ndim == 1 and ids.shape[0] <= 64:  # Python's own loop is ahead of a reduction and two reads
            few = ids.tolist()
            return min(few), max(few)
        least, greatest = torch.aminmax(ids)
        return int(least), int(greatest)

    # Reads

    def gather(self, src: Array, ids: Array) -> Array:
        if _is_plain(src, ids):
            rows = torch.from_numpy(self._numpy.gather(_bits(src), _numpy(ids)))
            return rows.view(src.dtype) if src.dtype in _BITS else rows
        ids, inside = self._checked(ids, src.shape[0])
        if inside is None:
            return _typed(torch.index_select(_signed(src), 0, ids), src.dtype)
        if src.shape[0] == 0:
            return src.new_zeros((ids.shape[0], *src.shape[1:]))
        rows = torch.index_select(_signed(src), 0, self._clipped(ids, inside))
        return _typed(self._where_rows(inside, rows), src.dtype)

    # Sums

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        if unique:
            if _is_plain(rows, ids):
                return torch.from_numpy(self._numpy.densify(_numpy(ids), _bits(rows), size, unique=True)).view(rows.dtype)
            return self.put(rows.new_zeros((size, *rows.shape[1:])), ids, rows)
        held = self._held(rows, rows.dtype)
        if _is_plain(held, ids):
            sums = torch.from_numpy(self._numpy.densify(_numpy(ids), _numpy(held), size))
            return sums if held is rows else sums.to(rows.dtype)
        ids, inside = self._checked(ids, size)
        if inside is not None:
            # One row more, for padding: nothing to branch on.
            ids = torch.where(inside, ids, size)
        if held.dtype == torch.bool:
            return self._summed(ids, held.to(torch.int32), size + 1)[:size] != 0
        return _typed(self._summed(ids, _signed(held), size + 1)[:size], held.dtype).to(rows.dtype)

    def _summed(self, ids: Array, rows: Array, size: int) -> Array:
        """Sums by ids in range, in a wider dtype or, where there is none, in pairs."""
        exact = not (rows.is_floating_point() or rows.is_complex())
        wide = rows.dtype if exact else _WIDE.get(rows.dtype)
        if wide is None or (not exact and rows.device.type == "mps"):  # which has no float64
            ids, order = torch.sort(ids, stable=True)
            rows, wide = rows[order], rows.dtype
            if self.concrete(ids) and self.synchronous(ids):
                ids, rows = self._fold(ids, rows, torch.add)
            else:
                ids, rows = self._scan(ids, rows, torch.add)
                rows = self._where_rows(_run_starts(ids), rows)
        sums = rows.new_zeros((size, *rows.shape[1:]), dtype=wide)
        return _add_at(sums, ids, rows.to(wide), in_place=False).to(rows.dtype)

    def scatter_add(self, dst: Array, ids: Array, rows: Array, alpha: complex = 1, *, in_order: bool = False) -> Array:
        held = self.accumulator(dst.dtype)
        if held == dst.dtype and _is_plain(dst, ids, rows, *_tensors(alpha)):
            factor = _numpy(alpha) if _tensors(alpha) else alpha
            self._numpy.scatter_add(_numpy(dst), _numpy(ids), _numpy(rows), factor, in_order=in_order)
            return noted(dst)
        rows = self._scaled(self._held(rows, dst.dtype), alpha)
        if held != dst.dtype or dst.dtype == torch.bool or dst.dtype in _SIGNED:
            return self._merge_into(dst, ids, rows)
        if not in_order and (dst.is_floating_point() or dst.is_complex()):
            ids, rows = self.coalesce(ids, rows, dst.shape[0])
        ids, inside = self._checked(ids, dst.shape[0])
        if inside is not None:
            if dst.shape[0] == 0:
                return dst
            ids, rows = self._clipped(ids, inside), self._where_rows(inside, rows)
        return _add_at(dst, ids, _apart(rows, dst), in_place=not _is_transformed())

    def _held(self, rows: Array, dtype: DType) -> Array:
        held = self.accumulator(dtype)
        return rows if rows.dtype == held else rows.to(held)

    def _merge_into(self, dst: Array, ids: Array, rows: Array) -> Array:
        """Sum the rows of each id, then add it to what `dst` holds: one rounding of half types, and no ``+=`` needed."""
        distinct, sums = self.coalesce(ids, rows, dst.shape[0])
        old = self.gather(dst, distinct)
        if dst.dtype == torch.bool:
            return self.put(dst, distinct, old | sums)
        if dst.dtype in _SIGNED:
            return self.put(dst, distinct, _typed(_signed(old) + _signed(sums), dst.dtype))
        return self.put(dst, distinct, (old.to(sums.dtype) + sums).to(dst.dtype))

    # Placing

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        if _is_plain(dst, unique_ids, rows):
            self._numpy.put(_bits(dst), _numpy(unique_ids), _bits(rows))
            return noted(dst)
        ids, rows = self._entries(unique_ids, rows, dst.shape[0])
        if dst.shape[0] == 0 or ids.shape[0] == 0:
            return dst
        if not self.concrete(ids):
            return self._put_static(dst, ids.long(), rows)
        if _is_transformed():
            return dst.index_copy(0, ids.long(), rows)
        _signed(dst).index_copy_(0, ids.long(), _signed(_apart(rows, dst)))
        return dst

    def _put_static(self, dst: Array, ids: Array, rows: Array) -> Array:
        size = dst.shape[0]
        if _is_transformed() or (torch.is_grad_enabled() and (dst.requires_grad or rows.requires_grad)):
            # One row more, for padding: a copy of dst, but the derivatives are right.
            grown = torch.cat([dst, dst.new_zeros((1, *dst.shape[1:]))]).index_copy(0, ids, rows)[:size]
            return grown if _is_transformed() else dst.copy_(grown)
        ids, rows = self._redirected(dst, ids, ids < size, rows)
        _signed(dst).index_copy_(0, ids, _signed(rows))
        return dst

    def update_rows(self, step: Step, dst: Array, states: Sequence[Array], ids: Array, rows: Array) -> Array | None:
        tensors = (dst, *states, ids, rows)
        if not _is_plain(*tensors) or any(x.dtype in _BITS for x in tensors):
            return None
        if self._numpy.update_rows(step, _numpy(dst), [_numpy(x) for x in states], _numpy(ids), _numpy(rows)) is None:
            return None
        for x in states:
            noted(x)
        return noted(dst)

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        if _is_plain(ids):
            distinct, inverse = self._numpy.unique_inverse(_numpy(ids), size, length)
            return torch.from_numpy(distinct), torch.from_numpy(inverse)
        return super().unique_inverse(ids, size, length)

    def _static_unique(self, ids: Array, size: int, length: int) -> tuple[Array, Array]:
        # The generic one searches, for which vmap has no rule.
        n = ids.shape[0]
        ascending, order = torch.sort(ids, stable=True)
        new = torch.ones_like(order)
        new[1:] = (ascending[1:] != ascending[:-1]).to(new.dtype)
        rank = torch.cumsum(new, 0) - 1
        place = torch.where((ascending < size) & (rank < length), rank, length)
        distinct = torch.full((length + 1,), size, dtype=ids.dtype, device=ids.device).scatter(0, place, ascending)
        return distinct[:length], torch.zeros((n,), dtype=place.dtype, device=ids.device).scatter(0, order, place)

    # Folds

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        self._check_op(op, dst.dtype)
        if op == "add" and include_self:
            return self.scatter_add(dst, ids, rows)
        # For wide rows torch's own extremes and products are 5 times faster than NumPy's (1e5 rows of 64: 7 ms, 38).
        by_numpy = op in ("add", "mean") or rows.numel() <= _SMALL or dst.dtype in _SIGNED
        if by_numpy and dst.dtype not in _BITS and _is_plain(dst, ids, rows):
            self._numpy.scatter_reduce(op, _numpy(dst), _numpy(ids), _numpy(rows), include_self)
            return noted(dst)
        distinct, inverse = self.unique_inverse(ids, dst.shape[0])
        folded = self._folded(op, inverse, self._held(rows, dst.dtype), distinct.shape[0])
        if include_self:
            folded = getattr(torch, _COMBINE[op])(self.gather(dst, distinct).to(folded.dtype), folded)
        if op == "mean":
            many = self.densify(inverse, torch.ones_like(inverse), distinct.shape[0]) + int(include_self)
            folded = folded / many.clamp(min=1).reshape(-1, *(1,) * (rows.ndim - 1))
        return self.put(dst, distinct, folded.to(dst.dtype))

    def _folded(self, op: ReduceOp, inverse: Array, rows: Array, groups: int) -> Array:
        """Each group's fold; padding goes to one group more."""
        if op in ("add", "mean"):
            return self.densify(inverse, rows, groups)
        if op == "mul" and _in_forward_mode():
            # torch 2.13 gives its scatter_reduce("prod") a tangent of zeros, without a word.
            return super().scatter_reduce(op, rows.new_ones((groups, *rows.shape[1:])), inverse, rows, False)
        held = rows.to(torch.int32) if rows.dtype == torch.bool else rows
        start = held.new_zeros((groups + 1, *rows.shape[1:]))
        index = inverse.long().reshape(-1, *(1,) * (rows.ndim - 1)).expand(rows.shape)
        folded = start.scatter_reduce(0, index, held, _TORCH_REDUCE[op], include_self=False)
        return folded[:groups].to(rows.dtype)

    def product_of_others(self, ids: Array, rows: Array, size: int) -> Array | None:
        if not _is_plain(ids, rows) or rows.dtype in _BITS:
            return None
        products = self._numpy.product_of_others(_numpy(ids), _numpy(rows), size)
        return None if products is None else torch.from_numpy(products)

    # Checks

    def _checked(self, ids: Array, size: int) -> tuple[Array, Array | None]:
        if (seen := self.seen(ids)) is None or seen is ids:
            return super()._checked(ids, size)
        # A function transform hides the values, but they are there to be checked.
        _, inside = super()._checked(seen.reshape(-1), size)
        ids = self._widened(ids)
        return ids, None if inside is None else (ids >= 0) & (ids < size)

    def device_for(self, x: Array) -> Any:
        return x.device


def _has_values(x: Array) -> bool:
    return not (x.is_meta or type(x).__name__ == "FakeTensor")


def _is_plain(*tensors: Array) -> bool:
    """Whether these are plain memory on the CPU that nobody watches."""
    return is_unwatched(*tensors) and all(x.is_cpu for x in tensors)


def is_unwatched(*tensors: Array) -> bool:
    """Whether no autograd, function transform, tracer or compiler sees what is done to the memory of these tensors."""
    if torch.compiler.is_compiling() or _transform() is not None or _dispatch_modes() or torch.jit.is_tracing():
        return False
    if _in_forward_mode():
        return False
    taped = torch.is_grad_enabled()
    for x in tensors:
        if type(x) not in (torch.Tensor, torch.nn.Parameter) or (taped and x.requires_grad):
            return False
        if x.is_conj() or x.is_neg() or x.layout != torch.strided:
            return False
    return True


def _in_forward_mode() -> bool:
    return getattr(forward_ad, "_current_level", -1) >= 0


def _is_transformed() -> bool:
    """Whether a function transform is at work: then nothing from outside may be written, which it could not undo."""
    return not torch.compiler.is_compiling() and _transform() is not None


def _signed(x: Array) -> Array:
    # Only where it must be: a view of another dtype, even of the same one, is cut from the tape.
    return x.view(_SIGNED[x.dtype]) if x.dtype in _SIGNED else x


def _typed(x: Array, dtype: DType) -> Array:
    return x.view(dtype) if dtype in _SIGNED else x


def _tensors(*operands: Any) -> list[Array]:
    return [x for x in operands if isinstance(x, torch.Tensor)]


def _numpy(x: Array) -> Any:
    return x.detach().numpy()


def _bits(x: Array) -> Any:
    return _numpy(x.view(_BITS[x.dtype]) if x.dtype in _BITS else x)


def noted(dst: Array) -> Array:
    """`dst` after a write that torch has not seen, so that autograd notices if it has saved it."""
    if not dst.is_inference():
        increment_version(dst)
    return dst


def _apart(rows: Array, dst: Array) -> Array:
    """`rows`, copied if they lie in the memory of `dst`; torch refuses these."""
    if torch.compiler.is_compiling() or _transform() is not None or not (_has_values(rows) and _has_values(dst)):
        return rows
    return rows.clone() if rows.untyped_storage().data_ptr() == dst.untyped_storage().data_ptr() else rows


def _run_starts(ids: Array) -> Array:
    """A mask of the first of each run of equal ids."""
    return torch.cat([torch.ones_like(ids[:1], dtype=torch.bool), ids[1:] != ids[:-1]])


def _add_at(dst: Array, ids: Array, rows: Array, *, in_place: bool) -> Array:
    """``dst[ids] += rows``. On CUDA `index_add` is atomic, in any order; an accumulating `index_put` sorts, and repeats bit for bit."""
    if dst.device.type == "cuda":
        return dst.index_put_((ids,), rows, accumulate=True) if in_place else dst.index_put((ids,), rows, accumulate=True)
    return dst.index_add_(0, ids, rows) if in_place else dst.index_add(0, ids, rows)
