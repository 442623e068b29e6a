"""JAX: gradients of look-ups that stay compact, and BCOO arrays.

JAX gives the gradient of a gather as a dense array of the table's shape. `compact_value_and_grad` is `jax.value_and_grad` for functions
that read their tables with `take`: what was only read comes back as `IndexedSlices`.

Complex gradients are JAX's: ``dL/dx - i dL/dy``, the conjugate of what torch, and the rest of this package, mean by a gradient.
`conjugate` goes from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from ..accumulate import add_n
from ..algebra.frames import blank_padding
from ..kernels.base import Array
from ..registry import apply
from ..rules import take_vjp
from ..types import Frame, IndexedSlices, Tangent, Zero
from ..types.axes import as_axis
from ..types.indices import as_index_array, check_ids
from .coordinates import stored_in_front, with_claims
from .jax_lookups import Lookup, evaluate, find_lookups, is_seen, take_p

__all__ = ["compact_value_and_grad", "conjugate", "from_bcoo", "take", "to_bcoo"]


def take(x: Array, ids: Any, axis: int = 0) -> Array:
    """The slices of `x` at `ids` along an axis, for `compact_value_and_grad`; anywhere else an ordinary look-up.

    Parameters
    ----------
    x : jax.Array
        Of any shape and dtype, with at least one axis.
    ids : array of integers
        JAX's or NumPy's, or a list; any shape, which takes the place of `axis`. ``-size <= i < size``.
    axis : int
        Along which to read.

    Returns
    -------
    jax.Array
        Shape ``(*x.shape[:axis], *ids.shape, *x.shape[axis + 1:])``.

    Raises
    ------
    TypeError
        Ids not of an integer dtype.
    IndexError
        An id out of range, where ids can be seen; under a trace it reads zeros and gets no gradient.
    ValueError
        An axis out of range.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from sparsetangent.interop.jax import take
    >>> take(jnp.asarray([1.0, 2.0, 3.0]), [2, -1]).tolist()
    [3.0, 3.0]
    >>> take(jnp.asarray([[1.0, 2.0]]), [[1], [0]], axis=1).tolist()
    [[[2.0], [1.0]]]
    """
    x = jnp.asarray(x)
    axis = as_axis(axis, x.ndim)
    if all(not isinstance(i, jax.Array) or is_seen(i) for i in jax.tree.leaves(ids)):
        # NumPy checks ids that are known, also while a program is traced.
        known = np.asarray(ids) if isinstance(ids, jax.Array) else ids
        ids = check_ids(as_index_array(known, np.zeros(0), name="ids"), x.shape[axis], axis, name="ids")[0]
    ids = as_index_array(jnp.asarray(ids), x, name="ids")
    return take_p.bind(x, check_ids(ids, x.shape[axis], axis, name="ids")[0], axis=axis)


def compact_value_and_grad(f: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
    """`jax.value_and_grad` of `f` with respect to its first argument, compact for the tables in it that are only looked up.

    Parameters
    ----------
    f : callable
        ``f(params, *args, **kwargs) -> value`` (or ``(value, aux)``): a scalar computed from a pytree of floating or complex arrays.
        It is traced, as by `jax.jit`.
    has_aux : bool
        Whether `f` returns a pair, of which only the first part is differentiated; the second is a pytree of arrays.

    Returns
    -------
    callable
        ``g(params, *args, **kwargs) -> (value, gradients)`` (or ``((value, aux), gradients)``). `gradients` has the structure of `params`
        with, for each array,

        - an `IndexedSlices` if `f` reads it with `take` and in no other way, as many entries as were read, repeats not merged,
        - a `Zero` if `f` does not use it,
        - else the dense gradient. That is so too for a table that is looked up *and* used in any other way, a cast among them.

    Raises
    ------
    TypeError
        If an array of `params` is not floating or complex, or the value is no scalar.
    IndexError
        An id out of range, if values can be seen (outside of `jax.jit` and `jax.vmap`).

    Notes
    -----
    With ``rows = table[ids] + delta`` the gradient of the table is ``sum over k of e[ids[k]] (dL/d delta[k])``, so it is enough to
    differentiate with respect to `delta`, and no array of the table's shape is made. Look-ups are followed into `jax.jit`, `jax.vmap`,
    `jax.checkpoint`, `jax.lax.scan` (for a table that the body closes over) and `jax.lax.cond`; in other control flow, and inside
    functions with rules of their own, a table counts as used otherwise. The result runs under `jax.jit`, under `jax.vmap` over
    examples (the leaves of each gradient then have the batch axis in front) and can be differentiated again. A call outside of
    `jax.jit` traces `f` anew.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from sparsetangent.interop.jax import compact_value_and_grad, take
    >>> params = {"table": jnp.asarray([[1.0], [2.0], [3.0]]), "scale": jnp.asarray(2.0)}
    >>> value_and_grad = compact_value_and_grad(lambda p, ids: p["scale"] * take(p["table"], ids).sum())
    >>> value, gradients = value_and_grad(params, jnp.asarray([2, 2]))
    >>> gradients["table"].indices.tolist(), gradients["table"].values.tolist(), gradients["scale"].item()
    ([2, 2], [[2.0], [2.0]], 6.0)

    Used in another way as well:

    >>> both = compact_value_and_grad(lambda x: take(x, [1]).sum() + (x**2).sum())
    >>> both(jnp.asarray([1.0, 2.0]))[1].tolist()
    [2.0, 5.0]
    """

    @wraps(f)
    def value_and_gradients(params: Any, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten(params)
        leaves = [jnp.asarray(x) for x in leaves]
        _refuse_integers(leaves)
        program, out = jax.make_jaxpr(lambda *x: f(tree.unflatten(x), *args, **kwargs), return_shape=True)(*leaves)
        invars = program.jaxpr.invars
        found, others = find_lookups(program.jaxpr, {v: i for i, v in enumerate(invars)})
        dense = sorted(others)
        tables = {invars[k.table]: k.table for k in found if k.table not in others}
        lookups = [k for k in found if k.table not in others]

        def run(perturbed: list[Array], deltas: list[Array]) -> Any:
            given = list(leaves)
            for i, x in zip(dense, perturbed, strict=True):
                given[i] = x
            results, ids = evaluate(program, given, tables, deltas)
            result = jax.tree.unflatten(jax.tree.structure(out), results)
            value, aux = result if has_aux else (result, None)
            return value, (aux, ids)

        deltas = [-jnp.zeros(k.rows.shape, k.rows.dtype) for k in lookups]  # -0.0 changes no number, 0.0 would change -0.0
        (value, (aux, ids)), (perturbed, rows) = jax.value_and_grad(run, (0, 1), has_aux=True)(
            [leaves[i] for i in dense], deltas
        )
        gradients: list[Any] = [Zero(x.shape, like=x) for x in leaves]
        for i, gradient in zip(dense, perturbed, strict=True):
            gradients[i] = gradient
        for i in set(tables.values()):
            read = zip(lookups, ids, rows, strict=True)
            gradients[i] = add_n([_slices(k, leaves[i].shape, at, dy) for k, at, dy in read if k.table == i])
        return ((value, aux) if has_aux else value), tree.unflatten(gradients)

    return value_and_gradients


def _refuse_integers(leaves: list[Array]) -> None:
    for x in leaves:
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            raise TypeError(f"params must hold floating or complex arrays, not {x.dtype}: there is no gradient for it")


def _slices(lookup: Lookup, shape: tuple[int, ...], ids: Array, rows: Array) -> IndexedSlices:
    """The gradient of a table by one look-up, whose loops become axes of its ids."""
    loops = range(lookup.loops)
    rows = jnp.moveaxis(rows, tuple(loops), tuple(lookup.axis + i for i in loops))
    frame = take_vjp(rows, shape, ids, lookup.axis, validate=False)._frame()
    padded = not is_seen(ids)
    if not padded and (outside := np.flatnonzero(np.asarray(ids) >= lookup.size)).size:
        if lookup.sure:  # ids that the program computed are seen here for the first time
            raise IndexError(
                f"ids hold one that is out of range at position {outside[0]}; axis {lookup.axis} has size {lookup.size}"
            )
        padded = True
    if padded:
        frame = blank_padding(frame._replace(padded=True))
    return IndexedSlices._of(frame)


def conjugate(gradients: Any) -> Any:
    """Gradients of JAX's convention in that of this package, and back: the conjugate of every complex one.

    Parameters
    ----------
    gradients : pytree of arrays and tangents
        Of any shapes and dtypes.

    Returns
    -------
    pytree
        Of the same structure. What is real stays as it is.

    Raises
    ------
    TypeError
        If a leaf is neither an array nor a tangent.

    Notes
    -----
    JAX gives ``dL/dx - i dL/dy`` for a real L of ``x + i y``; ``dL/dx + i dL/dy`` is the direction of ascent, with which
    ``dL = Re sum(conj(g) dz)``, and which an optimizer needs.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from sparsetangent.interop.jax import conjugate
    >>> z = jnp.asarray(3 + 4j)
    >>> jax.grad(lambda z: jnp.abs(z) ** 2)(z).item(), conjugate(jax.grad(lambda z: jnp.abs(z) ** 2)(z)).item()
    ((6-8j), (6+8j))
    >>> conjugate({"w": jnp.asarray(2.0)})["w"].item()
    2.0
    """
    return jax.tree.map(_conjugated, gradients, is_leaf=lambda x: isinstance(x, Tangent))


def _conjugated(x: Any) -> Any:
    if isinstance(x, Tangent):
        return apply("conj", x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def to_bcoo(t: Tangent) -> sparse.BCOO:
    """A tangent of JAX arrays as a BCOO array: the same entries in the same order, repeats and padding among them.

    Parameters
    ----------
    t : Tangent
        Of JAX arrays, any shape and dtype.

    Returns
    -------
    jax.experimental.sparse.BCOO
        BCOO wants its sparse axes first, so every axis before the last stored one becomes sparse; the others are dense
        (``n_dense``). ``indices_sorted`` and ``unique_indices`` say what is known.

    Raises
    ------
    TypeError
        If `t` is no tangent of JAX arrays.

    Notes
    -----
    Padding (coordinates equal to the axis sizes) means the same in both. JAX adds repeats in the dtype of the values and cannot
    add bools, so a BCOO array of bools has no ``todense()``.

    Examples
    --------
    >>> import jax.numpy as jnp, sparsetangent as st
    >>> from sparsetangent.interop.jax import to_bcoo
    >>> to_bcoo(st.IndexedSlices(jnp.asarray([1, 1]), jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), (3, 2)))
    BCOO(float32[3, 2], nse=2, n_dense=1)
    >>> to_bcoo(st.OneHot(jnp.asarray([2, 0]), 3)).indices.tolist()
    [[0, 2], [1, 0]]
    """
    if not isinstance(t, Tangent) or not isinstance(values := t._frame().values, jax.Array):
        held = type(t).__name__ if not isinstance(t, Tangent) else f"a tangent of {type(values).__name__}"
        raise TypeError(f"to_bcoo takes a tangent of JAX arrays, not {held}")
    frame = stored_in_front(t)
    ids = jnp.stack(frame.ids, -1) if frame.ids else jnp.zeros((frame.n, 0), jnp.int32)
    facts = {"indices_sorted": frame.ordered, "unique_indices": frame.unique}
    return sparse.BCOO((frame.values, ids), shape=frame.shape, **facts)


def from_bcoo(x: sparse.BCOO) -> IndexedSlices:
    """A BCOO array as `IndexedSlices`: the same entries in the same order, its sparse axes stored.

    Parameters
    ----------
    x : jax.experimental.sparse.BCOO
        Batch axes become stored ones (``bcoo_update_layout``), which may pad the entries.

    Returns
    -------
    IndexedSlices
        Indices out of range are padding, as they are in BCOO, and negative ones count from the end. What `x` claims of its indices is
        verified, unless under a trace, and kept if true.

    Raises
    ------
    TypeError
        If `x` is no BCOO array.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax.experimental.sparse import BCOO
    >>> from sparsetangent.interop.jax import from_bcoo, to_bcoo
    >>> x = BCOO((jnp.asarray([1.0, 2.0]), jnp.asarray([[2], [2]])), shape=(3,))
    >>> from_bcoo(x).densify().tolist()
    [0.0, 0.0, 3.0]
    >>> to_bcoo(from_bcoo(x)).indices.tolist()
    [[2], [2]]
    """
    if not isinstance(x, sparse.BCOO):
        raise TypeError(f"from_bcoo takes a BCOO array, not {type(x).__name__}")
    if x.n_batch:
        x = sparse.bcoo_update_layout(x, n_batch=0)
    shape = tuple(x.shape)
    columns = (check_ids(x.indices[:, a], shape[a], a, drop=True) for a in range(x.n_sparse))
    checked = tuple(zip(*columns, strict=True)) or ((), ())
    ids, padded = checked
    frame = Frame(tuple(range(x.n_sparse)), tuple(ids), x.data, shape, padded=any(padded))
    frame = blank_padding(frame) if frame.padded else frame
    return IndexedSlices._of(with_claims(frame, unique=bool(x.unique_indices), ordered=bool(x.indices_sorted)))
