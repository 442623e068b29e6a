"""Compact gradients of NumPy code under HIPS autograd, beside those that autograd gives of ordinary indexing."""

import subprocess
import sys
import tracemalloc

import numpy as onp
import pytest
from hypothesis import strategies as hs

autograd = pytest.importorskip("autograd", reason="autograd is not installed")

import autograd.numpy as np  # noqa: E402  (after the skip)
from autograd import elementwise_grad, grad, make_hvp, make_jvp, value_and_grad  # noqa: E402
from autograd.test_util import check_grads  # noqa: E402

import sparsetangent as st  # noqa: E402
from sparsetangent import IndexedSlices, Zero  # noqa: E402
from sparsetangent.interop.autograd import install, sparsely, take  # noqa: E402
from sparsetangent.testing.oracle import loop_densify  # noqa: E402
from tests.helpers import for_all  # noqa: E402
from tests.interop.support import NUMPY  # noqa: E402

install()
IDS = onp.array([[1, 1, -1], [0, 5, 1]])


def random(*shape, seed=0, dtype=float):
    rng = onp.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if onp.dtype(dtype).kind == "c" else x).astype(dtype)


def plain(x, ids, axis=0):
    return x[(slice(None),) * axis + (ids,)]


def marked(x, ids, axis=0):
    return x[(slice(None),) * axis + (sparsely(ids),)]


W = random(3, 2, seed=9)
# What the function does with its argument of shape (7, 3), and whether its gradient stays compact.
FUNCTIONS = {
    "one look-up": (lambda look, x: np.sum(np.tanh(np.dot(look(x, IDS), W))), True),
    "two look-ups": (lambda look, x: np.sum(np.tanh(look(x, IDS) * look(x, IDS[::-1]))), True),
    "along axis 1": (lambda look, x: np.sum(look(x, IDS % 3, 1) ** 3), True),
    "one row": (lambda look, x: np.sum(look(x, 5) ** 3), True),
    "no row": (lambda look, x: np.sum(look(x, []) ** 3) + np.sum(look(x, IDS)), True),
    "read again": (lambda look, x: np.sum(look(look(x, IDS), [1, 1, 0]) ** 3), True),
    "used densely too": (lambda look, x: np.sum(look(x, IDS) ** 3) + np.sum(x**2), False),
    "used densely first": (lambda look, x: np.sum(x**2) * np.sum(look(x, IDS) ** 3), False),
    "indexed plainly too": (
        lambda look, x: np.sum(look(x, IDS) ** 2 * x[IDS]) + np.sum(look(x, 2)) + np.sum(x[3] * look(x, 1)),
        False,
    ),
    "computed": (lambda look, x: np.sum(look(np.sin(2 * x) @ W, IDS) ** 3), False),
    "computed and not": (lambda look, x: np.sum(look(2 * x, IDS) ** 2 * look(x, IDS)), False),
}


