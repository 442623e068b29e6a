"""The laws that every tangent type satisfies, as functions that a third party calls on its own type."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import backend_of
from ..kernels.base import Array
from ..policy import densify_policy
from ..protocols import namespace
from ..registry import Structure
from ..types import Tangent
from ..types.one_hot import is_weak
from .operations import Operation, indexing_operations, reductions, shape_operations, unary_operations
from .oracle import as_backend, assert_same, loop_densify, relative_tolerance, to_numpy
from .standard import operations_of

__all__ = ["NAMES", "check_all", "check_law", "dense_oracle"]


def dense_oracle(t: Tangent) -> Array:
    """The dense array of a tangent in its own library, summed by a literal loop.

    Parameters
    ----------
    t : Tangent
        Of any shape and dtype, small.

    Returns
    -------
    Array
        Of the shape and dtype of `t`.

    Raises
    ------
    AttributeError
        If `t` is no tangent.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.testing.laws.dense_oracle(st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,)))
    array([0., 5., 0.])
    >>> st.testing.laws.dense_oracle(st.OneHot(np.array([1]), 2, dtype=bool))
    array([[False,  True]])
    """
    return as_backend(namespace(t), loop_densify(t), t.dtype)


def check_law(apply: Callable[..., Any], *operands: Any, note: str = "", scale: float | None = None) -> Any:
    """Check ``densify(f(t)) == f(densify(t))`` for a function of a namespace and operands, tangents or arrays.

    Where the dense operation raises, the operation on tangents must raise the same class (or one derived from it).

    Parameters
    ----------
    apply : callable
        ``apply(nx, *operands)`` with the namespace of `sparsetangent.namespace`; called with tangents, and with dense arrays.
    *operands : Tangent, Array or number
        Of any shapes and dtypes, small; at least one tangent.
    note : str
        Put in front of the message.
    scale : float, optional
        The magnitude of what was added up, for cancellation; by default the greatest among the operands.

    Returns
    -------
    object
        The result on tangents, or None where both raised.

    Raises
    ------
    AssertionError
        Naming what differs, or that an operand was written to.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    >>> st.testing.laws.check_law(lambda nx, x: nx.sum(nx.square(x)), t).item()
    25.0
    >>> st.testing.laws.check_law(lambda nx, x: x.stored if isinstance(x, st.Tangent) else 3, t, note="entries")
    Traceback (most recent call last):
        ...
    AssertionError: entries: 2 is not 3
    """
    nx = namespace(next(x for x in operands if isinstance(x, Tangent)))
    dense = [dense_oracle(x) if isinstance(x, Tangent) else x for x in operands]
    before = [_bytes_of(x) for x in operands]
    with warnings.catch_warnings(), np.errstate(all="ignore"), densify_policy("allow"):
        warnings.simplefilter("ignore")
        try:
            expected = apply(nx, *dense)
        except Exception as error:
            _must_raise(error, apply, nx, operands, note)
            return None
        result = apply(nx, *operands)
    compared = expected if isinstance(expected, (tuple, list)) else [expected]
    results = result if isinstance(expected, (tuple, list)) else [result]
    for ours, theirs in zip(results, compared, strict=True):
        _compare(ours, theirs, dense, note, scale)
    assert before == [_bytes_of(x) for x in operands], f"{note}: an operand was written to"
    return result


def _compare(result: Any, expected: Any, dense: list[Any], note: str, scale: float | None) -> None:
    """A tangent or array against the dense operation's; whatever else a function answers must be equal."""
    if isinstance(expected, Tangent):  # made by the dense side too: an identity, a zero
        expected = dense_oracle(expected)
    if not hasattr(expected, "dtype"):
        assert result == expected, f"{note}: {result} is not {expected}"
        return
    rtol = max((relative_tolerance(x) for x in dense if hasattr(x, "dtype")), default=0.0)
    magnitude = _magnitude(dense) if scale is None else scale
    rtol = max(rtol, relative_tolerance(expected)) if relative_tolerance(expected) else 0.0
    assert_same(result, expected, rtol=rtol, atol=rtol * magnitude, note=note)


def _must_raise(error: Exception, apply: Callable[..., Any], nx: Any, operands: Any, note: str) -> None:
    # Libraries disagree (torch raises RuntimeError for shapes and dtypes alike); ours are the standard Python classes.
    allowed: tuple[type[Exception], ...] = (type(error), TypeError, ValueError)
    if type(error) is RuntimeError:
        allowed += (IndexError,)
    try:
        result = apply(nx, *operands)
    except allowed:
        return
    raise AssertionError(f"{note}: the dense operation raises {error!r}, the compact one gives {result!r}") from error


def _magnitude(arrays: list[Any]) -> float:
    """The greatest finite magnitude among the operands, at least 1."""
    greatest = 1.0
    for x in arrays:
        if hasattr(x, "dtype"):
            values = np.abs(to_numpy(x).astype(np.complex128))
            values = values[np.isfinite(values)]
            greatest = max(greatest, float(values.max()) if values.size else 0.0)
    return greatest


