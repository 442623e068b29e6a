"""One table of operations: (name, operand types) -> implementation, and the class of each function of the array API standard.

Operators of the types, the array API namespace, NumPy's and torch's protocols all look operations up here by the name that the
array API standard gives them. An implementation is registered with `implements`, for all tangents or for given types:

    @implements("add", IndexedSlices, IndexedSlices)
    def add(a, b): ...

Resolution takes the implementation whose declared types match the operands' most closely: the exact types first, then base
classes in method resolution order from the left, `Dispatched` (any tangent) last. `Array` and `Scalar` stand for dense
arrays and Python numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import product
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "BINARY",
    "EXTENSIONS",
    "MAIN",
    "TABLE",
    "UNARY",
    "ZERO_TABLE",
    "Array",
    "Dispatched",
    "Scalar",
    "Structure",
    "apply",
    "implements",
    "names",
    "resolve",
]

F = TypeVar("F", bound=Callable[..., Any])


class Dispatched:
    """Base of every type that the table dispatches on (the base of `Tangent`).

    Examples
    --------
    >>> import sparsetangent as st
    >>> issubclass(st.IndexedSlices, st.registry.Dispatched)
    True
    """

    __slots__ = ()


class Array:
    """Stands for a dense array of any backend in a signature.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.registry.resolve("getitem", st.Tangent) is st.registry.resolve("getitem", st.Zero, st.registry.Array)
    True
    """


class Scalar:
    """Stands for a Python bool, int, float or complex in a signature.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.registry.resolve("add", st.Zero, float) is st.registry.resolve("add", st.Zero, int)
    True
    """


class Structure(Enum):
    """What an operation of the standard does to the places that a tangent doesn't store.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.registry.TABLE["tanh"].name, st.registry.TABLE["sum"].name, st.registry.TABLE["exp"].name
    ('ZERO', 'FOLD', 'DENSE')
    """

    LINEAR = "acts on the stored values as they are"
    ZERO = "maps zero to zero: merges repeats, then acts on the stored values"
    UNION = "maps two zeros to zero: merges repeats, then acts on the union of what both store"
    PRODUCT = "zero where the left or the right is zero: acts on what both store"
    QUOTIENT = "zero where the numerator is zero: acts on what the numerator stores"
    VALUE = "compact if the other arguments leave every implicit zero a zero, which their elements decide; else dense"
    FOLD = "folds axes, implicit zeros counted: compact if a stored axis is left, else an array of the axes that are"
    ALONG = "acts along axes: compact along dense ones, the dense array along a stored one"
    MOVE = "moves values and maps coordinates: compact"
    READ = "reads at positions: compact if a stored axis is left, or of the size of what is read"
    CONTRACTION = "sums products of what both operands store: compact if a stored axis is left, else an array"
    CREATION = "makes a `Zero`, a `Fill` or a `OneHot`, or keeps what it is given"
    LIBRARY = "makes an array, as the library does"
    INSPECTION = "answers about shapes and dtypes; no array is made"
    DENSE = "has no compact answer: the dense array, by the densify policy"


def _all(structure: Structure, names: str) -> dict[str, Structure]:
    return dict.fromkeys(names.split(), structure)


# A binary operation of two tangents, or of a tangent and a number, is decided by evaluating it on zeros (`algebra.zeros`), unless it is
# one of the four of arithmetic or an intersection.
UNARY: dict[str, Structure] = {
    **_all(Structure.LINEAR, "conj imag negative positive real"),
    **_all(
        Structure.ZERO, "abs asin asinh atan atanh ceil expm1 floor isinf isnan log1p round sign signbit sin sinh sqrt square"
    ),
    **_all(Structure.ZERO, "tan tanh trunc"),
    **_all(Structure.DENSE, "acos acosh bitwise_invert cos cosh exp isfinite log log10 log2 logical_not reciprocal"),
}
BINARY: dict[str, Structure] = {
    **_all(Structure.UNION, "add subtract maximum minimum hypot atan2 copysign nextafter not_equal less greater"),
    **_all(Structure.UNION, "logical_or logical_xor bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"),
    **_all(Structure.PRODUCT, "multiply logical_and bitwise_and"),
    **_all(Structure.QUOTIENT, "divide"),
    **_all(Structure.VALUE, "equal less_equal greater_equal floor_divide remainder pow"),
    **_all(Structure.DENSE, "logaddexp"),
}
ZERO_TABLE: dict[str, Structure] = UNARY | BINARY
"""The elementwise part of `TABLE`."""

TABLE: dict[str, Structure] = {
    **ZERO_TABLE,
    **_all(Structure.ZERO, "astype"),
    **_all(Structure.VALUE, "clip isin where"),
    **_all(Structure.FOLD, "sum prod mean var std max min any all count_nonzero argmax argmin unique_values unique_counts"),
    **_all(Structure.FOLD, "trace vector_norm matrix_norm"),
    **_all(Structure.ALONG, "cumulative_sum cumulative_prod"),
    **_all(Structure.ALONG, "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn"),
    **_all(Structure.MOVE, "expand_dims squeeze permute_dims moveaxis matrix_transpose flip roll repeat tile reshape sort"),
    **_all(
        Structure.MOVE, "concat stack unstack broadcast_to broadcast_arrays meshgrid tril triu diagonal diff fftshift ifftshift"
    ),
    **_all(Structure.READ, "take take_along_axis nonzero"),
    **_all(Structure.CONTRACTION, "matmul tensordot vecdot outer cross matrix_power"),
    **_all(Structure.CREATION, "asarray empty_like eye full full_like ones ones_like zeros zeros_like"),
    **_all(Structure.LIBRARY, "arange empty fftfreq from_dlpack linspace rfftfreq"),
    **_all(Structure.INSPECTION, "__array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype result_type"),
    **_all(Structure.DENSE, "argsort searchsorted unique_all unique_inverse"),
    **_all(Structure.DENSE, "cholesky det eig eigh eigvals eigvalsh inv matrix_rank pinv qr slogdet solve svd svdvals"),
}
"""Every function of the standard (2025.12) and its class; extensions by their bare names."""


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_IN_BOTH = _set("matmul matrix_transpose tensordot vecdot")
EXTENSIONS: dict[str, frozenset[str]] = {
    "linalg": _IN_BOTH
    | _set("cholesky cross det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_power matrix_rank outer pinv qr")
    | _set("slogdet solve svd svdvals trace vector_norm"),
    "fft": _set("fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift"),
}
"""The functions of each extension of the standard."""

MAIN = (frozenset(TABLE) - EXTENSIONS["linalg"] - EXTENSIONS["fft"]) | _IN_BOTH
"""The functions of the standard's main namespace."""

