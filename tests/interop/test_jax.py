"""BCOO there and back, and a training loop with optax on the rows that were read."""

from collections import namedtuple

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402  (after the skip)
from jax.experimental import sparse  # noqa: E402

import sparsetangent as st  # noqa: E402
from sparsetangent import Fill, IndexedSlices, OneHot, Zero  # noqa: E402
from sparsetangent.interop.jax import compact_value_and_grad, from_bcoo, take, to_bcoo  # noqa: E402
from sparsetangent.testing import strategies  # noqa: E402
from sparsetangent.testing.oracle import loop_densify, relative_tolerance  # noqa: E402
from tests.helpers import for_all  # noqa: E402
from tests.interop.support import JAX, assert_identical, stored  # noqa: E402
from tests.transforms.jax_support import compiled  # noqa: E402


def test_bcoo_holds_the_same_entries_in_the_same_order():
    def check(t):
        x = to_bcoo(t)
        frame = t._frame()
        leading = max(frame.axes, default=-1) + 1
        assert (x.shape, x.dtype, x.n_batch, x.n_dense) == (t.shape, t.dtype, 0, t.ndim - leading)
        assert (x.unique_indices, x.indices_sorted) == (
            to_bcoo(from_bcoo(x)).unique_indices,
            to_bcoo(from_bcoo(x)).indices_sorted,
        )
        wanted = stored(frame, range(leading))
        inside = [k for k, (place, _) in enumerate(wanted) if not place or place[0] < t.shape[0]]
        assert np.asarray(x.indices)[inside].tolist() == [list(wanted[k][0]) for k in inside]
        for k in inside:
            np.testing.assert_array_equal(np.asarray(x.data)[k], wanted[k][1])
        if t.dtype != np.bool and t.size:  # which JAX cannot add
            eps = max(relative_tolerance(x.data), 1e-3 * (np.dtype(t.dtype).itemsize == 2))
            np.testing.assert_allclose(x.todense(), loop_densify(t), rtol=eps, atol=10 * eps)
        back = from_bcoo(x)
        np.testing.assert_array_equal(loop_densify(back), loop_densify(t))
        assert_identical(from_bcoo(to_bcoo(back)), back)

    exact = [d for d in strategies.dtypes_of(jnp) if d != jnp.bfloat16]
    for_all(JAX, check, strategies.tangents(jnp, dtypes=exact), examples=250)


@pytest.mark.parametrize("axes", [(0,), (0, 1), (0, 1, 2), ()])
def test_a_tangent_with_leading_axes_comes_back_as_it_was(axes):
    def check(t):
        padded = [t.coalesce(size=t.stored + 2)] if axes else []  # whole arrays of zeros are no padding to BCOO
        for form in (t, t.coalesce(), *padded):
            again = IndexedSlices._of(form._frame())
            assert_identical(from_bcoo(to_bcoo(again)), again)

    for_all(JAX, check, strategies.indexed_slices(jnp, strategies.shapes(3), axes=axes, special=True), examples=50)


def test_bcoo_of_jax_comes_back_as_it_was():
    rng = np.random.default_rng(0)
    dense = jnp.asarray(rng.normal(size=(4, 3, 2)) * (rng.random((4, 3, 2)) < 0.5), jnp.float32)
    for n_dense in (0, 1):
        x = sparse.BCOO.fromdense(dense, n_dense=n_dense)
        y = to_bcoo(from_bcoo(x))
        np.testing.assert_array_equal(x.data, y.data)
        np.testing.assert_array_equal(x.indices, y.indices)
        assert (x.unique_indices, x.indices_sorted, x.n_dense) == (y.unique_indices, y.indices_sorted, y.n_dense)
    batched = sparse.BCOO.fromdense(dense, n_batch=1)
    np.testing.assert_array_equal(loop_densify(from_bcoo(batched)), dense)
    padded = sparse.BCOO.fromdense(dense, nse=30)
    assert from_bcoo(padded)._frame().padded
    np.testing.assert_array_equal(loop_densify(from_bcoo(padded)), dense)
    np.testing.assert_array_equal(to_bcoo(from_bcoo(padded)).indices, padded.indices)


def test_indices_out_of_range_mean_what_they_mean_in_bcoo():
    x = sparse.BCOO((jnp.asarray([1.0, 2.0, 4.0, 8.0]), jnp.asarray([[-1], [3], [9], [-9]])), shape=(3,))
    assert from_bcoo(x).densify().tolist() == x.todense().tolist() == [0.0, 0.0, 1.0]
    y = sparse.BCOO((jnp.asarray([1.0, 2.0]), jnp.asarray([[1, 5], [0, 0]])), shape=(3, 3))
    assert from_bcoo(y).densify().tolist() == y.todense().tolist()
    assert from_bcoo(y).coalesce().stored == 1


def test_it_runs_under_jit():
    t = IndexedSlices(jnp.asarray([1, 1, 3]), jnp.asarray([[1.0], [2.0], [3.0]]), (4, 1))
    back = jax.jit(lambda t: from_bcoo(to_bcoo(t * 2)))(t)
    np.testing.assert_array_equal(loop_densify(back), 2 * loop_densify(t))
    merged = jax.jit(lambda t: from_bcoo(to_bcoo(t).sum_duplicates(nse=3)))(t)
    assert merged.unique and merged._frame().ordered
    np.testing.assert_array_equal(loop_densify(merged), loop_densify(t))


