"""Files of tangents and arrays: exact, replaced at once, and refused when a byte of them has changed."""

import json
import os
import zlib

import numpy as np
import pytest
from hypothesis import strategies as hs

pytest.importorskip("safetensors", reason="safetensors is not installed")

from safetensors.numpy import load_file, save_file

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero
from sparsetangent.interop import safetensors as module
from sparsetangent.interop.safetensors import load, save
from sparsetangent.testing import strategies, to_numpy
from tests.helpers import for_all


def same_array(a, b):
    assert type(a) is type(b) and a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
    np.testing.assert_array_equal(to_numpy(a), to_numpy(b))


def same(a, b):
    """Type, data, order and known facts."""
    assert type(a) is type(b)
    if isinstance(a, list):
        assert len(a) == len(b) and all(same(x, y) is None for x, y in zip(a, b, strict=True))
    elif isinstance(a, IndexedSlices):
        assert a.shape == b.shape and a.axis == b.axis
        assert (a._frame().unique, a._frame().ordered, a._frame().padded) == (
            b._frame().unique,
            b._frame().ordered,
            b._frame().padded,
        )
        for x, y in zip((*a.coords, a.values), (*b.coords, b.values), strict=True):
            same_array(x, y)
    elif isinstance(a, OneHot):
        assert (a.depth, a.axis, a.weak, a.dtype, a._padded) == (b.depth, b.axis, b.weak, b.dtype, b._padded)
        same_array(a.indices, b.indices)
    elif isinstance(a, Fill):
        assert a.shape == b.shape
        same_array(a.value, b.value)
    elif isinstance(a, Zero):
        assert a.shape == b.shape and a.dtype == b.dtype
    elif a is not None:
        same_array(a, b)


def test_round_trips(xp, tmp_path):
    """Every type, dtype and layout, with nan and inf, under any name, merged or not."""

    def body(items, names, merge):
        items = [t.coalesce() if merge and isinstance(t, IndexedSlices) else t for t in items]
        given = dict(zip(names, items, strict=False)) | {"list": [*items, None, *items[:1]], "leaf": items[0].densify()}
        save(given, tmp_path / "file")
        loaded = load(tmp_path / "file", xp=xp.module)
        assert list(loaded) == list(given)
        for name in given:
            same(loaded[name], given[name])

    names = hs.lists(hs.text(min_size=1, max_size=3).filter(lambda s: "." not in s), min_size=3, max_size=3, unique=True)
    tangents = hs.lists(strategies.tangents(xp, special=True), min_size=1, max_size=3)
    for_all(xp, body, tangents, names, hs.booleans(), examples=50)


def test_padding_and_broadcast_values_come_back(xp, tmp_path):
    t = IndexedSlices(xp.asarray([3, 0, 3]), xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), (5, 2))
    wide = st.namespace(t).broadcast_to(t, (3, 5, 2))  # a dense axis of size 1 stands for three
    for given in (t.coalesce(size=4), wide, t.retain(xp.asarray([0]))):
        save({"t": given}, tmp_path / "file")
        same(load(tmp_path / "file", xp=xp.module)["t"], given)


def test_large_shapes(xp64, tmp_path):
    t = IndexedSlices(xp64.asarray([2**50 - 1, 3]), xp64.asarray([[1.0, 2.0], [3.0, 4.0]]), (2**50, 2))
    save({"t": t}, tmp_path / "file")
    same(load(tmp_path / "file", xp=xp64.module)["t"], t)
    assert os.path.getsize(tmp_path / "file") < 2000


def test_to_another_library(tmp_path):
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    t = IndexedSlices(torch.tensor([1, 4]), torch.tensor([[1.5], [2.5]], dtype=torch.bfloat16), (6, 1), unique=True)
    save({"t": t, "x": torch.tensor(1.0 + 2.0j, dtype=torch.complex64)}, tmp_path / "file")
    here, there = load(tmp_path / "file"), load(tmp_path / "file", xp=jnp)
    assert here["t"].dtype.name == "bfloat16" and isinstance(here["x"], np.ndarray) and here["x"] == 1 + 2j
    # Without x64 JAX counts with 32 bits.
    assert there["t"].dtype == jnp.bfloat16 and there["t"].indices.dtype == jnp.int32
    np.testing.assert_array_equal(to_numpy(there["t"].densify()), to_numpy(t.densify()))


