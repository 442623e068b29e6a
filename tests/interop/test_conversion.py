"""Conversion between array libraries: exact, and without a copy where both can share."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent
from sparsetangent.interop import convert
from sparsetangent.testing import strategies
from sparsetangent.testing.oracle import as_backend, loop_densify, to_numpy
from tests.helpers import for_all
from tests.interop.support import assert_identical

TARGETS = ("numpy", "torch", "jax.numpy", "array_api_strict")


@pytest.fixture(params=TARGETS)
def other(request):
    return pytest.importorskip(request.param)


def name_of(dtype):
    return str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]


def common_dtypes(xp, other):
    theirs = {name_of(d) for d in strategies.dtypes_of(other)} | ({"bfloat16"} if other is np else set())
    return [d for d in strategies.dtypes_of(xp) if name_of(d) in theirs]


def test_there_and_back(xp, other):
    def check(t):
        there = convert(t, other)
        if not (isinstance(t, OneHot) and t.weak):  # whose dtype is the library's own
            narrow = other.__name__ == "jax.numpy"
            assert_identical(there, t, index_dtypes=not narrow)
            np.testing.assert_array_equal(loop_densify(there), loop_densify(t))
            assert_identical(convert(there, xp.module), t, index_dtypes=not narrow)

    for_all(xp, check, strategies.tangents(xp, dtypes=common_dtypes(xp, other), special=True), examples=60)


def test_padding_and_known_facts_travel(xp, other):
    t = IndexedSlices(xp.asarray([2, 2, 0]), xp.asarray([[1.0], [2.0], [3.0]], dtype=xp.float32), (4, 1)).coalesce(size=5)
    there = convert(t, other)
    assert_identical(there, t, index_dtypes=False)
    assert there.unique and there._frame().ordered and there._frame().padded
    assert convert(there, other) is not None and convert(there, other).indices is there.indices


def test_every_type_of_a_third_party_goes_through_its_slices(xp, other):
    class Twice(Tangent):
        shape, dtype = (3,), xp.float32

        def to_slices(self):
            return IndexedSlices(xp.asarray([1, 1]), xp.asarray([2.0, 3.0], dtype=xp.float32), (3,))

    assert to_numpy(convert(Twice(), other).densify()).tolist() == [0.0, 5.0, 0.0]


def aligned(x):
    """As float32 that starts at a multiple of 64 bytes, which JAX wants."""
    room = np.empty(x.size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    out = room[start : start + x.size].reshape(x.shape)
    out[...] = x
    return out


@pytest.mark.parametrize(
    ("source", "target"), [("numpy", "torch"), ("torch", "numpy"), ("torch", "jax.numpy"), ("jax.numpy", "torch")]
)
def test_memory_is_shared_or_not(source, target):
    """Seen by writing through torch or NumPy, whichever of the two can be written."""
    a, b = (pytest.importorskip(name) for name in (source, target))
    x = a.asarray(aligned(np.random.default_rng(0).normal(size=(64, 8))))
    for copy, shared in ((None, True), (False, True), (True, False)):
        y = convert(x, b, copy=copy)
        writable, seen = (y, x) if target == "torch" else (x, y)
        before = to_numpy(seen)[3, 2].item()
        writable[3, 2] += 1
        assert (to_numpy(seen)[3, 2].item() == before + 1) == shared


def test_bfloat16_is_shared_through_its_bits():
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.bfloat16)
    y = convert(x, np, copy=False)
    assert y.dtype.name == "bfloat16"
    x[2] = 7
    assert y.astype(np.float32).tolist() == [0, 1, 7, 3]
    back = convert(y, torch, copy=False)
    back[0] = 5
    assert x.tolist() == [5, 1, 7, 3] and back.dtype == torch.bfloat16


LINE = np.arange(12, dtype=np.float32)
AWKWARD = {
    "read-only": np.frombuffer(LINE.tobytes(), np.float32).reshape(3, 4),
    "negative strides": LINE.reshape(2, 6)[::-1, ::-1],
    "stride 0": np.broadcast_to(LINE, (2, 12)),
    "strided": LINE.reshape(2, 6)[:, ::2],
    "empty": LINE.reshape(2, 6)[:0, ::-1],
    "without axes": LINE[7, ...],
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_arrays_of_numpy(name, other):
    x = AWKWARD[name]
    y = convert(x, other)
    np.testing.assert_array_equal(to_numpy(y), x)
    if name == "read-only" and other.__name__ == "torch":
        y += 1  # a copy of its own
        np.testing.assert_array_equal(x.reshape(-1), LINE)
        with pytest.raises(ValueError, match="cannot share this array of float32: it is read-only"):
            convert(x, other, copy=False)


def test_views_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 - 1j])
    assert convert(x.conj(), np).tolist() == [1 - 2j, 3 + 1j]
    assert convert(x.conj().imag, np).tolist() == [-2, 1]
    with pytest.raises(TypeError, match="on the tape"):
        convert(torch.ones(2, requires_grad=True), np)


def test_dtypes_that_a_library_has_not():
    jnp, jax = pytest.importorskip("jax.numpy"), pytest.importorskip("jax")
    torch, strict = pytest.importorskip("torch"), pytest.importorskip("array_api_strict")
    t = IndexedSlices(np.array([1]), np.array([0.1]), (3,))
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(TypeError, match="jax holds no float64 as it is set up .*cast first"):
            convert(t, jnp)
        with pytest.raises(ValueError, match="axis 0 of size 1125899906842624 is longer"):
            convert(IndexedSlices(np.array([2**50 - 1]), np.float32([1]), (2**50,)), jnp)
        assert convert(t.astype(np.float32), jnp).indices.dtype == np.int32
    finally:
        jax.config.update("jax_enable_x64", before)
    with pytest.raises(TypeError, match="torch holds no (longdouble|float128)"):
        convert(np.ones(2, np.longdouble), torch)
    with pytest.raises(TypeError, match="array_api_strict holds no float16"):
        convert(np.ones(2, np.float16), strict)
    with pytest.raises(TypeError, match="array_api_strict holds no bfloat16"):
        convert(OneHot(torch.tensor([0]), 3, dtype=torch.bfloat16), strict)
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda x: convert(x, np))(jnp.ones(2))


def test_it_takes_any_namespace_of_a_library():
    torch = pytest.importorskip("torch")
    for xp in (torch, pytest.importorskip("array_api_compat.torch"), st.namespace(torch)):
        assert isinstance(convert(Fill(np.float32(2), (2**50,)), xp).value, torch.Tensor)
    assert to_numpy(convert(as_backend(torch, np.arange(3), torch.int64), np)).tolist() == [0, 1, 2]
