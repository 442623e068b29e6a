"""What only JAX arrays do: tracing, static lengths, gradients."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402  (after the skip)

from sparsetangent.kernels.jax import JaxKernels  # noqa: E402

kernels = JaxKernels()
IDS = np.array([2, 0, 2, 4], np.int32)
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], np.float32)
ONES = np.ones((4, 2), np.float32)

BY_IDS = {
    "gather": lambda i: kernels.gather(jnp.asarray(ROWS), i),
    "densify": lambda i: kernels.densify(i, jnp.asarray(ROWS), 4),
    "scatter_add": lambda i: kernels.scatter_add(jnp.asarray(ONES), i, jnp.asarray(ROWS), 2.0),
    "scatter_add of halves": lambda i: kernels.scatter_add(jnp.asarray(ONES, jnp.bfloat16), i, jnp.asarray(ROWS, jnp.bfloat16)),
    "coalesce": lambda i: kernels.coalesce(i, jnp.asarray(ROWS), 4, 4),
    "unique_inverse": lambda i: kernels.unique_inverse(i, 4, 4),
    "max": lambda i: kernels.scatter_reduce("max", jnp.asarray(ONES), i, jnp.asarray(ROWS)),
    "mean": lambda i: kernels.scatter_reduce("mean", jnp.asarray(ONES), i, jnp.asarray(ROWS), False),
}
BY_ROWS = {
    "gather": lambda x: kernels.gather(x, jnp.asarray(IDS)),
    "densify": lambda x: kernels.densify(jnp.asarray(IDS), x, 4),
    "scatter_add": lambda x: kernels.scatter_add(jnp.asarray(ONES), jnp.asarray(IDS), x, 2.0),
    "coalesce": lambda x: kernels.coalesce(jnp.asarray(IDS), x, 4, 4)[1],
    "put": lambda x: kernels.put(jnp.asarray(ONES), jnp.asarray([2, 4, 0, 4]), x),
    "mean": lambda x: kernels.scatter_reduce("mean", jnp.asarray(ONES), jnp.asarray(IDS), x, False),
}


def same(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(np.asarray(x), np.asarray(y)), a, b)


@pytest.mark.parametrize("name", sorted(BY_IDS))
def test_jit_and_vmap_over_ids(name):
    f = BY_IDS[name]
    stacked = jnp.asarray([IDS, [1, 1, 1, 1], [4, 4, 4, 4]], jnp.int32)
    want = [f(i) for i in stacked]
    same([jax.jit(f)(i) for i in stacked], want)
    same(jax.vmap(f)(stacked), jax.tree.map(lambda *parts: jnp.stack(parts), *want))
    # Nobody can see these: out of range means dropped, negative ids included.
    same(jax.jit(f)(jnp.asarray([2, 0, 2, -1])), want[0])
    same(jax.jit(f)(jnp.asarray([2, 0, 2, 77])), want[0])


@pytest.mark.parametrize("name", sorted(BY_ROWS))
def test_gradient_and_vmap_over_rows(name):
    f = BY_ROWS[name]
    jacobian = np.asarray(jax.jacrev(f)(jnp.asarray(ROWS)))
    same(jax.jit(jax.jacrev(f))(jnp.asarray(ROWS)), jacobian)
    # All these are affine in the rows.
    start = np.asarray(f(jnp.zeros_like(ROWS)))
    basis = np.eye(8, dtype=np.float32).reshape(8, 4, 2)
    columns = np.stack([np.asarray(f(jnp.asarray(e))) - start for e in basis], -1).reshape(jacobian.shape)
    np.testing.assert_allclose(jacobian, columns, rtol=1e-6)
    stacked = jnp.stack([jnp.asarray(ROWS), jnp.asarray(ROWS) * 2])
    same(jax.vmap(f)(stacked), jnp.stack([f(x) for x in stacked]))


@pytest.mark.parametrize("op", ["mul", "min", "max"])
def test_folds_under_jit(op):
    def f(rows, ids):
        return kernels.scatter_reduce(op, jnp.asarray(ONES) * 1.5, ids, rows, False)

    same(jax.jit(f)(jnp.asarray(ROWS), jnp.asarray(IDS)), f(jnp.asarray(ROWS), jnp.asarray(IDS)))


def test_static_length_stands_for_n():
    distinct, inverse = jax.jit(lambda i: kernels.unique_inverse(i, 4))(jnp.asarray(IDS))
    assert distinct.tolist() == [0, 2, 4, 4]
    assert inverse.tolist() == [1, 0, 1, 4]


def test_more_distinct_ids_than_length_are_dropped_under_jit():
    f = jax.jit(lambda i, x: kernels.coalesce(i, x, 9, 2))
    distinct, sums = f(jnp.asarray([7, 3, 5, 3]), jnp.asarray([1.0, 2.0, 4.0, 8.0]))
    assert distinct.tolist() == [3, 5]
    assert sums.tolist() == [10, 4]
    distinct, inverse = jax.jit(lambda i: kernels.unique_inverse(i, 9, 1))(jnp.asarray([7, 3, 5, 3]))
    assert (distinct.tolist(), inverse.tolist()) == ([3], [1, 0, 1, 0])


def test_rows_traced_and_ids_known_are_checked():
    bad = jnp.asarray([0, 9])
    with pytest.raises(IndexError, match="id 9 at position 1 is out of bounds for an axis of size 4"):
        jax.grad(lambda x: kernels.densify(bad, x, 4).sum())(jnp.ones(2))
    with pytest.raises(IndexError, match="id 9 at position 1"):
        jax.vmap(lambda x: kernels.densify(bad, x, 4))(jnp.ones((3, 2)))
    # Under jit every operation is staged: the check would not run, and the entry is dropped.
    assert jax.jit(lambda x: kernels.densify(bad, x, 4))(jnp.ones(2)).tolist() == [1, 0, 0, 0]


def test_concrete():
    x, seen = jnp.ones(2), []
    assert kernels.concrete(x)
    jax.jit(lambda y: seen.extend((kernels.concrete(y), kernels.concrete(x))))(x)
    jax.vmap(lambda y: seen.extend((kernels.concrete(y), kernels.concrete(x))))(x)
    assert seen == [False, False, False, True]


def test_one_compilation_for_each_shape():
    traces = 0

    @partial(jax.jit, static_argnames="size")
    def f(ids, rows, size):
        nonlocal traces
        traces += 1
        return kernels.densify(ids, rows, size)

    for seed in range(3):
        f(jnp.asarray(np.random.default_rng(seed).integers(0, 5, 4)), jnp.asarray(ROWS), 5)
    assert traces == 1


def test_inputs_survive():
    dst, ids, rows = jnp.asarray(ONES), jnp.asarray(IDS), jnp.asarray(ROWS)
    kernels.scatter_add(dst, ids, rows)
    kernels.put(dst, jnp.asarray([0, 1, 2, 3]), rows)
    same((dst, ids, rows), (ONES, IDS, ROWS))


def units(got, want):
    """The error in units in the last place of what is right, computed in float64."""
    want = np.asarray(want, np.asarray(got).dtype)
    return np.max(
        np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64)) / np.spacing(np.abs(want)).astype(np.float64)
    )


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("n", [3, 17, 200, 5000])
def test_repeats_are_merged_before_they_reach_the_array(n, d):
    ids = jnp.asarray(np.r_[np.zeros(n - 1, np.int32), 5])
    base, rows = jnp.ones((10, d)), jnp.full((n, d), 2e-8, jnp.float32)
    want = np.ones((10, d))
    want[0], want[5] = 1 + (n - 1) * 2e-8, 1 + 2e-8
    assert units(jax.jit(kernels.scatter_add)(base, ids, rows), want) <= 2
    assert units(kernels.scatter_reduce("add", base, ids, rows), want) <= 2
    assert units(jax.jit(partial(kernels.scatter_add, alpha=-1))(base, ids, -rows), want) <= 2


def test_one_hot_id_of_a_large_table():
    ids, rows = jnp.zeros(12500, jnp.int32), jnp.full((12500, 1), 0.01)
    for size in (8, 10**6):  # the repeats are found by marks, or by a sort
        base = jnp.ones((size, 1))
        assert units(jax.jit(kernels.scatter_add)(base, ids, rows)[0, 0], 126.0) <= 2
        assert units(jax.jit(partial(kernels.densify, size=size))(ids, rows)[0, 0], 125.0) <= 2
    assert units(jax.jit(partial(kernels.coalesce, size=10**6))(ids, rows)[1][0, 0], 125.0) <= 2
    mean = jax.jit(lambda: kernels.segment_reduce("mean", rows, jnp.asarray([0, 12500])))()
    assert units(mean[0, 0], 0.01) <= 2


@pytest.mark.long
def test_a_sum_beyond_the_digits_of_its_terms():
    n = 14453120
    base, ids = jnp.asarray([13305880.0, 0.0]), jnp.zeros(n, jnp.int32)
    assert jax.jit(kernels.scatter_add)(base, ids, jnp.ones(n)).tolist() == [27759000.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "bool"])
def test_long_runs_in_every_dtype(dtype):
    rng = np.random.default_rng(3)
    ids = rng.choice(np.array([0, 1, 2, 3, 4]), 300, p=[0.7, 0.1, 0.1, 0.05, 0.05])
    rows = rng.integers(0, 3, (300, 2))
    want = np.ones((4, 2), np.int64)
    np.add.at(want, ids[ids < 4], rows[ids < 4])
    want = want % 256 if dtype == "int8" else want
    got = jax.jit(kernels.scatter_add)(jnp.ones((4, 2), dtype), jnp.asarray(ids), jnp.asarray(rows, dtype))
    assert got.dtype == dtype
    same(got, jnp.asarray(want).astype(got.dtype) if dtype != "int8" else want.astype(np.int8))


def test_in_order_is_the_bare_scatter():
    ids = jnp.zeros(2000, jnp.int32)
    base, rows = jnp.ones((2, 1)), jnp.full((2000, 1), 2e-8)
    bare = jax.jit(partial(kernels.scatter_add, in_order=True))(base, ids, rows)
    same(bare, base.at[ids].add(rows))
    assert bare[0, 0] == 1.0
    same(jax.jit(partial(kernels.scatter_add, in_order=True))(base, jnp.asarray([1, -1, 9, 2]), rows[:4]), [[1.0], [1.0]])


def test_folds_of_long_runs_under_vmap_and_gradient():
    rng = np.random.default_rng(4)
    ids = jnp.asarray(rng.integers(0, 3, (2, 90)))
    rows = jnp.asarray(rng.normal(size=(2, 90, 2)), jnp.float32)
    f = partial(kernels.densify, size=3)
    np.testing.assert_allclose(jax.vmap(f)(ids, rows), [f(i, x) for i, x in zip(ids, rows, strict=True)], rtol=1e-5)
    gradient = jax.grad(lambda x: (f(ids[0], x) * jnp.asarray([[1.0], [2.0], [3.0]])).sum())(rows[0])
    same(gradient, np.repeat(np.asarray(ids[0]) + 1.0, 2).reshape(90, 2))
