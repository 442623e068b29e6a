"""Compact gradients of JAX programs, beside those of `jax.grad` of the same programs with ordinary indexing."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as hs

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402  (after the skip)

import sparsetangent as st  # noqa: E402
from sparsetangent import IndexedSlices, Zero  # noqa: E402
from sparsetangent.interop.jax import compact_value_and_grad, conjugate, take  # noqa: E402
from sparsetangent.testing.oracle import loop_densify  # noqa: E402
from tests.helpers import for_all  # noqa: E402
from tests.transforms.jax_support import compiled  # noqa: E402

pytestmark = pytest.mark.usefixtures("x64")
IDS = np.array([[1, 1, -1], [0, 5, 1]])


@pytest.fixture(scope="module")
def x64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def params(rows=7, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"table": (rows, 3), "weight": (3, 2), "unused": (4,)}
    draws = {k: rng.normal(size=s) + (1j * rng.normal(size=s) if np.dtype(dtype).kind == "c" else 0) for k, s in shapes.items()}
    return {k: jnp.asarray(v, dtype) for k, v in draws.items()}


def head(p, rows):
    return jnp.sum(jnp.tanh(rows @ p["weight"]))


def in_scan(look, p, ids):
    def body(carry, i):
        return jnp.tanh(carry + look(p["table"], i).sum(0) @ p["weight"]), look(p["table"], jnp.asarray([2, -2])).sum()

    carry, ys = jax.lax.scan(body, jnp.zeros(2), ids, reverse=True)
    return carry.sum() + (ys**2).sum()


def in_nested_scan(look, p, ids):
    def outer(carry, row):
        return jax.lax.scan(lambda c, i: (c + head(p, look(p["table"], jnp.stack([i, 0]))), None), carry, row)[0], None

    return jax.lax.scan(outer, 0.0, ids)[0]


def in_cond(look, p, ids):
    yes, no = (lambda t: head(p, look(t, ids))), (lambda t: jnp.sum(look(t, ids[0]) ** 2 + look(t, ids[1])))
    table = p["table"]
    return jax.lax.cond(ids[0, 0] > 0, yes, no, table) + 2 * jax.lax.cond(ids[0, 0] > 5, yes, no, table)


def carried(look, p, ids):
    return jax.lax.scan(lambda t, i: (0.9 * t, head(p, look(t, i))), p["table"], ids)[1].sum()


@jax.custom_jvp
def twice(x):
    return 2 * x


twice.defjvps(lambda dx, y, x: 2 * dx)


def beside_what_a_scan_carries(look, p, ids):
    return jax.lax.scan(lambda w, i: (0.9 * w, head({"weight": w}, look(p["table"], i))), p["weight"], ids)[1].sum()


# What the program does with the table, and how many entries its gradient then stores (None: it is dense).
PROGRAMS = {
    "one look-up": (lambda look, p, ids: head(p, look(p["table"], ids)), 6),
    "two look-ups": (lambda look, p, ids: head(p, look(p["table"], ids) + look(p["table"], ids[::-1])), 7),
    "along axis 1": (lambda look, p, ids: head(p, look(p["table"], ids % 3, 1)[:, 0, :]), 6),
    "inside jit": (lambda look, p, ids: jax.jit(lambda t, i: head(p, look(t, i)))(p["table"], ids), 6),
    "inside vmap": (lambda look, p, ids: jax.vmap(lambda i: head(p, look(p["table"], i)))(ids).sum(), 6),
    "inside vmap, axis 1": (lambda look, p, ids: jax.vmap(lambda i: head(p, look(p["table"], i % 3, 1)))(ids).sum(), 6),
    "inside checkpoint": (
        lambda look, p, ids: jax.checkpoint(lambda t, w: head({"weight": w}, look(t, ids)))(p["table"], p["weight"]),
        6,
    ),
    "inside scan": (in_scan, 7),
    "inside a scan in a scan": (in_nested_scan, 12),
    "beside what a scan carries": (beside_what_a_scan_carries, 6),
    "inside cond": (in_cond, 7),
    "used densely too": (lambda look, p, ids: head(p, look(p["table"], ids)) + jnp.sum(p["table"] ** 2), None),
    "cast first": (lambda look, p, ids: head(p, look(p["table"].astype(jnp.float32), ids)), None),
    "carried by a scan": (carried, None),
    "a table an example": (lambda look, p, ids: jax.vmap(lambda t, i: look(t, i % 3).sum())(p["table"][:2], ids).sum(), None),
    "given to a function with a rule of its own": (lambda look, p, ids: head(p, look(twice(p["table"]), ids)), None),
    "given back by jit": (lambda look, p, ids: head(p, look(jax.jit(lambda t: t)(p["table"]), ids)), None),
}
# Compiling one operation after the other takes long; these are what differs when ids can be seen.
EAGER = ("one look-up", "inside cond", "used densely too")


def ordinary(x, ids, axis=0):
    return jnp.take(x, ids % x.shape[axis], axis)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_equals_jax_grad(name):
    program, stored = PROGRAMS[name]
    p = params()
    value, wanted = compiled(jax.value_and_grad(lambda p, ids: program(ordinary, p, ids)))(p, IDS)
    ours = compact_value_and_grad(lambda p, ids: program(take, p, ids))
    for f in (compiled(ours), ours) if name in EAGER else (compiled(ours),):
        got, gradients = f(p, jnp.asarray(IDS))
        np.testing.assert_allclose(got, value, rtol=1e-12)
        assert isinstance(gradients["unused"], Zero) and gradients["unused"].dtype == np.float64
        for k in p:
            np.testing.assert_allclose(st.densify(gradients[k]), wanted[k], rtol=1e-10, atol=1e-12, err_msg=k)
        assert isinstance(gradients["table"], IndexedSlices) == (stored is not None)
        if stored is not None:
            # 7 where the entries of two look-ups would take more than the dense array: they are held as all of its rows.
            assert gradients["table"].stored == stored
            np.testing.assert_allclose(loop_densify(gradients["table"]), wanted["table"], rtol=1e-10, atol=1e-12)


def test_a_look_up_is_an_ordinary_one_everywhere_else():
    x, v, ids = params()["table"], params(seed=1)["table"], jnp.asarray(IDS)
    tables, batch = jnp.stack([x, v]), jnp.asarray(IDS)

    def everything(look):
        def f(x):
            return jnp.sum(jnp.tanh(look(x, ids)) ** 2)

        return (
            look(x, ids),
            look(x, ids % 3, 1),
            jax.jvp(jax.grad(f), (x,), (v,)),
            jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), v))(x),
            jax.vmap(look)(tables, batch),
            jax.vmap(lambda x, i: look(x, i % 3, 1), (0, 1))(tables, jnp.stack([batch, batch], 1)),
            jax.vmap(lambda x: look(x, ids))(tables),
            jax.linear_transpose(lambda x: look(x, ids), x)(look(v, ids)),
            jax.jacfwd(lambda x: look(x, ids[0]).sum(0))(x),
        )

    got, wanted = compiled(lambda: (everything(take), everything(ordinary)))()
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_batch_of_tables_has_a_batch_of_gradients():
    p, program = params(), PROGRAMS["one look-up"][0]
    tables = {k: jnp.stack([x, 2 * x]) for k, x in p.items()}
    _, got = jax.vmap(compact_value_and_grad(lambda p, ids: program(take, p, ids)))(tables, jnp.asarray(IDS))
    wanted = jax.vmap(jax.grad(lambda p, ids: program(ordinary, p, ids)))(tables, IDS)
    np.testing.assert_allclose(jax.vmap(st.densify)(got["table"]), wanted["table"], rtol=1e-12)


def test_the_value_is_that_of_the_function_to_the_last_bit():
    """A zero of either sign is read as it is."""
    x = jnp.asarray([0.0, -0.0, 3.0])
    f = compact_value_and_grad(lambda x: jnp.sum(jnp.sign(1 / take(x, [1, 2]))))
    assert f(x)[0] == jax.jit(f)(x)[0] == 0.0
    z = jnp.asarray([complex(-0.0, -0.0)])
    g = compact_value_and_grad(lambda z: jnp.sum(jnp.sign(1 / jnp.imag(take(z, [0]))) + jnp.sign(1 / jnp.real(take(z, [0])))))
    assert g(z)[0] == -2.0


def test_effects_of_the_function_are_kept(capfd):
    def f(x):
        jax.debug.print("sum {}", jnp.sum(take(x, [1])))
        return jnp.sum(take(x, [1]))

    compact_value_and_grad(f)(jnp.asarray([1.0, 2.5]))
    jax.effects_barrier()
    assert "sum 2.5" in capfd.readouterr().out


def test_params_of_numpy_and_python():
    p = {"table": np.random.default_rng(0).normal(size=(4, 2)), "scale": 3.0}
    value, gradients = compact_value_and_grad(lambda p: p["scale"] * jnp.sum(take(p["table"], [1, 1])))(p)
    assert value == pytest.approx(6 * p["table"][1].sum()) and gradients["table"].values.tolist() == [[3.0, 3.0]] * 2
    assert gradients["scale"] == pytest.approx(2 * p["table"][1].sum())


def arrays_of(jaxpr):
    """The size of every array that a program makes, in the programs inside it too."""
    for eqn in jaxpr.eqns:
        yield from (v.aval.size for v in eqn.outvars)
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from arrays_of(getattr(inner, "jaxpr", inner))


@pytest.mark.parametrize(
    "name", [name for name, (_, stored) in PROGRAMS.items() if stored is not None and "axis 1" not in name]
)
def test_no_array_of_the_size_of_the_table_is_made(name):
    shapes = jax.eval_shape(params) | {"table": jax.ShapeDtypeStruct((2**28, 3), np.float64)}
    f = compact_value_and_grad(lambda p, ids: PROGRAMS[name][0](take, p, ids))
    assert max(arrays_of(jax.make_jaxpr(f)(shapes, IDS).jaxpr)) < 100


def test_memory_of_the_compiled_program():
    """A table of 2.56 GB that is never made: the program is compiled from shapes alone."""
    rows, width, reads = 10**7, 64, 1000
    table = jax.ShapeDtypeStruct((rows, width), np.float32)
    ids, y = jax.ShapeDtypeStruct((reads,), np.int32), jax.ShapeDtypeStruct((reads,), np.float32)

    def needed(value_and_grad, look):
        f = value_and_grad(lambda t, ids, y: jnp.sum((jnp.sum(look(t, ids), 1) - y) ** 2))
        memory = jax.jit(f).lower(table, ids, y).compile().memory_analysis()
        return memory.temp_size_in_bytes + memory.output_size_in_bytes

    compact, dense = needed(compact_value_and_grad, take), needed(jax.value_and_grad, ordinary)
    print(f"compact {compact} bytes, dense {dense} bytes")
    assert compact < 10**7 < rows * width * 4 <= dense


def test_vmap_over_examples():
    """One gradient an example, and the sum over the examples from their entries."""
    p, program = params(), PROGRAMS["one look-up"][0]
    ours = jax.vmap(compact_value_and_grad(lambda p, ids: program(take, p, ids)), (None, 0))
    wanted = jax.vmap(jax.grad(lambda p, ids: program(ordinary, p, ids)), (None, 0))(p, IDS)
    _, gradients = compiled(ours)(p, jnp.asarray(IDS))
    table = gradients["table"]
    assert table.indices.shape == (2, 3) and table.values.shape == (2, 3, 3)
    np.testing.assert_allclose(jax.vmap(st.densify)(table), wanted["table"], rtol=1e-12)
    np.testing.assert_allclose(gradients["weight"], wanted["weight"], rtol=1e-12)
    flat = IndexedSlices(table.indices, table.values, p["table"].shape)
    np.testing.assert_allclose(loop_densify(flat), wanted["table"].sum(0), rtol=1e-12)
    by_hand = [compact_value_and_grad(lambda p, ids: program(take, p, ids))(p, jnp.asarray(i))[1]["table"] for i in IDS]
    np.testing.assert_allclose([loop_densify(g) for g in by_hand], wanted["table"], rtol=1e-12)


def test_ids_out_of_range():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)))
    f = compact_value_and_grad(lambda x, ids: jnp.sum(take(x, ids) ** 2))
    computed = compact_value_and_grad(lambda x, ids: jnp.sum(take(x, ids + 1) ** 2))
    with pytest.raises(
        IndexError, match=r"ids holds 9 at position 1, out of range for axis 0 of size 4; allowed: -4 <= id < 4"
    ):
        f(x, jnp.asarray([0, 9]))
    with pytest.raises(IndexError, match="holds -5 at position 0"):
        jax.jit(lambda x: take(x, [-5]))(x)
    in_a_scan = compact_value_and_grad(lambda x, ids: jax.lax.scan(lambda c, i: (c + take(x, i).sum(), None), 0.0, ids + 1)[0])
    for g in (computed, in_a_scan):
        with pytest.raises(IndexError, match="position 2; axis 0 has size 4"):
            g(x, jnp.asarray([0, 1, 3]))
    value, gradient = jax.jit(f)(x, jnp.asarray([2, 9, -5, -1]))  # unseen, they read zeros and get no gradient
    wanted = np.zeros((4, 2))
    wanted[[2, 3]] = 2 * np.asarray(x)[[2, 3]]
    np.testing.assert_allclose(value, np.sum(np.asarray(x)[[2, 3]] ** 2))
    np.testing.assert_allclose(gradient.densify(), wanted)
    assert gradient.coalesce().indices.tolist()[:2] == [2, 3]
    np.testing.assert_allclose(st.namespace(jnp).sum(gradient * gradient), np.sum(wanted**2))


@pytest.mark.parametrize("ids", [np.array([0.0]), np.array([True]), jnp.asarray([1.0]), np.zeros(0)])
def test_ids_of_another_dtype(ids):
    with pytest.raises(TypeError, match="integer dtype"):
        take(jnp.zeros((3, 2)), ids)


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="params must hold floating or complex arrays, not int"):
        compact_value_and_grad(lambda x: take(x, [0]).sum())(jnp.arange(3))
    with pytest.raises(TypeError, match="scalar"):
        compact_value_and_grad(lambda x: take(x, [0, 1]))(jnp.ones(3))
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        take(jnp.ones((2, 2)), [0], 2)


def test_aux_keywords_and_structure():
    def f(p, ids, *, scale):
        rows = take(p["tables"][0], ids)
        return scale * (rows * p["bias"]).sum(), {"rows": rows}

    p = {"tables": [jnp.arange(6.0).reshape(3, 2), jnp.ones((5, 2))], "bias": jnp.asarray([1.0, 10.0])}
    (value, aux), gradients = compact_value_and_grad(f, has_aux=True)(p, [2, 2], scale=3.0)
    assert value == 3 * 2 * (4 + 50) and aux["rows"].tolist() == [[4.0, 5.0]] * 2
    assert gradients["tables"][0].values.tolist() == [[3.0, 30.0]] * 2
    assert isinstance(gradients["tables"][1], Zero) and gradients["tables"][1].shape == (5, 2)
    assert gradients["bias"].tolist() == [24.0, 30.0]


def test_derivative_of_the_gradient():
    p, v, ids = params(), params(seed=1), jnp.asarray(IDS)

    def compact(p):
        return compact_value_and_grad(lambda p: PROGRAMS["inside scan"][0](take, p, ids))(p)[1]["table"].densify()

    def dense(p):
        return jax.grad(lambda p: PROGRAMS["inside scan"][0](ordinary, p, ids))(p)["table"]

    got, wanted = (compiled(lambda p, v, f=f: jax.jvp(f, (p,), (v,)))(p, v) for f in (compact, dense))
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-10)
    np.testing.assert_allclose(got[1], wanted[1], rtol=1e-10)
    assert np.abs(wanted[1]).max() > 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "complex128"])
def test_dtypes(dtype):
    p, ids = params(dtype=jnp.dtype(dtype)), jnp.asarray(IDS)

    def loss(look):
        return lambda p: jnp.sum(jnp.abs(look(p["table"], ids) @ p["weight"] + (0.5 if dtype[0] != "c" else 0.5 + 0.25j)) ** 2)

    both = compiled(lambda p: (compact_value_and_grad(loss(take))(p), jax.value_and_grad(loss(ordinary))(p)))
    (value, gradients), (same, wanted) = both(p)
    assert value.dtype == same.dtype
    assert gradients["table"].dtype == wanted["table"].dtype == jnp.dtype(dtype)
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-12)
    for k in p:
        got, want = (np.asarray(st.densify(g[k]).astype(jnp.complex128)) for g in (gradients, wanted))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def test_a_step_against_the_conjugate_descends():
    """Against a complex gradient of JAX's it would not: its imaginary part points the other way."""
    z = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)) + 1j)
    f = compact_value_and_grad(lambda z: jnp.sum(jnp.abs(take(z, [3, 0, 3])) ** 2))
    value, gradient = compiled(f)(z)
    turned = conjugate({"z": gradient, "w": jnp.asarray(1.0)})
    assert turned["w"] == 1 and isinstance(turned["z"], IndexedSlices)
    assert f(z - 0.1 * turned["z"])[0] < value < f(z - 0.1 * gradient)[0]
    assert st.equal(conjugate(turned["z"]), gradient)


