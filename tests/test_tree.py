"""`tree`: maps over containers in which a tangent is one leaf and None is zero; nothing reaches the indices."""

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero, tree
from sparsetangent.testing import oracle, strategies
from tests.helpers import for_all

ROWS = 2**50


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Layer:
    weight: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})
    bias: Any = None

    def __post_init__(self):
        if self.weight is None:
            raise ValueError("made through the constructor")


def dense(x):
    return oracle.loop_densify(x) if isinstance(x, Tangent) else oracle.to_numpy(x)


def containers(leaf):
    """Trees of the containers known, over leaves drawn from a strategy."""
    return hs.recursive(
        leaf,
        lambda inner: hs.one_of(
            hs.lists(inner, max_size=3),
            hs.lists(inner, max_size=3).map(tuple),
            hs.dictionaries(hs.sampled_from("abc"), inner, max_size=3),
            hs.tuples(inner, inner).map(lambda x: Pair(*x)),
            hs.tuples(leaf.filter(lambda x: x is not None), inner).map(lambda x: Layer(x[0], bias=x[1])),
        ),
        max_leaves=6,
    )


def walk(x, path=()):
    """The leaves by a recursion of their own, with their paths."""
    if isinstance(x, dict):
        items = x.items()
    elif isinstance(x, (list, tuple)):
        items = enumerate(x)
    elif isinstance(x, Layer):
        items = (("weight", x.weight), ("bias", x.bias))
    else:
        return {path: x}
    found = {}
    for key, child in items:
        found |= walk(child, (*path, key))
    return found


def structure(x):
    if isinstance(x, dict):
        return {key: structure(child) for key, child in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x), [structure(child) for child in x]
    return (Layer, structure(x.weight), structure(x.bias), x.name) if isinstance(x, Layer) else x is None


def leaf_strategy(xp):
    dtypes = [xp.float32]
    shape = hs.just((3, 2))
    return hs.one_of(
        strategies.indexed_slices(xp, shape, dtypes),
        strategies.tangents(xp, shape, dtypes),
        strategies.arrays(xp, (3, 2), dtypes[0]),
        hs.none(),
    )


def test_map_keeps_the_structure(xp):
    def body(given):
        doubled = tree.map(lambda x: x * 2, given)
        assert structure(doubled) == structure(given)
        before, after = walk(given), walk(doubled)
        assert list(before) == list(after)
        for path, leaf in before.items():
            if leaf is None:
                assert after[path] is None
            else:
                assert np.allclose(dense(after[path]), 2 * dense(leaf), rtol=1e-6)
                assert isinstance(after[path], Tangent) == isinstance(leaf, Tangent)
        kept = [x for x in before.values() if x is not None]
        assert all(a is b for a, b in zip(tree.leaves(given), kept, strict=True))

    for_all(xp, body, containers(leaf_strategy(xp)), examples=60)


def test_sums_and_multiples_are_those_of_the_dense_trees(xp):
    @hs.composite
    def two_trees(draw):
        first = draw(containers(leaf_strategy(xp)))
        leaf = leaf_strategy(xp)
        return first, tree.map(lambda x: draw(leaf.filter(lambda y: y is not None)), first)

    def body(pair):
        a, b = pair
        total = tree.add(a, b, None, a)
        scaled = tree.scale(a, -0.5)
        halves, other = walk(scaled), walk(b)
        for path, leaf in walk(a).items():
            if leaf is None:
                assert walk(total)[path] is None and halves[path] is None
                continue
            assert np.allclose(dense(walk(total)[path]), 2 * dense(leaf) + dense(other[path]), rtol=1e-5, atol=1e-4)
            assert np.allclose(dense(halves[path]), -0.5 * dense(leaf), rtol=1e-6)
            assert halves[path].dtype == leaf.dtype

    for_all(xp, body, two_trees(), examples=40)


