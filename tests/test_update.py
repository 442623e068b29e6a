"""`update_rows`: the step on the rows named equals the step on the dense array there, and nothing else is touched."""

import numpy as np
import pytest
from hypothesis import strategies as hs

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero, steps, update_rows
from sparsetangent.testing import oracle, strategies
from tests.cases.support import writable
from tests.helpers import for_all

HALF = ("float16", "bfloat16")


def named_rows(t, size):
    """Which rows a gradient names, by a loop over its entries."""
    if not isinstance(t, Tangent):
        return list(range(size))
    slices = t.to_slices()
    if 0 not in slices.axis:
        return list(range(size)) if slices.stored else []
    ids = oracle.to_numpy(slices.coords[slices.axis.index(0)])
    return sorted({int(i) for i in ids if i < size})


def own_step(p, g, m, r, *, count):
    """Not linear in the gradient; one state of the shape of the parameter, one with a number a row."""
    m = 0.5 * m + g * g
    squares, xp = g * g, st.namespace(g)
    for axis in range(g.ndim - 1, 0, -1):
        squares = xp.sum(squares, axis=axis)
    return 0.9 * p - m + count, m, r + squares


@hs.composite
def updates(draw, xp):
    shape = draw(strategies.shapes(1))
    dtypes = strategies.dtypes_of(xp, ["float32", "float64", "complex64", *HALF])
    dtype = draw(hs.sampled_from(dtypes))
    fixed = hs.just(shape)
    t = draw(
        hs.one_of(
            strategies.tangents(xp, fixed, [dtype]),
            strategies.indexed_slices(xp, fixed, [dtype]),
            strategies.arrays(xp, shape, dtype),
        )
    )
    tables = [draw(strategies.arrays(xp, s, dtype)) for s in (shape, shape, shape[:1])]
    return t, [xp.asarray(x, copy=True) for x in tables]


def test_the_step_of_the_dense_rows(xp):
    def body(case):
        t, tables = case
        dtype, shape = tables[0].dtype, tuple(tables[0].shape)
        wide = np.complex128 if "complex" in str(dtype) else np.float64
        expected = [oracle.to_numpy(x).astype(wide) for x in tables]
        gradient = oracle.loop_densify(t) if isinstance(t, Tangent) else oracle.to_numpy(t)
        rows = named_rows(t, shape[0])
        untouched = [i for i in range(shape[0]) if i not in rows]
        before = [oracle.to_numpy(x).copy() for x in tables]
        new = own_step(*(x[rows] for x in (expected[0], gradient.astype(wide), *expected[1:])), count=2)
        for x, values in zip(expected, new, strict=True):
            x[rows] = values
        result = update_rows(tables[0], t, own_step, *tables[1:], count=2)
        eps = oracle.relative_tolerance(tables[0])
        scale = 10 + np.abs(gradient.astype(np.complex128)).sum() ** 2
        for x, table, want, old in zip(result, tables, expected, before, strict=True):
            actual = oracle.to_numpy(x)
            assert x.dtype == dtype and oracle.close(actual, want, rtol=2 * eps, atol=2 * eps * scale)
            assert np.array_equal(actual[untouched], old[untouched])
            assert (x is table) if writable(xp) else np.array_equal(oracle.to_numpy(table), old)

    for_all(xp, body, updates(xp), examples=80)


def halves(xp):
    """The 16-bit dtypes of a library, with their spacing at 1; NumPy has bfloat16 from ml_dtypes."""
    spacing = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
    found = {name: getattr(xp, name) for name in spacing if strategies.dtypes_of(xp, [name])}
    if xp.backend_name == "numpy":
        found["bfloat16"] = np.dtype(pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16)
    return [(dtype, spacing[name]) for name, dtype in found.items()]


def test_half_types_are_summed_and_stepped_in_float32(xp):
    for dtype, _ in halves(xp):
        table, seen = xp.zeros((3, 1), dtype=dtype), []
        ids = xp.zeros((3000,), dtype=xp.int32)
        t = IndexedSlices(ids, xp.ones((3000, 1), dtype=dtype), (3, 1))

        def step(p, g, *, count, seen=seen):
            seen.append((p.dtype, g.dtype, float(g[0, 0])))
            return (p - g,)

        (table,) = update_rows(table, t, step)
        assert seen == [(xp.float32, xp.float32, 3000)]
        assert float(table[0, 0]) == float(xp.asarray(-3000.0, dtype=dtype))


