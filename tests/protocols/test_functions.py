"""Functions of NumPy and torch on tangents, with their own names of the arguments, against the dense functions."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import IndexedSlices

NUMPY = [
    lambda x: np.sum(x),
    lambda x: np.sum(x, 0),
    lambda x: np.linalg.norm(x),
    lambda x: np.linalg.norm(x, 2),
    lambda x: np.linalg.norm(x, 1),
    lambda x: np.linalg.norm(x, np.inf, axis=0),
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.linalg.norm(x, "nuc"),
    lambda x: np.linalg.norm(x, 1, axis=(1, 0)),
    lambda x: np.var(x, ddof=1),
    lambda x: np.std(x, 0),
    lambda x: np.cumsum(x),
    lambda x: np.cumsum(x, 1),
    lambda x: np.sort(x),
    lambda x: np.sort(x, axis=None),
    lambda x: np.take(x, [1, 2]),
    lambda x: np.take(x, [1, 2], axis=1),
    lambda x: np.clip(x, -1, 1),
    lambda x: np.clip(x, a_max=0.2, a_min=None),
    lambda x: np.where(x > 0, x, 0),
    lambda x: np.where(x),
    lambda x: np.trace(x),
    lambda x: np.diagonal(x, 1),
    lambda x: np.diagonal(x[None], 0, 2, 1),
    lambda x: np.linalg.trace(x[:3]),
    lambda x: np.squeeze(x[None]),
    lambda x: np.transpose(x),
    lambda x: np.tile(x, 2),
    lambda x: np.repeat(x, [1, 2, 0, 1, 2], axis=0),
    lambda x: np.repeat(x, 2),
    lambda x: np.moveaxis(x, 0, 1),
    lambda x: np.outer(x[:, 0], x[0]),
    lambda x: np.tensordot(x, x),
    lambda x: np.cross(x, x + 1),
    lambda x: np.fft.fft(x),
    lambda x: np.fft.fft(x, axis=0),
    lambda x: np.linalg.svd(x[:3])[1],
    lambda x: np.argsort(x),
    lambda x: np.zeros_like(x),
    lambda x: np.ones_like(x),
    lambda x: np.full_like(x, 3),
    lambda x: np.shape(x),
    lambda x: np.diff(x),
    lambda x: np.argmax(x),
    lambda x: np.nonzero(x),
    lambda x: np.take_along_axis(x, np.array([[0, 2]] * 5), 1),
    lambda x: np.vecdot(x, x),
    lambda x: np.matmul(x.T, x),
    lambda x: np.logical_and(x, np.ones((5, 3))),
    lambda x: np.meshgrid(x[:, 0], x[0]),
    lambda x: np.broadcast_arrays(x, x[0]),
    lambda x: np.roll(x, 1),
    lambda x: np.tril(x),
    lambda x: np.isin(x, [1.0]),
    lambda x: np.linalg.inv(x[:3] + np.eye(3)),
    lambda x: np.result_type(x, np.float32).itemsize,
    # What the standard has not
    lambda x: (np.iscomplexobj(x), np.isrealobj(x), np.iscomplexobj(x + 0j), np.isrealobj(x * 1j)),
    lambda x: np.ravel(x),
    lambda x: np.copy(x),
    lambda x: np.swapaxes(x[None], 0, -1),
    lambda x: (np.fliplr(x), np.flipud(x)),
    lambda x: (np.atleast_1d(x), np.atleast_2d(x[:, 0]), *np.atleast_2d(x[0], 2.0)),
    lambda x: np.vstack([x, x[0], np.ones((1, 3))]),
    lambda x: (np.hstack([x, x]), np.hstack([x[0], [1.0, 2.0]])),
    lambda x: np.column_stack([x, x[:, 0], np.arange(5)]),
    lambda x: (np.append(x, x), np.append(x, x[:2], axis=0), np.append([1.0], x)),
    lambda x: (*np.split(x, [1, 4]), *np.split(x, 3, axis=1), *np.array_split(x, 2), *np.array_split(x, 2, axis=-1)),
    lambda x: (np.dot(x, x.T), np.dot(x, np.ones(3)), np.dot(np.ones(5), x), np.dot(x, 2.0), np.dot(x[0], x[0])),
    lambda x: (np.inner(x, x), np.inner(x[0], np.arange(3)), np.vdot(x, x * 1j), np.vdot(x * 1j, np.ones((5, 3)))),
    lambda x: (np.ptp(x), np.ptp(x, axis=0), np.ptp(x, 1, keepdims=True)),
    lambda x: (np.flatnonzero(x), np.argwhere(x)),
    lambda x: (np.allclose(x, x + 1e-9), np.allclose(x, x[0]), np.array_equal(x, x), np.array_equal(x, x[0])),
    lambda x: (
        np.add.reduce(x),
        np.add.reduce(x, axis=None),
        np.maximum.reduce(x, axis=1),
        np.minimum.reduce(x, keepdims=True),
    ),
    lambda x: (np.multiply.reduce(x), np.logical_or.reduce(x, axis=1), np.logical_and.reduce(x)),
]


def values():
    rng = np.random.default_rng(3)
    return rng.standard_normal((3, 3))


def same(ours, theirs, to_numpy=np.asarray):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, to_numpy)
        return
    ours = ours.densify() if isinstance(ours, st.Tangent) else ours
    assert np.shape(to_numpy(ours)) == np.shape(to_numpy(theirs))
    assert np.allclose(to_numpy(ours), to_numpy(theirs))


@pytest.mark.parametrize("call", NUMPY)
def test_numpy(call):
    t = IndexedSlices(np.array([1, 3, 1]), values(), (5, 3))
    with st.densify_policy("allow"):
        same(call(t), call(t.densify()))


@pytest.mark.parametrize("place", range(46))
def test_torch(place):
    torch = pytest.importorskip("torch")
    call = torch_calls(torch)[place]
    t = IndexedSlices(torch.tensor([1, 3, 1]), torch.asarray(values()), (5, 3))
    with st.densify_policy("allow"):
        same(call(t), call(t.densify()))


def torch_calls(torch):
    return [
        lambda x: torch.sum(x),
        lambda x: torch.sum(x, dim=1, keepdim=True),
        lambda x: torch.sum(x, 0),
        lambda x: torch.max(x, dim=0),
        lambda x: torch.max(x),
        lambda x: torch.max(x, -x),
        lambda x: torch.var(x),
        lambda x: torch.var(x, 1),
        lambda x: torch.std(x, dim=0, unbiased=False),
        lambda x: torch.var(x, False),
        lambda x: torch.cumsum(x, 1),
        lambda x: torch.cumsum(x, 0),
        lambda x: torch.argmax(x, dim=0),
        lambda x: torch.matmul(torch.ones(2, 5, dtype=torch.float64), x),
        lambda x: torch.clamp(x, -0.5, 0.5),
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: torch.cat([x, x], dim=1),
        lambda x: torch.stack([x, x]),
        lambda x: torch.permute(x, (1, 0)),
        lambda x: torch.unsqueeze(x, 0),
        lambda x: torch.flip(x, [0]),
        lambda x: torch.roll(x, 1, 0),
        lambda x: torch.tril(x),
        lambda x: torch.triu(x, diagonal=1),
        lambda x: torch.trace(x[:3]),
        lambda x: torch.index_select(x, 0, torch.tensor([3, 1])),
        lambda x: torch.outer(x[:, 0], x[:, 1]),
        lambda x: torch.tensordot(x, x, dims=2),
        lambda x: torch.linalg.vector_norm(x),
        lambda x: torch.fft.fft(x),
        lambda x: torch.linalg.cross(x, x * 2),
        lambda x: torch.diff(x, dim=0),
        lambda x: torch.zeros_like(x),
        lambda x: torch.ones_like(x),
        lambda x: torch.tile(x, (2, 1)),
        lambda x: torch.isin(x, torch.tensor([1.0, 2.0], dtype=torch.float64)),
        lambda x: torch.exp(x),
        lambda x: torch.mul(input=x, other=x),
        lambda x: torch.unbind(x, 1),
        lambda x: torch.squeeze(x[None]),
        lambda x: torch.linalg.det(x[:3]),
        lambda x: torch.prod(x, 1),
        lambda x: torch.any(x != 0),
        lambda x: torch.eq(x, x),
        lambda x: torch.ones(5, 3, dtype=torch.float64).where(x > 0, x),
        lambda x: torch.mean(x, (0, 1)),
    ]


def test_what_stays_compact():
    t = IndexedSlices(np.array([1, 2**40, 1]), values(), (2**50, 3))
    with st.densify_policy("raise"):
        for result in (np.clip(t, -1, 1), np.cumsum(t, axis=1), np.where(t > 0, t, 0), np.var(t, axis=1), np.tile(t, (2, 1))):
            assert isinstance(result, IndexedSlices)
        assert np.linalg.norm(t, np.inf, axis=0).shape == (3,) and np.argmax(t, axis=0).shape == (3,)
        with pytest.raises(st.DensifyError, match="svd"):
            np.linalg.svd(t)


def test_into_an_array_of_another_kind():
    t = IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    whole = np.zeros(3, int)
    with pytest.raises(TypeError):
        np.multiply(t, 2.5, out=whole)
    assert whole.tolist() == [0, 0, 0]


def test_arguments_that_are_not_taken_are_named():
    t = IndexedSlices(np.array([1, 1]), np.array([2.0, 3.0]), (3,))
    for call in (lambda: np.round(t, 2), lambda: np.sum(t, initial=3.0), lambda: np.take(t, [1], mode="wrap")):
        with pytest.raises(TypeError, match="decimals|initial|mode"):
            call()
    with pytest.raises(TypeError):
        np.unique(t)


def test_torch_refuses_what_it_does_not_know():
    torch = pytest.importorskip("torch")
    t = IndexedSlices(torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), (3,))
    with pytest.raises(TypeError, match="decimals"):
        torch.round(t, decimals=2)
    for call in (
        lambda: torch.svd(t),
        lambda: torch.nonzero(t),
        lambda: torch.median(t),
        lambda: torch.take(t, torch.tensor([0])),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x: np.ravel(x, order="F"), "takes no argument 'order'"),
        (lambda x: np.dot(x, x.T, out=np.zeros((5, 5))), "takes no argument 'out'"),
        (lambda x: np.allclose(x, x, equal_nan=True), "takes no argument 'equal_nan'"),
        (lambda x: np.split(x, 2), "axis of size 5 cannot be split into 2 equal parts"),
        (lambda x: np.array_split(x, 0), "at least 1, not 0"),
        (lambda x: np.vdot(x, x[:2]), "equally many elements, not 15 and 6"),
        (lambda x: np.vdot(x, x.T), "equal shapes"),
    ],
)
def test_what_numpy_composed_functions_refuse(call, error):
    t = IndexedSlices(np.array([1, 3, 1]), values(), (5, 3))
    with pytest.raises((TypeError, ValueError), match=error):
        call(t)
