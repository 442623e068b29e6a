"""Look-ups in a traced JAX program: a primitive that marks them, where a program has them, and the program with their rows perturbed.

The gradient of a look-up with respect to its rows is small, and all that is missing for that of the table is where the rows were
read. So a program is evaluated with one more argument a look-up, added to the rows it reads, and gives back the ids it read at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from ..kernels.base import Array

__all__ = ["Lookup", "evaluate", "find_lookups", "is_seen", "take_p"]

Var: Any = jax.extend.core.Var
ClosedJaxpr: Any = jax.extend.core.ClosedJaxpr

take_p: Any = jax.extend.core.Primitive("sparsetangent_take")
"""``x[..., ids, ...]`` along `axis`, for ids in ``[0, size)``; an id equal to the size reads zeros."""


def _read(x: Array, ids: Array, *, axis: int) -> Array:
    """The same in JAX's own operations, which it can differentiate, batch and compile."""
    if x.shape[axis] == 0:  # XLA refuses a slice of nothing
        return jnp.zeros((*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :]), x.dtype)
    return x.at[(*(slice(None),) * axis, ids)].get(mode="fill", fill_value=0)


def _abstract(x: Any, ids: Any, *, axis: int) -> Any:
    return jax.core.ShapedArray((*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :]), x.dtype)


def _batch(operands: Sequence[Array], axes: Sequence[Any], *, axis: int) -> tuple[Array, int]:
    """A batch of ids is ids of one more axis; a batch of tables is no look-up in one table."""
    x, ids = operands
    if axes[0] is None:
        return take_p.bind(x, jnp.moveaxis(ids, axes[1], 0), axis=axis), axis
    return jax.vmap(lambda x, ids: _read(x, ids, axis=axis), tuple(axes))(x, ids), 0


def _transpose(dy: Any, x: Any, ids: Array, *, axis: int) -> tuple[Any, None]:
    if type(dy) is ad.Zero:
        return ad.Zero(x.aval), None
    like = jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype)
    return jax.linear_transpose(lambda x: _read(x, ids, axis=axis), like)(dy)[0], None


take_p.def_impl(_read)
take_p.def_abstract_eval(_abstract)
mlir.register_lowering(take_p, mlir.lower_fun(_read, multiple_results=False))
batching.primitive_batchers[take_p] = _batch
ad.defjvp(take_p, lambda dx, x, ids, *, axis: _read(dx, ids, axis=axis), None)
ad.primitive_transposes[take_p] = _transpose


class Lookup(NamedTuple):
    """One look-up of a program in one of its arguments."""

    table: int
    axis: int
    size: int
    rows: Any
    """Shape and dtype of what is read, with the lengths of the loops around it in front."""
    loops: int
    sure: bool
    """Whether it is always done: in a branch that is not taken it reads nothing."""


class _Body(NamedTuple):
    """A program inside an equation, and which operands of the equation it takes."""

    program: Any
    operands: Sequence[Any]
    length: int | None = None
    sure: bool = True


Tables = dict[Any, int]


def _bodies(eqn: Any) -> list[_Body] | None:
    """The programs inside an equation in which a table may be looked up; None if it is no such equation."""
    name, params = eqn.primitive.name, eqn.params
    if name in ("jit", "pjit"):
        return [_Body(params["jaxpr"], eqn.invars)]
    if name in ("remat2", "checkpoint", "remat"):
        return [_Body(ClosedJaxpr(params["jaxpr"], ()), eqn.invars)]
    if name == "scan":
        return [_Body(params["jaxpr"], eqn.invars, params["length"])]
    if name == "cond":
        return [_Body(branch, eqn.invars[1:], sure=False) for branch in params["branches"]]
    return None


def _inside(body: _Body, tables: Tables) -> Tables:
    """The tables under the names that they have inside."""
    return {v: tables[o] for v, o in zip(body.program.jaxpr.invars, body.operands, strict=True) if _held(o, tables)}


