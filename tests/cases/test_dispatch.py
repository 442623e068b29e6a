"""Cases of operators, broadcasting, metadata, equality and devices."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import IndexedSlices
from tests.cases.support import array, case, dense, ids, random, same, slices, writable


@pytest.mark.parametrize(
    "left, right",
    [
        case("C81", "pytorch/pytorch#9110", (3, 4), (3, 4, 4)),
        case("C81", "pytorch/pytorch#9110", (4,), (4, 3), form="trailing"),
        case("C81", "pytorch/pytorch#9110", (2, 3), (3, 2), form="transposed"),
    ],
)
def test_shapes_that_do_not_broadcast(xp, left, right):
    x, t = array(xp, random(left)), slices(xp, [0], random((1, *right[1:])), right)
    before = dense(x).copy()
    for operate in (
        lambda: t + x,
        lambda: t * x,
        lambda: t - x,
        lambda: sp.add_into(x, t),
        lambda: t + slices(xp, [], random((0, *left[1:])), left),
    ):
        with pytest.raises(ValueError):
            operate()
    if xp.backend_name != "array_api_strict":
        with pytest.raises(ValueError):
            x + t
    assert (dense(x) == before).all()


def test_a_row_broadcasts_against_rows(xp):
    """C82, pytorch/pytorch#86494."""
    a = slices(xp, [0, 2], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    b = slices(xp, [0], [[10.0, 20.0]], (1, 2))
    for total in (a + b, b + a):
        same(total, [[11, 22], [10, 20], [13, 24]])


def test_new_axes_on_both_sides(xp):
    """C85, pytorch/pytorch#116633."""
    x = np.arange(1.0, 9).reshape(2, 2, 2)
    eye = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    expected = [[[[1, 0], [0, 4]], [[0, 2], [3, 0]]], [[[5, 0], [0, 8]], [[0, 6], [7, 0]]]]
    for axis in (0, 1, (0, 1), (0, 1, 2)):
        t = sp.from_dense(array(xp, eye), axis=axis)
        product = t[None] * array(xp, x)[:, None, ...]
        assert isinstance(product, IndexedSlices)
        same(product, expected)


def test_in_place_addition(xp):
    """C95, numpy/numpy#9019."""
    a = held = array(xp, [2.0, 3.0])
    t = slices(xp, [1], [4.0], (2,))
    if xp.backend_name == "array_api_strict":
        with pytest.raises(TypeError):
            a += t
        return
    if xp.backend_name == "cupy":
        return  # CuPy's own in-place operators never ask the right operand
    a += t
    same(a, [2, 7])
    a -= t
    same(a, [2, 3])
    assert (a is held) == writable(xp)


@pytest.mark.parametrize("scalar", [np.float64(2.0), np.float32(2.0), np.int32(2), 2, 2.0])
def test_scalars_in_both_orders(xp, scalar):
    """C96, pytorch/pytorch#9468."""
    t = slices(xp, [1], [[3.0]], (2, 1))
    for product in (scalar * t, t * scalar):
        assert isinstance(product, IndexedSlices) and product.dtype == t.dtype
        same(product, [[0], [6]])


def test_products_with_an_array_in_both_orders(xp):
    """C97, pytorch/pytorch#59237."""
    t, x = slices(xp, [1], [[5.0]], (2, 1)), array(xp, [[2.0], [3.0]])
    products = [t * x, t.__array_namespace__().multiply(x, t)]
    if xp.backend_name != "array_api_strict":
        products.append(x * t)
    for product in products:
        assert type(product) is IndexedSlices
        same(product, [[0], [15]])


def test_equality_is_elementwise(xp):
    """C99, scipy/scipy#11163: also between types, and never by identity."""
    a = slices(xp, [0], [[1.0]], (2, 1))
    others = [slices(xp, [0, 0], [[0.25], [0.75]], (2, 1)), a, sp.OneHot(ids(xp, [0]), 2, axis=0), a.densify()]
    with sp.densify_policy("allow"):
        for b in others:
            for result in (a == b, sp.namespace(a).equal(b, a)):
                assert not isinstance(result, bool)
                same(result, [[True], [True]])
            same(a != b, [[False], [False]])
        same(a == slices(xp, [1], [[1.0]], (2, 1)), [[False], [False]])
    with pytest.raises(TypeError):
        hash(a)


def test_equality_with_a_stranger(xp):
    """C99, scipy/scipy#11163: what is no operand is never equal, and an ordering is a TypeError."""
    a = slices(xp, [0], [[1.0]], (2, 1))
    assert (a == "text") is False and (a != object()) is True
    with pytest.raises(TypeError):
        assert a < "text"


def test_truth(xp):
    """C101, PECOS-packages/PECOS#531."""
    assert bool(slices(xp, [0], [0.0], (1,))) is False and bool(slices(xp, [0, 0], [0.5, -0.5], (1,))) is False
    assert bool(slices(xp, [0], [2.0], (1,))) is True
    for ambiguous in (slices(xp, [0], [0.0], (2,)), slices(xp, [], [], (0,))):
        with pytest.raises((TypeError, ValueError)):
            bool(ambiguous)


def test_the_shape_is_carried(xp):
    """C106, tensorflow/tensorflow#38168."""
    t = sp.rules.take_vjp(array(xp, [[1.0, 1.0], [1.0, 1.0]]), (5, 2), ids(xp, [1, 4]))
    assert t.shape == (2 * t).shape == (t + t).shape == (-t / 3).shape == t.coalesce().shape == (5, 2)


def test_metadata(xp):
    """C107, cpury/keras_gradient_noise#1."""
    t = slices(xp, [1, 1], [[1.0, 2.0], [3.0, 4.0]], (3, 2), "float32")
    assert (t.shape, t.ndim, t.dtype, t.size, len(t)) == ((3, 2), 2, xp.float32, 6, 3)


def check_devices(xp, device):
    index, rows, x = ids(xp, [0]), array(xp, [[1.5, 2.5]]), array(xp, random((3, 2)))
    there = [xp.asarray(a, device=device, copy=True) for a in (index, rows, x)]
    name = "device1" if xp.backend_name == "array_api_strict" else "cuda"
    t = IndexedSlices(index, rows, (3, 2))
    for mixed in (
        lambda: IndexedSlices(there[0], rows, (3, 2)),
        lambda: t + there[2],
        lambda: t * there[2],
        lambda: sp.add_into(there[2], t),
        lambda: sp.add_n([t, there[2]]),
        lambda: sp.rules.take(there[2], index),
    ):
        with pytest.raises((ValueError, RuntimeError), match=name):
            mixed()
    same(t + x, dense(t) + dense(x))


@pytest.mark.parametrize("xp", ["array_api_strict"], indirect=True)
def test_devices_do_not_mix(xp):
    """C160, pytorch/pytorch#9110: `array_api_strict` has several devices without an accelerator."""
    check_devices(xp, xp.Device("device1"))


@pytest.mark.gpu
@pytest.mark.parametrize("xp", ["torch"], indirect=True)
def test_cpu_and_gpu_do_not_mix(xp):
    """C160, pytorch/pytorch#9110, on a real device."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        check_devices(xp, "cuda")
