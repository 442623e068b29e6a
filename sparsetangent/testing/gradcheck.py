"""A reverse function against central differences of its forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import backend_of, is_array
from ..dtypes import facts
from ..kernels.base import Array
from ..types import Tangent
from .oracle import as_backend, loop_densify, to_numpy

__all__ = ["check_vjp"]

# Central differences err by h**2 in the step and eps / h in the rounding: least near the cube root of eps.
_STEP = float(np.finfo(np.float64).eps) ** (1 / 3)


def check_vjp(
    f: Callable[..., Any],
    vjp: Callable[..., Any],
    args: Sequence[Any],
    *,
    argnums: int | Sequence[int] = 0,
    rtol: float = 1e-6,
    atol: float = 1e-7,
) -> None:
    """Check a reverse function against central differences of the forward, element by element, in float64.

    Parameters
    ----------
    f : callable
        ``f(*args)``: the forward, which gives an array or a tangent.
    vjp : callable
        ``vjp(dy, *args)``: the cotangent of the argument that `argnums` names, or a tuple of them if it names several; arrays or
        tangents. What is no argument of `f` (`out`, shapes) is bound by the caller.
    args : sequence
        The arguments: those that `argnums` names are floating or complex arrays, widened here to 64-bit parts, the others anything.
    argnums : int or sequence of int
        Which arguments are differentiated.
    rtol, atol : float
        How far the two may differ, relative to the greatest element of the differences, and at all.

    Raises
    ------
    AssertionError
        Naming the argument, the element and both values, or that a shape or dtype differs, or that an argument was written to.
    ValueError
        If all elements of a differentiated argument are equal, since sums over equal numbers hide faults, or one is not finite.
    TypeError
        If a differentiated argument is no floating or complex array, or its library has no 64-bit floats (JAX without x64).

    Notes
    -----
    With a random cotangent dy, ``phi(x) = Re sum(conj(dy) * f(x))`` is differentiated by ``(phi(x + h) - phi(x - h)) / (2 h)``, and in complex
    arguments along the real and the imaginary axis: the cotangent is ``d phi / d Re x + i d phi / d Im x``. Keep arguments away from
    ties and jumps, where no derivative exists, and small: each element costs two or four calls.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> x, ids = np.array([0.5, -1.0, 2.0]), np.array([2, 0, 2])
    >>> st.testing.check_vjp(lambda x: st.rules.take(x, ids), lambda dy, x: st.rules.take_vjp(dy, x.shape, ids), (x,))
    >>> st.testing.check_vjp(lambda x: x * x, lambda dy, x: dy * x, (np.ones(3),))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: ...
    >>> st.testing.check_vjp(lambda x: x * x, lambda dy, x: dy * x, (x,))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: the cotangent of argument 0 at (2,) is 1.28..., differences give 2.56...
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    wide = list(args)
    for number in numbers:
        wide[number] = _widened(args[number], number)
    before = [_bytes_of(x) for x in wide]
    y = _dense(f(*wide))
    rng = np.random.default_rng(0)
    dy = rng.standard_normal(y.shape)
    if y.dtype.kind == "c":
        dy = dy + 1j * rng.standard_normal(y.shape)
    first = wide[numbers[0]]
    cotangent = as_backend(backend_of(first).xp, dy.astype(y.dtype), _dtype_like(first, y))
    given = vjp(cotangent, *wide)
    results = (given,) if isinstance(argnums, int) else tuple(given)
    assert before == [_bytes_of(x) for x in wide], "an argument was written to"
    assert len(results) == len(numbers), f"the reverse gives {len(results)} cotangents for {len(numbers)} arguments"

    def phi() -> float:
        return float(np.sum(np.real(np.conj(dy) * _dense(f(*wide)))))

    for number, result in zip(numbers, results, strict=True):
        x, expected = wide[number], _differences(phi, wide, number)
        assert tuple(result.shape) == tuple(x.shape), (
            f"the cotangent of argument {number} has shape {tuple(result.shape)}, the argument {tuple(x.shape)}"
        )
        assert result.dtype == x.dtype, f"the cotangent of argument {number} has dtype {result.dtype}, the argument {x.dtype}"
        _compare(_dense(result), expected, number, rtol, atol)


def _compare(actual: Any, expected: Any, number: int, rtol: float, atol: float) -> None:
    if not expected.size:
        return
    allowed = atol + rtol * float(np.max(np.abs(expected)))
    error = np.abs(actual - expected)
    wrong = np.where(np.isnan(error), np.inf, error)
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    at = tuple(int(i) for i in place)
    if wrong[place] > allowed:
        raise AssertionError(
            f"the cotangent of argument {number} at {at} is {actual[place]}, differences give {expected[place]}"
        )


def _differences(phi: Callable[[], float], args: list[Any], number: int) -> Any:
    """The cotangent by central differences; `phi` reads `args`, whose entry is replaced and put back."""
    x = args[number]
    xp, values = backend_of(x).xp, to_numpy(x)
    result = np.zeros(values.shape, values.dtype)
    for place in np.ndindex(*values.shape):
        for unit in (1, 1j) if values.dtype.kind == "c" else (1,):
            h, sides = _STEP * max(1.0, abs(values[place])), []
            for sign in (1, -1):
                moved = values.copy()
                moved[place] += sign * h * unit
                args[number] = as_backend(xp, moved, x.dtype)
                sides.append(phi())
            result[place] += unit * (sides[0] - sides[1]) / (2 * h)
    args[number] = x
    return result


def _widened(x: Any, number: int) -> Array:
    if not is_array(x):
        raise TypeError(f"argument {number} must be an array to be differentiated, not {type(x).__name__}")
    backend = backend_of(x)
    kind = facts(backend, x.dtype).kind
    if kind not in ("real", "complex"):
        raise TypeError(f"argument {number} must be floating or complex to be differentiated, not {x.dtype}")
    values = to_numpy(x)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"argument {number} holds nan or inf, where differences say nothing")
    if values.size > 1 and np.all(values == values.reshape(-1)[0]):
        raise ValueError(
            f"all elements of argument {number} are {values.reshape(-1)[0]}: sums over equal numbers hide faults, use random ones"
        )
    name = "complex128" if kind == "complex" else "float64"
    if facts(backend, backend.kernels.index_dtype(x)).itemsize < 8:
        raise TypeError(f"{backend.name} has no {name} here (JAX needs jax_enable_x64), and differences need it")
    return as_backend(backend.xp, values.astype(name), getattr(backend.xp, name))


def _dtype_like(like: Array, y: Any) -> Any:
    """The dtype of a result seen in NumPy, in the library of `like`."""
    return getattr(backend_of(like).xp, y.dtype.name)


def _dense(x: Any) -> Any:
    return loop_densify(x) if isinstance(x, Tangent) else to_numpy(x)


def _bytes_of(x: Any) -> bytes:
    return to_numpy(x).tobytes() if is_array(x) else b""
