"""What the tests of neighbours share: exact comparison of tangents, and backends by name for `for_all`."""

from types import SimpleNamespace

import numpy as np

from sparsetangent import OneHot
from sparsetangent.testing.oracle import to_numpy
from sparsetangent.types.tangent import dtype_name

NUMPY = SimpleNamespace(backend_name="numpy")
JAX = SimpleNamespace(backend_name="jax")


def parts(t):
    """Type, static facts and leaves of a tangent, as things that compare on any library."""
    kind = [type(t).__name__, t.shape, dtype_name(t)]
    if isinstance(t, OneHot):
        return [*kind, t.axis, t.weak, t._padded], [t._indices]
    frame = t._frame()
    return [*kind, frame.axes, frame.unique, frame.ordered, frame.padded], [
        *frame.ids,
        t.values if hasattr(t, "values") else frame.values,
    ]


def assert_identical(a, b, *, index_dtypes=True):
    """The same type, shape, dtypes and facts, and the same entries in the same order."""
    (kind, leaves), (other_kind, other_leaves) = parts(a), parts(b)
    assert kind == other_kind
    for x, y in zip(leaves, other_leaves, strict=True):
        assert tuple(x.shape) == tuple(y.shape)
        assert not index_dtypes or dtype_name(x) == dtype_name(y)
        np.testing.assert_array_equal(to_numpy(x), to_numpy(y))


def stored(frame, axes):
    """The entries of a frame with `axes` stored, by literal loops: ``[(coordinates, what is left of the values)]``."""
    entries = []
    values = to_numpy(frame.values)
    full = np.broadcast_to(values, (frame.n, *frame.dense_sizes)) if frame.n else np.zeros((0, *frame.dense_sizes))
    new = [a for a in axes if a not in frame.axes]
    for k in range(frame.n):
        known = {a: int(to_numpy(ids)[k]) for a, ids in zip(frame.axes, frame.ids, strict=True)}
        for place in np.ndindex(*(frame.shape[a] for a in new)):
            at = known | dict(zip(new, place, strict=True))
            inner = tuple(at[a] if a in new else slice(None) for a in frame.dense_axes)
            entries.append((tuple(at[a] for a in axes), full[(k, *inner)]))
    return entries
