"""`check_vjp` passes what is right, names what is wrong, and refuses inputs that tell nothing."""

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent.testing import check_vjp
from tests.rules.support import array, normal

IDS = np.array([2, 0, 2])


def test_right_reverses_pass(xp64):
    x, y, ids = array(xp64, normal((3, 2))), array(xp64, normal((3, 2), 1)), array(xp64, IDS)
    check_vjp(lambda x: x * x * x, lambda dy, x: 3 * dy * x * x, (x,))
    check_vjp(lambda x, y: x * y, lambda dy, x, y: (dy * y, dy * x), (x, y), argnums=(0, 1))
    check_vjp(lambda i, x: sp.rules.take(x, i), lambda dy, i, x: sp.rules.take_vjp(dy, x.shape, i), (ids, x), argnums=1)
    check_vjp(lambda x: xp64.sum(x), lambda dy, x: sp.Fill(dy, x.shape), (x,))
    check_vjp(
        lambda v: sp.IndexedSlices(ids, v, (4, 2)),
        lambda dy, v: sp.rules.densify_vjp(dy, sp.IndexedSlices(ids, v, (4, 2))),
        (x,),
    )
    check_vjp(lambda x: x * 2, lambda dy, x: dy * 2, (array(xp64, np.zeros((0, 2))),))
    check_vjp(lambda x: x * 2, lambda dy, x: dy * 2, (array(xp64, np.asarray(0.0)),))


def test_narrow_arguments_are_widened(xp64):
    x = array(xp64, normal((3,)), "float32")
    check_vjp(lambda x: x * x, lambda dy, x: 2 * dy * x, (x,))


def test_complex_numbers_pair_with_the_conjugate(xp64):
    z = array(xp64, normal((3,)) + 1j * normal((3,), 1))
    w = array(xp64, normal((3,), 2) + 1j * normal((3,), 3))
    check_vjp(lambda z, w: z * w, lambda dy, z, w: (dy * xp64.conj(w), dy * xp64.conj(z)), (z, w), argnums=(0, 1))
    check_vjp(lambda z: xp64.real(z * xp64.conj(z)), lambda dy, z: 2 * dy * z, (z,))
    with pytest.raises(AssertionError, match="cotangent of argument 0 at"):
        check_vjp(lambda z, w: z * w, lambda dy, z, w: dy * w, (z, w))


@pytest.mark.parametrize(
    "reverse, message",
    [
        (lambda dy, x: dy, r"cotangent of argument 0 at \(.*\) is .*differences give"),
        (lambda dy, x: 3 * dy * x * x * (1 + 1e-4), "differences give"),
        (lambda dy, x: (3 * dy * x * x)[:1, ...], "has shape"),
        (lambda dy, x: sp.Zero(x.shape, like=x), "differences give"),
        (lambda dy, x: 3 * dy * x * x * float("nan"), "is nan"),
    ],
)
def test_wrong_reverses_are_named(xp64, reverse, message):
    with pytest.raises(AssertionError, match=message):
        check_vjp(lambda x: x * x * x, reverse, (array(xp64, normal((3, 2))),))


def test_one_wrong_element_is_found(xp64):
    """A repeated id that keeps one contribution, an entry that is dropped."""
    x, ids = array(xp64, normal((3,))), array(xp64, IDS)

    def last_wins(dy, x):
        return sp.IndexedSlices(ids[:2], dy[:2], x.shape)

    with pytest.raises(AssertionError, match=r"at \(2,\)"):
        check_vjp(lambda x: sp.rules.take(x, ids), last_wins, (x,))


def test_number_and_dtype_of_results(xp64):
    x, y = array(xp64, normal((3,))), array(xp64, normal((3,), 1))
    with pytest.raises(AssertionError, match="gives 1 cotangents for 2 arguments"):
        check_vjp(lambda x, y: x * y, lambda dy, x, y: (dy * y,), (x, y), argnums=(0, 1))
    with pytest.raises(AssertionError, match="has dtype .*float32"):
        check_vjp(lambda x: x * 2, lambda dy, x: xp64.astype(dy * 2, xp64.float32), (x,))


def test_arguments_are_not_written(xp64):
    if xp64.backend_name == "jax":
        with pytest.raises(TypeError):
            array(xp64, normal((3,)))[0] = 1.0
        return

    def writes(dy, x):
        x[0] = 7.0
        return dy * 2

    with pytest.raises(AssertionError, match="an argument was written to"):
        check_vjp(lambda x: x * 2, writes, (array(xp64, normal((3,))),))


def test_inputs_that_tell_nothing_are_refused(xp64):
    f, reverse = (lambda x: x * 2), (lambda dy, x: dy * 2)
    with pytest.raises(ValueError, match="all elements of argument 0 are 1.0"):
        check_vjp(f, reverse, (array(xp64, np.full((3, 2), 1.0)),))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="argument 0 holds nan or inf"):
            check_vjp(f, reverse, (array(xp64, [1.0, bad]),))
    with pytest.raises(TypeError, match="argument 0 must be floating or complex"):
        check_vjp(f, reverse, (array(xp64, IDS),))
    with pytest.raises(TypeError, match="argument 0 must be an array"):
        check_vjp(f, reverse, (2.0,))


def test_jax_without_64_bits_is_refused():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(TypeError, match="jax_enable_x64"):
            check_vjp(lambda x: x * 2, lambda dy, x: dy * 2, (jax.numpy.asarray([1.0, 2.0]),))
    finally:
        jax.config.update("jax_enable_x64", before)