@pytest.mark.parametrize("look", [take, marked], ids=["take", "sparsely"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_equals_the_gradient_of_autograd(name, look):
    function, compact = FUNCTIONS[name]
    x, v, w = random(7, 3), random(7, 3, seed=1), random(7, 3, seed=2)

    def with_it(x):
        return function(look, x)

    def with_indexing(x):
        return function(plain, x)

    value, gradient = value_and_grad(with_it)(x)
    wanted = grad(with_indexing)(x)
    assert value == pytest.approx(with_indexing(x), rel=1e-12)
    assert isinstance(gradient, IndexedSlices) == compact
    onp.testing.assert_allclose(loop_densify(gradient) if compact else gradient, wanted, rtol=1e-10, atol=1e-12)
    # Second derivatives, in three ways: of the gradient itself, of a number made of it, and forwards.
    wanted = make_hvp(with_indexing)(x)[0](v)
    for second in (
        make_hvp(with_it)(x)[0](v),
        grad(lambda x: np.sum(grad(with_it)(x) * v))(x),
        make_jvp(grad(with_it))(x)(v)[1],
    ):
        onp.testing.assert_allclose(st.densify(second), wanted, rtol=1e-10, atol=1e-12)
    assert isinstance(make_hvp(with_it)(x)[0](v), IndexedSlices) == compact
    wanted = grad(lambda x: np.sum(make_hvp(with_indexing)(x)[0](v) * w))(x)
    third = grad(lambda x: np.sum(make_hvp(with_it)(x)[0](v) * w))(x)
    onp.testing.assert_allclose(st.densify(third), wanted, rtol=1e-9, atol=1e-11)


def test_autograds_own_check():
    """Against differences, forwards and in reverse, of first and second order; it wants dense gradients, as of what is computed."""
    for name in ("two look-ups", "along axis 1", "used densely too"):
        check_grads(lambda x, name=name: FUNCTIONS[name][0](take, 1.0 * x), modes=["fwd", "rev"], order=2)(random(7, 3))


def test_any_key_with_marks():
    @hs.composite
    def cases(draw):
        shape = (4, 3, 5)
        ids = onp.array(draw(hs.lists(hs.integers(-3, 2), min_size=1, max_size=4)))
        more = onp.array(draw(hs.lists(hs.integers(-3, 2), min_size=len(ids), max_size=len(ids))))
        rest = draw(hs.sampled_from([slice(None), slice(1, None, 2), slice(None, None, -1), None, 1]))
        return shape, draw(hs.permutations([ids, more, rest])), draw(hs.booleans())

    def check(case):
        shape, key, ellipsis = case
        x, c = random(*shape), None
        key = (..., *key[:2]) if ellipsis else tuple(key)
        marks = tuple(sparsely(k) if isinstance(k, onp.ndarray) else k for k in key)
        c = random(*x[key].shape, seed=1)
        gradient = grad(lambda x: np.sum(c * x[marks] ** 2))(x)
        wanted = onp.zeros(shape)
        onp.add.at(wanted, key, 2 * c * x[key])
        onp.testing.assert_allclose(loop_densify(gradient), wanted, rtol=1e-12)

    for_all(NUMPY, check, cases(), examples=80)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_dtypes(dtype):
    x, c = random(7, 3, dtype=dtype), random(2, 3, 3, seed=1)

    def loss(look):
        return lambda x: np.sum(np.abs(look(x, IDS)) ** 2 * c)

    gradient, wanted = grad(loss(take))(x), grad(loss(plain))(x)
    assert gradient.dtype == wanted.dtype == dtype
    tolerance = {"float16": 1e-2, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-12)
    onp.testing.assert_allclose(gradient.densify(), wanted, rtol=tolerance, atol=tolerance * onp.abs(wanted).max())


def test_containers():
    """The gradients in a tuple, dict or list stay compact; what is not used is a symbolic zero."""
    table, other, bias, scale = random(7, 3), random(4, 3, seed=1), random(3, seed=2), 2.0
    pair = grad(lambda a, b: np.sum(take(a, IDS) * take(b, IDS % 4)), (0, 1))(table, other)
    assert all(isinstance(g, IndexedSlices) for g in pair)
    wanted = grad(lambda a, b: np.sum(a[IDS] * b[IDS % 4]), (0, 1))(table, other)
    for got, want in zip(pair, wanted, strict=True):
        onp.testing.assert_allclose(loop_densify(got), st.densify(want))

    def loss(p, look):
        return p["scale"] * np.sum(np.tanh(look(p["tables"][0], IDS) + p["bias"])) + np.sum(look(p["tables"][0], 2))

    params = {"tables": [table, other], "bias": bias, "scale": scale}
    got, want = (grad(lambda p, look=look: loss(p, look))(params) for look in (take, plain))
    assert isinstance(got["tables"][0], IndexedSlices) and isinstance(want["tables"][0], onp.ndarray)
    onp.testing.assert_allclose(loop_densify(got["tables"][0]), want["tables"][0], rtol=1e-12)
    onp.testing.assert_allclose(got["bias"], want["bias"])
    assert got["scale"] == pytest.approx(want["scale"])
    assert isinstance(got["tables"][1], Zero) and got["tables"][1].shape == other.shape
    second = grad(lambda p: np.sum(grad(lambda p: loss(p, take))(p)["tables"][0].densify() ** 2))(params)["tables"][0]
    wanted = grad(lambda p: np.sum(grad(lambda p: loss(p, plain))(p)["tables"][0] ** 2))(params)["tables"][0]
    onp.testing.assert_allclose(st.densify(second), wanted, rtol=1e-10)


def test_code_without_look_ups_is_as_before():
    x = random(4, 3)
    assert isinstance(grad(lambda x: np.sum(x[onp.array([1, 1])] ** 2))(x), onp.ndarray)
    onp.testing.assert_allclose(grad(lambda x: np.sum(x[1:, ::2] ** 2))(x)[1:, ::2], 2 * x[1:, ::2])
    onp.testing.assert_allclose(elementwise_grad(np.tanh)(x), 1 - onp.tanh(x) ** 2)


def test_every_integer_key_if_asked_for():
    x, ids = random(4, 3), onp.array([1, 1])
    try:
        install(getitem=True)
        for key in (ids, [1, 1], (slice(None), ids)):
            gradient = grad(lambda x, key=key: np.sum(x[key] ** 2))(x)
            wanted = onp.zeros((4, 3))
            onp.add.at(wanted, key, 2 * x[key])
            onp.testing.assert_allclose(loop_densify(gradient), wanted)
            assert isinstance(gradient, IndexedSlices)
        for key in (slice(1, 3), 2, x > 0):
            assert isinstance(grad(lambda x, key=key: np.sum(x[key] ** 2))(x), onp.ndarray)
    finally:
        install()
    assert isinstance(grad(lambda x: np.sum(x[ids]))(x), onp.ndarray)
    with pytest.raises(TypeError, match="getitem must be a bool, not 1"):
        install(getitem=1)


def test_errors():
    x = random(4, 3)
    with pytest.raises(IndexError, match="holds 4 at position 1, out of range for axis 0 of size 4"):
        grad(lambda x: np.sum(take(x, [0, 4])))(x)
    with pytest.raises(IndexError):
        grad(lambda x: np.sum(x[sparsely([0, 4])]))(x)
    for wrong in ([0.0], onp.array([True]), onp.zeros(0)):
        with pytest.raises(TypeError, match="integer"):
            sparsely(wrong)
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        take(x, [0], 2)
    code = "import numpy as np; from sparsetangent.interop.autograd import take; take(np.ones(3), [0])"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        "RuntimeError: autograd does not know tangents yet: call sparsetangent.interop.autograd.install() first"
        in failed.stderr
    )


def test_a_tangent_on_the_tape_knows_its_shape():
    seen = []

    def of_gradient(x):
        g = grad(lambda x: np.sum(take(x, IDS) ** 2))(x)
        seen.append((g.shape, g.ndim, g.size, g.dtype, len(g)))
        return np.sum(g[sparsely([1, 0])] * g.densify()[:2])

    x = random(7, 3)
    gradient = grad(of_gradient)(x)
    assert seen == [((7, 3), 2, 21, onp.dtype(float), 7)]
    counts = onp.bincount(IDS.reshape(-1) % 7, minlength=7)[:, None]
    swapped = onp.zeros((7, 3))
    swapped[[0, 1]] = 2 * 4 * (counts * x)[[1, 0]] * counts[[0, 1]]
    onp.testing.assert_allclose(st.densify(gradient), swapped, rtol=1e-12)


def peak(run):
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory():
    """Of one gradient of a table of 256 MB read at 500 rows: what it takes at its peak, the table not counted."""
    ids = onp.random.default_rng(0).integers(0, 10**6, 500)
    x = onp.zeros((10**6, 64), onp.float32)  # pages that nobody touches take no memory
    x[ids] = random(500, 64)
    params = (x, random(64, 3, seed=1).astype(onp.float32))

    def loss(look):
        return lambda p: np.sum(np.tanh(np.dot(look(p[0], ids), p[1])))

    gradients = [grad(loss(look))(params)[0] for look in (take, marked)]
    ours, theirs = peak(lambda: grad(loss(take))(params)), peak(lambda: grad(lambda x: loss(plain)((x, params[1])))(x))
    print(f"compact {ours / 1e6:.2f} MB, autograd's own {theirs / 1e6:.0f} MB, {theirs / ours:.0f} times as much")
    assert theirs > 100 * ours
    hvp = peak(lambda: make_hvp(lambda x: loss(take)((x, params[1])))(x)[0](gradients[0]))
    assert theirs > 50 * hvp
    assert st.equal(*gradients)