def test_stochastic_rounding_is_right_on_average(xp):
    """Each value goes to one of its two neighbours, and the mean over many is the value; rounding to nearest never moves."""
    many, start = 4000, np.array([1.0, -1.0, 2.0, 1.9375, 0.01, -300.0, 0.0, 4096.0], np.float32)
    for dtype, spacing in halves(xp):
        table = oracle.as_backend(xp, np.tile(start, (many, 1)), dtype)
        begun = oracle.to_numpy(table[0, ...]).astype(np.float64)
        change = oracle.as_backend(xp, np.tile(0.15 * spacing * np.abs(start), (many, 1)), xp.float32)
        wanted = begun + oracle.to_numpy(change)[0]
        t = xp.astype(change, dtype)

        def step(p, g, *, count, change=change):
            return (p + change,)

        (rounded,) = update_rows(xp.asarray(table, copy=True), t, step, rng=np.random.default_rng(5))
        got = oracle.to_numpy(rounded).astype(np.float64)
        for column, want in enumerate(wanted):
            low, high = got[:, column].min(), got[:, column].max()
            assert set(got[:, column]) == {low, high} and low <= want <= high
            assert abs(got[:, column].mean() - want) <= 2 * (high - low) / np.sqrt(many)
            assert high > low or want == begun[column]
        (nearest,) = update_rows(xp.asarray(table, copy=True), t, step)
        assert len(np.unique(oracle.to_numpy(nearest), axis=0)) == 1


