"""The types as pytrees of JAX, torch and optree: round trips, maps over values, odd leaves, and the trap of a map over indices."""

from functools import cache

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Zero
from sparsetangent.testing import oracle

LIBRARIES = ("jax", "torch", "optree")


class Tree:
    """One library's functions on trees, and its arrays."""

    def __init__(self, name):
        pytest.importorskip(name, reason=f"{name} is not installed")
        if name == "jax":
            import jax
            import jax.numpy as jnp

            self.xp, self.array = jnp, jnp.asarray
            self.map, self.flatten, self.unflatten = jax.tree.map, jax.tree.flatten, jax.tree.unflatten
            return
        torch = pytest.importorskip("torch", reason="torch is not installed")
        # The types are registered when torch is met, with torch's trees and with its namespace of optree's.
        self.array = lambda x: torch.asarray(np.asarray(x))
        IndexedSlices(torch.tensor([0]), torch.ones(1), (2,))
        if name == "torch":
            from torch.utils import _pytree

            self.map, self.flatten = _pytree.tree_map, _pytree.tree_flatten
            self.unflatten = lambda structure, leaves: _pytree.tree_unflatten(leaves, structure)
        else:
            import optree
            import torch.utils._cxx_pytree  # registers with optree what torch's trees have

            space = {"namespace": "torch"}
            self.map = lambda f, t: optree.tree_map(f, t, **space)
            self.flatten = lambda t: optree.tree_flatten(t, **space)
            self.unflatten = optree.tree_unflatten


@cache
def library(name):
    return Tree(name)


@pytest.fixture(params=LIBRARIES)
def tree(request):
    return library(request.param)


def random(tree, *shape, seed=0):
    return tree.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@cache
def examples(tree):
    ids = tree.array(np.array([3, 0, 3]))
    rows = IndexedSlices(ids, random(tree, 3, 2), (5, 2))
    return {
        "rows": rows,
        "second axis": IndexedSlices(ids, random(tree, 3, 2), (2, 5), axis=1),
        "cells": IndexedSlices((ids, tree.array(np.array([1, 0, 1]))), random(tree, 3), (4, 2), axis=(0, 1)),
        "slabs": IndexedSlices((), random(tree, 3, 4), (4,), axis=()),
        "padded": rows.coalesce(size=4),
        "broadcast": rows[:, :1] * tree.array(np.float32(2)),
        "one hot": OneHot(ids, 4),
        "one hot, bool": OneHot(ids, 4, axis=0, dtype=bool),
        "fill": Fill(random(tree), (2, 3)),
        "zero": Zero((2, 3), like=random(tree, 2)),
    }


NAMES = ("rows", "second axis", "cells", "slabs", "padded", "broadcast", "one hot", "one hot, bool", "fill", "zero")


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(tree, name):
    t = examples(tree)[name]
    leaves, structure = tree.flatten({"gradient": t, "step": tree.array(np.array(1))})
    assert all(hasattr(leaf, "dtype") for leaf in leaves)
    same = tree.unflatten(structure, leaves)["gradient"]
    assert type(same) is type(t)
    assert repr(same) == repr(t)
    assert same.dtype == t.dtype
    assert same._frame()[4:] == t._frame()[4:]  # what is known of the entries
    np.testing.assert_array_equal(oracle.loop_densify(same), oracle.loop_densify(t))
    np.testing.assert_array_equal(oracle.to_numpy(same.densify()), oracle.to_numpy(t.densify()))


@pytest.mark.parametrize("name", NAMES)
def test_structures_of_like_tangents_are_equal(tree, name):
    """Else transforms would compile again for each."""
    (_, one), (_, other) = tree.flatten(examples(tree)[name]), tree.flatten(examples(tree)[name])
    assert one == other
    assert one != tree.flatten(examples(tree)["rows" if name != "rows" else "padded"])[1]


def test_map_over_the_values(tree):
    def scaled(leaf):
        return leaf * 2 if "float" in str(leaf.dtype) else leaf

    for name, t in examples(tree).items():
        if isinstance(t, OneHot):
            continue  # has no values
        doubled = tree.map(scaled, t)
        np.testing.assert_allclose(oracle.loop_densify(doubled), 2 * oracle.loop_densify(t), err_msg=name)


