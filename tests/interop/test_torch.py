"""Look-ups in torch whose gradients are compact: against dense autograd, and inside what people put around them."""

import io
import math
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.checkpoint import checkpoint  # noqa: E402  (after the skip)

import sparsetangent as st  # noqa: E402
from sparsetangent import Fill, IndexedSlices, OneHot, Zero  # noqa: E402
from sparsetangent.interop.torch import Embedding, embedding, from_torch, take  # noqa: E402
from sparsetangent.testing import loop_densify  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning"),
    # Dynamo asks every input of a graph after a break for its gradient.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]

FULL = (torch.float32, torch.float64, torch.complex64, torch.complex128)
HALF = (torch.float16, torch.bfloat16)
IDS = torch.tensor([[3, 0, 3], [-1, 2, -4]])


def random(*shape, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    return torch.asarray(
        rng.normal(size=shape) + 1j * rng.normal(size=shape) if dtype.is_complex else rng.normal(size=shape)
    ).to(dtype)


def dense(x):
    return x.to_dense() if x.is_sparse else x


def gradient_by_loop(dy, ids, shape, axis):
    """Zeros, and one addition for each id, in double precision."""
    wide = torch.complex128 if dy.dtype.is_complex else torch.float64
    total = torch.zeros(shape, dtype=wide)
    slices = (
        dy.to(wide)
        .movedim(tuple(range(axis, axis + ids.ndim)), tuple(range(ids.ndim)))
        .reshape(ids.numel(), *shape[:axis], *shape[axis + 1 :])
    )
    for i, row in zip(ids.reshape(-1).tolist(), slices, strict=True):
        total.select(axis, i).add_(row)
    return total.to(dy.dtype)


def is_smaller(distinct, shape, axis, itemsize):
    """Whether COO takes fewer bytes: an entry for each position along the axes before, axis + 1 coordinates each."""
    entries = distinct * math.prod(shape[:axis])
    return entries * (8 * (axis + 1) + math.prod(shape[axis + 1 :]) * itemsize) < math.prod(shape) * itemsize


@pytest.mark.parametrize("size", [5, 200])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [*FULL, *HALF], ids=str)
def test_gradient_of_take(dtype, axis, size):
    shape = [3, 2, 4]
    shape[axis] = size
    weight = random(*shape, dtype=dtype).requires_grad_()
    y = take(weight, IDS, axis)
    front = axis % 3
    assert torch.equal(y, weight.detach().movedim(front, 0)[IDS].movedim((0, 1), (front, front + 1)))
    dy = random(*y.shape, dtype=dtype, seed=1)
    (g,) = torch.autograd.grad(y, weight, dy)
    assert g.dtype == dtype and g.shape == weight.shape
    wanted = gradient_by_loop(dy, IDS, tuple(shape), front)
    torch.testing.assert_close(dense(g), wanted)
    distinct = len({i % size for i in IDS.reshape(-1).tolist()})
    assert g.is_sparse == is_smaller(distinct, shape, front, g.element_size())
    if g.is_sparse:
        assert g.is_coalesced() and g.sparse_dim() == front + 1 and g._nnz() == distinct * math.prod(shape[:front])
        torch.sparse_coo_tensor(g._indices(), g._values(), g.shape, is_coalesced=True, check_invariants=True)
    if dtype in FULL:
        (by_torch,) = torch.autograd.grad((weight.movedim(front, 0)[IDS].movedim((0, 1), (front, front + 1))), weight, dy)
        torch.testing.assert_close(dense(g), by_torch)


