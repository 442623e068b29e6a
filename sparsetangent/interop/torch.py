"""torch: hybrid COO tensors both ways, look-ups whose gradient is compact, an `Embedding`, and clipping.

``import sparsetangent.interop.torch`` also lets ``torch.load(weights_only=True)`` read tangents; ids are checked again there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..algebra.dense import densify
from ..backend import backend_of
from ..rules import embedding as read_embedding
from ..rules import embedding_vjp, take_vjp
from ..rules import take as read
from ..types import Fill, IndexedSlices, OneHot, Zero
from ..types.axes import as_axis
from ..types.indices import as_index_array, check_ids
from .torch_clip import clip_grad_norm_, clip_norm_hook, clip_value_hook
from .torch_coo import from_torch, smaller_form, to_torch, wrong_type

__all__ = [
    "Embedding",
    "clip_grad_norm_",
    "clip_norm_hook",
    "clip_value_hook",
    "embedding",
    "from_torch",
    "take",
    "to_torch",
]

# What the pickles of the types call; each goes through the constructor's checks.
_PROBE = torch.zeros(0)
_EXAMPLES = (IndexedSlices((), _PROBE, (), axis=()), OneHot(_PROBE.long(), 1), Fill(_PROBE.sum(), ()), Zero((), like=_PROBE))
torch.serialization.add_safe_globals([t.__reduce__()[0] for t in _EXAMPLES])


# Look-ups


class _Look(NamedTuple):
    """How a table is read, and what its gradient may be."""

    axis: int
    embeds: bool
    sparse: bool
    padding_idx: int | None = None
    scale_grad_by_freq: bool = False

    def read(self, weight: Any, ids: torch.Tensor) -> Any:
        return read_embedding(weight, ids) if self.embeds else read(weight, ids, self.axis)

    def cotangent(self, dy: torch.Tensor, shape: tuple[int, ...], ids: torch.Tensor) -> IndexedSlices:
        if self.embeds:
            keywords = {"padding_idx": self.padding_idx, "scale_grad_by_freq": self.scale_grad_by_freq}
            return embedding_vjp(dy, shape, ids, **keywords)  # type: ignore[arg-type]
        return take_vjp(dy, shape, ids, self.axis)


class _Read(torch.autograd.Function):  # type: ignore[misc]
    """``take(weight, ids)``, whose cotangent is `_Place`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: torch.Tensor, ids: torch.Tensor, look: _Look) -> torch.Tensor:
        return look.read(weight, ids)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        weight, ids, ctx.look = inputs
        ctx.shape = tuple(weight.shape)
        ctx.save_for_backward(ids)
        ctx.save_for_forward(ids)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        (ids,), look = ctx.saved_tensors, ctx.look
        if not look.sparse or not backend_of(dy).kernels.mutable:  # a function transform, which has no sparse tensors
            return look.cotangent(dy, ctx.shape, ids).densify(), None, None
        return _Place.apply(dy, ids, ctx.shape, look), None, None

    @staticmethod
    def jvp(ctx: Any, weight: torch.Tensor, *_: Any) -> torch.Tensor:
        return ctx.look.read(weight, ctx.saved_tensors[0])


