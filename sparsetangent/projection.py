"""Projection of a cotangent onto the tangent space of a primal: its shape, dtype, device and structure.

The module is not called after its function: importing a submodule puts its name into the package, in the function's place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import array_api_compat

from .algebra.dense import dense_of
from .algebra.frames import coalesce, expand, frame_of_array
from .algebra.shapes import sum_to_shape
from .algebra.wrap import held_array
from .backend import Backend, backend_of, common_backend, device_of
from .dtypes import facts
from .kernels.base import Array
from .protocols import namespace
from .types import Frame, IndexedSlices, Tangent, Zero

__all__ = ["Projector", "project", "register_projector"]

Cotangent = Any
"""A tangent or an array; a Python number or None too, where it comes from the caller."""

_FLOATING = ("real", "complex")
_STRUCTURES: dict[str, Callable[[Cotangent], Cotangent]] = {}
_OF_TYPE: dict[type, str] = {}
_SQUARE = ("symmetric", "hermitian")


class Projector:
    """Brings cotangents into the tangent space of a primal, of which only shape, dtype, device and structure are kept.

    Parameters
    ----------
    primal : Array or Tangent
        Of any shape and dtype; its values do not matter.
    structure : str, optional
        A subspace of matrices (the last two axes): ``"symmetric"``, ``"hermitian"``, ``"diagonal"``, ``"lower"`` or ``"upper"``
        (triangular), or one of `register_projector`. By default that registered for the type of `primal`, if any.

    Raises
    ------
    TypeError
        If `primal` is no array or tangent.
    ValueError
        If `structure` is not known, or `primal` has fewer than 2 axes (or is not square, where that is needed).

    Notes
    -----
    In turn: an integer or bool primal has no tangent but `Zero`; axes along which the primal was broadcast are summed, and axes of
    size 1 put in or left out; a complex cotangent of a real primal gives its real part; the dtype becomes the primal's;
    the orthogonal projection onto the structure is taken; a tangent that stores every place becomes an array, and one that does
    not stays compact. See `ProjectTo` of ChainRules.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> to_weights = st.Projector(np.zeros((1, 2), np.float32))
    >>> to_weights(np.array([[1 + 2j, 2], [3, 4]]))
    array([[4., 6.]], dtype=float32)

    A compact cotangent stays compact unless it stores everything:

    >>> t = st.IndexedSlices(np.array([0, 2]), np.array([1.0, 2.0]), (3,))
    >>> st.Projector(np.zeros(3, np.float32))(t)
    IndexedSlices(shape=(3,), dtype=float32, axis=0, stored=2, density=0.667, numpy)
    >>> st.Projector(np.zeros((2, 2)), structure="symmetric")(np.array([[1.0, 4.0], [0.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 2.0]]
    >>> to_weights.shape, to_weights.dtype, to_weights.structure
    ((1, 2), dtype('float32'), None)
    """

    __slots__ = ("_probe", "_shape", "_structure")

    def __init__(self, primal: Tangent | Array, *, structure: str | None = None) -> None:
        array = held_array(primal)
        backend = backend_of(array)
        name = structure or next((_OF_TYPE[c] for c in type(primal).__mro__ if c in _OF_TYPE), None)
        if name is not None and name not in _STRUCTURES:
            raise ValueError(f"structure must be one of {sorted(_STRUCTURES)}, not {name!r}")
        if name is not None and len(primal.shape) < 2:
            raise ValueError(f"structure {name!r} needs a primal of at least 2 axes, not {tuple(primal.shape)}")
        if name in _SQUARE and primal.shape[-1] != primal.shape[-2]:
            raise ValueError(f"structure {name!r} needs a primal that is square, not of shape {tuple(primal.shape)}")
        self._shape = tuple(primal.shape)
        self._probe = backend.xp.zeros((0,), dtype=primal.dtype, device=device_of(array))
        self._structure = name

    @property
    def shape(self) -> tuple[int, ...]:
        """The primal's shape."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The primal's dtype."""
        return self._probe.dtype

    @property
    def structure(self) -> str | None:
        """The name of the subspace, if any."""
        return self._structure

    def __call__(self, t: Cotangent) -> Any:
        """Project a cotangent.

        Parameters
        ----------
        t : Tangent, Array, Python number or None
            Of a shape that the primal's broadcasts to, or that differs by axes of size 1. A number has no axes; None is zero.

        Returns
        -------
        Tangent or Array
            Of the primal's shape, dtype and device. `t` itself where nothing is to be done.

        Raises
        ------
        ValueError
            If the shape does not fit.
        TypeError
            If `t` is no tangent, array or number, or of another library.
        """
        if t is None:
            return Zero(self._shape, like=self._probe)
        backend = backend_of(self._probe)
        if isinstance(t, (int, float, complex)):
            t = backend.xp.asarray(t, device=device_of(self._probe))
        common_backend(self._probe, held_array(t))
        if facts(backend, self.dtype).kind not in _FLOATING:
            _fitted(t, self._shape)
            return Zero(self._shape, like=self._probe)
        t = _moved(t, self._probe)
        if facts(backend, t.dtype).kind not in _FLOATING:
            t = _cast(t, self.dtype, backend)  # before sums, which would wrap or be an or
        t = _cast(_fitted(t, self._shape), self.dtype, backend)
        if self._structure is not None:
            t = _STRUCTURES[self._structure](t)
        return _dense_if_full(t) if isinstance(t, Tangent) else t

    def __repr__(self) -> str:
        structure = f", structure={self._structure!r}" if self._structure else ""
        return f"Projector(shape={self._shape}, dtype={self.dtype}{structure})"


def project(t: Cotangent, like: Tangent | Array) -> Any:
    """Bring a cotangent into the tangent space of a primal: ``Projector(like)(t)``.

    Parameters
    ----------
    t : Tangent, Array, Python number or None
        The cotangent, of a shape that reduces to that of `like`, any dtype; None is zero.
    like : Array or Tangent
        The primal, of any shape and dtype.

    Returns
    -------
    Tangent or Array
        Of the shape, dtype and device of `like`; see `Projector`.

    Raises
    ------
    ValueError, TypeError
        As `Projector`.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.project(np.ones((4, 3)), np.zeros(3, np.float32))
    array([4., 4., 4.], dtype=float32)
    >>> st.project(np.ones(3), np.arange(3))
    Zero(shape=(3,), dtype=int64, numpy)
    """
    return Projector(like)(t)


def register_projector(name: str, function: Callable[[Any], Any] | None = None, *, types: tuple[type, ...] = ()) -> None:
    """Add a structure for `Projector`, or say which types of primals have it.

    Parameters
    ----------
    name : str
        What ``Projector(primal, structure=name)`` asks for. A name that is known already is replaced.
    function : callable, optional
        ``function(t)``: the orthogonal projection of a tangent or array of the primal's shape and dtype. May be left out for
        a name that is known.
    types : tuple of type
        Primals of these types (arrays, or tangents of a type of your own) have the structure without being asked.

    Raises
    ------
    ValueError
        If there is neither a function nor a known name.

    Examples
    --------
    Vectors of which the elements add up to nothing:

    >>> import numpy as np, sparsetangent as st
    >>> st.register_projector("centred", lambda t: t - t.mean(axis=-1, keepdims=True))
    >>> st.Projector(np.zeros((1, 3)), structure="centred")(np.array([[1.0, 2.0, 6.0]])).tolist()
    [[-2.0, -1.0, 3.0]]

    A type of arrays that are always symmetric:

    >>> class Symmetric(np.ndarray):
    ...     pass
    >>> st.register_projector("symmetric", types=(Symmetric,))
    >>> st.Projector(np.zeros((2, 2)).view(Symmetric))
    Projector(shape=(2, 2), dtype=float64, structure='symmetric')
    """
    if function is None and name not in _STRUCTURES:
        raise ValueError(f"structure {name!r} is not known, so it needs a function")
    if function is not None:
        _STRUCTURES[name] = function
    _OF_TYPE.update(dict.fromkeys(types, name))


def _fitted(t: Cotangent, shape: tuple[int, ...]) -> Cotangent:
    """Sum over the axes along which `shape` was broadcast; put in or leave out axes of size 1."""
    given = tuple(t.shape)
    if given == shape:
        return t
    try:
        return sum_to_shape(t, shape)
    except ValueError:
        if len(given) == len(shape) or [n for n in given if n != 1] != [n for n in shape if n != 1]:
            raise ValueError(f"a cotangent of shape {given} does not fit a primal of shape {shape}") from None
    return namespace(t).reshape(t, shape)


def _moved(t: Cotangent, probe: Array) -> Cotangent:
    here, there = device_of(held_array(t)), device_of(probe)
    if None in (here, there) or here == there:
        return t
    return t.to_device(there) if isinstance(t, Tangent) else array_api_compat.to_device(t, there)


def _cast(t: Cotangent, dtype: Any, backend: Backend) -> Cotangent:
    xp = namespace(t)
    if facts(backend, t.dtype).kind == "complex" and facts(backend, dtype).kind == "real":
        t = xp.real(t)
    if isinstance(t, Tangent):
        return t.astype(dtype)
    return t if t.dtype == dtype else xp.astype(t, dtype)


def _dense_if_full(t: Tangent) -> Cotangent:
    """An array if every place is stored; what cannot be known without values that nobody can see stays compact."""
    frame = t._frame()
    places = prod(frame.stored_sizes)
    if tuple(frame.values.shape[1:]) != frame.dense_sizes or isinstance(t, Zero) or frame.n < places:
        return t
    if not frame.unique and frame.concrete and frame.axes:
        frame = coalesce(frame)
    known = frame.n == places and frame.unique and not frame.padded
    return dense_of(frame) if known or not frame.axes else t


# The structures: subspaces of matrices, along the last two axes


def _symmetric(t: Cotangent) -> Cotangent:
    return (t + _transposed(t)) / 2


def _hermitian(t: Cotangent) -> Cotangent:
    xp = namespace(t)
    turned = _transposed(t)
    return (t + (xp.conj(turned) if facts(backend_of(held_array(t)), t.dtype).kind == "complex" else turned)) / 2


def _transposed(t: Cotangent) -> Cotangent:
    return namespace(t).matrix_transpose(t)


def _where(keep: Callable[[Array, Array], Array]) -> Callable[[Cotangent], Cotangent]:
    """The projection that keeps the elements at which ``keep(row, column)`` holds: linear, so repeats may stay."""

    def masked(t: Cotangent) -> Cotangent:
        frame = t._frame() if isinstance(t, Tangent) else frame_of_array(t)
        ndim = len(frame.shape)
        frame = expand(frame, tuple(a for a in (ndim - 2, ndim - 1) if a not in frame.axes))
        mask = keep(_places(frame, ndim - 2), _places(frame, ndim - 1))
        zero = frame.backend.xp.zeros((), dtype=frame.values.dtype, device=device_of(frame.values))
        values = frame.backend.xp.where(mask, frame.values, zero)
        return IndexedSlices._of(frame.with_values(values)) if isinstance(t, Tangent) else values[0, ...]

    return masked


def _places(frame: Frame, axis: int) -> Array:
    """The coordinate along an axis of every element of the values, as an array that broadcasts to them."""
    xp, ndim = frame.backend.xp, frame.values.ndim
    if axis in frame.axes:
        return xp.reshape(frame.ids[frame.axes.index(axis)], (-1, *(1,) * (ndim - 1)))
    dtype = frame.backend.kernels.index_dtype(frame.values)
    line = xp.arange(frame.shape[axis], dtype=dtype, device=device_of(frame.values))
    position = 1 + frame.dense_axes.index(axis)
    return xp.reshape(line, tuple(-1 if i == position else 1 for i in range(ndim)))


register_projector("symmetric", _symmetric)
register_projector("hermitian", _hermitian)
register_projector("diagonal", _where(lambda i, j: i == j))
register_projector("lower", _where(lambda i, j: i >= j))
register_projector("upper", _where(lambda i, j: i <= j))