def test_half_types_are_summed_in_single_precision():
    for dtype in HALF:
        weight = torch.zeros(100, 1, dtype=dtype, requires_grad=True)
        take(weight, torch.full((3000,), 7)).sum().backward()
        assert weight.grad.is_sparse and float(weight.grad.to_dense()[7, 0]) == float(torch.tensor(3000.0).to(dtype))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_ids(shape):
    weight = random(6, 3).requires_grad_()
    y = take(weight, torch.zeros(shape, dtype=torch.int64))
    assert y.shape == (*shape, 3)
    y.sum().backward()
    assert weight.grad.is_sparse and weight.grad._nnz() == 0 and weight.grad.shape == (6, 3)
    assert embedding(random(0, 3), []).shape == (0, 3)
    for axis in (1, 2):
        weight = random(4, 6, 5).requires_grad_()
        (g,) = torch.autograd.grad(take(weight, torch.zeros(shape, dtype=torch.int64), axis).sum(), weight)
        assert g.is_sparse and g._nnz() == 0 and g.sparse_dim() == axis + 1 and g.shape == weight.shape
    empty = random(0, 6).requires_grad_()
    (g,) = torch.autograd.grad(take(empty, [1, 2], 1).sum(), empty)
    assert g.shape == (0, 6)


KEYWORDS = [
    {},
    {"padding_idx": 2},
    {"padding_idx": -2},
    {"scale_grad_by_freq": True},
    {"padding_idx": 0, "scale_grad_by_freq": True},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("sparse", [True, False])
def test_embedding_is_that_of_torch(keywords, rows, sparse):
    ids = IDS % 4
    ours, theirs = Embedding(rows, 3, sparse=sparse, **keywords), torch.nn.Embedding(rows, 3, **keywords)
    assert ours.padding_idx == theirs.padding_idx
    ours.load_state_dict(theirs.state_dict())
    dy = random(2, 3, 3, dtype=torch.float32)
    for module in (ours, theirs):
        for _ in range(2):  # gradients add up
            (module(ids) * dy).sum().backward()
    assert torch.equal(ours(ids), theirs(ids))
    torch.testing.assert_close(dense(ours.weight.grad), theirs.weight.grad)
    if not sparse or rows == 100:
        assert ours.weight.grad.is_sparse == sparse


def test_max_norm():
    table = random(6, 3, dtype=torch.float32) * 3
    ours, theirs = (c.from_pretrained(table.clone(), freeze=False, max_norm=1.0) for c in (Embedding, torch.nn.Embedding))
    assert type(ours) is Embedding and ours.sparse
    ids = torch.tensor([1, 4, 1])
    torch.testing.assert_close(ours(ids), theirs(ids))
    torch.testing.assert_close(ours.weight, theirs.weight)
    before = ours.weight.detach().clone()
    with pytest.raises(IndexError, match="ids holds 6 at position 1, out of range for axis 0 of size 6"):
        ours(torch.tensor([2, 6]))
    assert torch.equal(ours.weight, before)


@pytest.mark.parametrize("bad", [6, -7, 2**40, -(2**40)])
def test_ids_out_of_range_raise(bad):
    weight = random(6, 2).requires_grad_()
    for axis, table in enumerate((weight, weight.T)):
        with pytest.raises(IndexError, match=rf"holds {bad} at position 1, out of range for axis {axis} of size 6"):
            take(table, torch.tensor([0, bad]), axis)
    for wrong in (bad, -1):
        with pytest.raises(IndexError, match=f"ids holds {wrong} at position 1"):
            embedding(weight, torch.tensor([0, wrong]))


def test_wrong_arguments():
    weight = random(6, 2)
    with pytest.raises(TypeError, match="ids must have an integer dtype"):
        take(weight, torch.tensor([1.0]))
    with pytest.raises(ValueError, match="axis 2 is out of range for 2 axes"):
        take(weight, [0], 2)
    with pytest.raises(ValueError, match="padding_idx 6 is out of range"):
        embedding(weight, [0], padding_idx=6)
    with pytest.raises(TypeError, match="weight must be a tensor, not ndarray"):
        take(np.ones((2, 2)), [0])
    with pytest.raises(TypeError, match="weight must be a tensor, not list"):
        embedding([1.0], [0])
    ids = torch.tensor([1, 2])
    y = take(weight.requires_grad_(), ids)
    ids[0] = 77  # what the reverse would have read
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_one_table_read_twice_and_used_as_a_whole():
    weight = random(50, 3).requires_grad_()

    def loss(table, look):
        twice = (look(table, [1, 4, 1]) ** 2).sum() + (look(table, [4, 9]) ** 3).sum()
        return twice, twice + (table**2).sum()

    for ours, by_torch in zip(loss(weight, take), loss(weight, lambda t, i: t[torch.tensor(i)]), strict=True):
        (g,), (wanted,) = (torch.autograd.grad(x, weight, retain_graph=True) for x in (ours, by_torch))
        torch.testing.assert_close(dense(g), wanted)


# Derivatives of higher order and function transforms

SECOND = {
    "take": lambda look, w: look(w, IDS, 0),
    "take, axis 1": lambda look, w: look(w.T, IDS, 1),
    "embedding": lambda look, w: embedding(w, IDS % 4) if look is take else w[IDS % 4],
}


@pytest.mark.parametrize("rows", [4, 60])
@pytest.mark.parametrize("name", SECOND)
def test_double_backward(name, rows):
    """The gradient of a function of the gradient, which torch reaches through a sparse tensor."""
    weight, c = random(rows, 2).requires_grad_(), random(rows, 2, seed=3)

    def second(look):
        y = SECOND[name](look, weight)
        (g,) = torch.autograd.grad((torch.sin(y) * y).sum(), weight, create_graph=True)
        first = dense(g)
        (h,) = torch.autograd.grad((first**2 * c).sum(), weight, create_graph=True)
        (k,) = torch.autograd.grad((torch.cos(dense(h)) * c).sum(), weight)
        return first, dense(h), dense(k)

    by_torch = second(lambda w, ids, axis: w[ids] if axis == 0 else w[:, ids])
    for ours, theirs in zip(second(take), by_torch, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_values_of_a_sparse_gradient_are_differentiable():
    weight = random(60, 2).requires_grad_()
    (g,) = torch.autograd.grad((take(weight, IDS) ** 3).sum(), weight, create_graph=True)
    assert g.is_sparse
    (h,) = torch.autograd.grad((g.values() ** 2).sum(), weight)
    (g,) = torch.autograd.grad((weight[IDS] ** 3).sum(), weight, create_graph=True)
    (wanted,) = torch.autograd.grad((g**2).sum(), weight)
    torch.testing.assert_close(dense(h), wanted)


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
@pytest.mark.parametrize("sparse", [True, False])
def test_gradgradcheck(keywords, sparse):
    """The embedding's gradient is linear in the cotangent; its adjoint, against differences."""
    ids, weight, dy = IDS % 4, random(8, 2).requires_grad_(), random(2, 3, 2, seed=1).requires_grad_()

    def gradient(dy):
        return dense(torch.autograd.grad(embedding(weight, ids, sparse=sparse, **keywords), weight, dy, create_graph=True)[0])

    torch.autograd.gradcheck(gradient, dy)
    torch.autograd.gradgradcheck(gradient, dy)


def test_function_transforms():
    weight, dy = random(60, 2), random(2, 3, 2, seed=1)

    def loss(look):
        return lambda w, dy: (look(w, IDS) ** 2 * dy).sum()

    plain = loss(lambda w, ids: w[ids])
    for transform in (
        lambda f: torch.func.grad(f)(weight, dy),
        lambda f: torch.func.vmap(torch.func.grad(f), in_dims=(None, 0))(weight, torch.stack([dy, 2 * dy])),
        lambda f: torch.func.grad(lambda w: torch.func.grad(f)(w, dy).square().sum())(weight),
        lambda f: torch.func.jvp(f, (weight, dy), (2 * weight, dy))[1],
        lambda f: torch.func.vmap(lambda w: torch.func.jvp(lambda w: f(w, dy), (w,), (2 * w,))[1])(
            torch.stack([weight, 2 * weight])
        ),
        lambda f: torch.func.hessian(f)(weight, dy),
    ):
        torch.testing.assert_close(transform(loss(take)), transform(plain))
    with pytest.raises(IndexError, match="ids holds 60"):
        torch.func.vmap(lambda i: take(weight, i))(torch.tensor([[0], [60]]))


def test_forward_mode():
    from torch.autograd import forward_ad

    weight, tangent = random(60, 2), random(60, 2, seed=1)
    with forward_ad.dual_level():
        result = embedding(forward_ad.make_dual(weight, tangent), IDS % 4)
        assert torch.equal(forward_ad.unpack_dual(result).tangent, tangent[IDS % 4])


# Inside the frameworks


def trained(make, optimizer, steps=6, **keywords):
    """The table after some steps; the loss depends on repeated rows and is not linear."""
    torch.manual_seed(0)
    module = make()
    module.load_state_dict({"weight": random(40, 3)})
    opt = optimizer(module.parameters(), **keywords)
    for step in range(steps):
        opt.zero_grad()
        ids = torch.as_tensor(np.random.default_rng(step).integers(0, 12, (4, 3)))
        (torch.sin(module(ids)) * random(4, 3, 3, seed=step)).sum().backward()
        opt.step()
    return module.weight.detach()


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.3}, False),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.3}, False),
    "SparseAdam": (torch.optim.SparseAdam, {"lr": 0.1}, True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    """As with torch's dense gradients, or its sparse ones for the optimizer that takes no other."""
    optimizer, keywords, sparse = OPTIMIZERS[name]
    got = trained(lambda: Embedding(40, 3, dtype=torch.float64), optimizer, **keywords)
    wanted = trained(lambda: torch.nn.Embedding(40, 3, sparse=sparse, dtype=torch.float64), optimizer, **keywords)
    torch.testing.assert_close(got, wanted)
    assert not torch.equal(got, random(40, 3))


def test_dense_optimizers_take_the_dense_form():
    got = trained(lambda: Embedding(40, 3, sparse=False, dtype=torch.float64), torch.optim.Adam, lr=0.1)
    torch.testing.assert_close(got, trained(lambda: torch.nn.Embedding(40, 3, dtype=torch.float64), torch.optim.Adam, lr=0.1))


def test_grad_scaler():
    """Scaled up, unscaled, stepped; a step whose gradient overflows is left out and the scale halved."""
    weight = random(50, 2, dtype=torch.float32).requires_grad_()
    before = weight.detach().clone()
    opt, scaler = torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu", init_scale=64.0)
    dy = random(3, 2, dtype=torch.float32)

    def step(factor):
        opt.zero_grad()
        scaler.scale((take(weight, [1, 7, 1]) * dy * factor).half().sum()).backward()
        assert weight.grad.is_sparse
        scaler.step(opt)
        scaler.update()

    step(1.0)
    wanted = before - 0.5 * gradient_by_loop(dy, torch.tensor([1, 7, 1]), (50, 2), 0)
    torch.testing.assert_close(weight.detach(), wanted)
    step(float("inf"))
    assert torch.equal(weight.detach(), weight.detach().nan_to_num()) and scaler.get_scale() == 32.0
    torch.testing.assert_close(weight.detach(), wanted)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    weight, w = random(50, 3).requires_grad_(), random(3, 2, seed=1).requires_grad_()

    def block(table, w, ids):
        return torch.tanh(take(table, ids) @ w)

    (checkpoint(block, weight, w, IDS, use_reentrant=reentrant) ** 2).sum().backward()
    assert weight.grad.is_sparse
    got = weight.grad.to_dense(), w.grad
    wanted = torch.autograd.grad((torch.tanh(weight[IDS] @ w) ** 2).sum(), (weight, w))
    torch.testing.assert_close(got, wanted)


class Model(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table, self.mix = table, torch.nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, ids):
        query = torch.tanh(self.mix.weight.sum(0))
        return torch.tanh(self.mix(self.table(ids)) * query).sum()


def test_compile_of_the_surrounding_model():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    torch.manual_seed(0)
    model, plain = (Model(table(50, 3, dtype=torch.float64)) for table in (Embedding, torch.nn.Embedding))
    plain.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=backend)
    for seed in range(3):
        ids = torch.as_tensor(np.random.default_rng(seed).integers(0, 20, (2, 3)))
        results = []
        for m in (compiled, plain):
            m.zero_grad()
            loss = m(ids)
            loss.backward()
            results.append((loss.detach(), dense(m.table.weight.grad), m.mix.weight.grad))
        torch.testing.assert_close(*results)
        assert model.table.weight.grad.is_sparse
    assert len(graphs) >= 1 and any("tanh" in graph.code for graph in graphs)
    torch._dynamo.reset()