def _held(atom: Any, tables: Tables) -> bool:
    return isinstance(atom, Var) and atom in tables


def find_lookups(jaxpr: Any, tables: Tables) -> tuple[list[Lookup], set[int]]:
    """The look-ups in `tables`, in the order of evaluation, and the tables that are used in any other way."""
    found: list[Lookup] = []
    others = {tables[v] for v in jaxpr.outvars if _held(v, tables)}
    for eqn in jaxpr.eqns:
        held = [i for i, v in enumerate(eqn.invars) if _held(v, tables)]
        bodies = _bodies(eqn) if held else None
        if held == [0] and eqn.primitive is take_p:
            found.append(_lookup(eqn, tables[eqn.invars[0]]))
        elif bodies is None:
            others |= {tables[eqn.invars[i]] for i in held}
        else:
            others |= {tables[eqn.invars[i]] for i in held if _varies(eqn, i)}
            for body in bodies:
                inner, inner_others = find_lookups(body.program.jaxpr, _inside(body, tables))
                found += [_from_inside(body, lookup) for lookup in inner]
                others |= inner_others
    return found, others


def _lookup(eqn: Any, table: int) -> Lookup:
    axis, rows = eqn.params["axis"], eqn.outvars[0].aval
    size = eqn.invars[0].aval.shape[axis]
    return Lookup(table, axis, size, jax.ShapeDtypeStruct(rows.shape, rows.dtype), 0, True)


def _varies(eqn: Any, operand: int) -> bool:
    """Whether a loop carries an operand or runs over it, so that it is not the same in each turn."""
    return bool(eqn.primitive.name == "scan" and operand >= eqn.params["num_consts"])


def _from_inside(body: _Body, lookup: Lookup) -> Lookup:
    lookup = lookup._replace(sure=lookup.sure and body.sure)
    if body.length is None:
        return lookup
    rows = jax.ShapeDtypeStruct((body.length, *lookup.rows.shape), lookup.rows.dtype)
    return lookup._replace(rows=rows, loops=lookup.loops + 1)


