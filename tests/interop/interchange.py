"""The table of docs/interchange.md, measured: ``python -m tests.interop.interchange`` writes the page, a test compares it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat.numpy as xp
import jax.numpy as jnp
import numpy as np
import torch

from sparsetangent import IndexedSlices
from sparsetangent.interop import convert, pydata, scipy, tensorflow
from sparsetangent.interop import jax as interop_jax
from sparsetangent.testing.oracle import to_numpy
from sparsetangent.testing.strategies import dtypes_of
from sparsetangent.types.tangent import dtype_name
from tests.interop import stand_ins

PAGE = Path(__file__).parents[2] / "docs" / "interchange.md"


class Neighbour(NamedTuple):
    name: str
    there: Callable[[Any], Any]
    back: Callable[[Any], Any]
    xp: Any = xp
    make: Callable[[Any], Any] = np.asarray
    """From a NumPy array to one of the library whose tangents it takes."""
    present: Callable[[], AbstractContextManager[Any]] = nullcontext


def on_card(x: Any) -> Any:
    return np.asarray(x).view(stand_ins.OnCard)


NEIGHBOURS = (
    Neighbour("`scipy.sparse.coo_array`", scipy.to_coo, scipy.from_scipy),
    Neighbour("`scipy.sparse.csr_array`", scipy.to_csr, scipy.from_scipy),
    Neighbour("`cupyx.scipy.sparse.coo_matrix` ¹", scipy.to_coo, scipy.from_scipy, make=on_card, present=stand_ins.cupy),
    Neighbour("`sparse.COO` (PyData)", pydata.to_coo, pydata.from_coo),
    Neighbour(
        "`tf.IndexedSlices` ¹", tensorflow.to_indexed_slices, tensorflow.from_indexed_slices, present=stand_ins.tensorflow
    ),
    Neighbour("`jax.experimental.sparse.BCOO`", interop_jax.to_bcoo, interop_jax.from_bcoo, jnp, jnp.asarray),
    Neighbour("torch tensors, by `convert`", lambda t: convert(t, torch), lambda t: convert(t, np)),
    Neighbour("JAX arrays, by `convert`", lambda t: convert(t, jnp), lambda t: convert(t, np)),
)


def tangent(n: Neighbour, ids: Any, values: Any, shape: tuple[int, ...], axis: Any = 0, **known: bool) -> Any:
    made = tuple(n.make(np.array(i)) for i in ids) if isinstance(axis, tuple) else n.make(np.array(ids))
    return IndexedSlices(made, n.make(np.asarray(values, np.float32)), shape, axis=axis, **known)


def trip(n: Neighbour, t: Any) -> Any:
    return n.back(n.there(t))


def axes(n: Neighbour) -> str:
    """Which axes are stored when a tangent comes back that stored the first, the second or both of two."""
    given = [tangent(n, [1], np.ones((1, 3)), (3, 3)), tangent(n, [1], np.ones((1, 3)), (3, 3), 1)]
    given.append(tangent(n, ([1], [2]), [1.0], (3, 3), (0, 1)))
    got = []
    for t in given:
        try:
            got.append(trip(n, t).axis)
        except ValueError:
            got.append(None)
    return {
        ((0,), (1,), (0, 1)): "as given",
        ((0, 1),) * 3: "all of them",
        ((0,), (0, 1), (0, 1)): "all up to the last stored",
        ((0,), None, None): "the first; no other is taken",
    }[tuple(got)]


def forms(n: Neighbour) -> dict[str, Any]:
    """A tangent that comes back with the axes it went with: repeats out of order, and what can be known of others."""
    if axes(n).startswith("the first"):
        rows = np.random.default_rng(0).normal(size=(4, 2))
        make = lambda ids, **known: tangent(n, ids, rows[: len(ids)], (4, 2), **known)  # noqa: E731
        repeats, distinct = [3, 0, 3, 1], [2, 0, 1]
    else:
        values = np.random.default_rng(0).normal(size=5)
        make = lambda ids, **known: tangent(n, ids, values[: len(ids[0])], (4, 3), (0, 1), **known)  # noqa: E731
        repeats, distinct = ([3, 0, 3, 3, 0], [2, 1, 2, 0, 0]), ([2, 0, 0], [1, 2, 0])
    return {"any": make(repeats), "merged": make(repeats).coalesce(), "unique": make(distinct, unique=True)}


def listed(t: Any) -> tuple[Any, ...]:
    return tuple(tuple(to_numpy(x).reshape(-1).tolist()) for x in (*t.coords, t.values))


def entries(n: Neighbour) -> str:
    t = forms(n)["any"]
    back = listed(trip(n, t))
    by_rows = np.argsort(to_numpy(t.coords[0]), kind="stable")
    sorted_rows = tuple(tuple(to_numpy(x)[by_rows].reshape(-1).tolist()) for x in (*t.coords, t.values))
    return {listed(t.coalesce()): "sorted, repeats merged", sorted_rows: "sorted by rows, repeats kept", listed(t): "as given"}[
        back
    ]


def facts(n: Neighbour) -> str:
    """Which of the known facts, unique and sorted, come back."""
    known = [(t.unique, t._frame().ordered) for t in (trip(n, t) for t in forms(n).values())]
    return {
        ((False, False), (True, True), (True, False)): "each",
        ((False, False), (True, True), (False, False)): "both or neither",
        ((True, True), (True, True), (True, True)): "always both",
        ((False, False), (False, False), (False, False)): "neither",
    }[tuple(known)]


def dtypes(n: Neighbour) -> str:
    """The dtypes of the library that do not come back."""
    refused = []
    for dtype in dtypes_of(n.xp):
        name = dtype_name(np.zeros(0, dtype)) if n.xp is xp else dtype_name(n.xp.zeros((0,), dtype=dtype))
        values = n.make(np.array([1, 0, 1])).astype(dtype)
        t = IndexedSlices(n.make(np.array([2, 0, 1])), values[:, None], (3, 1))
        try:
            back = trip(n, t)
        except (TypeError, ValueError):
            refused.append(name)
        else:
            assert dtype_name(back) == name and back.densify().tolist() == [[0], [1], [1]], (n.name, name)
    return f"all but {', '.join(refused)}" if refused else "all"


def indices(n: Neighbour) -> str:
    """What becomes of int32 and int64 indices."""
    changed = []
    for name in ("int32", "int64"):
        t = IndexedSlices(n.make(np.array([2, 0], name)), n.make(np.ones((2, 1), np.float32)), (3, 1))
        before, after = (dtype_name(x.coords[0]) for x in (t, trip(n, t)))
        if before != after:
            changed.append(f"{before} as {after}")
    return ", ".join(changed) or "as given"


def memory(n: Neighbour) -> str:
    """Whether the values come back in the memory that they went in."""
    room = np.zeros(4096 + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    line = room[start : start + 4096]  # aligned, as JAX wants it
    t = IndexedSlices(n.make(np.arange(4096)), n.make(line[:, None]), (4096, 1))
    return "shared" if _address(t.values) == _address(trip(n, t).values) else "copied"


def _address(x: Any) -> int:
    return int(x.unsafe_buffer_pointer() if hasattr(x, "unsafe_buffer_pointer") else x.ctypes.data)


COLUMNS = {
    "stored axes": axes,
    "entries": entries,
    "unique, sorted": facts,
    "dtypes": dtypes,
    "index dtype": indices,
    "values": memory,
}


def table() -> str:
    lines = ["| neighbour | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for n in NEIGHBOURS:
        with n.present():
            lines.append(f"| {n.name} | " + " | ".join(column(n) for column in COLUMNS.values()) + " |")
    return "\n".join(lines)


TEXT = """# Interchange

