"""Every function of the standard is there, has a class and a law, and keeps on 2**50 rows what its class says."""

import importlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import Fill, IndexedSlices, OneHot, Tangent, Zero
from sparsetangent.registry import BINARY, EXTENSIONS, MAIN, TABLE, UNARY, Structure, names
from sparsetangent.testing import oracle, standard
from sparsetangent.testing.plugin import LIBRARIES
from tests.conftest import _library

ROWS = 2**50
NOT_IN_THE_STANDARD = {
    *("ArrayAPIStrictFlags", "Device", "__version__"),
    *("get_array_api_strict_flags", "reset_array_api_strict_flags", "set_array_api_strict_flags"),
}


@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
def test_no_name_is_missing(library):
    strict = pytest.importorskip("array_api_strict")
    nx = st.namespace(importlib.import_module(LIBRARIES[library][1]))
    assert set(strict.__all__) - NOT_IN_THE_STANDARD - set(dir(nx)) == set()
    assert set(strict.linalg.__all__) | {"eig", "eigvals"} <= set(dir(nx.linalg))
    assert set(strict.fft.__all__) <= set(dir(nx.fft))
    for name in MAIN:
        assert callable(getattr(nx, name)), name
    for extension, found in EXTENSIONS.items():
        for name in found:
            assert callable(getattr(getattr(nx, extension), name)), name


