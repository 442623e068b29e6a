"""HIPS autograd: NumPy code whose look-ups get compact gradients, end to end.

After `install`, ``grad`` of a function that reads its argument with `take` or ``x[sparsely(ids)]`` gives `IndexedSlices`. autograd's own
rules know arrays only; they are given dense ones whenever a tangent reaches them, so what is computed from a table still has its right
gradient, and what is read from the argument itself a compact one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from autograd import core
from autograd.builtins import ContainerVSpace, container_take, container_untake
from autograd.extend import SparseObject, VSpace, defjvp, defvjp, primitive, vspace
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.numpy.numpy_vjps import untake
from autograd.numpy.numpy_vspaces import ArrayVSpace
from autograd.tracer import getval

from .. import rules
from ..algebra.dense import densify
from ..kernels.base import Array, DType
from ..types import Fill, IndexedSlices, OneHot, Tangent, Zero
from ..types.axes import as_axis
from ..types.indices import as_index_array

__all__ = ["install", "sparsely", "take"]

_TYPES = (IndexedSlices, OneHot, Fill, Zero)
_every_integer_key = False


class TangentBox(ArrayBox):  # type: ignore[misc]
    """A tangent on autograd's tape: an array to it, with `densify`."""

    __slots__ = ()

    shape = property(lambda self: self._value.shape)
    ndim = property(lambda self: self._value.ndim)
    size = property(lambda self: self._value.size)
    dtype = property(lambda self: self._value.dtype)

    def densify(self) -> Any:
        """The dense array, differentiable."""
        return _densify(self)


class TangentVSpace(ArrayVSpace):  # type: ignore[misc]
    """The space of the dense arrays that tangents stand for, in which zero and one take no memory."""

    def __init__(self, like: Any) -> None:
        self.shape, self.dtype = tuple(like.shape), np.dtype(like.dtype)

    @property
    def iscomplex(self) -> bool:
        return bool(self.dtype.kind == "c")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * (2 if self.iscomplex else 1)

    def zeros(self) -> Zero:
        return Zero(self.shape, dtype=self.dtype)

    def ones(self) -> Fill:
        return Fill(self.dtype.type(1 + 1j if self.iscomplex else 1), self.shape)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        product = (np.conj(x) if self.iscomplex else x) * y
        return np.sum(np.real(product) if self.iscomplex else product)

    def _covector(self, x: Any) -> Any:
        return np.conj(x) if self.iscomplex else x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayVSpace) and (self.shape, self.dtype) == (other.shape, other.dtype)

    __hash__ = None  # type: ignore[assignment]


class _SparseIds(np.ndarray):
    """Ids that ask for a compact gradient; to NumPy an index array like any other."""


def sparsely(ids: Any) -> Any:
    """An index that asks for a compact gradient: ``x[sparsely(ids)]``, also inside a key such as ``x[sparsely(ids), :3]``.

    Parameters
    ----------
    ids : array of integers
        ``-size <= i < size``.

    Returns
    -------
    numpy.ndarray
        Equal to `ids`.

    Raises
    ------
    TypeError
        Ids not of an integer dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from autograd import grad
    >>> from sparsetangent.interop.autograd import install, sparsely
    >>> install()
    >>> grad(lambda x: (x[sparsely([2, 2])] ** 2).sum())(np.array([1.0, 2.0, 3.0])).values.tolist()
    [6.0, 6.0]
    >>> np.arange(3)[sparsely([-1])].tolist()
    [2]
    """
    return as_index_array(ids, np.zeros(0), name="ids").view(_SparseIds)


def take(x: Any, ids: Any, axis: int = 0) -> Any:
    """The slices of `x` at `ids` along an axis, with a compact gradient.

    Parameters
    ----------
    x : numpy.ndarray
        Or what autograd traces in its place.
    ids : array of integers
        Any shape, which takes the place of `axis`. ``-size <= i < size``.
    axis : int
        Along which to read.

    Returns
    -------
    numpy.ndarray
        Shape ``(*x.shape[:axis], *ids.shape, *x.shape[axis + 1:])``.

    Raises
    ------
    RuntimeError
        Before `install` was called.
    TypeError, IndexError, ValueError
        As `sparsetangent.rules.take`.

    Notes
    -----
    The gradient of `x` is an `IndexedSlices` of the dtype of `x`. If `x` was computed, its own arguments get the dense gradients that
    autograd gives.

    Examples
    --------
    >>> import numpy as np
    >>> from autograd import grad
    >>> from sparsetangent.interop.autograd import install, take
    >>> install()
    >>> grad(lambda x: (take(x, [2, 0]) ** 2).sum())(np.array([1.0, 2.0, 3.0]))
    IndexedSlices(shape=(3,), dtype=float64, axis=0, stored=2, density=0.667, numpy)
    >>> grad(lambda x: (take(2 * x, [2, 2]) ** 2).sum())(np.array([1.0, 2.0, 3.0])).tolist()
    [0.0, 0.0, 48.0]
    """
    if IndexedSlices not in VSpace.mappings:
        raise RuntimeError("autograd does not know tangents yet: call sparsetangent.interop.autograd.install() first")
    axis = as_axis(axis, len(x.shape))
    return _read(x, (*(slice(None),) * axis, as_index_array(ids, np.zeros(0), name="ids"), ...))


def _is_tangent(x: Any) -> bool:
    return isinstance(getval(x), Tangent)


def _to_dense(x: Any) -> Any:
    """The dense array in place of a tangent, on the tape if that is."""
    return _densify(x) if _is_tangent(x) else x


@primitive  # type: ignore[untyped-decorator]
def _densify(t: Any) -> Array:
    return densify(t)