def test_take_and_its_gradient_by_loops():
    @hs.composite
    def cases(draw):
        shape = tuple(draw(hs.lists(hs.integers(1, 4), min_size=1, max_size=3)))
        axis = draw(hs.integers(-len(shape), len(shape) - 1))
        size = shape[axis]
        return (
            shape,
            axis,
            np.array(draw(hs.lists(hs.integers(-size, size - 1), max_size=5)), draw(hs.sampled_from([np.int64, np.int8]))),
        )

    def check(case):
        shape, axis, ids = case
        rng = np.random.default_rng(len(ids))
        x = rng.normal(size=shape)
        y = np.take(x, ids, axis)
        dy = rng.normal(size=y.shape)
        value, gradient = compact_value_and_grad(lambda x: jnp.sum(take(x, ids, axis) * dy))(jnp.asarray(x))
        np.testing.assert_allclose(value, np.sum(y * dy))
        wanted = np.zeros(shape)
        for k, i in enumerate(ids):
            np.moveaxis(wanted, axis, 0)[i] += np.moveaxis(dy, axis, 0)[k]
        np.testing.assert_allclose(loop_densify(gradient), wanted, rtol=1e-12)
        assert gradient.axis == (axis % len(shape),)

    for_all(SimpleNamespace(backend_name="jax"), check, cases(), examples=150)


