"""Every function of the array API standard as operations on one tangent, by name: what the laws of `laws.py` are checked with.

`OPERATIONS[name](shape)` gives the operations that try that function on a tangent of `shape`. A test fails if a function of
`sparsetangent.registry.TABLE` is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, prod
from typing import Any

from ..registry import BINARY, TABLE, UNARY, Structure
from .operations import Operation, indexing_operations, reductions, shape_operations

__all__ = ["OPERATIONS", "operations_of"]

Shape = tuple[int, ...]
Apply = Callable[[Any, Any], Any]
OPERATIONS: dict[str, Callable[[Shape], Iterator[Operation]]] = {}
_TRIED_ELSEWHERE: set[str] = set(UNARY)
"""Functions that the laws of unary functions, reductions and shapes try."""


def operations_of(structure: Structure, shape: Shape) -> Iterator[Operation]:
    """The operations of every function of a class that no other law tries."""
    for name, found in TABLE.items():
        if found is structure and name not in _TRIED_ELSEWHERE:
            yield from OPERATIONS[name](shape)


def _tried(name: str, *calls: Apply, ndim: int = 0) -> None:
    """Try a function by calls that fit every shape of at least `ndim` axes."""

    def generate(shape: Shape) -> Iterator[Operation]:
        if len(shape) >= ndim:
            for i, call in enumerate(calls):
                yield Operation(f"{name} ({i})", call)

    OPERATIONS[name] = generate


def _by_axis(name: str, *calls: Callable[[Any, Any, int], Any], filled: bool = False) -> None:
    """Try a function along each axis; only axes that are not empty if `filled`."""

    def generate(shape: Shape) -> Iterator[Operation]:
        for axis in range(-1 if shape else 0, len(shape)):
            if filled and shape[axis] == 0:
                continue
            for i, call in enumerate(calls):
                yield Operation(f"{name}(axis={axis}) ({i})", lambda nx, x, a=axis, call=call: call(nx, x, a))  # type: ignore[misc]

    OPERATIONS[name] = generate


def _selected(name: str, generator: Callable[[Shape], Iterator[Operation]]) -> None:
    """Try a function by those of other operations that name it."""
    _TRIED_ELSEWHERE.add(name)

    def generate(shape: Shape) -> Iterator[Operation]:
        return (operation for operation in generator(shape) if operation.name.startswith(f"{name}("))

    OPERATIONS[name] = generate


def _mask(nx: Any, x: Any) -> Any:
    """Every other element, as a dense array."""
    return nx.reshape(nx.arange(prod(x.shape)) % 2 == 0, tuple(x.shape))


def _matrix(nx: Any, x: Any) -> Any:
    """A well-conditioned matrix with two rows of the elements of `x`."""
    line = _floating(nx, nx.reshape(x, (-1,)))
    line = nx.concat([line, line, line, line, nx.zeros((4,), dtype=line.dtype)])[:4]
    finite = nx.where(nx.isfinite(line), line, 0.0)
    return nx.add(0.001 * nx.reshape(finite, (2, 2)), nx.eye(2, dtype=line.dtype))


def _numeric(nx: Any, x: Any) -> Any:
    """Integers for bools, which have no products of matrices in some libraries."""
    return nx.astype(x, nx.int32) if nx.isdtype(x.dtype, "bool") else x


def _floating(nx: Any, x: Any) -> Any:
    """Floats for integers and bools."""
    return nx.astype(x, nx.float32) if nx.isdtype(x.dtype, ("bool", "integral")) else x


def _three(nx: Any, x: Any) -> Any:
    """Three elements along a new last axis."""
    return nx.stack([x, nx.flip(x), x], axis=-1)


# Elementwise
for _name in UNARY:
    _tried(_name, lambda nx, x, f=_name: getattr(nx, f)(x))  # type: ignore[misc]
for _name in BINARY:
    _tried(
        _name,
        lambda nx, x, f=_name: getattr(nx, f)(x, x),  # type: ignore[misc]
        lambda nx, x, f=_name: getattr(nx, f)(x, nx.flip(x)),  # type: ignore[misc]
    )
# Strong zeros: 0 / 0 is 0 where nothing is stored, so the divisor is not zero.
_tried("divide", lambda nx, x: nx.divide(x, nx.astype(_mask(nx, x), nx.float32) + 1), lambda nx, x: x / 4)
_tried("astype", *(lambda nx, x, d=d: nx.astype(x, getattr(nx, d)) for d in ("float32", "bool", "complex64")))
_tried("equal", lambda nx, x: nx.equal(x, x), lambda nx, x: x == 2)
_tried("pow", lambda nx, x: x**2, lambda nx, x: x**3)
_tried("remainder", lambda nx, x: x % 3, lambda nx, x: nx.remainder(x, nx.ones_like(x)))
_tried("floor_divide", lambda nx, x: x // 3, lambda nx, x: nx.floor_divide(x, nx.ones_like(x)))
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    _tried(_name, lambda nx, x, f=_name: getattr(nx, f)(x, nx.astype(x == 1, x.dtype)))  # type: ignore[misc]
_tried(
    "clip",
    lambda nx, x: nx.clip(x, 0, 2),
    lambda nx, x: nx.clip(x, 1, 2),
    lambda nx, x: nx.clip(x, max=0),
    lambda nx, x: nx.clip(x, nx.flip(x), None),
    lambda nx, x: nx.clip(x, 0, nx.abs(nx.flip(x))),
    lambda nx, x: nx.clip(x, nx.astype(_mask(nx, x), x.dtype)),
)
_tried(
    "where",
    lambda nx, x: nx.where(x != 0, x, 0),
    lambda nx, x: nx.where(x != 0, nx.flip(x), x),
    lambda nx, x: nx.where(_mask(nx, x), x, nx.flip(x)),
    lambda nx, x: nx.where(_mask(nx, x), 0, x),
    lambda nx, x: nx.where(x != 0, nx.astype(_mask(nx, x), x.dtype), x),
    lambda nx, x: nx.where(x != 0, 1, x),
    lambda nx, x: nx.where(x != 0, x, 1),
    lambda nx, x: nx.where(x != 0, x, nx.ones_like(x)),
    lambda nx, x: nx.where(_mask(nx, x), x, nx.astype(_mask(nx, x), x.dtype)),
)
_tried(
    "isin",
    lambda nx, x: nx.isin(x, nx.asarray([1, 2, -2])),
    lambda nx, x: nx.isin(x, nx.asarray([1, 0])),
    lambda nx, x: nx.logical_not(nx.isin(x, nx.asarray([1, 0]))),
    lambda nx, x: nx.isin(x, nx.flip(x)),
    lambda nx, x: nx.isin(x, 2),
)

# Folds
for _name in ("sum", "prod", "mean", "max", "min", "any", "all", "count_nonzero"):
    _selected(_name, lambda shape: reductions(len(shape)))


def _spreads(name: str) -> None:
    def generate(shape: Shape) -> Iterator[Operation]:
        choices: list[Any] = [None, *range(len(shape)), *([(0, 1), (-1, 0)] if len(shape) > 1 else [])]
        for axis in choices:
            for correction in (0, 1):
                for keepdims in (False, True):
                    kwargs = {"axis": axis, "correction": correction, "keepdims": keepdims}
                    yield Operation(f"{name}({kwargs})", lambda nx, x, k=kwargs: getattr(nx, name)(x, **k))  # type: ignore[misc]

    OPERATIONS[name] = generate


_spreads("var")
_spreads("std")
for _name in ("argmax", "argmin"):
    _by_axis(
        _name,
        lambda nx, x, a, f=_name: getattr(nx, f)(x, axis=a),  # type: ignore[misc]
        lambda nx, x, a, f=_name: getattr(nx, f)(x, axis=a, keepdims=True),  # type: ignore[misc]
        lambda nx, x, a, f=_name: getattr(nx, f)(x, keepdims=a % 2 == 0),  # type: ignore[misc]
    )
_tried("unique_values", lambda nx, x: nx.sort(nx.unique_values(x)))


def _counts(nx: Any, x: Any) -> Any:
    found = nx.unique_counts(x)
    return nx.sort(found.values), nx.take(found.counts, nx.argsort(found.values))


_tried("unique_counts", _counts)
_tried("trace", *(lambda nx, x, k=k: nx.linalg.trace(x, offset=k) for k in (0, 1, -2)), ndim=2)


def _norms(shape: Shape) -> Iterator[Operation]:
    for axis in (None, *range(len(shape)), *([(0, 1)] if len(shape) > 1 else [])):
        for order in (2, 1, inf, -inf, 0, 3):
            yield Operation(
                f"vector_norm(axis={axis}, ord={order})",
                lambda nx, x, a=axis, o=order: nx.linalg.vector_norm(_floating(nx, x), axis=a, ord=o, keepdims=o == 1),  # type: ignore[misc]
            )


OPERATIONS["vector_norm"] = _norms
_tried(
    "matrix_norm",
    *(lambda nx, x, o=o: nx.linalg.matrix_norm(_floating(nx, x), ord=o, keepdims=o == 1) for o in ("fro", 1, -1, inf, -inf)),
    lambda nx, x: nx.linalg.matrix_norm(_matrix(nx, x), ord=2),
    ndim=2,
)

# Lines
_by_axis(
    "cumulative_sum",
    lambda nx, x, a: nx.cumulative_sum(x, axis=a),
    lambda nx, x, a: nx.cumulative_sum(x, axis=a, include_initial=True),
)
_by_axis(
    "cumulative_prod",
    lambda nx, x, a: nx.cumulative_prod(x, axis=a),
    lambda nx, x, a: nx.cumulative_prod(x, axis=a, include_initial=True),
)
_by_axis("sort", lambda nx, x, a: nx.sort(x, axis=a), lambda nx, x, a: nx.sort(x, axis=a, descending=True))
for _name in ("fft", "ifft", "rfft", "ihfft", "irfft", "hfft"):
    _by_axis(
        _name,
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x, axis=a),  # type: ignore[misc]
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x, n=3, axis=a, norm="ortho"),  # type: ignore[misc]
        filled=True,
    )
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _by_axis(
        _name,
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x, axes=(a,)),  # type: ignore[misc]
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x, s=(3,), axes=(a,), norm="forward"),  # type: ignore[misc]
        filled=True,
    )

# Manipulation
for _name in ("expand_dims", "squeeze", "permute_dims", "flip", "roll", "reshape", "concat", "stack", "broadcast_to"):
    _selected(_name, shape_operations)
OPERATIONS["flip"] = lambda shape: (o for o in shape_operations(shape) if o.name.startswith("flip"))
_tried("matrix_transpose", lambda nx, x: nx.matrix_transpose(x), lambda nx, x: x.mT, ndim=2)
_tried("moveaxis", lambda nx, x: nx.moveaxis(x, 0, -1), lambda nx, x: nx.moveaxis(x, (0, -1), (-1, 0)), ndim=2)
_by_axis(
    "repeat",
    lambda nx, x, a: nx.repeat(x, 2, axis=a),
    lambda nx, x, a: nx.repeat(x, 0, axis=a),
    lambda nx, x, a: nx.repeat(x, nx.arange(x.shape[a]) % 3, axis=a),
    lambda nx, x, a: nx.repeat(x, 2),
)
_tried("tile", *(lambda nx, x, r=r: nx.tile(x, r) for r in ((2,), (2, 1, 3), (1, 2, 1, 2), ())))
_by_axis("unstack", lambda nx, x, a: nx.unstack(x, axis=a))
_tried("broadcast_arrays", lambda nx, x: nx.broadcast_arrays(x, nx.expand_dims(x, axis=0), nx.asarray(1)))
_tried(
    "meshgrid",
    lambda nx, x: nx.meshgrid(nx.reshape(x, (-1,)), nx.reshape(nx.flip(x), (-1,))),
    lambda nx, x: nx.meshgrid(nx.reshape(x, (-1,)), nx.asarray([1, 0], dtype=x.dtype), indexing="ij"),
)
for _name in ("tril", "triu"):
    _tried(_name, *(lambda nx, x, k=k, f=_name: getattr(nx, f)(x, k=k) for k in (0, 1, -1)), ndim=2)
_tried("diagonal", *(lambda nx, x, k=k: nx.linalg.diagonal(x, offset=k) for k in (0, 1, -1, 3)), ndim=2)
_by_axis(
    "diff",
    lambda nx, x, a: nx.diff(x, axis=a),
    lambda nx, x, a: nx.diff(x, axis=a, n=2),
    lambda nx, x, a: nx.diff(x, axis=a, prepend=x, append=nx.flip(x)),
)
for _name in ("fftshift", "ifftshift"):
    _by_axis(
        _name,
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x, axes=(a,)),  # type: ignore[misc]
        lambda nx, x, a, f=_name: getattr(nx.fft, f)(x),  # type: ignore[misc]
    )

# Reads
_by_axis(
    "take",
    lambda nx, x, a: nx.take(x, nx.asarray([0, 0]) + (x.shape[a] - 1), axis=a),
    lambda nx, x, a: nx.take(x, nx.asarray([0]), axis=a),
    filled=True,
)
_by_axis(
    "take_along_axis",
    lambda nx, x, a: nx.take_along_axis(
        x, nx.argmax(nx.real(x) if "complex" in str(x.dtype) else x, axis=a, keepdims=True), axis=a
    ),
    lambda nx, x, a: nx.take_along_axis(x, nx.zeros_like(x, dtype=nx.int64), axis=a),
    lambda nx, x, a: nx.take_along_axis(
        x, nx.reshape(nx.asarray([0, 0]), tuple(2 if i == a % x.ndim else 1 for i in range(x.ndim))), axis=a
    ),
    filled=True,
)
_tried(
    "nonzero",
    lambda nx, x: nx.nonzero(x),
    lambda nx, x: x[x != 0],
    lambda nx, x: x[nx.flip(x) != 0],
    ndim=1,
)


# Contractions: each with itself, and with a dense array
def _with_itself(call: Callable[[Any, Any, Any], Any]) -> Apply:
    return lambda nx, x: call(nx, _numeric(nx, x), nx.flip(_numeric(nx, x)))


def _with_array(call: Callable[[Any, Any, Any], Any]) -> Apply:
    return lambda nx, x: call(nx, _numeric(nx, x), nx.astype(_mask(nx, x), _numeric(nx, x).dtype))


_PAIRED: dict[str, tuple[Callable[[Any, Any, Any], Any], ...]] = {
    "matmul": (lambda nx, x, y: nx.matmul(x, nx.matrix_transpose(y)), lambda nx, x, y: nx.matmul(nx.matrix_transpose(y), x)),
    "tensordot": (
        lambda nx, x, y: nx.tensordot(x, y, axes=0),
        lambda nx, x, y: nx.tensordot(y, x, axes=(tuple(range(x.ndim)), tuple(range(x.ndim)))),
        lambda nx, x, y: nx.tensordot(x, y, axes=((0,), (0,))),
        lambda nx, x, y: nx.tensordot(x, y, axes=((-1,), (-1,))),
    ),
    "vecdot": (
        lambda nx, x, y: nx.vecdot(x, y),
        lambda nx, x, y: nx.vecdot(y, x, axis=-x.ndim),
        lambda nx, x, y: nx.vecdot(x[: min(1, x.shape[0]), ...], y),
    ),
    "outer": (lambda nx, x, y: nx.linalg.outer(nx.reshape(x, (-1,)), nx.reshape(y, (-1,))),),
    "cross": (
        lambda nx, x, y: nx.linalg.cross(_three(nx, x), _three(nx, y)),
        lambda nx, x, y: nx.linalg.cross(_three(nx, y), nx.asarray([1, 2, 3], dtype=x.dtype)),
    ),
}
for _name, _calls in _PAIRED.items():
    _tried(_name, *(w(c) for c in _calls for w in (_with_itself, _with_array)), ndim=2 if _name == "matmul" else 1)
_tried("matrix_power", *(lambda nx, x, n=n: nx.linalg.matrix_power(_matrix(nx, x), n) for n in (1, 2, 5, 0, -1)))

# Creation and questions
_tried("asarray", lambda nx, x: nx.asarray(x), lambda nx, x: nx.asarray(x, dtype=nx.complex64, copy=True))
_tried("empty_like", lambda nx, x: 0 * nx.ones_like(nx.empty_like(x)))
_tried("zeros_like", lambda nx, x: nx.zeros_like(x), lambda nx, x: nx.add(nx.zeros_like(x, dtype=nx.int32), x))
_tried("ones_like", lambda nx, x: nx.ones_like(x), lambda nx, x: nx.multiply(nx.ones_like(x, dtype=nx.int32), x))
_tried("full_like", lambda nx, x: nx.full_like(x, 1), lambda nx, x: nx.multiply(nx.full_like(x, 3, dtype=nx.int32), x))
_tried("zeros", lambda nx, x: nx.add(nx.zeros(x.shape, dtype=x.dtype), x))
_tried("ones", lambda nx, x: nx.multiply(nx.ones(x.shape, dtype=x.dtype), x))
_tried("full", lambda nx, x: nx.multiply(nx.full(x.shape, 3, dtype=nx.int32), x))
_tried("eye", *(lambda nx, x, k=k: nx.multiply(nx.eye(*x.shape[-2:], k=k, dtype=x.dtype), x) for k in (0, 1, -1)), ndim=2)
_tried("arange", lambda nx, x: nx.arange(1, 7, 2))
_tried("linspace", lambda nx, x: nx.linspace(0, 1, num=3))
_tried("empty", lambda nx, x: nx.empty(x.shape, dtype=x.dtype).shape == x.shape)
_tried("from_dlpack", lambda nx, x: nx.from_dlpack(nx.arange(3)))
_tried("fftfreq", lambda nx, x: nx.fft.fftfreq(4))
_tried("rfftfreq", lambda nx, x: nx.fft.rfftfreq(4))
_tried(
    "__array_namespace_info__",
    lambda nx, x: nx.__array_namespace_info__().default_dtypes()["real floating"] == nx.zeros((1,)).dtype,
)
_tried("broadcast_shapes", lambda nx, x: nx.broadcast_shapes(x.shape, (2, *(1,) * x.ndim)))
_tried("can_cast", lambda nx, x: nx.can_cast(x, nx.complex64), lambda nx, x: nx.can_cast(x.dtype, nx.int32))
_tried("finfo", lambda nx, x: nx.finfo(nx.astype(x, nx.float32)).bits)
_tried("iinfo", lambda nx, x: nx.iinfo(nx.astype(x != 0, nx.int32)).max)
_tried("isdtype", lambda nx, x: nx.isdtype(x.dtype, "integral"))
_tried(
    "result_type",
    lambda nx, x: nx.result_type(x, nx.int8) == nx.result_type(x.dtype, nx.int8),
    lambda nx, x: nx.result_type(x, x) == x.dtype,
)

# What has no compact answer
_by_axis("argsort", lambda nx, x, a: nx.argsort(x, axis=a), lambda nx, x, a: nx.argsort(x, axis=a, descending=True))
_tried(
    "searchsorted",
    lambda nx, x: nx.searchsorted(nx.asarray([0, 1, 2], dtype=x.dtype), x),
    lambda nx, x: nx.searchsorted(nx.sort(nx.reshape(x, (-1,))), x),
)
_tried("unique_all", lambda nx, x: tuple(nx.unique_all(nx.reshape(x, (-1,)))))
_tried("unique_inverse", lambda nx, x: tuple(nx.unique_inverse(nx.reshape(x, (-1,)))))
for _name in ("cholesky", "det", "eigvalsh", "inv", "matrix_rank", "pinv", "svdvals"):
    _tried(
        _name,
        lambda nx, x, f=_name: getattr(nx.linalg, f)(nx.matmul(_matrix(nx, x), nx.matrix_transpose(nx.conj(_matrix(nx, x))))),  # type: ignore[misc]
    )
_tried("slogdet", lambda nx, x: tuple(nx.linalg.slogdet(_matrix(nx, x))))
_tried("qr", lambda nx, x: nx.matmul(*nx.linalg.qr(_matrix(nx, x))))
_tried("svd", lambda nx, x: nx.linalg.svd(_matrix(nx, x))[1])
_tried("eigh", lambda nx, x: nx.linalg.eigh(nx.matmul(_matrix(nx, x), nx.matrix_transpose(nx.conj(_matrix(nx, x)))))[0])
_tried("eig", lambda nx, x: nx.sum(nx.linalg.eig(_matrix(nx, x))[0]))
_tried("eigvals", lambda nx, x: nx.sum(nx.linalg.eigvals(_matrix(nx, x))))
_tried(
    "solve",
    lambda nx, x: nx.linalg.solve(_matrix(nx, x), _matrix(nx, x)),
    lambda nx, x: nx.linalg.solve(_matrix(nx, x), nx.eye(2, dtype=_matrix(nx, x).dtype)),
)

# Reads by keys are no function of the standard; they are tried with the reads all the same.
OPERATIONS["getitem"] = indexing_operations