@primitive  # type: ignore[untyped-decorator]
def _read(x: Any, key: Any) -> Array:
    return densify(rules.getitem(x, key))


@primitive  # type: ignore[untyped-decorator]
def _place(dy: Any, shape: tuple[int, ...], dtype: DType, key: Any) -> IndexedSlices:
    dy = dy if isinstance(dy, Tangent) else np.asarray(dy)
    dy = np.real(dy) if dy.dtype.kind == "c" and np.dtype(dtype).kind != "c" else dy
    return rules.getitem_vjp(dy.astype(dtype, copy=False), shape, key)


@primitive  # type: ignore[untyped-decorator]
def _untake(dy: Any, key: Any, space: Any) -> SparseObject:
    """autograd's own adjoint of indexing, for a sum so far that may be compact."""
    theirs = untake.fun(dy, key, space)
    return SparseObject(space, lambda total: theirs.mut_add(densify(total) if isinstance(total, Tangent) else total))


def _plain(key: Any) -> Any:
    """The key without the marks."""
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    return key.view(np.ndarray) if isinstance(key, _SparseIds) else key


def _asks(key: Any) -> bool:
    """Whether a key asks for a compact gradient."""
    parts = key if isinstance(key, tuple) else (key,)
    if _every_integer_key:
        return any(isinstance(k, (list, np.ndarray)) and np.asarray(k).dtype.kind in "iu" for k in parts)
    return any(isinstance(k, _SparseIds) for k in parts)


def _getitem_vjp(ans: Any, x: Any, key: Any) -> Callable[[Any], Any]:
    held = getval(x)
    if _asks(key) or isinstance(held, Tangent):
        return lambda dy: _place(dy, held.shape, held.dtype, _plain(key))
    return lambda dy: _untake(_to_dense(dy), key, vspace(x))


def _container_vjp(ans: Any, container: Any, key: Any) -> Callable[[Any], Any]:
    return lambda dy: container_untake(dy, key, _with_compact_zeros(vspace(container)))


def _with_compact_zeros(space: Any) -> Any:
    """The space of a container whose arrays start as symbolic zeros: tables are not made for what other elements get."""
    if isinstance(space, ContainerVSpace):
        space = copy.copy(space)
        space.shape = space._map(_with_compact_zeros)
        return space
    return TangentVSpace(space) if isinstance(space, ArrayVSpace) and space.shape else space


class _OnDense:
    """A reverse rule of autograd's own, which sees dense arrays in place of tangents."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self.rule = rule

    def __call__(self, argnums: Any, ans: Any, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        pull = self.rule(argnums, _to_dense(ans), tuple(map(_to_dense, args)), kwargs)
        return lambda dy: pull(_to_dense(dy))


class _ForwardOnDense(_OnDense):
    """A forward rule of autograd's own, likewise."""

    def __call__(self, argnums: Any, gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
        return self.rule(argnums, tuple(map(_to_dense, gs)), _to_dense(ans), tuple(map(_to_dense, args)), kwargs)


# Rules that pass on what they are given, whatever it is, or that are ours.
_AGNOSTIC = ("autograd.core", "autograd.builtins", __name__)


def install(*, getitem: bool = False) -> None:
    """Teach autograd the tangents: their vector spaces, and rules for reads that keep them compact.

    It changes tables of autograd's for the whole process, through its own functions for that, and may be called again (after
    primitives were defined whose rules should see dense arrays). Gradients of code that asks for nothing compact stay what they
    are, but for one case: where the argument is a tuple, list or dict, an array in it that is not used gets a `Zero`.

    Parameters
    ----------
    getitem : bool
        Whether every ``x[ids]`` with an array or list of integers in its key gets a compact gradient, without `sparsely`.

    Raises
    ------
    TypeError
        If `getitem` is no bool.

    Examples
    --------
    >>> import numpy as np
    >>> from autograd import grad
    >>> from sparsetangent.interop.autograd import install
    >>> install(getitem=True)
    >>> grad(lambda x: x[np.array([1, 1])].sum())(np.zeros(3)).indices.tolist()
    [1, 1]
    >>> install()
    >>> grad(lambda x: x[np.array([1, 1])].sum())(np.zeros(3)).tolist()
    [0.0, 2.0, 0.0]
    """
    global _every_integer_key
    if not isinstance(getitem, bool):
        raise TypeError(f"getitem must be a bool, not {getitem!r}")
    _every_integer_key = getitem
    for cls in _TYPES:
        VSpace.register(cls, TangentVSpace)
        TangentBox.register(cls)
    own = (ArrayBox.__getitem__, container_take)
    kinds = (
        (core.primitive_vjps, core.defvjp_argnums, _OnDense),
        (core.primitive_jvps, core.defjvp_argnums, _ForwardOnDense),
    )
    for rules_so_far, define, wrapper in kinds:
        for function, rule in list(rules_so_far.items()):
            agnostic = getattr(getattr(function, "fun", function), "__module__", "") in _AGNOSTIC
            if not (agnostic or function in own or isinstance(rule, _OnDense)):
                define(function, wrapper(rule))
    defvjp(ArrayBox.__getitem__, _getitem_vjp)
    defvjp(container_take, _container_vjp)


defvjp(_densify, lambda ans, t: lambda dy: dy)
defjvp(_densify, "same")
defvjp(_read, lambda ans, x, key: lambda dy: _place(dy, getval(x).shape, getval(x).dtype, key))
defjvp(_read, "same")
defvjp(_place, lambda ans, dy, shape, dtype, key: lambda g: _read(g, key))
defjvp(_place, "same")
defvjp(_untake, lambda ans, dy, key, space: lambda g: g[key])
defjvp(_untake, "same")
