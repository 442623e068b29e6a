"""JAX: BCOO arrays, gradients of look-ups, ``segment_sum`` and the ``.at`` functions, and optax on them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from harness import Case, main
from jax.experimental.sparse import BCOO, sparsify

import sparsetangent as st
from sparsetangent.interop import jax as ours

A = jnp.asarray


def bcoo(ids: list[Any], values: Any, shape: tuple[int, ...]) -> BCOO:
    """A BCOO array of these entries; ids are lists where several axes are stored."""
    return BCOO((A(values), A(ids).reshape(len(ids), -1)), shape=shape)


def slices(ids: list[int], values: Any, shape: tuple[int, ...]) -> st.IndexedSlices:
    """A tangent that stores the first axis."""
    return st.IndexedSlices(A(ids), A(values), shape)


def held(x: Any) -> int:
    """How many numbers a gradient holds, ids among them."""
    return x.values.size + x.indices.size if isinstance(x, st.IndexedSlices) else x.size


def dense_add(ids: list[int], values: Any, size: int) -> np.ndarray:
    """The truth of a scatter-add, entry by entry."""
    out = np.zeros(size)
    for i, value in zip(ids, values, strict=True):
        out[i] += value
    return out


T, D, U = (f([1, 3, 1], [3.0, -2.0, -1.0], (5,)) for f in (bcoo, lambda *_: np.array([0.0, 2, 0, -2, 0]), slices))
x = st.namespace(jnp)
ONE = {"w": bcoo([1, 2], [3.0, 4.0], (3,))}
SGD = optax.sgd(0.1)
HALF = jnp.ones(3000, jnp.float16)
FEW = jnp.array([2.0, 3.0])
DROPS = "Documented: reads clamp, scatters drop. Ours raises where ids can be seen, which under `jit` they cannot."
SLOW = "Sums of 16-bit numbers are rounded after each addition."
REFUSES = "No sparse rule."

CASES = [
    # Ids
    Case("read a row that is not there", "jnp.arange(3.0)[A([5])]", "np.arange(3.0)[[5]]", "st.rules.take(jnp.arange(3.0), A([5]))",
         DROPS),
    Case("its gradient", "jax.grad(lambda w: w[A([5])].sum())(jnp.arange(3.0))", "dense_add([5], [1.0], 3)",
         "st.rules.take_vjp(jnp.ones(1), (3,), A([5]))",
         "Documented. The read gave the last row, whose gradient is 0 here."),
    Case("an id out of range in a BCOO array", "bcoo([5, 1], [1.0, 2.0], (3,))", "dense_add([5, 1], [1.0, 2.0], 3)",
         "slices([5, 1], [1.0, 2.0], (3,))", "Documented as padding."),
    Case("segment_sum with an id out of range", "jax.ops.segment_sum(jnp.ones(2), A([0, 5]), 3)", "dense_add([0, 5], [1.0, 1.0], 3)",
         "st.rules.scatter('add', jnp.ones(2), A([0, 5]), 3)", DROPS),
    Case("segment_sum with the id -1", "jax.ops.segment_sum(jnp.ones(2), A([0, -1]), 3)", "dense_add([0, -1], [1.0, 1.0], 3)",
         "st.rules.scatter('add', jnp.ones(2), A([0, -1]), 3)",
         "Documented: dropped. `.at[].add`, reads and `BCOO.todense()` count it from the end."),
    Case("read the row of a BCOO array that the id -1 names", "bcoo([-1, 1], [1.0, 2.0], (3,))[2]", "dense_add([-1, 1], [1.0, 2.0], 3)[2]",
         "slices([-1, 1], [1.0, 2.0], (3,))[2]", "`todense()` has it there."),
    Case("a slice with the row that the id -1 names", "bcoo([-1, 1], [1.0, 2.0], (3,))[1:3]", "dense_add([-1, 1], [1.0, 2.0], 3)[1:3]",
         "slices([-1, 1], [1.0, 2.0], (3,))[1:3]", "`todense()` has it there."),
    Case("reshape with the id -1", "bcoo([[-1, 0], [1, 1]], [1.0, 2.0], (3, 2)).reshape(6)", "np.array([[0.0, 0], [0, 2], [1, 0]]).reshape(6)",
         "x.reshape(slices([-1, 1], [[1.0, 0.0], [0.0, 2.0]], (3, 2)), (6,))", "`todense()` has it in the last row."),
    Case("one_hot of a class that is not there", "jax.nn.one_hot(A([7]), 4)", "np.eye(4)[[7]]", "st.OneHot(A([7]), 4).densify()",
         "Documented: a row of zeros."),
    Case("one_hot of a float just below 2", "jax.nn.one_hot(A([1.9999999]), 4)", "np.eye(4)[[1.9999999]]", "st.OneHot(A([1.9999999]), 4)",
         "Public report: jax-ml/jax#25484."),
    # Trees
    Case("add two gradients by tree.map", "jax.tree.map(jnp.add, bcoo([1], [1.0], (3,)), bcoo([1], [5.0], (3,)))", "np.array([0.0, 6, 0])",
         "st.tree.add(slices([1], [1.0], (3,)), slices([1], [5.0], (3,)))",
         "The ids are leaves too, and are added. `jax.tree.map` on ours has the same trap, hence `st.tree`."),
    Case("optax.global_norm of a BCOO gradient", "optax.global_norm(ONE)", "5.0", "st.global_norm({'w': slices([1, 2], [3.0, 4.0], (3,))})",
         "The ids are leaves too, and are squared. optax is made for trees of arrays."),
    Case("optax.sgd of a BCOO gradient", "optax.apply_updates({'w': jnp.ones(3)}, SGD.update(ONE, SGD.init({'w': jnp.ones(3)}))[0])['w']",
         "1 - 0.1 * np.array([0.0, 3, 4])", "st.update_rows(jnp.ones(3), slices([1, 2], [3.0, 4.0], (3,)), st.steps.sgd(0.1))[0]",
         "optax is made for trees of arrays."),
    # Numbers
    Case("gradient of a row of float16 read 3000 times", "jax.grad(lambda w: w[jnp.zeros(3000, int)].sum())(jnp.ones(1, jnp.float16))",
         "np.array([3000.0])", "st.rules.take_vjp(HALF, (1,), jnp.zeros(3000, int)).densify()", SLOW),
    Case("segment_sum of 3000 ones of float16", "jax.ops.segment_sum(HALF, jnp.zeros(3000, int), 1)", "np.array([3000.0])",
         "st.rules.scatter('add', HALF, jnp.zeros(3000, int), 1)", SLOW),
    Case("merge 1000 ones of bfloat16", "bcoo([0] * 1000, jnp.ones(1000, jnp.bfloat16), (1,)).sum_duplicates()", "np.array([1000.0])",
         "slices([0] * 1000, jnp.ones(1000, jnp.bfloat16), (1,)).coalesce()", SLOW),
    Case("infinity times 3 and -1 at one place", "(T * jnp.inf)[1]", "(D * np.inf)[1]", "(U * float('inf'))[1]",
         "Entries are scaled before they are merged: inf - inf. Right after `sum_duplicates()`."),
    Case("a bool array with repeats", "bcoo([1, 1], [True, True], (3,))", "np.array([False, True, False])",
         "slices([1, 1], [True, True], (3,))"),
    # Gradients
    Case("numbers held by the gradient of weight[ids], 2 rows of a table of 1000 by 4",
         "held(jax.grad(lambda w: w[A([1, 2])].sum())(jnp.ones((1000, 4))))", "2 * 4 + 2",
         "held(ours.compact_value_and_grad(lambda w: ours.take(w, A([1, 2])).sum())(jnp.ones((1000, 4)))[1])",
         "JAX has no compact cotangent of a read.", counts=True),
    Case("gradient of a scatter by multiplication", "jax.grad(lambda v: jnp.ones(4).at[A([1, 1])].mul(v).sum())(FEW)", "np.array([3.0, 2])",
         "st.rules.scatter_vjp('mul', jnp.ones(4), FEW, A([1, 1]), 4)", "Takes unique ids only."),
    Case("gradient of a scatter by maximum at a tie", "jax.grad(lambda v: jnp.zeros(1).at[A([0, 0, 0])].max(v).sum())(A([2.0, 2.0, 1.0]))",
         "np.array([0.5, 0.5, 0])", "st.rules.scatter_vjp('max', jnp.ones(1), A([2.0, 2.0, 1.0]), A([0, 0, 0]), 1)"),
    # Functions that refuse
    Case("maximum", "sparsify(jnp.max)(T)", "D.max()", "x.max(U)", REFUSES),
    Case("comparison with a number", "T > 0", "D > 0", "U > 0", REFUSES + " It says how to ask for a dense answer."),
    Case("clip", "sparsify(lambda t: jnp.clip(t, -1, 1))(T)", "np.clip(D, -1, 1)", "x.clip(U, -1, 1)", REFUSES),
    Case("relu", "sparsify(jax.nn.relu)(T)", "np.maximum(D, 0)", "x.maximum(U, 0.0)", REFUSES),
    Case("isnan", "sparsify(jnp.isnan)(T)", "np.isnan(D)", "x.isnan(U)", REFUSES),
    Case("floor", "sparsify(jnp.floor)(T / 2)", "np.floor(D / 2)", "x.floor(U / 2)", REFUSES),
    Case("take", "sparsify(jnp.take)(T, A([1, 1]))", "D[[1, 1]]", "x.take(U, A([1, 1]))", "`t[ids]` is right."),
    Case("times an array that broadcasts it", "T[None] * jnp.ones((3, 1))", "D[None] * np.ones((3, 1))",
         "x.expand_dims(U, axis=0) * jnp.ones((3, 1))"),
    Case("plus a number", "T + 1", "D + 1", "U + 1", "It says that a dense answer would follow. Ours gives it, with a warning."),
    # Functions that are right
    Case("abs", "sparsify(jnp.abs)(T)", "np.abs(D)", "abs(U)"),
    Case("square", "sparsify(jnp.square)(T)", "D**2", "x.square(U)"),
    Case("sqrt", "sparsify(jnp.sqrt)(abs(T))", "np.sqrt(np.abs(D))", "x.sqrt(abs(U))"),
    Case("t * t", "T * T", "D * D", "U * U"),
    Case("norm", "sparsify(jnp.linalg.norm)(T)", "np.sqrt(8)", "x.linalg.vector_norm(U)"),
    Case("times an array", "T * jnp.arange(5.0)", "D * np.arange(5.0)", "U * jnp.arange(5.0)"),
    Case("plus an array", "T + jnp.arange(5.0)", "D + np.arange(5.0)", "U + jnp.arange(5.0)"),
    Case("a slice", "T[1:3]", "D[1:3]", "U[1:3]"),
    Case("reshape", "T.reshape(5, 1)", "D.reshape(5, 1)", "x.reshape(U, (5, 1))"),
    Case("cast to int of 0.6 twice", "bcoo([1, 1], [0.6, 0.6], (3,)).astype(jnp.int32)", "np.array([0, 1.2, 0]).astype(int)",
         "slices([1, 1], [0.6, 0.6], (3,)).astype(jnp.int32)"),
]  # fmt: skip

if __name__ == "__main__":
    main("JAX", ["jax", "optax"], CASES, globals())
