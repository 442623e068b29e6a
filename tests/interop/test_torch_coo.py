"""Hybrid COO tensors and tangents, both ways."""

import numpy as np
import pytest
from hypothesis import strategies as hs

torch = pytest.importorskip("torch", reason="torch is not installed")

import sparsetangent as st  # noqa: E402  (after the skip)
from sparsetangent import IndexedSlices  # noqa: E402
from sparsetangent.interop.torch import from_torch, to_torch  # noqa: E402
from sparsetangent.testing import assert_same, loop_densify, strategies, to_numpy  # noqa: E402
from tests.helpers import for_all  # noqa: E402

pytestmark = [
    pytest.mark.parametrize("xp", ["torch"], indirect=True),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]


def dense_of_coo(x):
    """A loop over the entries, for dtypes that torch's own to_dense takes or not."""
    ids, values = x._indices().numpy(), to_numpy(x._values())
    wide = {"f": np.float64, "c": np.complex128}.get(values.dtype.kind, values.dtype)
    dense = np.zeros(tuple(x.shape), wide)
    with np.errstate(all="ignore"):
        for entry in range(values.shape[0]):
            place = tuple(int(i) for i in ids[:, entry])
            here = dense[place]
            dense[place] = here | values[entry] if values.dtype.kind == "b" else here + values[entry].astype(wide)
        return dense.astype(values.dtype)


def test_every_tangent_becomes_the_same_array(xp):
    def body(t):
        x = to_torch(t)
        assert x.layout == torch.sparse_coo and tuple(x.shape) == t.shape and x.dtype == t.dtype
        np.testing.assert_array_equal(dense_of_coo(x), loop_densify(t))
        back = from_torch(x)
        assert_same(back, torch.asarray(loop_densify(t)).to(t.dtype))
        assert back.unique == x.is_coalesced()

    for_all(xp, body, strategies.tangents(xp), examples=150)


def test_round_trip_of_slices_is_exact(xp):
    """Those whose stored axes come first: values, shape, dtype, order, flags, and no copy of the values."""

    def body(t, merged):
        t = t.coalesce() if merged else t
        x = to_torch(t)
        back = from_torch(x)
        assert back.shape == t.shape and back.dtype == t.dtype and back.axis == t.axis
        assert x.is_coalesced() == (t._frame().unique and t._frame().ordered) == back.unique
        assert back.values.data_ptr() == t.values.data_ptr() == x._values().data_ptr()
        assert torch.equal(back.values, t.values)
        for a, b in zip(back.coords, t.coords, strict=True):
            assert a.dtype == torch.int64 and torch.equal(a, b)
        again = to_torch(back)
        assert again._indices().data_ptr() == x._indices().data_ptr()
        assert torch.equal(again._indices(), x._indices()) and again.is_coalesced() == x.is_coalesced()

    for axes in [(0,), (0, 1), (0, 1, 2)]:
        shapes = strategies.shapes(min_dims=3, max_dims=3)
        for_all(xp, body, strategies.indexed_slices(xp, shapes, axes=axes), hs.booleans(), examples=40)


@pytest.mark.parametrize("sparse_dim", [0, 1, 2, 3])
@pytest.mark.parametrize("coalesced", [True, False])
def test_coo_round_trip_shares_memory(xp, sparse_dim, coalesced):
    rng = np.random.default_rng(sparse_dim)
    shape, n = (3, 4, 2), 9
    ids = torch.asarray(np.stack([rng.integers(0, m, n) for m in shape[:sparse_dim]] or [np.zeros(n)])[:sparse_dim].astype(int))
    x = torch.sparse_coo_tensor(ids, torch.asarray(rng.normal(size=(n, *shape[sparse_dim:]))), shape)
    x = x.coalesce() if coalesced else x
    t = from_torch(x)
    assert t.unique is x.is_coalesced() is coalesced
    y = to_torch(t)
    assert y._values().data_ptr() == x._values().data_ptr() and y.is_coalesced() is coalesced
    assert torch.equal(y._indices(), x._indices()) and torch.equal(y._values(), x._values())
    if sparse_dim:
        assert t.coords[0].data_ptr() == x._indices().data_ptr()
        if not coalesced:
            assert y._indices().data_ptr() == x._indices().data_ptr()
    assert_same(t, x.to_dense())


