"""What only torch tensors do: shared memory, autograd, function transforms, compilation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from sparsetangent.kernels import torch as module  # noqa: E402  (after the skip)
from sparsetangent.kernels.torch import TorchKernels  # noqa: E402

kernels = TorchKernels()

# Said by torch of its own code, when forward mode or complex32 is first used.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning"),
]

# Padding is 4. The last row of these would show if it were added anywhere.
IDS = torch.tensor([2, 0, 2, 4])
ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], dtype=torch.float64)
DENSE = [[3.0, 4.0], [0.0, 0.0], [6.0, 8.0], [0.0, 0.0]]
FUNCTIONS = {
    "gather": lambda x: kernels.gather(x, IDS),
    "densify": lambda x: kernels.densify(IDS, x, 4),
    "coalesce": lambda x: kernels.coalesce(IDS, x, 4, 4)[1],
    "scatter_add, rows": lambda x: kernels.scatter_add(torch.ones(4, 2, dtype=x.dtype), IDS, x, 3.0),
    "scatter_add, dst": lambda x: kernels.scatter_add(x * 1, IDS, ROWS.to(x.dtype)),
    "put, rows": lambda x: kernels.put(torch.ones(4, 2, dtype=x.dtype), torch.tensor([2, 4, 0, 4]), x),
    "put, dst": lambda x: kernels.put(x * 1, torch.tensor([2, 4, 0, 4]), ROWS.to(x.dtype)),
    **{
        f"{op}, {what}": lambda x, op=op, what=what: (
            kernels.scatter_reduce(op, x * 1, IDS, ROWS.to(x.dtype) + 0.25)
            if what == "dst"
            else kernels.scatter_reduce(op, torch.full((4, 2), 1.75, dtype=x.dtype), IDS, x, False)
        )
        for op in ("add", "mul", "min", "max", "mean")
        for what in ("rows", "dst")
    },
}


def jacobian_by_differences(f, x, step=1e-6):
    columns = []
    for k in range(x.numel()):
        moved = torch.zeros(x.numel(), dtype=x.dtype)
        moved[k] = step
        moved = moved.reshape(x.shape)
        columns.append((f(x + moved) - f(x - moved)).reshape(-1) / (2 * step))
    return torch.stack(columns, 1)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_gradients(name):
    f = FUNCTIONS[name]
    with torch.no_grad():
        want = jacobian_by_differences(f, ROWS)
    by_tape = torch.autograd.functional.jacobian(f, ROWS).reshape(want.shape)
    torch.testing.assert_close(by_tape, want, rtol=1e-6, atol=1e-6)
    by_transform = torch.func.jacrev(f)(ROWS).reshape(want.shape)
    torch.testing.assert_close(by_transform, want, rtol=1e-6, atol=1e-6)
    by_forward = torch.func.jacfwd(f)(ROWS).reshape(want.shape)
    torch.testing.assert_close(by_forward, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_watched_results_equal_plain_ones(name, dtype):
    x = ROWS.clone().to(dtype)
    plain = FUNCTIONS[name](x)
    taped = FUNCTIONS[name](x.requires_grad_())
    assert taped.requires_grad
    torch.testing.assert_close(taped.detach(), plain, rtol=1e-2 if dtype == torch.bfloat16 else 1e-12, atol=0)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_vmap_over_rows(name):
    stacked = torch.stack([ROWS, ROWS * 2, ROWS - 1])
    got = torch.func.vmap(FUNCTIONS[name])(stacked)
    torch.testing.assert_close(got, torch.stack([FUNCTIONS[name](x) for x in stacked]))


BY_IDS = {
    "gather": lambda i: kernels.gather(ROWS, i),
    "densify": lambda i: kernels.densify(i, ROWS, 4),
    "coalesce": lambda i: kernels.coalesce(i, ROWS, 4, 4),
    "unique_inverse": lambda i: kernels.unique_inverse(i, 4, 4),
    "scatter_add": lambda i: kernels.scatter_add(torch.ones(4, 2, dtype=torch.float64), i, ROWS),
    "scatter_add of halves": lambda i: kernels.scatter_add(torch.ones(4, 2, dtype=torch.float16), i, ROWS.half()),
    "max": lambda i: kernels.scatter_reduce("max", torch.ones(4, 2, dtype=torch.float64), i, ROWS),
    "mean": lambda i: kernels.scatter_reduce("mean", torch.ones(4, 2, dtype=torch.float64), i, ROWS, False),
}


@pytest.mark.parametrize("name", sorted(BY_IDS))
def test_vmap_over_ids(name):
    f, stacked = BY_IDS[name], torch.stack([IDS, torch.tensor([1, 1, 1, 1]), torch.tensor([4, 4, 4, 4])])
    assert_equal_trees(torch.func.vmap(f)(stacked), [f(i) for i in stacked])
    with pytest.raises(IndexError, match="id 5 at position 2 is out of bounds for an axis of size 4"):
        torch.func.vmap(f)(torch.tensor([[0, 0, 5, 0], [0, 0, 0, 0]]))


def test_vmap_put():
    def f(ids):
        return kernels.put(torch.ones(4, 2, dtype=torch.float64), ids, ROWS)

    stacked = torch.stack([torch.tensor([4, 3, 1, 4]), torch.tensor([4, 4, 4, 4])])
    assert_equal_trees(torch.func.vmap(f)(stacked), [f(i) for i in stacked])


def assert_equal_trees(got, wants):
    if isinstance(got, tuple):
        for part, parts in zip(got, zip(*wants, strict=True), strict=True):
            assert_equal_trees(part, parts)
    else:
        torch.testing.assert_close(got, torch.stack(list(wants)))


@pytest.mark.parametrize("name", sorted(BY_IDS))
def test_compile_in_one_graph(name):
    torch._dynamo.reset()
    f = torch.compile(BY_IDS[name], fullgraph=True, backend="aot_eager")
    for ids in (IDS, torch.tensor([1, 1, 3, 4])):
        torch.testing.assert_close(f(ids), BY_IDS[name](ids))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_compile_with_gradients(name):
    torch._dynamo.reset()
    f = torch.compile(FUNCTIONS[name], fullgraph=True, backend="aot_eager")
    x, y = ROWS.clone().requires_grad_(), ROWS.clone().requires_grad_()
    weights = torch.linspace(1, 2, 8, dtype=torch.float64).reshape(4, 2)
    (f(x) * weights).sum().backward()
    (FUNCTIONS[name](y) * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_compiled_code_drops_bad_ids():
    torch._dynamo.reset()
    f = torch.compile(lambda i: kernels.densify(i, ROWS, 4), fullgraph=True, backend="aot_eager")
    assert f(torch.tensor([2, 0, 2, -1])).tolist() == DENSE
    assert f(torch.tensor([2, 0, 2, 77])).tolist() == DENSE


def test_padding_alone_is_placed_nowhere_and_keeps_the_gradient():
    torch._dynamo.reset()
    ids = torch.tensor([4, 4, 9, -3])

    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(dst, rows):
        return kernels.put(dst * 1, ids, rows)

    dst, rows = ROWS.clone().requires_grad_(), ROWS.clone().requires_grad_()
    out = f(dst, rows)
    assert out.tolist() == ROWS.tolist()
    out.sum().backward()
    assert dst.grad.tolist() == [[1, 1]] * 4
    assert rows.grad.tolist() == [[0, 0]] * 4


def test_plain_tensors_share_memory():
    rows = torch.arange(4000.0).reshape(4, 1000)
    assert module._numpy(rows).ctypes.data == rows.data_ptr()
    dst = torch.zeros(4, 1000)
    assert kernels.scatter_add(dst, IDS, rows) is dst
    assert dst[2, 1].item() == 1 + 2001


def test_autograd_sees_writes():
    saved = torch.ones(4, 2, dtype=torch.float64)
    w = torch.ones(4, 2, dtype=torch.float64, requires_grad=True)
    for write in (
        lambda: kernels.scatter_add(saved, IDS, ROWS),
        lambda: kernels.put(saved, torch.tensor([0, 1, 2, 3]), ROWS),
        lambda: kernels.scatter_reduce("max", saved, IDS, ROWS),
        lambda: kernels.scatter_add(saved.data.requires_grad_(False), IDS, ROWS),
    ):
        y = (w * saved).sum()
        before = saved._version
        write()
        if saved._version != before:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
    assert saved._version >= 3


def test_parameters():
    p = torch.nn.Parameter(torch.zeros(4, 2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        kernels.scatter_add(p, IDS, ROWS)
    with torch.no_grad():
        assert kernels.scatter_add(p, IDS, ROWS) is p
    assert p.tolist() == DENSE


def test_inference_mode():
    with torch.inference_mode():
        dst = torch.zeros(4, 2, dtype=torch.float64)
        assert kernels.scatter_add(dst, IDS, ROWS).tolist() == DENSE


def test_function_transforms_write_nothing_foreign():
    dst = torch.ones(4, 2, dtype=torch.float64)
    torch.func.grad(lambda x: kernels.scatter_add(dst, IDS, x).sum())(ROWS)
    torch.func.vmap(lambda x: kernels.put(dst, torch.tensor([0, 1, 2, 3]), x))(torch.stack([ROWS, ROWS]))
    torch.func.vmap(lambda x: kernels.scatter_reduce("max", dst, IDS, x))(torch.stack([ROWS, ROWS]))
    assert dst.tolist() == [[1, 1]] * 4


def test_forward_mode_keeps_the_tangent():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(ROWS, ROWS * 2)
        out = torch.autograd.forward_ad.unpack_dual(kernels.densify(IDS, dual, 4))
    assert out.primal.tolist() == DENSE
    assert out.tangent.tolist() == (2 * torch.tensor(DENSE)).tolist()


def test_concrete():
    assert kernels.concrete(IDS)
    assert not kernels.concrete(IDS.to("meta"))
    seen = []
    torch.func.vmap(lambda i: seen.append(kernels.concrete(i)) or i)(IDS[None])
    torch.func.grad(lambda x: seen.append(kernels.concrete(x)) or x.sum())(ROWS)
    torch.func.grad(lambda x: torch.func.vmap(lambda r: seen.append(kernels.concrete(r)) or r)(x).sum())(ROWS)
    assert seen == [False, True, False]


def test_meta_and_fake_tensors():
    meta = ROWS.to("meta")
    assert kernels.densify(IDS.to("meta"), meta, 9).shape == (9, 2)
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(ROWS)
        assert kernels.densify(mode.from_tensor(IDS), fake, 9).shape == (9, 2)
        assert not kernels.concrete(fake)


def test_lazily_conjugated_and_negated_rows():
    rows = torch.complex(ROWS, ROWS + 1)
    torch.testing.assert_close(kernels.densify(IDS, rows.conj(), 4), kernels.densify(IDS, rows, 4).conj())
    torch.testing.assert_close(kernels.densify(IDS, rows.conj().imag, 4), -kernels.densify(IDS, rows.imag, 4))


def test_complex32():
    rows = torch.complex(torch.ones(3000), torch.zeros(3000)).to(torch.complex32)[:, None]
    ids = torch.zeros(3000, dtype=torch.int64)
    assert kernels.densify(ids, rows, 2).to(torch.complex64).tolist() == [[3000], [0]]
    dst = torch.zeros(2, 1, dtype=torch.complex32)
    assert kernels.scatter_add(dst, ids, rows) is dst
    assert dst.to(torch.complex64)[0, 0] == 3000
    assert kernels.gather(dst, torch.tensor([2, 0])).to(torch.complex64).tolist() == [[0], [3000]]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.bool])
def test_dtypes_that_torch_cannot_add_under_compile(dtype):
    torch._dynamo.reset()
    rows = torch.tensor([[1, 0], [0, 1], [1, 0], [1, 1]]).to(dtype)
    calls = (
        lambda i: kernels.densify(i, rows, 4),
        lambda i: kernels.scatter_add(torch.zeros(4, 2, dtype=dtype), i, rows),
    )
    for f in calls:
        got = torch.compile(f, fullgraph=True, backend="aot_eager")(IDS)
        assert got.tolist() == f(IDS).tolist()


def test_rows_that_overlap_a_watched_dst():
    weight = torch.ones(4, 2, requires_grad=True)
    for write in (kernels.scatter_add, kernels.put):
        dst = torch.arange(8.0).reshape(4, 2) * weight
        write(dst, torch.tensor([1, 2, 3]), dst[:3])
        old = torch.arange(8.0).reshape(4, 2)
        want = old[:3] + (old[1:] if write == kernels.scatter_add else 0)
        assert dst[1:].tolist() == want.tolist()
    dst.sum().backward()
    assert weight.grad.tolist() == [[0, 2], [2, 3], [4, 5], [0, 0]]


def test_numpy_agrees_on_large_inputs():
    rng = np.random.default_rng(1)
    ids, rows = torch.from_numpy(rng.integers(0, 50, 2000)), torch.from_numpy(rng.normal(size=(2000, 8)))
    want = torch.zeros(50, 8, dtype=torch.float64).index_add(0, ids, rows)
    torch.testing.assert_close(kernels.densify(ids, rows, 50), want)
    torch.testing.assert_close(kernels.densify(ids, rows.requires_grad_(), 50), want)