def test_what_a_library_cannot_hold(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    save({"x": np.zeros(3)}, tmp_path / "wide")
    with pytest.raises(TypeError, match="jax holds no float64"):
        load(tmp_path / "wide", xp=jnp)
    save({"t": IndexedSlices(np.array([2**40]), np.zeros(1, np.float32), (2**41,))}, tmp_path / "long")
    with pytest.raises(ValueError, match="longer than the widest index dtype of jax"):
        load(tmp_path / "long", xp=jnp)


def test_the_tensors_are_for_any_reader(tmp_path):
    t = IndexedSlices(([1, 0], [2, 2]), np.array([[7.0], [8.0]]), (3, 4, 1), axis=(0, 1))
    save({"t": t, "x": np.arange(3)}, tmp_path / "file")
    plain = load_file(tmp_path / "file")
    assert {k: v.tolist() for k, v in plain.items()} == {
        "t.indices.0": [1, 0],
        "t.indices.1": [2, 2],
        "t.values": [[7.0], [8.0]],
        "x": [0, 1, 2],
    }


def test_third_parties_are_saved_as_slices(tmp_path):
    class Diagonal(Tangent):
        shape, dtype = (2, 2), np.dtype(float)

        def to_slices(self):
            return IndexedSlices(([0, 1], [0, 1]), np.array([5.0, 6.0]), (2, 2), axis=(0, 1))

    save({"t": Diagonal()}, tmp_path / "file")
    assert load(tmp_path / "file")["t"].densify().tolist() == [[5.0, 0.0], [0.0, 6.0]]


# Damage


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small"
    t = IndexedSlices(np.array([3, 0, 3]), np.array([[1.0], [2.0], [4.0]]), (5, 1)).coalesce()
    save({"t": t, "f": Fill(np.float32(1.5), (2,))}, path)
    return path


def test_every_changed_byte_is_seen(small):
    """Each byte of the file, changed in two ways: refused, unless it is blank space of the header and all is as it was."""
    whole, before = small.read_bytes(), load(small)
    refused = 0
    for position in range(len(whole)):
        for change in (1, 0x80) if position % 2 else (4,):
            small.write_bytes(whole[:position] + bytes([whole[position] ^ change]) + whole[position + 1 :])
            try:
                loaded = load(small)
            except ValueError as error:
                assert str(small) in str(error)
                refused += 1
            else:
                assert list(loaded) == list(before)
                for name in before:
                    same(loaded[name], before[name])
    assert refused >= 1.5 * len(whole) - 32


def test_every_truncation_is_refused(small):
    whole = small.read_bytes()
    for size in range(len(whole)):
        small.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"small is damaged"):
            load(small)
    small.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match=r"small is damaged"):
        load(small)


def tampered(path, change):
    """The file with another description and the checksums to go with it."""
    save({"t": IndexedSlices(np.array([0, 3]), np.array([1.0, 2.0]), (5,), unique=True)}, path)
    manifest, tensors = module._verified(path)
    change(manifest, tensors)
    manifest["tensors"] = {k: [x.dtype.name, list(x.shape), zlib.crc32(x.tobytes())] for k, x in tensors.items()}
    text = json.dumps(manifest)
    save_file(tensors, path, metadata=dict(zip(module._KEYS, (text, str(zlib.crc32(text.encode()))), strict=True)))
    return path


TAMPERED = {
    "an id out of range": (lambda m, t: t["t.indices.0"].__setitem__(0, 5), "holds 5 at position 0"),
    "a negative id": (lambda m, t: t["t.indices.0"].__setitem__(0, -1), "holds -1 at position 0"),
    "repeats": (lambda m, t: t["t.indices.0"].__setitem__(0, 3), "claimed to be unique"),
    "an order": (
        lambda m, t: (t["t.indices.0"].__setitem__(0, 4), m["items"][0][1].update(ordered=True)),
        "claimed to be sorted",
    ),
    "a shape": (lambda m, t: m["items"][0][1].update(shape=[5, 2]), "values must have shape"),
    "an axis": (lambda m, t: m["items"][0][1].update(axes=[1]), "axis 1 is out of range"),
    "a type": (lambda m, t: m["items"][0][1].update(type="Dense"), "Dense"),
    "a tensor": (lambda m, t: m["items"][0][1]["values"].update(tensor="x"), "x"),
    "a format": (lambda m, t: m.update(format=99), "format 99; this version reads 1"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_claims_are_checked(tmp_path, name):
    change, message = TAMPERED[name]
    with pytest.raises(ValueError, match=message):
        load(tampered(tmp_path / "file", change))


def test_files_of_others(tmp_path):
    save_file({"x": np.zeros(3)}, tmp_path / "file")
    with pytest.raises(ValueError, match="not written by sparsetangent"):
        load(tmp_path / "file")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="damaged or no safetensors file"):
        load(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "none")


# Writing


@pytest.mark.parametrize("function", ["save_file", "_flush"])
def test_a_failed_write_leaves_the_old_file(small, monkeypatch, function):
    before = small.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(module, function, fail)
    with pytest.raises(OSError, match="no space"):
        save({"x": np.zeros(3)}, small)
    assert small.read_bytes() == before and os.listdir(small.parent) == ["small"]


def test_a_refused_item_leaves_the_old_file(small):
    before = small.read_bytes()
    for items, error, message in (
        ({"x": "text"}, TypeError, "'x' must be a tangent, an array, None or a list"),
        ({"x": [np.zeros(2), object()]}, TypeError, "'x.1' must be"),
        ({3: np.zeros(2)}, TypeError, "names must be strings, not 3"),
        ({"x": np.zeros(2, np.longdouble)}, TypeError, "is not stored"),
        ({"x.0": np.zeros(2), "x": [np.zeros(2)]}, ValueError, "two arrays would have the name 'x.0'"),
    ):
        with pytest.raises(error, match=message):
            save(items, small)
    with pytest.raises(FileNotFoundError, match="no folder"):
        save({}, small.parent / "none" / "file")
    assert small.read_bytes() == before and os.listdir(small.parent) == ["small"]


def test_a_link_stays_a_link(small):
    link = small.parent / "link"
    link.symlink_to(small)
    save({}, link)
    assert link.is_symlink() and load(small) == {}


def test_arrays_of_any_layout(tmp_path):
    x = np.arange(12.0).reshape(3, 4)
    given = {
        "strided": x[:, ::2],
        "big-endian": x.astype(">f8"),
        "transposed": x.T,
        "read-only": np.broadcast_to(x[0], (2, 4)),
        "0-d": x[0, 1],
    }
    save(given, tmp_path / "file")
    loaded = load(tmp_path / "file")
    for name, y in given.items():
        np.testing.assert_array_equal(loaded[name], y)
        assert loaded[name].flags.writeable and loaded[name].dtype == np.float64
