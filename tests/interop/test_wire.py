"""Entries as bytes and back, without a process group."""

import pytest
from hypothesis import strategies as hs

torch = pytest.importorskip("torch", reason="torch is not installed")

from sparsetangent import IndexedSlices  # noqa: E402  (after the skip)
from sparsetangent.interop.wire import Layout, pack, unpack  # noqa: E402
from sparsetangent.testing import strategies  # noqa: E402
from tests.helpers import for_all  # noqa: E402


def layout_of(frame, wire=None):
    return Layout(frame.shape, frame.axes, frame.values.dtype, wire)


@pytest.mark.parametrize("xp", ["torch"], indirect=True)
def test_what_is_packed_is_unpacked(xp):
    """Several tangents in one message, bit for bit: every dtype, any axes, values of stride 0, no entries."""

    def body(tangents):
        frames = [t._frame() for t in tangents]
        layouts = [layout_of(f) for f in frames]
        message = pack(layouts, frames)
        assert message.dtype == torch.uint8
        assert message.numel() == sum(layout.nbytes(f.n) for layout, f in zip(layouts, frames, strict=True))
        for back, f in zip(unpack(message, layouts, [f.n for f in frames]), frames, strict=True):
            assert back.axes == f.axes and back.shape == f.shape and back.values.dtype == f.values.dtype
            torch.testing.assert_close(back.values, f.values, rtol=0, atol=0, equal_nan=True)
            assert all(torch.equal(a, b.long()) for a, b in zip(back.ids, f.ids, strict=True))

    for_all(xp, body, hs.lists(strategies.indexed_slices(xp, special=True), max_size=4), examples=120)


@pytest.mark.parametrize("wire", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.complex64, torch.int64, torch.bool], ids=str
)
def test_a_narrower_wire_rounds_once(dtype, wire):
    values = (torch.linspace(-3, 3, 6, dtype=torch.float64) * (1 + 1j)).reshape(3, 2)
    values = values.to(dtype) if dtype.is_complex else values.real.to(dtype)
    frame = IndexedSlices(torch.tensor([2, 0, 2]), values, (5, 2))._frame()
    layout = layout_of(frame, wire)
    (back,) = unpack(pack([layout], [frame]), [layout], [3])
    if dtype.is_complex:
        wanted = torch.view_as_complex(torch.view_as_real(values).to(wire).to(torch.float32))
    else:
        wanted = values.to(wire).to(dtype) if dtype in (torch.float64, torch.float32) else values
    assert back.values.dtype == dtype and torch.equal(back.values, wanted)
    own = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    width = 2 if dtype.is_floating_point or dtype.is_complex else own
    assert layout.sizes(3) == [12, 3 * 2 * width * (2 if dtype.is_complex else 1)]


def test_conjugates_and_negatives_are_resolved():
    values = torch.tensor([[1 + 2j, 3 - 4j]])
    for lazy in (values.conj(), torch.complex(values.imag, values.real), torch._neg_view(values)):
        frame = IndexedSlices(torch.tensor([1]), lazy, (2, 2))._frame()
        (back,) = unpack(pack([layout_of(frame)], [frame]), [layout_of(frame)], [1])
        assert back.values.tolist() == lazy.tolist()
    lazy = values.conj().imag
    frame = IndexedSlices(torch.tensor([1]), lazy, (2, 2))._frame()
    (back,) = unpack(pack([layout_of(frame)], [frame]), [layout_of(frame)], [1])
    assert back.values.tolist() == [[-2.0, 4.0]]


def test_ids_are_as_narrow_as_their_axis():
    assert Layout((2**31 - 1, 2**31, 3), (0, 1), torch.float32).id_dtypes == (torch.int32, torch.int64)
    frame = IndexedSlices(torch.tensor([2**50 - 1]), torch.ones(1, 1), (2**50, 1))._frame()
    (back,) = unpack(pack([layout_of(frame)], [frame]), [layout_of(frame)], [1])
    assert back.ids[0].tolist() == [2**50 - 1]
