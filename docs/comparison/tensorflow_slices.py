"""TensorFlow and Keras: ``tf.IndexedSlices``, clipping, segment functions and optimizers."""

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from harness import Case, main
from keras import ops

import sparsetangent as st
from sparsetangent.interop.tensorflow import from_indexed_slices, to_indexed_slices


def tf_slices(ids: list[int], rows: Any, shape: tuple[int, ...]) -> tf.IndexedSlices:
    """TensorFlow's slices, of which values come first."""
    return tf.IndexedSlices(tf.constant(rows), tf.constant(ids), dense_shape=tf.constant(shape))


def slices(ids: list[int], rows: Any, shape: tuple[int, ...]) -> st.IndexedSlices:
    """The same as a tangent."""
    return st.IndexedSlices(np.array(ids), np.array(rows), shape)


def full(x: Any) -> np.ndarray:
    """What TensorFlow itself makes of its slices."""
    return tf.convert_to_tensor(x).numpy()


def held(x: Any) -> int:
    """How many numbers a gradient holds, ids among them."""
    if hasattr(x, "indices"):
        return int(np.prod(x.values.shape)) + int(np.prod(x.indices.shape))
    return int(np.prod(x.shape))


def gradient(f: Any, table: np.ndarray) -> Any:
    """Of the sum of what `f` reads."""
    table = tf.Variable(table)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(f(table))
    return tape.gradient(total, table)


def trained(name: str, sparse: bool, **options: Any) -> np.ndarray:
    """A table of ones after two steps of one of Keras's optimizers."""
    table = keras.Variable(np.ones((5, 2), np.float32))
    optimizer = getattr(keras.optimizers, name)(learning_rate=0.1, **options)
    optimizer.build([table])
    for _ in range(2):
        optimizer.apply([T if sparse else tf.convert_to_tensor(T)], [table])
    return table.value.numpy()


def adam(g: np.ndarray) -> np.ndarray:
    """Two steps of Adam by its formula."""
    p, m, v = np.ones_like(g), np.zeros_like(g), np.zeros_like(g)
    for t in (1, 2):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
    return p


def adagrad(g: np.ndarray, start: float) -> np.ndarray:
    """Two steps of Adagrad by its formula."""
    p, s = np.ones_like(g), np.full_like(g, start)
    for _ in (1, 2):
        s = s + g**2
        p -= 0.1 * g / np.sqrt(s + 1e-7)
    return p


def updated(step: Any, *starts: float, g: Any = None) -> np.ndarray:
    """Two of our steps, from states that hold `starts`."""
    table, states = np.ones((5, 2)), [np.full((5, 2), start) for start in starts]
    for count in (1, 2):
        st.update_rows(table, U.astype(np.float64) if g is None else g, step, *states, count=count)
    return table


ROWS = [[3.0, 0.0], [3.0, 0.0], [0.0, 1.0]]
D = np.array([[0.0, 0], [6, 0], [0, 0], [0, 1], [0, 0]])
T = tf_slices([1, 1, 3], ROWS, (5, 2))
U = slices([1, 1, 3], np.array(ROWS, np.float32), (5, 2))
x = st.namespace(np)
READ = lambda w: tf.gather(w, [1, 1, 3]) * np.array(ROWS)  # noqa: E731
OTHER = ([1, 2, 1], [[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]], (5, 2))
E = np.array([[0.0, 0], [6, 6], [2, 2], [0, 0], [0, 0]])
HALF = np.ones(3000, np.float16)
UNION = "Keras takes the ids of either as distinct; with repeats, rows come to wrong places."
KERAS = "Keras applies the function to the entries, which is right for distinct ids."
STEP = "Right for distinct ids. `tf.math.unsorted_segment_sum` on `tf.unique` of the ids merges them."
NORM = "The norm of the entries. Right for distinct ids."
SLOW = "Sums of 16-bit numbers are rounded after each addition."
NONE = "`tf.convert_to_tensor` first, which is dense."

