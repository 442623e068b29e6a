"""Clipping of gradients of which some are COO, with repeats, against NumPy on the dense gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from sparsetangent.interop.torch import clip_grad_norm_, clip_norm_hook, clip_value_hook, take  # noqa: E402  (after the skip)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


def random(*shape, dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return torch.asarray(x + 1j * rng.normal(size=shape) if dtype.is_complex else x).to(dtype)


def coo(dtype=torch.float64, seed=0):
    """Uncoalesced, with repeats."""
    return torch.sparse_coo_tensor([[4, 1, 4, 4, 9]], random(5, 2, dtype=dtype, seed=seed), (30, 2))


def by_numpy(x):
    """The dense double-precision array of a tensor, entry by entry."""
    wide = torch.complex128 if x.dtype.is_complex else torch.float64
    if not x.is_sparse:
        return x.to(wide, copy=True).numpy()
    dense = np.zeros(tuple(x.shape), complex if x.dtype.is_complex else float)
    for place, row in zip(x._indices().T.tolist(), x._values().to(wide).numpy(), strict=True):
        dense[tuple(place)] += row
    return dense


def assert_close(got, wanted, dtype):
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-12}.get(dtype, 1e-5)
    np.testing.assert_allclose(by_numpy(got), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("max_norm", [0.5, 100.0, 0.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", [coo, lambda dtype: random(4, 3, dtype=dtype)], ids=["COO", "dense"])
def test_norm_hook(make, dtype, max_norm):
    g = make(dtype)
    before = by_numpy(g)
    got = clip_norm_hook(max_norm)(g)
    assert got.layout == g.layout and got.dtype == g.dtype and got.shape == g.shape
    assert_close(got, before * min(1, max_norm / np.linalg.norm(before)), dtype)
    np.testing.assert_array_equal(by_numpy(g), before)


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_value_hook(dtype):
    for g in (coo(dtype), random(4, 3, dtype=dtype)):
        assert_close(clip_value_hook(0.7)(g), np.clip(by_numpy(g), -0.7, 0.7), dtype)


def test_half_types_neither_overflow_nor_lose_repeats():
    g = torch.sparse_coo_tensor([[3] * 3000], torch.ones(3000, dtype=torch.float16), (9,))
    assert clip_norm_hook(1e6)(g).to_dense()[3] == 3000
    weight = torch.nn.Parameter(torch.zeros(9, dtype=torch.float16))
    weight.grad = torch.sparse_coo_tensor([list(range(9))], torch.full((9,), 60000.0, dtype=torch.float16), (9,))
    norm = clip_grad_norm_(weight, 3.0)
    assert norm.dtype == torch.float32 and float(norm) == pytest.approx(180000.0, rel=1e-2)
    torch.testing.assert_close(weight.grad.to_dense(), torch.ones(9, dtype=torch.float16))


def test_hooks_on_a_tape():
    weight = random(30, 2).requires_grad_()
    weight.register_hook(clip_norm_hook(0.25))
    (take(weight, [3, 7, 3]) ** 2).sum().backward()
    (dense,) = torch.autograd.grad((weight[[3, 7, 3]] ** 2).sum(), weight)  # by the hook as well
    assert weight.grad.is_sparse and float(torch.linalg.vector_norm(weight.grad.to_dense())) == pytest.approx(0.25)
    torch.testing.assert_close(weight.grad.to_dense(), dense)


@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
def test_clip_grad_norm(max_norm):
    parameters = [
        torch.nn.Parameter(torch.zeros(s, dtype=d))
        for s, d in (((30, 2), torch.float32), ((4, 3), torch.float64), ((2,), torch.float32))
    ]
    parameters[0].grad, parameters[1].grad = coo(torch.float32), random(4, 3)
    before = [by_numpy(p.grad) for p in parameters[:2]]
    total = np.sqrt(sum(np.linalg.norm(g) ** 2 for g in before))
    norm = clip_grad_norm_(parameters, max_norm, error_if_nonfinite=True)
    assert norm.shape == () and float(norm) == pytest.approx(total, rel=1e-6)
    for p, g in zip(parameters, before, strict=False):
        assert_close(p.grad, g * min(1, max_norm / total), torch.float32)
    assert parameters[2].grad is None


def test_what_is_not_finite():
    weight = torch.nn.Parameter(torch.zeros(30, 2, dtype=torch.float64))
    weight.grad = torch.sparse_coo_tensor(
        [[1, 1]], torch.tensor([[1.0, 0.0], [float("nan"), 2.0]], dtype=torch.float64), (30, 2)
    )
    with pytest.raises(RuntimeError, match="norm of the gradients is nan"):
        clip_grad_norm_(weight, 1.0, error_if_nonfinite=True)
    assert weight.grad._values()[0].tolist() == [1.0, 0.0]
    assert clip_norm_hook(1.0)(weight.grad).to_dense()[1].isnan().all()
    # An overflow does not pass for a small gradient.
    infinite = torch.tensor([1.0, float("inf")])
    assert clip_norm_hook(1.0)(infinite).isnan().all()
    weight.grad = infinite.double().repeat(30, 1)
    assert float(clip_grad_norm_(weight, 1.0)) == float("inf") and weight.grad.isnan().all()


def test_edges():
    assert clip_grad_norm_([], 1.0).tolist() == 0.0
    assert clip_norm_hook(1.0)(torch.zeros(0, 3)).shape == (0, 3)
    zero = torch.zeros(3)
    assert clip_norm_hook(0.0)(zero).tolist() == [0.0, 0.0, 0.0]
    for make in (clip_norm_hook, clip_value_hook, lambda x: clip_grad_norm_([], x)):
        with pytest.raises(ValueError, match="must be at least 0, not -1"):
            make(-1)