ODD = {
    "None": lambda leaf: "None",
    "object": lambda leaf: object(),
    "number": lambda leaf: 0.5,
    "text": lambda leaf: "spec",
    "tuple of names": lambda leaf: ("data", None),
    "shape": lambda leaf: tuple(leaf.shape),
    "dtype": lambda leaf: leaf.dtype,
    "NumPy array": lambda leaf: np.zeros(3),
    "0-d float": lambda leaf: leaf.sum() * 0.5,
    "NumPy scalar": lambda leaf: np.float32(1),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_odd_leaves(tree, name, kind):
    """Transformations put anything into the leaves; nothing is checked until an operation asks."""
    t = examples(tree)[name]
    leaves, structure = tree.flatten(t)
    odd = tree.unflatten(structure, [ODD[kind](leaf) for leaf in leaves])
    assert type(odd) is type(t)
    assert type(odd).__name__ in repr(odd)
    if isinstance(t, IndexedSlices):
        assert odd.shape == t.shape
        assert odd.axis == t.axis


OPERATIONS = {
    "densify": lambda t: t.densify(),
    "coalesce": lambda t: t.coalesce(),
    "t + t": lambda t: t + t,
    "t * 2": lambda t: t * 2,
    "-t": lambda t: -t,
    "t[0]": lambda t: t[0],
    "astype": lambda t: t.astype(t.dtype),
    "sum": lambda t: st.namespace(t).sum(t),
    "add_n": lambda t: st.add_n([t, t]),
    "stored": lambda t: t.stored,
    "nbytes": lambda t: t.nbytes,
    "equal": lambda t: st.equal(t, t),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["rows", "cells", "padded", "one hot"])
def test_an_operation_on_mapped_indices_names_the_trap(tree, name, operation):
    halved = tree.map(lambda leaf: leaf * 0.5, examples(tree)[name])
    if isinstance(halved, OneHot) and operation in ("stored", "astype"):
        pytest.skip("tells a number of fibres, which does not depend on the indices")
    with pytest.raises(TypeError, match=r"not integers: a tree-map probably reached them.*sparsetangent\.tree\.map"):
        OPERATIONS[operation](halved)


def test_the_repr_of_mapped_indices(tree):
    halved = tree.map(lambda leaf: leaf * 0.5, examples(tree)["rows"])
    assert repr(halved).startswith("IndexedSlices(shape=(5, 2), dtype=float32, axis=0")


def test_batched_leaves_can_be_seen(tree):
    """A batch of tangents, as a vmap returns it, is for the next vmap; its arrays can be looked at, and operations refuse it."""
    t = examples(tree)["rows"]
    batched = tree.map(lambda leaf: leaf[None, ...], t)
    assert batched.indices.shape == (1, 3)
    assert batched.values.shape == (1, 3, 2)
    assert "IndexedSlices" in repr(batched)
    with pytest.raises((TypeError, ValueError), match="vmap"):
        batched.densify()


def test_shapes_through_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    t = IndexedSlices(jnp.asarray([1, 1, 3]), jnp.ones((3, 2)), (4, 2))
    out = jax.eval_shape(lambda t: (t + t).coalesce(size=2), t)
    assert (out.indices.shape, out.shape) == ((2,), (4, 2))
    assert "IndexedSlices" in repr(out)
    moved = jax.device_put(t, jax.devices()[0])
    assert st.equal(moved, t)
    specs = jax.tree.map(lambda leaf: jax.sharding.PartitionSpec(), t)
    assert "IndexedSlices" in repr(specs)


def test_control_flow_of_jax():
    """Padded to one size, a tangent is carried through loops and branches."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    ids, values = rng.integers(0, 6, (4, 3)), rng.normal(size=(4, 3, 2)).astype(np.float32)

    def step(total, entry):
        return (total + IndexedSlices(*entry, (6, 2))).coalesce(size=6), total.stored

    # The first carry has the static parts of every later one: padded, sorted, unique.
    start = IndexedSlices(jnp.zeros(1, jnp.asarray(ids).dtype), jnp.zeros((1, 2)), (6, 2)).coalesce(size=6)
    total, _ = jax.lax.scan(step, start, (jnp.asarray(ids), jnp.asarray(values)))
    wanted = np.zeros((6, 2), np.float32)
    np.add.at(wanted, ids, values)
    np.testing.assert_allclose(oracle.loop_densify(total), wanted, rtol=1e-5)
    branch = jax.lax.cond(True, lambda t: 2 * t, lambda t: -t, total)
    np.testing.assert_allclose(branch.densify(), 2 * wanted, rtol=1e-5)


@pytest.mark.filterwarnings("error::sparsetangent.DensifyWarning")
def test_no_warning_while_jax_traces():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    t = IndexedSlices(jnp.asarray([1, 1]), jnp.ones((2, 2)), (3, 2))
    nx = st.namespace(jnp)
    np.testing.assert_allclose(jax.jit(lambda t: nx.exp(t) + (t + 1.0))(t), np.exp(t.densify()) + t.densify() + 1)
    jax.vmap(lambda v: nx.exp(IndexedSlices(jnp.asarray([1, 1]), v, (3, 2))))(jnp.ones((2, 2, 2)))
    with st.densify_policy("raise"), pytest.raises(st.DensifyError, match="exp"):
        jax.jit(nx.exp)(t)
    with pytest.raises(st.DensifyWarning):
        nx.exp(t)