def test_none_is_zero(xp):
    ones = xp.ones((2, 2), dtype=xp.float32)
    t = IndexedSlices(xp.asarray([1]), ones[:1, ...], (2, 2))
    seen = []

    def note(*leaves):
        seen.append(leaves)
        return st.namespace(leaves[0]).subtract(*leaves)

    result = tree.map(note, {"a": [ones, t], "b": None}, {"a": None, "b": None})
    assert result["b"] is None and len(seen) == 2
    for first, second in seen:
        assert isinstance(second, Zero) and second.shape == (2, 2) and second.dtype == xp.float32
        assert np.array_equal(dense(first), dense(result["a"][0 if first is ones else 1]))
    assert dense(tree.map(note, [None], [ones])[0]).tolist() == [[-1, -1], [-1, -1]]
    assert tree.map(note, None, [ones, None])[1] is None
    assert tree.add() is None and tree.add(None, None) is None and tree.add([t], None)[0] is t
    assert tree.map(note, None) is None and tree.scale(None, 2.0) is None


def test_indices_are_never_reached(xp):
    """What jax.tree.map(add) makes of two sparse gradients is the sum of their indices; here it is the sum of the gradients."""
    t = IndexedSlices(xp.asarray([1, 2]), xp.asarray([1.0, 2.0]), (8,))
    u = IndexedSlices(xp.asarray([3, 3]), xp.asarray([4.0, 8.0]), (8,))
    assert dense(tree.map(lambda a, b: a + b, [t], [u])[0]).tolist() == [0, 1, 2, 12, 0, 0, 0, 0]
    assert dense(tree.map(lambda a: a**2, (u,))[0]).tolist() == [0, 0, 0, 144, 0, 0, 0, 0]
    hot = OneHot(xp.asarray([3, 0]), 4)
    assert dense(tree.scale([hot], 0.5)[0]).tolist() == [[0, 0, 0, 0.5], [0.5, 0, 0, 0]]


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_a_tangent_that_a_foreign_tree_map_went_through_is_refused(library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "jax":
        from jax import numpy as xp
        from jax import tree as foreign
    else:
        import torch as xp
        from torch.utils import _pytree

        class foreign:
            map = staticmethod(_pytree.tree_map)

    t = IndexedSlices(xp.asarray([1, 2]), xp.ones((2, 1)), (8, 1))
    broken = foreign.map(lambda leaf: leaf * 0.5, {"table": t})
    for function in (
        lambda g: tree.map(lambda x: x, g),
        lambda g: tree.add(g, None),
        st.global_norm,
        lambda g: list(tree.leaves(g)),
    ):
        with pytest.raises(TypeError, match=r"a tree-map probably reached them.*sparsetangent\.tree\.map"):
            function(broken)


def test_subclasses_and_what_they_carry(xp):
    ones = xp.ones((2,), dtype=xp.float32)
    counted = collections.defaultdict(list, a=ones)
    doubled = tree.scale(counted, 2)
    assert type(doubled) is collections.defaultdict and doubled.default_factory is list and counted["a"] is ones
    ordered = tree.scale(collections.OrderedDict(b=ones, a=ones), 2)
    assert type(ordered) is collections.OrderedDict and list(ordered) == ["b", "a"]
    layer = tree.scale(Layer(ones, "first"), 2)
    assert layer.name == "first" and layer.bias is None and dense(layer.weight).tolist() == [2, 2]
    assert tree.map(lambda x: None, Layer(ones)).weight is None
    swapped = tree.map(lambda a, b: a - b, {"x": ones, "y": 3 * ones}, {"y": ones, "x": ones})
    assert [dense(v).tolist() for v in swapped.values()] == [[0, 0], [2, 2]] and list(swapped) == ["x", "y"]

    @dataclasses.dataclass
    class Frozen:
        x: Any
        rate: float = dataclasses.field(default=0.5, metadata={"pytree_node": False})

    assert tree.scale(Frozen(ones), 2).rate == 0.5


def test_through_optree():
    optree = pytest.importorskip("optree", reason="optree is not installed")

    class Box:
        def __init__(self, content):
            self.content = content

    optree.register_pytree_node(
        Box, lambda box: ((box.content,), "meta"), lambda meta, children: Box(*children), namespace="sparsetangent"
    )
    t = IndexedSlices(np.array([1]), np.array([2.0]), (4,))
    result = tree.scale({"box": Box([t, None]), "queue": collections.deque([np.ones(2)], maxlen=3)}, 2.0)
    assert type(result["box"]) is Box and dense(result["box"].content[0]).tolist() == [0, 4, 0, 0]
    assert result["box"].content[1] is None
    assert result["queue"].maxlen == 3 and result["queue"][0].tolist() == [2, 2]
    with pytest.raises(TypeError, match="no array, tangent or None but object"):
        tree.scale([object()], 2.0)


def test_errors_name_the_place(xp):
    ones = xp.ones((2,), dtype=xp.float32)
    for bad in ("text", 1.0, {1, 2}, object()):
        with pytest.raises(TypeError, match=rf"leaf at \['a'\]\[1\] is no array, tangent or None but {type(bad).__name__}"):
            tree.map(lambda x: x, {"a": [ones, bad]})
    for other, message in (
        ({"a": [ones]}, r"differ at \['a'\]: a list of \[0, 1\] in one, a list of \[0\] in another"),
        ({"a": (ones, ones)}, r"differ at \['a'\]: a list .* a tuple"),
        ({"b": [ones, ones]}, "differ at the root: a dict"),
        ({"a": ones}, r"differ at \['a'\]: a list of \[0, 1\] in one, a leaf in another"),
    ):
        with pytest.raises(ValueError, match=message):
            tree.add({"a": [ones, ones]}, other)
    with pytest.raises(TypeError, match="int32 cannot be scaled"):
        tree.scale([xp.asarray([1], dtype=xp.int32)], 0.5)
    with pytest.raises(TypeError, match="does not fit a leaf"):
        tree.scale([ones], 1j)


def test_factors(xp):
    for dtype in strategies.dtypes_of(xp, ["float16", "bfloat16", "float32", "complex64"]):
        leaf = xp.asarray([1.0, 2.0], dtype=xp.float32)
        leaf = xp.astype(leaf, dtype)
        t = IndexedSlices(xp.asarray([2, 2]), leaf, (4,))
        for factor in (2, 0.25, np.float64(0.25), xp.asarray(0.25), xp.asarray(2)):
            for x in (leaf, t, Zero((4,), like=leaf), Fill(leaf[1], (4,))):
                result = tree.scale([x], factor)[0]
                assert result.dtype == dtype and (type(result) is type(x))
                assert np.allclose(dense(result), dense(x) * float(factor))
        fine = tree.scale([xp.astype(leaf * 0 + 300, dtype)], 1e-6)[0]
        assert np.allclose(dense(fine), 3e-4, rtol=1e-2)


def test_structure_law(xp64):
    t = IndexedSlices(xp64.asarray([3, ROWS - 1, 3]), xp64.ones((3, 2), dtype=xp64.float32), (ROWS, 2))
    given = {
        "t": t,
        "fill": Fill(xp64.asarray(2.0, dtype=xp64.float32), (ROWS, 2)),
        "zero": Zero((ROWS, 2), like=t),
        "none": None,
    }
    for factor in (0.5, xp64.asarray(0.5)):
        scaled = tree.scale(given, factor)
        assert [type(scaled[k]) for k in given] == [type(x) for x in given.values()]
        assert dense(st.densify(scaled["t"][3])).tolist() == [1, 1]
    assert isinstance(tree.add(given, given)["t"], IndexedSlices)
    assert dense(st.densify(tree.add(given, None, given)["t"][3])).tolist() == [4, 4]