# Storage

STORED = {
    "slices": lambda: IndexedSlices(torch.tensor([3, 0, 3]), random(3, 2), (5, 2)),
    "coordinates": lambda: IndexedSlices((torch.tensor([1, 0]), torch.tensor([2, 2])), random(2, 4), (3, 4, 5), axis=(0, 2)),
    "sorted": lambda: IndexedSlices(torch.tensor([3, 0, 3]), random(3, 2, dtype=torch.bfloat16), (5, 2)).coalesce(),
    "padded": lambda: IndexedSlices(torch.tensor([3, 0, 3]), random(3, 2), (5, 2)).coalesce(size=4),
    "whole arrays": lambda: IndexedSlices((), random(3, 2), (2,), axis=()),
    "one hot": lambda: OneHot(torch.tensor([2, 0]), 3, dtype=torch.float32),
    "fill": lambda: Fill(torch.tensor(2.5), (2, 3)),
    "zero": lambda: Zero((2, 3), xp=torch, dtype=torch.float64),
}


@pytest.mark.parametrize("name", STORED)
def test_states_come_back(name):
    t = STORED[name]()
    buffer = io.BytesIO()
    torch.save({"gradient": t, "step": 3}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    assert loaded["step"] == 3
    for back in (loaded["gradient"], pickle.loads(pickle.dumps(t))):
        assert type(back) is type(t) and back.dtype == t.dtype and back.shape == t.shape
        np.testing.assert_array_equal(loop_densify(back), loop_densify(t))
        if isinstance(t, IndexedSlices):
            assert back.axis == t.axis and back.unique == (t.unique and name != "padded") and torch.equal(back.values, t.values)
            assert all(map(torch.equal, back.coords, t.coords))


def test_a_tampered_state_is_refused():
    ids = torch.tensor([3, 0])
    t = IndexedSlices(ids, random(2, 2), (5, 2))
    ids[0] = 9
    buffer = io.BytesIO()
    torch.save(t, buffer)
    buffer.seek(0)
    with pytest.raises(IndexError, match="holds 9 at position 0"):
        torch.load(buffer, weights_only=True)


def test_optimizer_and_module_states_come_back():
    module = Embedding(40, 3, padding_idx=1)
    opt = torch.optim.SparseAdam(module.parameters())
    module(torch.tensor([1, 2, 2])).sum().backward()
    opt.step()
    buffer = io.BytesIO()
    torch.save({"module": module.state_dict(), "opt": opt.state_dict(), "grad": from_torch(module.weight.grad)}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    again = torch.nn.Embedding(40, 3, padding_idx=1)
    again.load_state_dict(loaded["module"])
    assert torch.equal(again.weight, module.weight)
    torch.optim.SparseAdam(again.parameters()).load_state_dict(loaded["opt"])
    assert st.equal(loaded["grad"], from_torch(module.weight.grad))
    copied = pickle.loads(pickle.dumps(module))
    assert type(copied) is Embedding and torch.equal(copied.weight, module.weight) and copied.sparse


def test_the_user_is_never_warned():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weight = random(50, 2).requires_grad_()
            (g,) = torch.autograd.grad((take(weight, IDS) ** 2).sum(), weight)
            from_torch(g).densify()
    finally:
        torch.set_warn_always(before)