<!-- Written by `python -m tests.interop.interchange`, which measures the table; a test compares. -->

What comes back when a tangent goes to a neighbour and returns. Values, shape and dtype are exact in every row; padding is left out where
the neighbour has none.

{table}

¹ Tested with a stand-in for the library, which is not installed where the tests run.

What a neighbour claims of its indices (in range, unique, sorted) is checked on the way in.

## SciPy, CuPy, PyData

```python
import numpy as np
import sparsetangent as st
from sparsetangent.interop import pydata, scipy

g = st.IndexedSlices(np.array([5, 2, 5]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (1_000_000, 2))
x = scipy.to_coo(g)  # every axis stored, six entries; CuPy arrays give CuPy's matrix
assert x.nnz == 6 and x.sum() == 21
assert scipy.to_csr(g)[5, 1] == 2 + 6
assert st.equal(scipy.from_scipy(x), g)
assert pydata.to_coo(g).nnz == 4  # merged
```

## Between array libraries

```python
import numpy as np
import torch
import sparsetangent as st

g = st.IndexedSlices(np.array([5, 2]), np.array([1.0, 2.0]), (9,))
there = st.interop.convert(g, torch)  # the same memory, through DLPack
assert isinstance(there.values, torch.Tensor)
assert st.equal(st.interop.convert(there, np), g)
```

## JAX

```python
import jax
import jax.numpy as jnp
import numpy as np
from sparsetangent.interop.jax import compact_value_and_grad, from_bcoo, take, to_bcoo

params = {{"table": jnp.ones((1000, 4)), "weight": jnp.ones(4)}}


def loss(params, ids, y):
    rows = take(params["table"], ids)  # where the gradient is to be compact
    return jnp.mean((rows @ params["weight"] - y) ** 2)


step = jax.jit(compact_value_and_grad(loss))
value, gradients = step(params, jnp.asarray([7, 42, 7]), jnp.zeros(3))
assert gradients["table"].stored == 3  # IndexedSlices; the weight's gradient is an array
assert gradients["weight"].shape == (4,)
merged = gradients["table"].coalesce(size=3)  # of static size under jit: what is left over is padding
assert merged.indices.tolist()[:2] == [7, 42]
assert np.allclose(from_bcoo(to_bcoo(merged)).densify(), gradients["table"].densify())
```

`tests/interop/test_jax.py` has a training loop with optax, which is given the rows that were read.

## HIPS autograd

```python
import autograd.numpy as np
from autograd import grad, make_hvp
from sparsetangent.interop.autograd import install, sparsely, take

install()
table, ids = np.arange(12.0).reshape(6, 2), np.array([1, 1, 4])


def loss(table):
    return np.sum(np.tanh(take(table, ids)) ** 2)


g = grad(loss)(table)
assert g.indices.tolist() == [1, 1, 4]
hessian_times, _ = make_hvp(loss)(table)
assert hessian_times(g).stored == 3  # higher derivatives stay compact
assert grad(lambda table: table[sparsely(ids)].sum())(table).stored == 3
```

`examples/matrix_factorization.py` trains on it.

## TensorFlow

`tensorflow.to_indexed_slices(t)` and `from_indexed_slices(x)`: TensorFlow puts the values first, and stores the first axis.
"""


def page() -> str:
    return TEXT.format(table=table())


if __name__ == "__main__":
    PAGE.write_text(page())
