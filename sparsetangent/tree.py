"""Trees of gradients: nested containers whose leaves are arrays, tangents and None.

A tangent is one leaf, whatever the pytrees of jax, torch or optree make of it: a function is given the tangent as a whole and
computes with it by its algebra. A tree-map that reaches into a tangent would add or scale its indices.

Containers are dict, list, tuple, namedtuple and dataclass (fields with ``metadata={"static": True}`` are kept as they are), with
their subclasses; where optree is installed, also those it knows by itself, such as deque, and every type that is registered there
in the namespace ``"sparsetangent"``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .accumulate import add_n
from .algebra.frames import promote
from .algebra.wrap import like
from .backend import backend_of, common_backend, is_array
from .dtypes import facts
from .types import Tangent, Zero

__all__ = ["add", "leaves", "map", "scale"]


class _Node(NamedTuple):
    """A container taken apart: what its children are called, the children, and how they are put together again."""

    kind: Any
    children: dict[Any, Any]
    build: Callable[[list[Any]], Any]


_LEAF = object()


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to the leaves of trees, tangents and arrays as a whole.

    Parameters
    ----------
    function : callable
        ``function(leaf, *leaves)``, with the leaves that stand at the same place.
    tree, *rest : pytree
        Of the same structure. None is zero: where some trees have it, `function` gets a `Zero` of the shape, dtype and library of
        the first other leaf; where all have it, the result is None.

    Returns
    -------
    pytree
        Of the same structure.

    Raises
    ------
    TypeError
        If a leaf is no array, tangent or None, or is a tangent whose indices were reached by a tree-map.
    ValueError
        If the structures differ.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([2]), np.array([3.0]), (4,))
    >>> st.tree.map(lambda x: 2 * x, {"table": t, "bias": [np.ones(2), None]})
    {'table': IndexedSlices(shape=(4,), dtype=float64, axis=0, stored=1, density=0.25, numpy), 'bias': [array([2., 2.]), None]}
    >>> st.tree.map(lambda p, g: p - g, (np.ones(4), np.ones(2)), (t, None))
    (array([ 1.,  1., -2.,  1.]), array([1., 1.]))
    """
    return _map(function, (tree, *rest))


def add(*trees: Any) -> Any:
    """The sum of trees, leaf by leaf; None is zero. A sum is compact where all its terms are.

    Parameters
    ----------
    *trees : pytree
        Of the same structure.

    Returns
    -------
    pytree
        Of the same structure; half types are summed in float32 and rounded once.

    Raises
    ------
    TypeError, ValueError
        As `map`, and where `add_n` does.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([2]), np.array([3.0]), (4,))
    >>> st.tree.add({"table": t}, {"table": None}, {"table": t})["table"].densify().tolist()
    [0.0, 0.0, 6.0, 0.0]
    >>> st.tree.add([t], [np.ones(4)])
    [array([1., 1., 4., 1.])]
    """
    return _map(lambda *terms: add_n(terms), trees, fill=lambda leaf: None)


def scale(tree: Any, factor: Any) -> Any:
    """Every leaf times a factor, in the dtype of the leaf.

    Parameters
    ----------
    tree : pytree
        With floating and complex leaves, and any `Zero`.
    factor : Python number or Array of shape ()
        Real for real leaves.

    Returns
    -------
    pytree
        Of the same structure; half types are multiplied in float32 and rounded once.

    Raises
    ------
    TypeError
        As `map`, and for a leaf of integers or bools, which has no multiple of its own dtype.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> st.tree.scale((np.float32([2, 4]), None), 0.5)
    (array([1., 2.], dtype=float32), None)
    >>> t = st.IndexedSlices(np.array([2]), np.array([3.0], np.float16), (4,))
    >>> st.tree.scale([t], 2)[0].values
    array([6.], dtype=float16)
    """
    return _map(lambda leaf: scaled(leaf, factor), (tree,))


def leaves(tree: Any) -> Iterator[Any]:
    """The arrays and tangents of a tree from left to right, each checked when it is reached; None is left out.

    Parameters
    ----------
    tree : pytree
        Containers of arrays, tangents and None, of any shapes and dtypes.

    Yields
    ------
    Array or Tangent
        Each leaf, as it is.

    Raises
    ------
    TypeError
        When a leaf is reached that is neither.

    Examples
    --------
    >>> import numpy as np, sparsetangent as st
    >>> [x.shape for x in st.tree.leaves({"a": [np.ones(2), None], "b": st.Fill(np.float32(1), (3,))})]
    [(2,), (3,)]
    >>> list(st.tree.leaves(None))
    []
    """
    yield from _leaves(tree, ())