CASES = [
    # Norms
    Case("global norm", "tf.linalg.global_norm([T])", "np.linalg.norm(D)", "st.global_norm([U])", NORM),
    Case("what clip_by_global_norm to 1 leaves, its norm", "np.linalg.norm(full(tf.clip_by_global_norm([T], 1.0)[0][0]))", "1.0",
         "st.global_norm(st.clip_by_global_norm([U], 1.0)[0])", NORM),
    Case("what clip_by_norm to 1 leaves, its norm", "np.linalg.norm(full(tf.clip_by_norm(T, 1.0)))", "1.0",
         "st.global_norm(st.clip_by_global_norm([U], 1.0)[0])", NORM),
    # Keras functions
    Case("keras.ops.square", "full(ops.square(T))", "D**2", "x.square(U)", KERAS),
    Case("keras.ops.sqrt", "full(ops.sqrt(T))", "np.sqrt(D)", "x.sqrt(U)", KERAS),
    Case("keras.ops.multiply of two slices", "full(ops.multiply(T, tf_slices(*OTHER)))", "D * E", "U * slices(*OTHER)", UNION),
    Case("keras.ops.maximum of two slices", "full(ops.maximum(T, tf_slices(*OTHER)))", "np.maximum(D, E)", "x.maximum(U, slices(*OTHER))",
         UNION),
    Case("keras.ops.add of two slices", "full(ops.add(T, tf_slices(*OTHER)))", "D + E", "U + slices(*OTHER)",
         UNION),
    Case("keras.ops.subtract of two slices", "full(ops.subtract(T, tf_slices(*OTHER)))", "D - E", "U - slices(*OTHER)",
         UNION),
    Case("keras.ops.sign", "full(ops.sign(T))", "np.sign(D)", "x.sign(U)", KERAS),
    Case("keras.ops.clip", "full(ops.clip(T, -1, 1))", "np.clip(D, -1, 1)", "x.clip(U, -1, 1)", KERAS),
    Case("keras.ops.tanh", "full(ops.tanh(T))", "np.tanh(D)", "x.tanh(U)", KERAS),
    Case("keras.ops.expm1", "full(ops.expm1(T))", "np.expm1(D)", "x.expm1(U)", KERAS),
    Case("keras.ops.cast to int of 0.6 twice", "full(ops.cast(tf_slices([1, 1], [0.6, 0.6], (3,)), 'int32'))",
         "np.array([0, 1.2, 0]).astype(int)", "slices([1, 1], [0.6, 0.6], (3,)).astype(np.int32)", KERAS),
    # Optimizers
    Case("Keras Adam, two steps", "trained('Adam', True)", "adam(D)", "updated(st.steps.lazy_adam(0.1, eps=1e-7), 0.0, 0.0)", STEP, 1e-5),
    Case("Keras Adagrad, two steps", "trained('Adagrad', True)", "adagrad(D, 0.1)",
         "updated(st.steps.adagrad(0.1, eps=0.0), 0.1)", STEP, 1e-5),
    Case("Keras SGD with clipvalue=1, two steps", "trained('SGD', True, clipvalue=1.0)", "1 - 0.2 * np.clip(D, -1, 1)",
         "updated(st.steps.sgd(0.1), g=x.clip(U.astype(np.float64), -1.0, 1.0))", STEP, 1e-5),
    Case("Keras SGD with clipnorm=1, two steps", "trained('SGD', True, clipnorm=1.0)", "1 - 0.2 * D / np.linalg.norm(D)",
         "updated(st.steps.sgd(0.1), g=st.clip_by_global_norm([U.astype(np.float64)], 1.0)[0][0])",
         STEP + " Public report: keras-team/keras#18985.", 1e-5),
    Case("Keras SGD, two steps", "trained('SGD', True)", "1 - 0.2 * D", "updated(st.steps.sgd(0.1))", "", 1e-5),
    Case("Keras Adam on the dense gradient, two steps", "trained('Adam', False)", "adam(D)", "updated(st.steps.lazy_adam(0.1, eps=1e-7), 0.0, 0.0)",
         "", 1e-5),
    # Ids and numbers
    Case("the id -1", "full(tf_slices([-1], [1.0], (3,)))", "np.array([0.0, 0, 1])", "slices([-1], [1.0], (3,))",
         "Dropped, as `unsorted_segment_sum` documents for negative ids."),
    Case("one_hot of a class that is not there", "tf.one_hot([7], 4)", "np.eye(4)[[7]]", "st.OneHot(np.array([7]), 4)",
         "Documented: a row of zeros."),
    Case("3000 ones of float16 in one row", "full(tf_slices([0] * 3000, HALF, (1,)))", "np.array([3000.0])", "slices([0] * 3000, HALF, (1,))",
         SLOW),
    Case("a bool with repeats", "full(tf_slices([0, 0], [True, True], (1,)))", "np.array([True])", "slices([0, 0], [True, True], (1,))"),
    Case("equality", "np.array(T == tf_slices([1, 1, 3], ROWS, (5, 2)))", "D == D", "U == slices([1, 1, 3], np.array(ROWS, np.float32), (5, 2))",
         "The identity of two Python objects."),
    # What gradients are
    Case("numbers held by the gradient of tf.gather along axis 1, 2 columns of a table of 4 by 1000",
         "held(gradient(lambda w: tf.gather(w, [1, 2], axis=1), np.ones((4, 1000), np.float32)))", "2 * 4 + 2",
         "held(st.rules.take_vjp(np.ones((4, 2)), (4, 1000), np.array([1, 2]), axis=1))", "Along axis 0 it is compact.", counts=True),
    Case("numbers held by the gradient of tf.gather_nd, 2 numbers of a table of 1000 by 4",
         "held(gradient(lambda w: tf.gather_nd(w, [[1, 2], [3, 0]]), np.ones((1000, 4), np.float32)))", "2 + 4",
         "(lambda t: t.values.size + sum(i.size for i in t.coords))"
         "(st.rules.getitem_vjp(np.ones(2), (1000, 4), (np.array([1, 3]), np.array([2, 0]))))", counts=True),
    Case("numbers held by abs of a gradient of 2 rows in 1000", "held(tf.abs(gradient(lambda w: tf.gather(w, [1, 2]), np.ones((1000, 4), np.float32))))",
         "2 * 4 + 2", "held(abs(st.rules.take_vjp(np.ones((2, 4)), (1000, 4), np.array([1, 2]))))", "The values are right.", counts=True),
    # Operators
    Case("slices plus slices", "T + T", "D + D", "U + U", "`tf.add_n`, or `tf.convert_to_tensor` first; both are dense."),
    Case("times a number", "full(T * 2)", "D * 2", "U * 2", "`tf.math.scalar_mul` is right and compact."),
    Case("divide by a number", "T / 2", "D / 2", "U / 2", NONE),
    Case("one row", "T[1]", "D[1]", "U[1]", NONE),
    Case("number of axes", "T.ndim", "D.ndim", "U.ndim"),
    # Functions that are right
    Case("a gradient of the tape", "full(gradient(READ, np.ones((5, 2))))", "D", "from_indexed_slices(gradient(READ, np.ones((5, 2))))",
         "Ours by `from_indexed_slices`."),
    Case("our gradient as TensorFlow's", "full(T)", "D", "full(to_indexed_slices(U))", "Ours by `to_indexed_slices`."),
    Case("an id out of range", "full(tf_slices([7], [1.0], (3,)))", "np.zeros(3)[[7]]", "slices([7], [1.0], (3,))"),
    Case("values and ids swapped", "full(tf_slices([[1.0], [2.0]], [1, 1], (3, 1)))", "np.zeros(3)[[1.0, 2.0]]", "slices([[1.0], [2.0]], [1, 1], (3, 1))"),
    Case("tf.square", "tf.square(T)", "D**2", "x.square(U)", "Dense."),
    Case("tf.norm", "tf.norm(T)", "np.linalg.norm(D)", "x.linalg.vector_norm(U)", "By way of the dense array."),
    Case("negation", "full(-T)", "-D", "-U"),
    Case("keras.ops.multiply with an array", "full(ops.multiply(T, tf.constant(E, tf.float32)))", "D * E", "U * E.astype(np.float32)"),
    Case("gradient of a product of segments with zeros", "gradient(lambda v: tf.math.unsorted_segment_prod(v, [0, 0, 0], 1), np.array([0.0, 3, 5]))",
         "np.array([15.0, 0, 0])", "st.rules.scatter_vjp('mul', np.ones(1), np.array([0.0, 3, 5]), np.array([0, 0, 0]), 1)"),
]  # fmt: skip

if __name__ == "__main__":
    main("TensorFlow", ["tensorflow-cpu", "keras"], CASES, globals())