def test_int32_ids_and_padding(xp):
    t = IndexedSlices(torch.tensor([2, 0, 2], dtype=torch.int32), torch.tensor([1.0, 2.0, 4.0]), (3,))
    assert to_torch(t)._indices().dtype == torch.int64
    padded = t.coalesce(size=5)
    x = to_torch(padded)
    assert x._nnz() == 2 and x.is_coalesced() and x.to_dense().tolist() == [2.0, 0.0, 5.0]


def test_a_table_of_2_to_the_50_rows(xp):
    t = IndexedSlices(torch.tensor([2**50 - 1, 3]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (2**50, 2))
    x = to_torch(t)
    assert x.shape == (2**50, 2) and from_torch(x).indices.tolist() == [2**50 - 1, 3]


def test_it_is_differentiable(xp):
    values = torch.asarray(np.random.default_rng(0).normal(size=(3, 2))).requires_grad_()
    ids = torch.tensor([1, 0, 1])
    weight = torch.asarray(np.random.default_rng(1).normal(size=(4, 2)))
    (got,) = torch.autograd.grad((to_torch(IndexedSlices(ids, values, (4, 2))).to_dense() * weight).sum(), values)
    torch.testing.assert_close(got, weight[ids])
    for merge in (False, True):
        x = torch.sparse_coo_tensor(ids[None], values, (4, 2))
        x = x.coalesce() if merge else x
        (got,) = torch.autograd.grad((from_torch(x).densify() ** 2 * weight).sum(), values)
        torch.testing.assert_close(got, (2 * x.to_dense() * weight)[ids].detach())


BAD = {
    "an id beyond the axis": ([[1, 4]], (4,), IndexError, "indices holds 4 at position 1, out of range for axis 0 of size 4"),
    "a negative id": ([[-1, 2]], (4,), IndexError, "holds -1 at position 0"),
    "beyond the second axis": ([[1, 1], [0, 2]], (4, 2), IndexError, "holds 2 at position 1, out of range for axis 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_torch_lets_pass_is_refused(xp, name):
    ids, shape, error, message = BAD[name]
    x = torch.sparse_coo_tensor(ids, [2.0, 3.0], shape, check_invariants=False)
    with pytest.raises(error, match=message):
        from_torch(x)


@pytest.mark.parametrize(("ids", "message"), [([[2, 1]], "claimed to be sorted"), ([[1, 1]], "claimed to be unique")])
def test_a_false_coalesced_mark_is_refused(xp, ids, message):
    x = torch.sparse_coo_tensor(ids, [2.0, 3.0], (4,), check_invariants=False, is_coalesced=True)
    with pytest.raises(ValueError, match=message):
        from_torch(x)


def test_overwritten_ids_are_refused(xp):
    for axis in (0, 1):
        ids = torch.tensor([0, 1])
        t = IndexedSlices(ids, torch.ones(2, 3), (3, 3), axis=axis)
        ids[1] = 7
        with pytest.raises(IndexError, match="holds 7 at position 1"):
            to_torch(t)


def test_types(xp):
    with pytest.raises(TypeError, match="t must be a tangent, not ndarray"):
        to_torch(np.ones(3))
    with pytest.raises(TypeError, match="tangent of torch tensors"):
        to_torch(st.Zero((3,)))
    with pytest.raises(TypeError, match="sparse_coo"):
        from_torch(torch.ones(3))
    with pytest.raises(TypeError, match="sparse_coo"):
        from_torch(torch.eye(3).to_sparse_csr())
    with pytest.raises(TypeError, match="function transform"):
        torch.func.vmap(lambda v: to_torch(IndexedSlices(torch.tensor([0]), v, (2,))).to_dense())(torch.ones(3, 1))