def test_every_function_of_the_standard_has_a_class():
    strict = pytest.importorskip("array_api_strict")
    for space in (strict, strict.linalg, strict.fft):
        functions = {n for n in space.__all__ if callable(getattr(space, n)) and not isinstance(getattr(space, n), type)}
        dtypes = {n for n in functions if hasattr(getattr(space, n), "_np_dtype")}
        assert functions - dtypes - NOT_IN_THE_STANDARD <= set(TABLE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_function_has_a_rule_a_law_and_a_test_of_its_class(name):
    assert name in names() or TABLE[name] is Structure.INSPECTION
    assert name in standard.OPERATIONS
    assert any(True for _ in standard.OPERATIONS[name]((3, 4)))
    assert name in CALLS


def test_namespaces_are_one_object_and_pickle(xp):
    nx = st.namespace(xp.module)
    for space in (nx, nx.linalg, nx.fft):
        assert pickle.loads(pickle.dumps(space)) is space
    assert len({nx.__name__, nx.linalg.__name__, nx.fft.__name__}) == 3
    assert nx.linalg is nx.linalg and nx.linalg.matmul.__name__ == "matmul"
    assert nx.pi == xp.pi and nx.float32 == xp.float32 and nx.bool == xp.bool and nx.newaxis is None
    with pytest.raises(AttributeError):
        nx.linalg.nothing
    t = Zero((2,), xp=xp.module)
    assert t.__array_namespace__(api_version="2024.12") is nx
    with pytest.raises(ValueError, match="1999"):
        t.__array_namespace__(api_version="1999.12")


# One call of each function on a tangent of 2**50 rows, two columns and repeats. For a class that is compact only sometimes, the second
# call is one that is not.
def _whole(nx, t):
    return nx.astype(nx.round(t), nx.int64)


def _square(nx, t):
    """A square matrix with few entries."""
    return IndexedSlices((nx.asarray([5, 7, 5]), nx.asarray([7, 5, 7])), t.values[:3, 0], (ROWS, ROWS), axis=(0, 1))


CALLS = {
    **{
        name: (lambda nx, t, f=name: getattr(nx, f)(t),) for name in (*UNARY, *TABLE) if TABLE[name] not in (Structure.LIBRARY,)
    },
    **{name: (lambda nx, t, f=name: getattr(nx, f)(t, t),) for name in BINARY},
    **{name: (lambda nx, t, f=name: getattr(nx, f)(t != 0),) for name in ("logical_not", "bitwise_invert")},
    **{name: (lambda nx, t, f=name: getattr(nx, f)(nx.astype(t, nx.complex128)),) for name in ("real", "imag", "conj")},
    **{name: (lambda nx, t, f=name: getattr(nx, f)(t != 0, t > 0),) for name in ("logical_and", "logical_or", "logical_xor")},
    **{
        name: (lambda nx, t, f=name: getattr(nx, f)(_whole(nx, t), _whole(nx, t)),)
        for name in BINARY
        if name.startswith("bitwise")
    },
    "astype": (lambda nx, t: nx.astype(t, nx.int64),),
    "equal": (lambda nx, t: t == 2.0, lambda nx, t: nx.equal(t, t)),
    "less_equal": (lambda nx, t: t <= -2.0, lambda nx, t: nx.less_equal(t, t)),
    "greater_equal": (lambda nx, t: t >= 2.0, lambda nx, t: nx.greater_equal(t, t)),
    "floor_divide": (lambda nx, t: t // 3.0, lambda nx, t: t // t),
    "remainder": (lambda nx, t: t % 3.0, lambda nx, t: t % t),
    "pow": (lambda nx, t: t**2, lambda nx, t: t**0, lambda nx, t: t ** nx.asarray([0.0, 1.0])),
    "clip": (lambda nx, t: nx.clip(t, -1.0, 1.0), lambda nx, t: nx.clip(t, 1.0, 2.0)),
    "isin": (lambda nx, t: nx.isin(_whole(nx, t), nx.asarray([1])), lambda nx, t: nx.isin(_whole(nx, t), nx.asarray([0]))),
    "where": (lambda nx, t: nx.where(t > 0, t, 0.0), lambda nx, t: nx.where(t > 0, t, 1.0)),
    **{name: (lambda nx, t, f=name: getattr(nx, f)(t, axis=0),) for name in ("argmax", "argmin", "var", "std")},
    "trace": (lambda nx, t: nx.linalg.trace(_square(nx, t)),),
    "vector_norm": (lambda nx, t: nx.linalg.vector_norm(t),),
    "matrix_norm": (lambda nx, t: nx.linalg.matrix_norm(t),),
    **{
        name: (lambda nx, t, f=name: getattr(nx, f)(t, axis=1), lambda nx, t, f=name: getattr(nx, f)(t, axis=0))
        for name in ("cumulative_sum", "cumulative_prod")
    },
    **{
        name: (
            lambda nx, t, f=name: getattr(nx.fft, f)(nx.astype(t, nx.complex128) if f not in ("rfft", "ihfft") else t),
            lambda nx, t, f=name: getattr(nx.fft, f)(nx.astype(t, nx.complex128) if f not in ("rfft", "ihfft") else t, axis=0),
        )
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        name: (
            lambda nx, t, f=name: getattr(nx.fft, f)(t if f == "rfftn" else nx.astype(t, nx.complex128), axes=(1,)),
            lambda nx, t, f=name: getattr(nx.fft, f)(t if f == "rfftn" else nx.astype(t, nx.complex128)),
        )
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
    },
    "sort": (lambda nx, t: nx.sort(t, axis=0),),
    "expand_dims": (lambda nx, t: nx.expand_dims(t, axis=1),),
    "squeeze": (lambda nx, t: nx.squeeze(nx.expand_dims(t, axis=1), axis=1),),
    "permute_dims": (lambda nx, t: nx.permute_dims(t, (1, 0)),),
    "moveaxis": (lambda nx, t: nx.moveaxis(t, 0, 1),),
    "roll": (lambda nx, t: nx.roll(t, 3, axis=0),),
    "repeat": (lambda nx, t: nx.repeat(t, 2, axis=0),),
    "tile": (lambda nx, t: nx.tile(t, (2, 3)),),
    "reshape": (lambda nx, t: nx.reshape(t, (2**10, 2**40, 2)),),
    "concat": (lambda nx, t: nx.concat([t, t]),),
    "stack": (lambda nx, t: nx.stack([t, t]),),
    "unstack": (lambda nx, t: nx.unstack(t, axis=1),),
    "broadcast_to": (lambda nx, t: nx.broadcast_to(t, (3, ROWS, 2)),),
    "broadcast_arrays": (lambda nx, t: nx.broadcast_arrays(t, t[None, ...]),),
    "meshgrid": (lambda nx, t: nx.meshgrid(t[:, 0], t[:, 1]),),
    "diagonal": (lambda nx, t: nx.linalg.diagonal(_square(nx, t), offset=2),),
    "fftshift": (lambda nx, t: nx.fft.fftshift(t),),
    "ifftshift": (lambda nx, t: nx.fft.ifftshift(t),),
    "diff": (lambda nx, t: nx.diff(t, axis=0),),
    "take": (lambda nx, t: nx.take(t, nx.asarray([7, 3]), axis=0),),
    "take_along_axis": (lambda nx, t: nx.take_along_axis(t, nx.asarray([[1, 0, 1]]), axis=1),),
    "matmul": (lambda nx, t: nx.matmul(t, nx.matrix_transpose(t)),),
    "tensordot": (lambda nx, t: nx.tensordot(t, t, axes=((0,), (0,))),),
    "vecdot": (lambda nx, t: nx.vecdot(t, t),),
    "outer": (lambda nx, t: nx.linalg.outer(t[:, 0], t[:, 1]),),
    "cross": (lambda nx, t: nx.linalg.cross(nx.take(t, nx.asarray([0, 1, 0]), axis=1), nx.asarray([[1.0, 2.0, 3.0]])),),
    "matrix_power": (
        lambda nx, t: nx.linalg.matrix_power(_square(nx, t), 3),
        lambda nx, t: nx.linalg.matrix_power(_square(nx, t), -1),
    ),
    "eye": (lambda nx, t: nx.eye(2, ROWS, k=3),),
    "zeros": (lambda nx, t: nx.zeros(t.shape),),
    "ones": (lambda nx, t: nx.ones(t.shape),),
    "full": (lambda nx, t: nx.full(t.shape, 2.5),),
    "full_like": (lambda nx, t: nx.full_like(t, 2.5),),
    "arange": (lambda nx, t: nx.arange(3),),
    "empty": (lambda nx, t: nx.empty((3,)),),
    "fftfreq": (lambda nx, t: nx.fft.fftfreq(3),),
    "rfftfreq": (lambda nx, t: nx.fft.rfftfreq(3),),
    "from_dlpack": (lambda nx, t: nx.from_dlpack(nx.arange(3)),),
    "linspace": (lambda nx, t: nx.linspace(0, 1, num=3),),
    "__array_namespace_info__": (lambda nx, t: nx.__array_namespace_info__().default_dtypes(),),
    "broadcast_shapes": (lambda nx, t: nx.broadcast_shapes((3, 1), (2,)),),
    "can_cast": (lambda nx, t: nx.can_cast(t, nx.complex128),),
    "iinfo": (lambda nx, t: nx.iinfo(_whole(nx, t)),),
    "isdtype": (lambda nx, t: nx.isdtype(t.dtype, "integral"),),
    "result_type": (lambda nx, t: nx.result_type(t, t),),
    "searchsorted": (lambda nx, t: nx.searchsorted(nx.asarray([0.0, 1.0]), t),),
    "solve": (lambda nx, t: nx.linalg.solve(_square(nx, t), _square(nx, t)),),
    **{
        name: (lambda nx, t, f=name: getattr(nx.linalg, f)(_square(nx, t)),)
        for name in (
            "cholesky",
            "det",
            "eig",
            "eigh",
            "eigvals",
            "eigvalsh",
            "inv",
            "matrix_rank",
            "pinv",
            "qr",
            "slogdet",
            "svd",
            "svdvals",
        )
    },
}
COMPACT = {s for s in Structure if s not in (Structure.DENSE, Structure.LIBRARY, Structure.INSPECTION)}


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def t(request):
    """Of the libraries that compile nothing: JAX would compile every function anew, and the class is the algebra's."""
    (xp64,) = _library(request.param)
    rows = xp64.astype(xp64.asarray([[1.25, -2.0], [0.5, 0.75], [-0.5, 3.0], [0.25, 0.0]]), xp64.float64)
    return IndexedSlices(xp64.asarray([3, ROWS - 1, 3, 7]), rows, (ROWS, 2))


def held(x):
    """How many elements a result holds, summed over all that a function gives."""
    if isinstance(x, (tuple, list)):
        return sum(map(held, x))
    if isinstance(x, Tangent):
        return int(np.prod(x._frame().values.shape))
    return int(np.prod(x.shape)) if hasattr(x, "shape") else 0


@pytest.mark.parametrize("structure", list(Structure))
def test_the_class_is_true_on_more_rows_than_can_be_addressed(t, structure):
    nx = t.__array_namespace__()
    for name in sorted(name for name, found in TABLE.items() if found is structure):
        first, *others = CALLS[name]
        with st.densify_policy("raise"), np.errstate(all="ignore"):
            if structure is Structure.DENSE:
                with pytest.raises(st.DensifyError, match=name):
                    first(nx, t)
                continue
            result = first(nx, t)
            assert held(result) < 1000, name
            for other in others:
                with pytest.raises(st.DensifyError):
                    other(nx, t)
        one = result[0] if isinstance(result, tuple) else result
        if structure is Structure.LINEAR:
            assert one.stored == t.stored or not one.unique or name in ("conj", "imag", "real"), name
        elif structure in (
            Structure.ZERO,
            Structure.UNION,
            Structure.VALUE,
            Structure.MOVE,
            Structure.ALONG,
            Structure.QUOTIENT,
        ):
            assert isinstance(one, Tangent), name
            assert structure in (Structure.MOVE, Structure.QUOTIENT) or name in ("add", "subtract", "astype") or one.unique, (
                name
            )
        elif structure is Structure.CREATION:
            assert isinstance(one, {"eye": OneHot, "asarray": IndexedSlices}.get(name, (Zero, Fill))), name
        elif structure in (Structure.LIBRARY, Structure.INSPECTION):
            assert not isinstance(one, Tangent), name


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_count_implicit_zeros_first(xp64, name, sign):
    """Against a loop: the first position of the extreme, whether it is stored or not."""
    rng = np.random.default_rng(7)
    for case in range(4 if xp64.backend_name == "jax" else 40):
        n = int(rng.integers(0, 7))
        ids = rng.integers(0, 5, n)
        values = sign * rng.integers(0 if case % 2 else -2, 3, (n, 2)).astype(float)
        if n and case % 5 == 0:
            values[rng.integers(n), 0] = np.nan
        t = IndexedSlices(xp64.asarray(ids), xp64.asarray(values), (5, 2))
        dense = np.zeros((5, 2))
        for i, row in zip(ids, values, strict=True):
            dense[i] += row
        expected = []
        for column in dense.T:
            best = 0
            for i, v in enumerate(column):
                better = v > column[best] if name == "argmax" else v < column[best]
                if not np.isnan(column[best]) and (np.isnan(v) or better):
                    best = i
            expected.append(best)
        nx = t.__array_namespace__()
        assert oracle.to_numpy(getattr(nx, name)(t, axis=0)).tolist() == expected
    far = IndexedSlices(xp64.asarray([0, 1, ROWS - 1]), xp64.asarray([-1.0, -2.0, -1.0]), (ROWS,))
    nx = far.__array_namespace__()
    assert int(nx.argmax(far)) == 2 and int(nx.argmin(far)) == 1 and int(nx.argmax(-far)) == 1


def test_spread_counts_implicit_zeros(xp64):
    t = IndexedSlices(xp64.asarray([1, 1, 4]), xp64.asarray([[1.0, -2.0], [3.0, 5.0], [-6.0, 0.5]]), (7, 2))
    dense = oracle.loop_densify(t)
    nx = t.__array_namespace__()
    for correction in (0, 1, 2.5):
        for axis in (0, 1, None):
            if correction >= 2 and axis == 1:
                continue
            mean = dense.mean(axis=axis, keepdims=True)
            count = dense.size / mean.size
            expected = ((dense - mean) ** 2).sum(axis=axis) / (count - correction)
            assert np.allclose(oracle.to_numpy(st.densify(nx.var(t, axis=axis, correction=correction))), expected)
            assert np.allclose(oracle.to_numpy(st.densify(nx.std(t, axis=axis, correction=correction))), np.sqrt(expected))
    wide = IndexedSlices(xp64.asarray([5]), xp64.asarray([4.0]), (2**20,))
    assert np.isclose(float(nx.var(wide)), 16 / 2**20 - (4 / 2**20) ** 2, rtol=1e-9)


def test_what_is_created(xp):
    nx = st.namespace(xp.module)
    for shape, k in (((3, 5), 1), ((5, 3), 1), ((5, 3), -2), ((4, 4), 0), ((2, 3), 7), ((0, 3), 0)):
        identity = nx.eye(*shape, k=k)
        assert isinstance(identity, OneHot) and not identity.weak
        assert (oracle.loop_densify(identity) == np.eye(*shape, k=k)).all()
    assert isinstance(nx.zeros(3), Zero) and isinstance(nx.full((2,), True), Fill) and nx.full((2,), True).dtype == xp.bool
    assert nx.full((2,), 3).dtype == xp.full((2,), 3).dtype and nx.ones((2,), dtype=xp.float32).dtype == xp.float32
    assert not isinstance(nx.zeros(()), Tangent) and not isinstance(nx.ones(()), Tangent) and nx.empty((2,)).shape == (2,)
    t = IndexedSlices(xp.asarray([1]), xp.asarray([2.0], dtype=xp.float32), (3,))
    assert (
        nx.asarray(t) is t and nx.asarray(t, dtype=xp.float32) is t and nx.asarray(t, dtype=xp.complex64).dtype == xp.complex64
    )
    with pytest.raises(ValueError, match="copy=False"):
        nx.asarray(t, dtype=xp.complex64, copy=False)


def test_tangents_as_conditions_masks_and_indices(xp):
    t = IndexedSlices(xp.asarray([1, 3, 1]), xp.asarray([[1.0, -2.0], [3.0, 0.5], [5.0, 2.0]]), (4, 2))
    dense = oracle.loop_densify(t)
    nx = t.__array_namespace__()
    assert np.allclose(oracle.to_numpy(st.densify(t[t > 1])), dense[dense > 1])
    assert np.allclose(oracle.to_numpy(st.densify(t[t[:, 0] != 0])), dense[dense[:, 0] != 0])
    with st.densify_policy("allow"):
        rows = IndexedSlices(xp.asarray([0, 0]), xp.asarray([1, 2]), (2,))
        assert np.allclose(oracle.to_numpy(st.densify(t[rows])), dense[[3, 0]])
        assert np.allclose(oracle.to_numpy(st.densify(nx.take(t, rows, axis=0))), dense[[3, 0]])
        assert np.allclose(oracle.to_numpy(nx.take(t.densify(), rows, axis=0)), dense[[3, 0]])
    for chosen, one, other in ((t > 0, t, -t), (t > 0, 2.0, t), (t > 0, 0.0, t), (t < 0, t, Zero((4, 2), like=t))):
        result = nx.where(chosen, one, other)
        plain = [oracle.loop_densify(x) if isinstance(x, Tangent) else x for x in (chosen, one, other)]
        assert isinstance(result, IndexedSlices) and np.allclose(oracle.loop_densify(result), np.where(*plain))
    with st.densify_policy("raise"), pytest.raises(st.DensifyError, match="where"):
        nx.where(t > 0, t, 1.0)


# Code that knows nothing of tangents
def clip_by_global_norm(xp, gradients, limit):
    norm = xp.sqrt(sum(xp.sum(xp.square(xp.abs(g))) for g in gradients))
    return [g * xp.where(norm > limit, limit / norm, xp.ones_like(norm)) for g in gradients], norm


def adagrad(xp, gradient, accumulated, rate, eps):
    accumulated = xp.add(accumulated, xp.square(gradient))
    return -rate * gradient / (xp.sqrt(accumulated) + eps), accumulated


def test_clipping_and_an_adagrad_step_stay_compact(xp):
    rows = xp.asarray([[1.5, -2.0], [0.5, 0.25], [-4.0, 3.0]])
    t = IndexedSlices(xp.asarray([1, 5, 1]), rows, (50, 2))
    array = xp.asarray([0.5, -1.5])
    dense = oracle.loop_densify(t).astype(float)
    nx = t.__array_namespace__()
    with st.densify_policy("raise"):
        (clipped, other), norm = clip_by_global_norm(nx, [t, array], 1.0)
        assert isinstance(clipped, IndexedSlices) and not isinstance(other, Tangent)
        total = np.sqrt((dense**2).sum() + 0.25 + 2.25)
        assert np.isclose(float(norm), total, rtol=1e-5)
        assert np.allclose(oracle.loop_densify(clipped), dense / total, atol=1e-5)
        state = xp.zeros((50, 2), dtype=rows.dtype) + 0.1
        update, state = adagrad(nx, clipped, state, 0.3, 1e-7)
        assert isinstance(update, IndexedSlices) and not isinstance(state, Tangent)
    expected = 0.1 + (dense / total) ** 2
    assert np.allclose(oracle.to_numpy(state), expected, atol=1e-5)
    assert np.allclose(oracle.loop_densify(update), -0.3 * (dense / total) / (np.sqrt(expected) + 1e-7), atol=1e-4)


def test_helpers_of_array_api_compat(xp):
    import array_api_compat as compat

    t = IndexedSlices(xp.asarray([1]), xp.asarray([[2.0, 3.0]]), (4, 2))
    assert compat.is_array_api_obj(t) and compat.array_namespace(t) is st.namespace(xp.module)
    assert compat.size(t) == 8 and compat.device(t) == t.device
    moved = compat.to_device(t, compat.device(t.values))
    assert st.equal(moved, t)


ZSCORE = """
import numpy as np, sparsetangent as st
from scipy.stats import zscore
t = st.IndexedSlices(np.array([1, 1, 4]), np.array([[1.0, -2.0], [3.0, 5.0], [-6.0, 0.5]]), (7, 2))
dense = t.densify()
with st.densify_policy("allow"):
    score = st.densify(zscore(t, axis=0))
print(np.allclose(score, (dense - dense.mean(0)) / dense.std(0)))
"""
SCALER = """
import numpy as np, sklearn, sparsetangent as st
from sklearn.preprocessing import MinMaxScaler
import LIBRARY as xp
t = st.IndexedSlices(xp.asarray([1, 1, 4]), xp.asarray([[1.0, -2.0], [3.0, 5.0], [-6.0, 0.5]]), (7, 2))
dense = np.asarray(t.densify())
low, high = dense.min(0), dense.max(0)
with sklearn.config_context(array_api_dispatch=True), st.densify_policy("allow"):
    scaler = MinMaxScaler(feature_range=(-1, 2))
    scaled = st.densify(scaler.fit_transform(t))
    back = st.densify(scaler.inverse_transform(scaler.transform(t)))
print(np.allclose(np.asarray(scaled), (dense - low) / (high - low) * 3 - 1) and np.allclose(np.asarray(back), dense))
"""


def run_with_array_api(text):
    """What a process prints in which SciPy's array API is switched on: it reads the switch when it is imported."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment)
    return done.stdout.strip() or done.stderr


def test_zscore_of_scipy():
    """It subtracts the mean, so zeros do not stay zero."""
    pytest.importorskip("scipy")
    assert run_with_array_api(ZSCORE) == "True"


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_scaler_of_scikit_learn(library):
    """It moves the least element to the beginning of the range, so zeros do not stay zero."""
    pytest.importorskip("sklearn")
    pytest.importorskip(library)
    assert run_with_array_api(SCALER.replace("LIBRARY", library)) == "True"