def test_other_types():
    assert to_bcoo(OneHot(jnp.asarray([2, 0]), 3)).todense().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert to_bcoo(Fill(jnp.asarray(2.0), (2, 3))).todense().tolist() == [[2.0] * 3] * 2
    assert to_bcoo(Zero((2**20, 3), xp=jnp)).nse == 0
    with pytest.raises(TypeError, match="takes a tangent of JAX arrays, not a tangent of ndarray"):
        to_bcoo(Zero((3,)))
    with pytest.raises(TypeError, match="takes a tangent of JAX arrays, not ndarray"):
        to_bcoo(np.ones(3))
    with pytest.raises(TypeError, match="takes a BCOO array, not ndarray"):
        from_bcoo(np.ones(3))
    lying = sparse.BCOO((jnp.ones(2), jnp.asarray([[1], [1]])), shape=(3,), unique_indices=True)
    with pytest.raises(ValueError, match="claimed to be unique"):
        from_bcoo(lying)
    with pytest.raises(ValueError, match="claimed to be sorted"):
        from_bcoo(sparse.BCOO((jnp.ones(2), jnp.asarray([[1], [0]])), shape=(3,), indices_sorted=True))


# A training loop: optax sees the rows of the table that were read, gathered with the same rows of its own state.

Model = namedtuple("Model", "table weight")
ROWS, WIDTH, BATCH = 50, 4, 16


def batches(count):
    rng = np.random.default_rng(0)
    return [(rng.integers(0, ROWS, (BATCH, 3)), rng.normal(size=BATCH).astype(np.float32)) for _ in range(count)]


def model():
    rng = np.random.default_rng(1)
    return Model(*(jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((ROWS, WIDTH), (WIDTH,))))


def loss(look):
    return lambda p, ids, y: jnp.mean((jnp.tanh(look(p.table, ids).sum(1)) @ p.weight - y) ** 2)


def on_rows(optimizer, table, state, gradient):
    """One optax step on the rows that a gradient stores; state that has the table's shape is read and written with them."""
    merged = gradient.coalesce(size=gradient.stored)  # static size: padding reads zeros and is not written back
    ids = merged.indices

    def is_table(x):
        return jnp.shape(x) == table.shape

    rows = jax.tree.map(lambda x: x.at[ids].get(mode="fill", fill_value=0) if is_table(x) else x, (table, state))
    updates, new = optimizer.update(merged.values, rows[1], rows[0])
    written = (rows[0] + updates, new)
    return jax.tree.map(lambda x, r: x.at[ids].set(r, mode="drop") if is_table(x) else r, (table, state), written)


def train(optimizer, steps, *, compact):
    p = model()
    states = Model(optimizer.init(p.table), optimizer.init(p.weight))
    value_and_grad = compact_value_and_grad(loss(take)) if compact else jax.value_and_grad(loss(lambda x, ids: x[ids]))

    @compiled
    def step(p, states, ids, y):
        value, g = value_and_grad(p, ids, y)
        if compact:
            assert isinstance(g.table, IndexedSlices)
            table, table_state = on_rows(optimizer, p.table, states.table, g.table)
        else:
            updates, table_state = optimizer.update(g.table, states.table, p.table)
            table = p.table + updates
        updates, weight_state = optimizer.update(g.weight, states.weight, p.weight)
        return value, Model(table, p.weight + updates), Model(table_state, weight_state)

    values = []
    for ids, y in steps:
        value, p, states = step(p, states, ids, y)
        values.append(float(value))
    return values, p


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_optax_trains_as_with_dense_gradients(name):
    """Where a zero gradient moves nothing, the rows alone give what the whole table gives."""
    optax = pytest.importorskip("optax", reason="optax is not installed")
    optimizer = getattr(optax, name)(0.1)
    values, p = train(optimizer, batches(12), compact=True)
    wanted, dense = train(optimizer, batches(12), compact=False)
    np.testing.assert_allclose(values, wanted, rtol=1e-4)
    np.testing.assert_allclose(p.table, dense.table, rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(p.table) - np.asarray(model().table)).max() > 1e-2


def test_optax_adam_moves_only_the_rows_that_were_read():
    """Lazy Adam, beside a loop over the rows in NumPy: moments of a row move when it is read, with the count of all steps."""
    optax = pytest.importorskip("optax", reason="optax is not installed")
    optimizer, table = optax.adam(0.1), np.asarray(model().table, np.float64)
    start, m, v = table.copy(), np.zeros_like(table), np.zeros_like(table)
    state, ours = optimizer.init(jnp.asarray(table, jnp.float32)), jnp.asarray(table, jnp.float32)
    step = compiled(lambda x, s, ids, dy: on_rows(optimizer, x, s, st.rules.take_vjp(dy, x.shape, ids)))
    rng = np.random.default_rng(3)
    read = set()
    for t in range(1, 5):
        ids, dy = rng.integers(0, 9, 6), rng.normal(size=(6, WIDTH)).astype(np.float32)
        ours, state = step(ours, state, ids, dy)
        for i in set(ids.tolist()):
            g = dy[ids == i].sum(0)
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g**2
            table[i] -= 0.1 * m[i] / (1 - 0.9**t) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8)
        read |= set(ids.tolist())
    np.testing.assert_allclose(ours, table, rtol=1e-4, atol=1e-5)
    left = sorted(set(range(ROWS)) - read)
    np.testing.assert_array_equal(np.asarray(ours)[left], start[left].astype(np.float32))
