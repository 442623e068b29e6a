"""Compiling many operations as one function, which takes seconds where one function each would take a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

import sparsetangent as st
from sparsetangent import IndexedSlices
from tests.transforms.operations import SHAPE, applicable

__all__ = ["as_jax", "built", "compiled", "each"]

# Optimising takes ten times as long as these functions run.
_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(f, compiler_options=_QUICK)


def as_jax(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)


def built(axes: tuple[int, ...], entries: Any) -> IndexedSlices:
    ids, values = entries
    return IndexedSlices(ids, values, SHAPE, axis=axes)


def each(
    names: Iterable[str], axes: tuple[int, ...], body: Callable[[str], Any], failed: dict[str, Exception]
) -> dict[str, Any]:
    """``{name: body(name)}``; what an operation raises is put into `failed`, so that the others run."""
    out = {}
    for name in names:
        if applicable(name, axes):
            try:
                out[name] = body(name)
            except Exception as error:
                failed[name] = error
    return out


NAMESPACE = st.namespace(jnp)
