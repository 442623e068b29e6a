"""Clipping of torch gradients, COO or dense: repeats are merged before a norm or a limit, which are not linear."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from ..norms import global_norm
from ..types import IndexedSlices
from .torch_coo import from_torch, to_torch

__all__ = ["clip_grad_norm_", "clip_norm_hook", "clip_value_hook"]

Hook = Callable[[torch.Tensor], torch.Tensor]


def clip_norm_hook(max_norm: float) -> Hook:
    """A hook for ``Tensor.register_hook`` that scales a gradient down to a Euclidean norm.

    Parameters
    ----------
    max_norm : float
        At least 0.

    Returns
    -------
    callable
        ``g -> g * min(1, max_norm / norm(g))``, COO for COO.

    Raises
    ------
    ValueError
        If `max_norm` is negative.

    Notes
    -----
    A norm that is infinite or nan makes what is stored nan, so that it does not pass unseen.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import clip_norm_hook, take
    >>> table = torch.zeros(1000, 1, requires_grad=True)
    >>> handle = table.register_hook(clip_norm_hook(1.0))
    >>> (take(table, [1, 1, 5]) * torch.tensor([[1.0], [2.0], [4.0]])).sum().backward()
    >>> table.grad.coalesce().values().tolist()
    [[0.6000000238418579], [0.800000011920929]]
    >>> clip_norm_hook(1.0)(torch.tensor([3.0, 4.0])).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    _refuse_negative("max_norm", max_norm)

    def hook(g: torch.Tensor) -> torch.Tensor:
        factor = _factor(_norm(g), max_norm)
        return _with_values(g, lambda values: values * factor)

    return hook


def clip_value_hook(limit: float) -> Hook:
    """A hook for ``Tensor.register_hook`` that holds every element of a gradient within ``[-limit, limit]``.

    Parameters
    ----------
    limit : float
        At least 0.

    Returns
    -------
    callable
        ``g -> clamp(g, -limit, limit)``, COO and coalesced for COO.

    Raises
    ------
    ValueError
        If `limit` is negative.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import clip_value_hook
    >>> twice = torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,), check_invariants=True)
    >>> clip_value_hook(4.0)(twice).to_dense().tolist()
    [0.0, 4.0, 0.0, 0.0]
    >>> clip_value_hook(0.5)(torch.tensor([-3.0, 0.25])).tolist()
    [-0.5, 0.25]
    """
    _refuse_negative("limit", limit)
    return lambda g: _with_values(g, lambda values: values.clamp(-limit, limit))


def clip_grad_norm_(
    parameters: torch.Tensor | Iterable[torch.Tensor], max_norm: float, *, error_if_nonfinite: bool = False
) -> torch.Tensor:
    """`torch.nn.utils.clip_grad_norm_` for gradients of which some are COO: all scaled in place by one factor.

    Parameters
    ----------
    parameters : torch.Tensor or iterable of them
        Of any shapes and floating or complex dtypes. Those without a gradient are passed over.
    max_norm : float
        At least 0.
    error_if_nonfinite : bool
        Whether a norm that is nan or infinite is an error, before anything is written.

    Returns
    -------
    torch.Tensor
        The Euclidean norm over all gradients before clipping, at least float32, without axes.

    Raises
    ------
    ValueError
        If `max_norm` is negative.
    RuntimeError
        If the norm is not finite and `error_if_nonfinite`.

    Examples
    --------
    >>> import torch
    >>> from sparsetangent.interop.torch import clip_grad_norm_, take
    >>> table = torch.zeros(1000, 1, requires_grad=True)
    >>> (take(table, [1, 1, 5]) * torch.tensor([[1.0], [2.0], [4.0]])).sum().backward()
    >>> clip_grad_norm_([table], 2.5)
    tensor(5.)
    >>> table.grad.coalesce().values().tolist()
    [[1.5], [2.0]]
    """
    _refuse_negative("max_norm", max_norm)
    given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if not grads:
        return torch.zeros(())
    with torch.no_grad():
        total = _norm(*grads)
        if error_if_nonfinite and not bool(torch.isfinite(total)):
            raise RuntimeError(f"the norm of the gradients is {float(total)}, not finite")
        factor = _factor(total, max_norm)
        for g in grads:
            values = g._values() if g.is_sparse else g
            values.mul_(factor.to(values.device))
    return total


def _refuse_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, not {value}")


def _norm(*grads: torch.Tensor) -> torch.Tensor:
    return global_norm([from_torch(g) if g.is_sparse else g for g in grads])


def _factor(norm: torch.Tensor, max_norm: float) -> torch.Tensor:
    """``min(1, max_norm / norm)``, and nan unless the norm is finite: an overflow must not pass for a small gradient."""
    factor = torch.where(norm <= max_norm, torch.ones_like(norm), max_norm / norm)
    return torch.where(torch.isfinite(norm), factor, torch.nan)


def _with_values(g: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`g` with changed values; a COO tensor is coalesced first, half types in float32."""
    if not g.is_sparse:
        return change(g)
    merged = from_torch(g).coalesce()
    return to_torch(IndexedSlices._of(merged._frame().with_values(change(merged.values))))