def scaled(leaf: Any, factor: Any) -> Any:
    """A leaf times a factor, in its own dtype."""
    if isinstance(leaf, Zero):
        return leaf
    array = leaf._frame().values if isinstance(leaf, Tangent) else leaf
    backend, dtype = backend_of(array), leaf.dtype
    kind = facts(backend, dtype).kind
    if kind not in ("real", "complex"):
        raise TypeError(f"a leaf of dtype {dtype} cannot be scaled: cast it first, or leave it out (None)")
    if kind == "real" and isinstance(factor, complex):
        raise TypeError(f"factor={factor!r} does not fit a leaf of dtype {dtype}")
    held = backend.kernels.accumulator(dtype)
    number = factor.item() if isinstance(factor, np.generic) else factor
    if is_array(number):
        common_backend(array, number)
        real = backend.xp.real(backend.xp.zeros((0,), dtype=held)).dtype if kind == "complex" else held
        is_complex = facts(backend, number.dtype).kind == "complex"
        number = backend.xp.astype(number, held if is_complex else real, copy=False)
        if isinstance(leaf, Tangent):
            frame = promote(leaf._frame(), held)
            return like(leaf, promote(frame.with_values(frame.values * number), dtype))
    return _cast(_cast(leaf, held) * number, dtype)


def _cast(x: Any, dtype: Any) -> Any:
    if isinstance(x, Tangent):
        return x.astype(dtype)
    return backend_of(x).xp.astype(x, dtype, copy=False)


# Walking


def _map(
    function: Callable[..., Any],
    trees: tuple[Any, ...],
    path: tuple[Any, ...] = (),
    *,
    fill: Callable[[Any], Any] = lambda leaf: Zero(leaf.shape, like=leaf, dtype=leaf.dtype),
) -> Any:
    """`map`, with what `fill` makes of another leaf in the place of None."""
    nodes = [_node(x, path) for x in trees if x is not None]
    if not nodes:
        return None
    first = nodes[0]
    for node in nodes[1:]:
        if node.kind != first.kind:
            raise ValueError(f"the trees differ at {_where(path)}: {_said(first)} in one, {_said(node)} in another")
    if first.kind is _LEAF:
        (leaf,) = first.children.values()
        return function(*(fill(leaf) if x is None else x for x in trees))
    taken = iter(nodes)
    parts = [dict.fromkeys(first.children) if x is None else next(taken).children for x in trees]
    return first.build([_map(function, tuple(part[key] for part in parts), (*path, key), fill=fill) for key in first.children])


def _leaves(tree: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    if tree is None:
        return
    node = _node(tree, path)
    if node.kind is _LEAF:
        yield tree
        return
    for key, child in node.children.items():
        yield from _leaves(child, (*path, key))


def _node(x: Any, path: tuple[Any, ...]) -> _Node:
    """A container taken apart, or a leaf, which is checked."""
    if isinstance(x, Tangent):
        x._frame()  # raises if a tree-map has reached the indices
        return _Node(_LEAF, {None: x}, list)
    if isinstance(x, dict):
        return _Node(("dict", frozenset(x)), dict(x), lambda values: _dict_like(x, values))
    if isinstance(x, (list, tuple)):
        build = x._make if hasattr(x, "_make") else type(x)
        return _Node((type(x), len(x)), dict(enumerate(x)), build)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = [f.name for f in dataclasses.fields(x) if not _is_static(f)]
        fields = {name: getattr(x, name) for name in names}
        return _Node((type(x), tuple(names)), fields, lambda values: _dataclass_like(x, dict(zip(names, values, strict=True))))
    if is_array(x):
        return _Node(_LEAF, {None: x}, list)
    if (node := _registered_node(x)) is not None:
        return node
    raise TypeError(f"the leaf at {_where(path)} is no array, tangent or None but {type(x).__name__}")


def _dict_like(x: dict[Any, Any], values: list[Any]) -> Any:
    result = copy.copy(x)  # keeps what a subclass has besides, such as a default
    result.update(zip(x, values, strict=True))
    return result


def _dataclass_like(x: Any, values: dict[str, Any]) -> Any:
    """A copy with other fields: no constructor is called, which might check or convert them."""
    result = copy.copy(x)
    for name, value in values.items():
        object.__setattr__(result, name, value)  # frozen ones too
    return result


def _registered_node(x: Any) -> _Node | None:
    """A container that optree knows."""
    try:
        import optree
    except ImportError:
        return None
    try:
        children, metadata, entries, build = optree.tree_flatten_one_level(x, none_is_leaf=True, namespace="sparsetangent")
    except ValueError:  # a leaf
        return None
    return _Node((type(x), metadata), dict(zip(entries, children, strict=True)), lambda values: build(metadata, values))


def _is_static(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("static", False)) or not field.metadata.get("pytree_node", True)


def _said(node: _Node) -> str:
    if node.kind is _LEAF:
        return "a leaf"
    kind = node.kind[0]
    return f"a {kind if isinstance(kind, str) else kind.__name__} of {list(node.children)}"


def _where(path: tuple[Any, ...]) -> str:
    return "".join(f"[{key!r}]" for key in path) or "the root"