def _bytes_of(x: Any) -> list[bytes]:
    """What an operand holds, to see whether an operation wrote into it."""
    if isinstance(x, Tangent):
        slices = x.to_slices()
        return [to_numpy(a).tobytes() for a in (*slices.coords, slices.values)]
    return [to_numpy(x).tobytes()] if hasattr(x, "dtype") else []


def _all_of(operations: Callable[[Tangent], Any]) -> Callable[[Tangent], None]:
    def check(t: Tangent) -> None:
        operation: Operation
        for operation in operations(t):
            check_law(operation.apply, t, note=operation.name)

    return check


def _metadata(t: Tangent) -> None:
    dense = dense_oracle(t)
    assert t.shape == tuple(dense.shape) and t.ndim == dense.ndim and t.size == int(np.prod(t.shape, dtype=object))
    assert t.dtype == dense.dtype
    assert t.dense_nbytes == to_numpy(dense).size * (2 if "float16" in str(t.dtype) else to_numpy(dense).dtype.itemsize)
    assert t.stored >= 0 and t.nbytes >= 0 and t.density >= 0
    assert type(t).__name__ in repr(t) and len(repr(t)) < 300
    assert t.__hash__ is None


def _densify(t: Tangent) -> None:
    dense = t.densify()
    assert_same(dense, dense_oracle(t), note="densify", scale=_magnitude([to_numpy(dense)]))
    for held in (*t.to_slices().coords, t.to_slices().values):
        if isinstance(held, np.ndarray) and held.size:
            assert not np.shares_memory(held, dense), "densify shares memory with the tangent"


def _coalesce(t: Tangent) -> None:
    c = t.coalesce()
    assert_same(c, dense_oracle(t), note="coalesce", scale=_magnitude([dense_oracle(t)]))
    if not c.coords:
        assert c.stored <= 1
        return
    places = list(zip(*(to_numpy(x).tolist() for x in c.coords), strict=True))
    assert places == sorted(set(places)), "coalesce leaves repeats or disorder"
    assert c.stored <= t.to_slices().stored


def _copies(t: Tangent) -> None:
    for same in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert type(same) is type(t)
        assert_same(same, dense_oracle(t), note="copy")


def _scalars(t: Tangent) -> None:
    for number in (0, 1, -2, 3, 0.5, True):
        check_law(lambda nx, x, n=number: x * n, t, note=f"t * {number}")
        check_law(lambda nx, x, n=number: n * x, t, note=f"{number} * t")
        check_law(lambda nx, x, n=number: x + n, t, note=f"t + {number}")
        check_law(lambda nx, x, n=number: n - x, t, note=f"{number} - t")
    check_law(lambda nx, x: x / 4, t, note="t / 4")
    check_law(lambda nx, x: x**2, t, note="t ** 2")


def _sums(t: Tangent) -> None:
    check_law(lambda nx, x: x + x, t, note="t + t")
    check_law(lambda nx, x: x - x, t, note="t - t")
    check_law(lambda nx, x: x * x, t, note="t * t")
    check_law(lambda nx, x: sum([x, x, x]), t, note="sum([t, t, t])")


def _of_class(structure: Structure) -> Callable[[Tangent], None]:
    """The law for every function of a class of the standard."""
    check = _all_of(lambda t: operations_of(structure, t.shape))
    # A weak one-hot takes the dtype of what it meets, which its dense array cannot.
    return lambda t: check(t.astype(t.dtype) if is_weak(t) else t)


_LAWS: dict[str, Callable[[Tangent], None]] = {
    "metadata": _metadata,
    "densify": _densify,
    "coalesce": _coalesce,
    "copy and pickle": _copies,
    "numbers": _scalars,
    "sums and products": _sums,
    "unary functions": _all_of(lambda t: unary_operations()),
    "reductions": _all_of(lambda t: reductions(t.ndim)),
    "shapes": _all_of(lambda t: shape_operations(t.shape)),
    "indexing": _all_of(lambda t: indexing_operations(t.shape)),
    **{f"class {structure.name}": _of_class(structure) for structure in Structure if structure is not Structure.LINEAR},
}
NAMES = (*_LAWS, "two tangents")


def check_all(t: Tangent, u: Tangent | None = None) -> None:
    """Check every law on a tangent, and the laws of two tangents if `u` is given.

    Parameters
    ----------
    t, u : Tangent
        Of any shape and dtype, small enough for a loop over their elements; of one library.

    Raises
    ------
    AssertionError
        Naming the law and the operation, with both results.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    >>> st.testing.laws.check_all(t)
    >>> st.testing.laws.check_all(t, st.OneHot(np.array(2), 3))
    >>> len(st.testing.laws.NAMES) > 10  # what was checked
    True

    A type that loses repeats is found:

    >>> class Wrong(st.Fill):
    ...     def to_slices(self):
    ...         return st.IndexedSlices((), 2 * self.value[None, None], self.shape, axis=())
    >>> st.testing.laws.check_all(Wrong(np.asarray(1.5), (1,)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: ...
    """
    for law in _LAWS.values():
        law(t)
    if u is not None:
        assert backend_of(u.to_slices().values) is backend_of(t.to_slices().values)
        for name in ("add", "subtract", "multiply", "less", "not_equal"):
            check_law(lambda nx, x, y, f=name: getattr(nx, f)(x, y), t, u, note=name)