def test_a_table_without_rows():
    x = jnp.zeros((0, 3))
    for f in (compact_value_and_grad(lambda x: jnp.sum(take(x, np.zeros((2, 0), int)))), jax.jit(lambda x: take(x, []))):
        f(x)
    value, gradient = jax.jit(compact_value_and_grad(lambda x, ids: jnp.sum(take(x, ids))))(x, jnp.asarray([0]))
    assert value == 0 and gradient.shape == (0, 3) and gradient.densify().shape == (0, 3)


def test_without_64_bits():
    jax.config.update("jax_enable_x64", False)
    try:
        x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)
        for ids in (np.array([3, -1, 0]), [3, -1, 0], jnp.asarray([3, -1, 0]), np.array([3, 255, 0], np.uint8) % 4):
            _, gradient = compact_value_and_grad(lambda x, ids=ids: jnp.sum(take(x, ids) ** 2))(x)
            wanted = np.zeros((4, 2), np.float32)
            for i in np.asarray(ids):
                wanted[i] += 2 * np.asarray(x)[i]
            assert gradient.dtype == np.float32 and gradient.indices.dtype == np.int32
            np.testing.assert_allclose(gradient.densify(), wanted, rtol=1e-6)
    finally:
        jax.config.update("jax_enable_x64", True)
