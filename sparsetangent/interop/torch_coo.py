"""Tangents as hybrid COO tensors of torch, and back, without a copy where the layouts allow it."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ..algebra.dense import dense_of
from ..algebra.frames import coalesce, expand, store, take_entries
from ..backend import backend_of
from ..types import Frame, IndexedSlices, Tangent
from ..types.indices import check_ids
from .coordinates import from_coordinates, stored_in_front, without_padding

__all__ = ["from_torch", "smaller_form", "to_torch", "wrong_type"]


def to_torch(t: Tangent) -> torch.Tensor:
    """A tangent of torch tensors as a hybrid COO tensor.

    COO has its sparse axes first. A tangent that stores a later axis stores every axis before it here too, which costs an entry and
    an int64 coordinate for each position along them.

    Parameters
    ----------
    t : Tangent
        Of torch tensors, any shape and dtype.

    Returns
    -------
    torch.Tensor
        Layout ``sparse_coo``, the shape and dtype of `t`, entries in the order of `t`, coalesced exactly if `t` is known to be
        unique and sorted. The values are those of `t`, not copied, if its stored axes are the first; so are int64 indices of one axis,
        and of several that lie in one tensor, as `from_torch` leaves them. Differentiable.

    Raises
    ------
    TypeError
        If `t` is no tangent of torch tensors, or its ids cannot be seen (under a function transform).
    IndexError
        If ids were overwritten with ones out of range: torch would corrupt memory.

    Notes
    -----
    ``to_torch(t).to_dense() == t.densify()``. Padding is left out.

    Examples
    --------
    >>> import torch, sparsetangent as st
    >>> from sparsetangent.interop.torch import to_torch
    >>> x = to_torch(st.IndexedSlices(torch.tensor([2, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (3, 2)))
    >>> x.sparse_dim(), x.is_coalesced(), x.to_dense().tolist()
    (1, False, [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]])
    >>> to_torch(st.Zero((4, 5), xp=torch)).shape
    torch.Size([4, 5])
    """
    if not isinstance(t, Tangent) or backend_of(t._frame().values).name != "torch":
        raise TypeError(
            f"t must be a tangent of torch tensors, not {t!r}" if isinstance(t, Tangent) else wrong_type("t", "a tangent", t)
        )
    frame = t._frame()
    if not (frame.concrete and frame.backend.kernels.mutable):
        raise TypeError("t must have ids that can be seen: a COO tensor cannot be made under a function transform")
    for ids, axis in zip(frame.ids, frame.axes, strict=True):
        check_ids(ids, frame.shape[axis] + frame.padded, axis, negatives=False, validate="now")
    return _as_coo(without_padding(stored_in_front(t)))


def wrong_type(name: str, wanted: str, given: Any) -> str:
    return f"{name} must be {wanted}, not {type(given).__name__}"


def _as_coo(frame: Frame) -> torch.Tensor:
    """The COO tensor of a frame that stores the first axes, whose ids were checked."""
    flags = {"is_coalesced": frame.unique and frame.ordered, "check_invariants": False}
    return torch.sparse_coo_tensor(_stacked(frame), expand(frame).values, frame.shape, **flags)


def _stacked(frame: Frame) -> torch.Tensor:
    """The coordinates as one int64 tensor of shape ``(axes, entries)``; a view where they lie in one tensor already."""
    ids = [i.to(torch.int64) for i in frame.ids]
    if not ids:
        return torch.zeros((0, frame.n), dtype=torch.int64, device=frame.values.device)
    if len(ids) == 1:
        return ids[0][None]
    first, offsets = ids[0], [i.storage_offset() for i in ids]
    step = offsets[1] - offsets[0]
    together = all(i.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() for i in ids)
    if (
        together
        and step > 0
        and offsets == [offsets[0] + step * k for k in range(len(ids))]
        and {i.stride(0) for i in ids} == {1}
    ):
        return torch.as_strided(first, (len(ids), frame.n), (step, 1), offsets[0])
    return torch.stack(ids)


def from_torch(x: torch.Tensor) -> IndexedSlices:
    """A COO tensor as `IndexedSlices` that share its memory.

    Parameters
    ----------
    x : torch.Tensor
        Layout ``sparse_coo``, coalesced or not, any shape and dtype.

    Returns
    -------
    IndexedSlices
        The sparse axes stored, entries in the order of `x`; known to be unique and sorted exactly if `x` is coalesced. Where
        autograd watches `x`, the entries are those of ``x.coalesce()``, through which torch can differentiate.

    Raises
    ------
    TypeError
        If `x` is no COO tensor.
    IndexError
        If an index is out of range, which torch's constructor lets pass.
    ValueError
        If `x` is marked as coalesced and is not.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import from_torch
    >>> t = from_torch(torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,), check_invariants=True))
    >>> t.indices.tolist(), t.unique, t.densify().tolist()
    ([1, 1], False, [0.0, 5.0, 0.0, 0.0])
    >>> from_torch(torch.sparse_coo_tensor([[1, 7]], [2.0, 3.0], (4,), check_invariants=False))
    Traceback (most recent call last):
        ...
    IndexError: indices holds 7 at position 1, out of range for axis 0 of size 4; allowed: 0 <= id < 4
    """
    if not isinstance(x, torch.Tensor) or x.layout != torch.sparse_coo:
        hint = "; x.to_sparse_coo() makes one, sparsetangent.from_dense keeps slices" if isinstance(x, torch.Tensor) else ""
        raise TypeError(wrong_type("x", "a tensor of layout sparse_coo", x) + hint)
    if x.requires_grad and torch.is_grad_enabled():
        x = x.coalesce()
    values = x.values() if x.is_coalesced() else x._values()
    axes = tuple(range(x.sparse_dim()))
    known = x.is_coalesced()
    return from_coordinates(x._indices().unbind(0), values, tuple(x.shape), axes, unique=known, ordered=known)


def smaller_form(frame: Frame) -> torch.Tensor:
    """The gradient as a coalesced COO tensor if that takes fewer bytes than the dense one, else dense.

    Repeats are merged here since torch would add those of half types in half precision.
    """
    frame = without_padding(coalesce(frame))
    (lead,), size, n = frame.axes, frame.values.element_size(), frame.n
    positions = prod(frame.shape[:lead])
    entries = n * positions
    if entries * (8 * (lead + 1) + size * prod(frame.shape[lead + 1 :])) >= size * prod(frame.shape):
        return dense_of(frame)
    frame = store(frame, range(lead))
    if lead:
        # Entries came with the id slowest; COO wants it fastest.
        order = torch.arange(entries, device=frame.values.device).reshape(n, positions).T.reshape(-1)
        frame = take_entries(frame, order)._replace(ordered=True)
    return _as_coo(frame)
