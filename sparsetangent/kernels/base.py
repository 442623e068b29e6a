"""The kernel contract: plain arrays in, plain arrays out, no tangents.

A backend is fast because its kernels are; everything above this floor is written once. A class that satisfies
`Kernels` for one array library is all that a new backend needs (`sparsetangent.register_kernels`), and deriving it from
`sparsetangent.kernels.generic.GenericKernels` gives every method from standard functions, to be replaced one by one.

Conventions, in force for every method:

- ``ids`` is one integer array of shape ``(n,)``; ``rows`` has shape ``(n, *inner)``; ``size`` is the length of the indexed
  axis, a Python int. Ids that come back have the dtype of those given, if that is int32 or int64 (which `size` must fit), and
  the backend's `index_dtype` otherwise.
- An id equal to ``size`` is *padding*: a write skips it, a read gives zeros. Any other id outside ``[0, size)`` is a fault, a
  negative one too. Where Python can see values at once (`concrete` and `synchronous`) it raises `IndexError` before anything is
  written; where it cannot, the entry is treated as padding, and on a device `check_errors` raises later. No method may ever touch memory out of bounds, whatever the ids hold: callers can
  overwrite the ids after they were checked.
- Repeated ids accumulate, and floating and complex sums are accurate: the rows of one id are summed among themselves, in runs of 16
  that are combined in pairs or in a wider dtype, before `dst` takes up the sum in one addition. Sums are taken in a fixed order on
  the CPU, so equal inputs give equal bits.
- float16 and bfloat16 are accumulated in float32 and rounded once. Integers wrap. The sum of bools is *or*, their product *and*.
- NaN propagates through min and max.
- ``dst`` is written in place where the backend is `mutable` and the result is always returned, so one calling style serves
  every backend. Everything is checked before the first write, and ``rows`` may overlap ``dst``.
- ``rows`` and ``dst`` have equal dtypes; casting is the caller's business.

Two methods more are no part of the contract, and used where a backend has them: `GenericKernels.update_rows`, a step of an optimizer in
place, and `NumpyKernels.product_of_others`. Either may give None, and the caller then does without.
"""

from typing import Any, Literal, Protocol, TypeAlias

__all__ = ["Array", "DType", "Kernels", "Namespace", "ReduceOp"]

Array: TypeAlias = Any
"""An array of any supported library. The standard has no common base class to name here."""

DType: TypeAlias = Any
Namespace: TypeAlias = Any

ReduceOp = Literal["add", "mul", "min", "max", "mean"]


class Kernels(Protocol):
    """What one array library must provide. See the module's text for the conventions that every method follows."""

    name: str
    """Short name for messages and `show_config`, such as ``"numpy"``."""

    xp: Namespace
    """The array API namespace of the library (through array-api-compat where the library's own falls short)."""

    mutable: bool
    """Whether arrays can be written in place."""

    def concrete(self, x: Array) -> bool:
        """Whether Python can see the values of `x` now: False for tracers of jax, fake tensors, and while torch compiles."""
        ...

    def seen(self, x: Array) -> Array | None:
        """The values of `x` where Python can see them, in any shape: `x` itself, or what a function transform wraps; else None."""
        ...

    def synchronous(self, x: Array) -> bool:
        """Whether reading a value of `x` waits for no device queue (true on the CPU)."""
        ...

    def device_for(self, x: Array) -> Any:
        """The device on which to make arrays beside `x`; None where the library places them (NumPy, and tracers of jax)."""
        ...

    def index_dtype(self, x: Array) -> DType:
        """The widest integer dtype that can index arrays like `x`: int64, or int32 in jax without x64."""
        ...

    def accumulator(self, dtype: DType) -> DType:
        """The dtype in which sums of `dtype` are held: float32 for float16 and bfloat16, else `dtype` itself."""
        ...

    def check_errors(self) -> None:
        """Raise what calls on a device have recorded since the last time, and forget it; waits for the device.

        Kernels that are not `synchronous` raise here, and not at the call, for ids out of range: the entry is treated as
        padding meanwhile. (As is an id beyond `length` in `unique_inverse` and `coalesce`, a `ValueError`.)
        """
        ...

    def bounds(self, ids: Array) -> tuple[int, int]:
        """The least and the greatest of non-empty concrete `ids`, as Python ints."""
        ...

    def gather(self, src: Array, ids: Array) -> Array:
        """``rows[i] = src[ids[i]]`` along the first axis of `src`, zeros for padding; a new array."""
        ...

    def densify(self, ids: Array, rows: Array, size: int, *, unique: bool = False) -> Array:
        """A new array of shape ``(size, *inner)``: zeros, with ``rows[i]`` added at ``ids[i]``.

        With `unique` the caller vouches that no id repeats (padding may), and rows are put: a sum begins at +0, and -0 would be lost.
        """
        ...

    def scatter_add(
        self, dst: Array, ids: Array, rows: Array, alpha: float | int | complex = 1, *, in_order: bool = False
    ) -> Array:
        """``dst[ids[i]] += alpha * rows[i]``; touches only the rows named, and needs no memory of the size of `dst`.

        With `in_order` each row may be added to `dst` as it comes, as the library's own scatter does: rows that are small beside what
        `dst` holds are then lost one by one.
        """
        ...

    def put(self, dst: Array, unique_ids: Array, rows: Array) -> Array:
        """``dst[unique_ids[i]] = rows[i]``; the ids do not repeat (padding may)."""
        ...

    def unique_inverse(self, ids: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        """The distinct ids, ascending, and for each entry its position among them.

        Padding is no id: its position is the number of distinct ids, which makes it padding again for `densify`. With
        `length`, exactly that many ids come back, filled up with ``size``, and the position of padding is `length`. More
        distinct ids than `length` are a `ValueError` where values can be seen, and dropped where they cannot. Where values
        cannot be seen, ``length=None`` stands for ``n``.
        """
        ...

    def coalesce(self, ids: Array, rows: Array, size: int, length: int | None = None) -> tuple[Array, Array]:
        """The distinct ids, ascending, and the sum of each one's rows; `length` as in `unique_inverse` (padding rows are zero)."""
        ...

    def scatter_reduce(self, op: ReduceOp, dst: Array, ids: Array, rows: Array, include_self: bool = True) -> Array:
        """Fold ``rows[i]`` into ``dst[ids[i]]`` by `op`.

        With ``include_self=False`` what `dst` held at a named row takes no part; rows that are not named keep what they hold.
        ``"mean"`` needs a floating or complex dtype, ``"min"`` and ``"max"`` one that has an order, else it is a `TypeError`; the
        mean counts `dst` as one of the elements if `include_self`.
        """
        ...

    def segment_reduce(self, op: ReduceOp, rows: Array, starts: Array) -> Array:
        """Fold ``rows[starts[i]:starts[i + 1]]`` by `op`; `starts` ascends from 0 to n and has one more element than there are segments.

        An empty segment gives the identity: 0, 1, the greatest value (min), the least value (max), and 0 for the mean.
        """
        ...