class _Place(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of a table, whose cotangent is `_Read` again; linear, so derivatives of every order follow."""

    @staticmethod
    def forward(dy: torch.Tensor, ids: torch.Tensor, shape: tuple[int, ...], look: _Look) -> torch.Tensor:
        return smaller_form(look.cotangent(dy, shape, ids)._frame())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ids, _, ctx.look = inputs
        ctx.save_for_backward(ids)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        (ids,), look = ctx.saved_tensors, ctx.look
        plain = look._replace(padding_idx=None, scale_grad_by_freq=False)
        read = densify(look.read(from_torch(g), ids)) if g.is_sparse else _Read.apply(g, ids, plain)
        return _reduced(read, ids, look), None, None, None


def _reduced(rows: torch.Tensor, ids: torch.Tensor, look: _Look) -> torch.Tensor:
    """Rows read at `ids`, 0 at `padding_idx`, and divided by how often their id is read if that is asked for."""
    column = (*ids.shape, *(1,) * (rows.ndim - ids.ndim))
    if look.scale_grad_by_freq:
        _, inverse, counts = torch.unique(ids, return_inverse=True, return_counts=True)
        held = backend_of(rows).kernels.accumulator(rows.dtype)
        rows = (rows.to(held) / counts[inverse].reshape(column)).to(rows.dtype)
    if look.padding_idx is not None:
        rows = torch.where((ids == look.padding_idx).reshape(column), 0, rows)
    return rows


def _looked_up(weight: torch.Tensor, ids: Any, look: _Look) -> torch.Tensor:
    function: Callable[..., torch.Tensor] = _apply_read
    if "torch._dynamo" in sys.modules:  # importing it takes seconds, and without it nothing is compiled
        # Compiled graphs have no sparse gradients, so a look-up stands between two graphs.
        function = torch.compiler.disable(_apply_read)
    return function(weight, ids, look)


def _refuse_other_types(weight: Any) -> None:
    if not isinstance(weight, torch.Tensor):
        raise TypeError(wrong_type("weight", "a tensor", weight))


def _apply_read(weight: torch.Tensor, ids: Any, look: _Look) -> torch.Tensor:
    return _Read.apply(weight, as_index_array(ids, weight, name="ids"), look)


def take(weight: torch.Tensor, ids: Any, axis: int = 0, *, sparse: bool = True) -> torch.Tensor:
    """The slices of a tensor at `ids` along an axis, whose gradient is a COO tensor where that is smaller than the dense one.

    Parameters
    ----------
    weight : torch.Tensor
        Strided, of any shape; any floating or complex dtype (others have no gradient).
    ids : torch.Tensor or list of int
        Any shape; ``-size <= i < size``.
    axis : int
        COO has its sparse axes first, so the gradient along axis k stores k + 1 int64 coordinates an entry.
    sparse : bool
        False asks for a dense gradient always, for optimizers that take no other.

    Returns
    -------
    torch.Tensor
        ``weight[..., ids, ...]``, shape ``(*shape[:axis], *ids.shape, *shape[axis + 1:])``.

    Raises
    ------
    TypeError
        Ids not of an integer dtype.
    IndexError
        An id out of range.
    ValueError
        An axis out of range.

    Notes
    -----
    Repeats are summed before torch sees the gradient, those of half types in float32. (On the way to ``.grad`` torch forgets
    the mark that says so; ``coalesce()`` sets it again.) The gradient is dense under ``torch.func``. Under ``torch.compile`` the
    look-up itself is left to Python, between the graphs of what surrounds it.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import take
    >>> table = torch.zeros(1000, 2, requires_grad=True)
    >>> take(table, [7, 42, 7]).sum().backward()
    >>> table.grad.layout, table.grad._indices().tolist(), table.grad._values().tolist()
    (torch.sparse_coo, [[7, 42]], [[2.0, 2.0], [1.0, 1.0]])
    >>> take(torch.eye(3), [0], axis=1).tolist()
    [[1.0], [0.0], [0.0]]
    """
    _refuse_other_types(weight)
    return _looked_up(weight, ids, _Look(as_axis(axis, weight.ndim), False, sparse))


def embedding(
    weight: torch.Tensor,
    ids: Any,
    *,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    sparse: bool = True,
) -> torch.Tensor:
    """The rows of a table at `ids`, as `sparsetangent.rules.embedding`, with a compact gradient as that of `take`.

    Parameters
    ----------
    weight : torch.Tensor
        Shape ``(size, *rest)``.
    ids : torch.Tensor or list of int
        Any shape; ``0 <= i < size``.
    padding_idx : int, optional
        The row that gets no gradient. Negative values count from the end.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it is read.
    sparse : bool
        False asks for a dense gradient always.

    Returns
    -------
    torch.Tensor
        Shape ``(*ids.shape, *rest)``.

    Raises
    ------
    TypeError
        Ids not of an integer dtype.
    IndexError
        An id out of range, negative ones too.
    ValueError
        `padding_idx` out of range.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import embedding
    >>> table = torch.arange(2000.0).reshape(1000, 2).requires_grad_()
    >>> rows = embedding(table, [3, 0], padding_idx=0)
    >>> rows.tolist()
    [[6.0, 7.0], [0.0, 1.0]]
    >>> rows.sum().backward()
    >>> table.grad.coalesce().indices().tolist()
    [[3]]
    """
    _refuse_other_types(weight)
    padding = None if padding_idx is None else as_axis(padding_idx, weight.shape[0], "padding_idx")
    return _looked_up(weight, ids, _Look(0, True, sparse, padding, scale_grad_by_freq))


class Embedding(torch.nn.Embedding):  # type: ignore[misc]
    """`torch.nn.Embedding` with a gradient that is sparse where that is smaller, and ids that are checked.

    The arguments are torch's, but that `sparse` is True unless said otherwise. State dicts are exchanged with torch's module as they are.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        The shape of the table.
    padding_idx : int, optional
        The row that gets no gradient.
    max_norm : float, optional
        Rows that are longer are shortened to this, in the table, before they are read.
    norm_type : float
        The order of that norm.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it is read.
    sparse : bool
        False asks for a dense gradient, for optimizers that take no other.
    **keywords : object
        Further ones of torch's, such as ``device`` and ``dtype``.

    Raises
    ------
    IndexError
        From a call, if an id is out of range.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import Embedding
    >>> table = Embedding(1000, 4)
    >>> table(torch.tensor([[1, 2], [2, 3]])).sum().backward()
    >>> table.weight.grad.coalesce().indices().tolist()
    [[1, 2, 3]]
    >>> table(torch.tensor([-1]))
    Traceback (most recent call last):
        ...
    IndexError: ids holds -1 at position 0, out of range for axis 0 of size 1000; allowed: 0 <= id < 1000
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = True,
        **keywords: Any,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, **keywords
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: torch.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = True,
    ) -> Embedding:
        """A module on a given table, frozen unless said otherwise.

        Parameters
        ----------
        embeddings : torch.Tensor
            The table, of shape ``(num_embeddings, embedding_dim)``, any floating or complex dtype.
        freeze : bool
            Whether the table takes no gradient.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            As for the class.

        Returns
        -------
        Embedding
            Which holds `embeddings` itself.

        Examples
        --------
        >>> import torch
        >>> from sparsetangent.interop.torch import Embedding
        >>> Embedding.from_pretrained(torch.eye(3))(torch.tensor([2])).tolist()
        [[0.0, 0.0, 1.0]]
        """
        made: Embedding = super().from_pretrained(
            embeddings, freeze, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        )
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The rows at the ids `input`; with `max_norm`, rows that are longer are shortened in the table first.

        Parameters
        ----------
        input : torch.Tensor
            Integers of any shape; ``0 <= id < num_embeddings``.

        Returns
        -------
        torch.Tensor
            Shape ``(*input.shape, embedding_dim)``, dtype of the table.

        Examples
        --------
        >>> import torch
        >>> from sparsetangent.interop.torch import Embedding
        >>> Embedding(10, 4).forward(torch.tensor([[3]])).shape
        torch.Size([1, 1, 4])
        """
        if self.max_norm is not None:
            self._shorten(input)
        keywords = {"padding_idx": self.padding_idx, "scale_grad_by_freq": self.scale_grad_by_freq, "sparse": self.sparse}
        return embedding(self.weight, input, **keywords)

    def _shorten(self, ids: torch.Tensor) -> None:
        checked = check_ids(
            as_index_array(ids, self.weight, name="ids"), self.num_embeddings, 0, negatives=False, validate="now", name="ids"
        )
        with torch.no_grad():
            torch.embedding_renorm_(self.weight.detach(), checked[0].contiguous(), self.max_norm, self.norm_type)
