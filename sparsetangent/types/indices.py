"""The one rule of indices, applied at intake: integer, in range, negatives counted from the end, else a clear error.

On the CPU the check reads the ids and raises at once. On a device it only enqueues a flag, which `check_errors` or the
next operation that synchronises reads. Under a tracer nothing can be read, and a bad id becomes padding, in value and
gradient alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

from ..backend import Backend, backend_of, device_of, is_array, known_backends
from ..dtypes import facts
from ..kernels.base import Array

__all__ = ["Ids", "Validate", "as_index_array", "check_errors", "check_ids", "check_size"]

Validate = bool | Literal["now"]

# Flags of device checks that nobody has read yet. The oldest is read when the list is full, so it stays bounded.
_PENDING: list[tuple[Array, str]] = []
_PENDING_LIMIT = 256


Ids = tuple[Array, bool]
"""Checked ids of any shape, and whether some may be padding (equal to the axis size). A plain tuple, since making one is free."""


def as_index_array(indices: Any, like: Array, *, name: str = "indices", hint: str = "") -> Array:
    """`indices` as an integer array of the library and device of `like`, as wide as the caller made it.

    Python integers and sequences of them are converted, and an empty sequence is an empty index array. A bool or floating
    dtype, even when empty, is a `TypeError`, to which `hint` is added; so is an array of another library.
    """
    backend = backend_of(like)
    if type(indices) is type(like):
        pass  # one library, seen at a glance
    elif is_array(indices):
        if backend_of(indices) is not backend:
            raise TypeError(
                f"{name} and what they index must be arrays of one library, not {backend_of(indices).name} and {backend.name}"
            )
    elif isinstance(indices, (int, Sequence)) and not isinstance(indices, (bool, str, bytes)):
        indices = backend.xp.asarray(indices, device=device_of(like))
        if prod(indices.shape) == 0:
            indices = backend.xp.astype(indices, backend.kernels.index_dtype(like))
    else:
        raise TypeError(f"{name} must be an integer array or a sequence of integers, not {type(indices).__name__}")
    if facts(backend, indices.dtype).kind not in ("signed", "unsigned"):
        raise TypeError(f"{name} must have an integer dtype, not {indices.dtype}{hint}")
    if backend.name != "numpy" and (here := device_of(indices)) != (there := device_of(like)) and None not in (here, there):
        raise ValueError(f"{name} are on device {here} and what they index is on {there}; move one of them first")
    return indices


def check_size(size: int, axis: int, backend: Backend, like: Array) -> None:
    """Refuse an axis that the widest index dtype of the backend cannot count."""
    if size > 2**31 - 1 and size > (limit := backend.xp.iinfo(backend.kernels.index_dtype(like)).max):
        raise ValueError(f"axis {axis} of size {size} is longer than the widest index dtype of {backend.name} counts: {limit}")


def check_ids(
    ids: Array,
    size: int,
    axis: int,
    *,
    validate: Validate = True,
    negatives: bool = True,
    drop: bool = False,
    name: str = "indices",
) -> Ids:
    """Ids of any shape, widened and normalised to ``[0, size)``.

    Parameters
    ----------
    ids : Array
        From `as_index_array`.
    size, axis : int
        The length of the indexed axis, and its number for messages.
    validate : bool or "now"
        False skips the check: the caller vouches for ids in ``[0, size)``, and kernels still refuse what isn't.
    negatives : bool
        Whether ``-size <= i < 0`` counts from the end; else it is out of range.
    drop : bool
        Whether ids out of range become padding instead of an error.
    """
    backend = backend_of(ids)
    kind, itemsize = facts(backend, ids.dtype)
    unsigned = kind == "unsigned"
    if unsigned or itemsize < 4 or (itemsize == 4 and size >= 2**31):
        # int32 and int64 are kept, unless the axis (and so its padding) is out of reach.
        ids = backend.xp.astype(ids, backend.kernels.index_dtype(ids))
    if not validate or 0 in ids.shape:
        return ids, False
    kernels = backend.kernels
    # An unsigned value beyond int64 wraps to a negative one when it is widened, and must not count from the end.
    low = -size if negatives and not unsigned else 0
    seen = kernels.seen(ids)
    if seen is not None and (kernels.synchronous(seen) or validate == "now"):
        least, greatest = kernels.bounds(seen)
        if least >= 0 and greatest < size:
            return ids, False
        if least >= low and greatest < size:
            return backend.xp.where(ids < 0, ids + size, ids), False
        if not drop:
            raise IndexError(_describe(seen, low, size, axis, name))
    elif not drop and seen is not None:
        _enqueue(backend.xp.any((seen < low) | (seen >= size)), f"{name} along axis {axis} of size {size}", backend)
    if low < 0:
        ids = backend.xp.where(ids < 0, ids + size, ids)
    return backend.xp.where((ids < 0) | (ids >= size), _constant(ids, size), ids), True


def _constant(like: Array, value: int) -> Array:
    xp = backend_of(like).xp
    return xp.asarray(value, dtype=like.dtype, device=device_of(like))


def _describe(ids: Array, low: int, size: int, axis: int, name: str) -> str:
    """Name the first bad id and where it stands."""
    xp = backend_of(ids).xp
    flat = xp.reshape(ids, (-1,))
    position = int(xp.argmax(xp.astype((flat < low) | (flat >= size), xp.int8)))
    allowed = f"{low} <= id < {size}" if size else "none"
    return (
        f"{name} holds {int(flat[position])} at position {position}, out of range for axis {axis} of size {size}; "
        f"allowed: {allowed}"
    )


def _enqueue(flag: Array, where: str, backend: Backend) -> None:
    _PENDING.append((flag, where))
    if len(_PENDING) > _PENDING_LIMIT:
        _read(_PENDING.pop(0))


def _read(pending: tuple[Array, str]) -> None:
    flag, where = pending
    if bool(flag):
        raise IndexError(f"{where} held an id out of range; entries with it were dropped")


def check_errors() -> None:
    """Raise what checks and kernels on a device have recorded so far; waits for the device.

    On the CPU ids are checked at once and there is never anything to raise.

    Raises
    ------
    IndexError
        If ids given to an earlier call were out of range. The flag is cleared.
    ValueError
        If more distinct ids were met than the static size given to `coalesce`.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.check_errors() is None  # nothing was recorded
    True

    After a step on a GPU, before its result is trusted:

    >>> def step(update):
    ...     update()
    ...     st.check_errors()
    >>> step(lambda: print("rows updated"))
    rows updated
    """
    pending, _PENDING[:] = _PENDING[:], []
    for entry in pending:
        _read(entry)
    for backend in known_backends():
        backend.kernels.check_errors()