def evaluate(program: Any, args: Sequence[Any], tables: Tables, deltas: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """What a program gives if ``deltas[i]`` is added to the rows of its i-th look-up in `tables`, and the ids of each.

    `tables` holds only arguments that are used in no other way (`find_lookups`).
    """
    jaxpr = program.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *args), strict=True))
    left, ids = list(deltas), []

    def read(atom: Any) -> Any:
        return values[atom] if isinstance(atom, Var) else atom.val

    for run in _runs(jaxpr, tables):
        eqn = run.eqns[0]
        if not any(_held(v, tables) for v in eqn.invars):
            results = jax.core.eval_jaxpr(run, (), *map(read, run.invars))
        elif eqn.primitive is take_p:
            table, places = map(read, eqn.invars)
            results = [take_p.bind(table, places, **eqn.params) + left.pop(0)]
            ids.append(jnp.asarray(places))
        else:
            parts = [_part(body, _inside(body, tables)) for body in _bodies(eqn) or []]
            count = sum(len(part.lookups) for part in parts)
            results, places = _REPEAT[eqn.primitive.name](eqn, parts, list(map(read, eqn.invars)), left[:count])
            left = left[count:]
            ids += places
        values.update(zip(run.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars], ids


def _runs(jaxpr: Any, tables: Tables) -> list[Any]:
    """The equations as programs of their own: those that see a table one by one, those between them together."""
    runs: list[list[Any]] = []
    for eqn in jaxpr.eqns:
        alone = any(_held(v, tables) for v in eqn.invars)
        if alone or not runs or any(_held(v, tables) for v in runs[-1][0].invars):
            runs.append([])
        runs[-1].append(eqn)
    return [_program(jaxpr, eqns) for eqns in runs]


def _program(jaxpr: Any, eqns: list[Any]) -> Any:
    made: dict[Any, None] = {}
    needed: dict[Any, None] = {}
    for eqn in eqns:
        needed.update((v, None) for v in eqn.invars if isinstance(v, Var) and v not in made)
        made.update((v, None) for v in eqn.outvars)
    return jaxpr.replace(constvars=[], invars=list(needed), outvars=list(made), eqns=eqns)


def is_seen(ids: Array) -> bool:
    """Whether values can be read without waiting for a device (constants of a program are on none)."""
    return not isinstance(ids, jax.core.Tracer) and all(d.platform == "cpu" for d in getattr(ids, "devices", tuple)())


class _Part(NamedTuple):
    """A program inside an equation, to be evaluated as the whole is."""

    evaluate: Callable[[Sequence[Any], Sequence[Array]], tuple[list[Array], list[Array]]]
    lookups: list[Lookup]


def _part(body: _Body, tables: Tables) -> _Part:
    return _Part(
        lambda args, deltas: evaluate(body.program, args, tables, deltas),
        find_lookups(body.program.jaxpr, tables)[0],
    )


Results = tuple[list[Array], list[Array]]


def _repeat_call(eqn: Any, parts: list[_Part], args: list[Any], deltas: list[Array]) -> Results:
    return parts[0].evaluate(args, deltas)


def _repeat_checkpoint(eqn: Any, parts: list[_Part], args: list[Any], deltas: list[Array]) -> Results:
    keywords = {k: eqn.params[k] for k in ("policy", "prevent_cse")}
    results: Results = jax.checkpoint(parts[0].evaluate, **keywords)(args, deltas)
    return results


def _repeat_scan(eqn: Any, parts: list[_Part], args: list[Any], deltas: list[Array]) -> Results:
    p = eqn.params
    first, last = p["num_consts"], p["num_consts"] + p["num_carry"]

    def turn(carry: Any, x: Any) -> Any:
        results, ids = parts[0].evaluate([*args[:first], *carry, *x[0]], x[1])
        return results[: p["num_carry"]], (results[p["num_carry"] :], ids)

    keywords = {k: p[k] for k in ("length", "reverse", "unroll")}
    carry, (stacked, ids) = jax.lax.scan(turn, args[first:last], (args[last:], deltas), **keywords)
    return [*carry, *stacked], ids


def _repeat_cond(eqn: Any, parts: list[_Part], args: list[Any], deltas: list[Array]) -> Results:
    """Each branch gives ids for the look-ups of all branches: for those of the others padding, which reads nothing."""
    which, *operands = args
    ends = np.cumsum([len(part.lookups) for part in parts]).tolist()
    own = [deltas[end - len(part.lookups) : end] for part, end in zip(parts, ends, strict=True)]
    nowhere = [
        [(i.shape, lookup.size, i.dtype) for i, lookup in zip(_kinds(part, operands, d), part.lookups, strict=True)]
        for part, d in zip(parts, own, strict=True)
    ]

    def branch(number: int) -> Callable[..., Results]:
        def taken(operands: Any, own: Any) -> Results:
            results, ids = parts[number].evaluate(operands, own[number])
            padding = [[jnp.full(*kind) for kind in kinds] for kinds in nowhere]
            return results, [i for k, other in enumerate(padding) for i in (ids if k == number else other)]

        return taken

    results: Results = jax.lax.switch(which, [branch(i) for i in range(len(parts))], operands, own)
    return results


def _kinds(part: _Part, operands: list[Any], deltas: Sequence[Array]) -> list[Any]:
    """Shape and dtype of the ids of each look-up of a part."""
    ids: list[Any] = jax.eval_shape(part.evaluate, operands, deltas)[1]
    return ids


_REPEAT: dict[str, Callable[..., Results]] = {
    **dict.fromkeys(("jit", "pjit"), _repeat_call),
    **dict.fromkeys(("remat2", "checkpoint", "remat"), _repeat_checkpoint),
    "scan": _repeat_scan,
    "cond": _repeat_cond,
}