_IMPLEMENTATIONS: dict[str, dict[tuple[type, ...], Callable[..., Any]]] = {}
_RESOLVED: dict[tuple[Any, ...], Callable[..., Any]] = {}


def implements(name: str, *types: type) -> Callable[[F], F]:
    """Register the decorated function as an operation on operands of some types.

    Parameters
    ----------
    name : str
        The operation: the standard's name, or one of this package (``"getitem"``, ``"densify"``).
    *types : type
        Of the leading operands: tangent types, `Array`, `Scalar`; none for any operands. The closest types win.

    Returns
    -------
    callable
        A decorator, which gives the function back as it was.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> class Mask(st.Fill):
    ...     pass
    >>> @st.registry.implements("negative", Mask)
    ... def flipped(t):
    ...     return "flipped"
    >>> -Mask(np.asarray(1.0), (2,))
    'flipped'
    >>> st.registry.resolve("negative", Mask) is flipped
    True
    """

    def register(function: F) -> F:
        _IMPLEMENTATIONS.setdefault(name, {})[types] = function
        _RESOLVED.clear()
        return function

    return register


def names() -> frozenset[str]:
    """The operations that have an implementation.

    Returns
    -------
    frozenset of str
        The standard's names among them.

    Examples
    --------
    >>> import sparsetangent as st
    >>> {"add", "matmul", "getitem"} <= st.registry.names()
    True
    >>> "no such operation" in st.registry.names()
    False
    """
    return frozenset(_IMPLEMENTATIONS)


def apply(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operation on operands.

    Parameters
    ----------
    name : str
        The operation.
    *args : Tangent, Array, number or anything that the operation takes
        The operands, whose types choose the implementation; of any shape and dtype that the operation takes.
    **kwargs : object
        Passed on.

    Returns
    -------
    object
        What the implementation gives.

    Raises
    ------
    TypeError
        If no implementation takes these types.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.registry.apply("sum", st.Fill(np.asarray(2.0), (3,))).item()
    6.0
    >>> st.registry.apply("sine", 1.0)
    Traceback (most recent call last):
        ...
    TypeError: no operation is registered under the name 'sine'
    """
    key = (name, *map(type, args))
    try:
        implementation = _RESOLVED[key]
    except KeyError:
        implementation = _RESOLVED[key] = resolve(name, *map(type, args))
    return implementation(*args, **kwargs)


def apply_pair(name: str, a: Any, b: Any) -> Any:
    """`apply` of two operands, in half the time: small tangents feel it."""
    implementation = _RESOLVED.get((name, type(a), type(b)))
    return apply(name, a, b) if implementation is None else implementation(a, b)


def resolve(name: str, *types: type) -> Callable[..., Any]:
    """The implementation of an operation for operands of some types.

    Parameters
    ----------
    name : str
        The operation.
    *types : type
        Of the operands.

    Returns
    -------
    callable
        That of the closest types, the first operand before the second.

    Raises
    ------
    TypeError
        If there is none.

    Examples
    --------
    >>> import sparsetangent as st
    >>> st.registry.resolve("densify", st.OneHot).__module__
    'sparsetangent.algebra.dense'
    >>> st.registry.resolve("retain", str)
    Traceback (most recent call last):
        ...
    TypeError: retain takes no operands of types (str)
    """
    table = _IMPLEMENTATIONS.get(name)
    if table is None:
        raise TypeError(f"no operation is registered under the name {name!r}")
    for count in range(len(types), -1, -1):
        for signature in product(*map(_ancestry, types[:count])):
            if signature in table:
                return table[signature]
    raise TypeError(f"{name} takes no operands of types ({', '.join(t.__name__ for t in types)})")


def _ancestry(cls: type) -> Iterator[type]:
    """The types under which `cls` may be declared, the closest first."""
    if issubclass(cls, Dispatched):
        return iter(cls.__mro__[: cls.__mro__.index(Dispatched) + 1])
    is_number = issubclass(cls, (int, float, complex)) and not issubclass(cls, np.generic)
    return iter((Scalar,) if is_number else (Array,))