def test_stochastic_rounding_finds_the_neighbours():
    """Against all numbers of float16: the neighbours of a value between two are these two, powers of two and subnormals included."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = np.unique(every[np.isfinite(every)].astype(np.float64))
    sample = np.random.default_rng(0).integers(0, len(every) - 1, 3000)
    sample = np.union1d(sample, np.flatnonzero(np.isin(np.abs(every[:-1]), 2.0 ** np.arange(-24, 15))))
    low, high = every[sample], every[sample + 1]
    inside = (low + 0.25 * (high - low)).astype(np.float32)[:, None]
    for uniform, wanted in ((0.0, high), (0.9999, low)):
        table = np.zeros((len(sample), 1), np.float16)
        (table,) = update_rows(
            table,
            np.zeros_like(table),
            lambda p, g, count: (inside,),
            rng=lambda shape, u=uniform: np.full(shape, u, np.float32),
        )
        assert np.array_equal(table[:, 0].astype(np.float64), wanted)
    odd = np.array([[np.nan], [np.inf], [-np.inf], [65519.0], [1e9], [0.0]], np.float32)
    (table,) = update_rows(
        np.zeros((6, 1), np.float16), np.zeros((6, 1)), lambda p, g, count: (odd,), rng=np.random.default_rng(0)
    )
    assert np.array_equal(table[:, 0], np.array([np.nan, np.inf, -np.inf, 65504, np.inf, 0], np.float16), equal_nan=True)


def test_other_types(xp):
    table = xp.ones((3, 2), dtype=xp.float32)
    step = steps.sgd(1.0)
    for t in (Zero((3, 2), like=table), None, IndexedSlices([], xp.zeros((0, 2), dtype=xp.float32), (3, 2))):
        assert update_rows(table, t, step)[0] is table
    for t in (Fill(table[0, 0], (3, 2)), OneHot(xp.asarray([1, 0, 1]), 2), OneHot(xp.asarray([2, 2]), 3, axis=0)):
        (new,) = update_rows(xp.asarray(table, copy=True), t, step)
        assert new.dtype == xp.float32
        assert np.array_equal(oracle.to_numpy(new), 1 - oracle.loop_densify(t))
    vector = xp.asarray(xp.ones((3,), dtype=xp.float32), copy=True)
    (vector,) = update_rows(vector, IndexedSlices(xp.asarray([2, 2]), vector[:2] + 0, (3,)), step)
    assert oracle.to_numpy(vector).tolist() == [1, 1, -1]
    scalar = xp.asarray(2.0, dtype=xp.float32)
    (scalar,) = update_rows(scalar, xp.asarray(0.5, dtype=xp.float32), step)
    assert float(scalar) == 1.5 and scalar.shape == ()


def test_what_is_refused_and_leaves_everything(xp):
    table, state = (xp.asarray(xp.ones((3, 2), dtype=xp.float32), copy=True) for _ in range(2))
    t = IndexedSlices(xp.asarray([0, 2]), xp.ones((2, 2), dtype=xp.float32), (3, 2))
    good = steps.momentum(0.1, 0.9)
    wide = {"jax32": xp.complex64}.get(xp.backend_name, xp.complex128)
    refused = [
        (ValueError, "t must have the shape", lambda: update_rows(table, t[:2], good, state)),
        (ValueError, "state 0 must have .* rows", lambda: update_rows(table, t, good, state[:2, ...])),
        (ValueError, "state 0 is an array that was given", lambda: update_rows(table, t, good, table)),
        (ValueError, "tuple of 2 arrays.*not 1 arrays", lambda: update_rows(table, t, lambda p, g, s, count: (p,), state)),
        (ValueError, "tuple of 2 arrays", lambda: update_rows(table, t, lambda p, g, s, count: p, state)),
        (
            ValueError,
            r"rows of shape \(2, 2\) for state 0",
            lambda: update_rows(table, t, lambda p, g, s, count: (p, s[:1, ...]), state),
        ),
        (
            TypeError,
            "for state 0 of dtype",
            lambda: update_rows(table, t, lambda p, g, s, count: (p, xp.astype(s, wide)), state),
        ),
        (TypeError, "does not update a param", lambda: update_rows(table, t.astype(wide), good, state)),
        (TypeError, "param must be floating", lambda: update_rows(xp.ones((3, 2), dtype=xp.int32), t, good, state)),
        (TypeError, "str", lambda: update_rows(table, "x", good, state)),
        (ValueError, "lazy_adam needs count", lambda: update_rows(table, t, steps.lazy_adam(0.1), state, xp.ones((3, 2)))),
    ]
    for error, message, call in refused:
        with pytest.raises(error, match=message):
            call()
    assert bool(xp.all(table == 1)) and bool(xp.all(state == 1))
    if xp.backend_name != "numpy":
        with pytest.raises(TypeError, match="different libraries"):
            update_rows(table, IndexedSlices(np.array([0]), np.ones((1, 2)), (3, 2)), good, state)


def test_read_only_and_corrupted():
    table, state = np.ones((3, 2)), np.ones((3, 2))
    ids = np.array([0, 2])
    t = IndexedSlices(ids, np.ones((2, 2)), (3, 2))
    state.flags.writeable = False
    with pytest.raises(ValueError, match="state 0 is read-only"):
        update_rows(table, t, steps.momentum(0.1, 0.9), state)
    windows = np.lib.stride_tricks.as_strided(np.ones(4), (3, 2), (8, 8))
    with pytest.raises(ValueError, match="param overlaps itself"):
        update_rows(windows, t, steps.sgd(0.1))
    ids[1] = 7
    with pytest.raises(IndexError, match="7"):
        update_rows(table, t, steps.sgd(0.1))
    assert (table == 1).all()


def test_a_step_may_write_into_its_rows():
    def greedy(p, g, *, count):
        p -= g
        raise ZeroDivisionError

    for t in (np.ones((2, 1)), IndexedSlices(np.array([1]), np.ones((1, 1)), (2, 1))):
        table = np.zeros((2, 1))
        with pytest.raises(ZeroDivisionError):
            update_rows(table, t, greedy)
        assert (table == 0).all()


def test_under_jit_with_padding_and_traced_numbers():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    table, v = rng.standard_normal((2, 6, 3)).astype(np.float32)
    ids, rows = np.array([4, 1, 4, 4]), rng.standard_normal((4, 3)).astype(np.float32)

    @jax.jit
    def train(table, v, ids, rows, lr, key):
        t = IndexedSlices(ids, rows, (6, 3)).coalesce(size=5)
        return update_rows(table, t, steps.momentum(lr, 0.5), v, rng=lambda shape: jax.random.uniform(key, shape))

    new, new_v = train(*map(jnp.asarray, (table, v, ids, rows, 0.1)), jax.random.PRNGKey(0))
    gradient = np.zeros((6, 3), np.float32)
    np.add.at(gradient, ids, rows)
    touched = [1, 4]
    v[touched] = 0.5 * v[touched] + gradient[touched]
    table[touched] -= 0.1 * v[touched]
    np.testing.assert_allclose(new, table, rtol=1e-5)
    np.testing.assert_allclose(new_v, v, rtol=1e-5)


def test_donated_tables_are_reused_under_jit():
    """A functional update copies a table, unless the caller's jit gives its memory away."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    table, ids, rows = rng.standard_normal((50, 3)).astype(np.float32), np.array([4, 1, 4]), np.ones((3, 3), np.float32)

    def train(table, ids, rows):
        return update_rows(table, IndexedSlices(ids, rows, (50, 3)).coalesce(size=3), steps.sgd(0.5))[0]

    given = jnp.array(table)
    new = jax.jit(train, donate_argnums=0)(given, jnp.asarray(ids), jnp.asarray(rows))
    np.subtract.at(table, ids, 0.5 * rows)
    np.testing.assert_allclose(new, table, rtol=1e-6)
    assert given.is_deleted()


def test_a_torch_parameter():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.nn.Parameter(torch.ones(3, 1))
    t = IndexedSlices(torch.tensor([1]), torch.ones(1, 1), (3, 1))
    with torch.no_grad():
        (new,) = update_rows(weight, t, steps.sgd(0.5))
    assert new is weight and weight.tolist() == [[1], [0.5], [1]]
