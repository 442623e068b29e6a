"""``densify(f(t)) == f(densify(t))`` for every unary function, reduction, manipulation and basic key, on every type and backend."""

import pytest

import sparsetangent
from sparsetangent.registry import Structure
from sparsetangent.testing import laws, standard, strategies
from tests.conftest import _library
from tests.helpers import for_all


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def eager(request):
    """The backends that compile nothing."""
    yield from _library(request.param)


@pytest.fixture(params=["jax", "jax32"])
def jax_library(request):
    yield from _library(request.param)


CLASSES = sorted(law for law in laws.NAMES if law.startswith("class"))


@pytest.mark.parametrize("law", sorted(set(laws.NAMES) - {"two tangents", *CLASSES}))
def test_law(xp, law):
    check = laws._LAWS[law]
    heavy = law in ("reductions", "shapes", "unary functions", "indexing")
    for_all(xp, check, strategies.tangents(xp), examples=60 if heavy else 120)


@pytest.mark.parametrize("law", CLASSES)
def test_class(eager, law):
    """The functions of one class: many, so on few tangents."""
    xp, check = eager, laws._LAWS[law]
    dtypes = strategies.dtypes_of(xp, ("bool", "int32", "uint8", "float32", "float64", "complex64"))
    for_all(xp, check, strategies.tangents(xp, dtypes=dtypes), examples=16)


COMPILED = (Structure.VALUE, Structure.FOLD, Structure.ALONG, Structure.MOVE, Structure.READ, Structure.CONTRACTION)


@pytest.mark.parametrize("structure", COMPILED)
def test_class_on_jax(jax_library, structure):
    """JAX compiles each function anew for every shape: one tangent, the first way to call each function (with x64) or the last."""
    tried = {o.name.partition("(")[0]: o for o in standard.operations_of(structure, (4, 2))}
    if jax_library.backend_name == "jax":
        tried = {o.name.partition("(")[0]: o for o in reversed(list(standard.operations_of(structure, (4, 2))))}
    for operation in tried.values():
        laws.check_law(operation.apply, one_tangent(jax_library), note=operation.name)


def one_tangent(xp):
    """Rows that repeat, a row of zeros and a row that is not stored."""
    rows = xp.asarray([[1.5, 0.0], [-2.0, 3.0], [0.25, -1.0], [0.0, 0.0]], dtype=xp.float32)
    return sparsetangent.IndexedSlices(xp.asarray([2, 0, 2, 3]), rows, (4, 2))


@pytest.mark.parametrize("law", ["numbers", "sums and products", "unary functions", "reductions"])
def test_law_with_nan_and_inf(xp, law):
    floats = strategies.dtypes_of(xp, ("float32", "float64"))
    slices = strategies.indexed_slices(xp, dtypes=floats, special=True)
    for_all(xp, laws._LAWS[law], slices, examples=60)


def test_check_all_takes_two(eager):
    xp = eager
    for_all(xp, laws.check_all, strategies.one_hots(xp, strategies.shapes(1, 2)), examples=6)
    floats = strategies.dtypes_of(xp, ("float32",))
    pair = strategies.indexed_slices(xp, strategies.shapes(2, 2), floats)
    same_shape = pair.flatmap(
        lambda t: strategies.indexed_slices(xp, strategies.st.just(t.shape), floats).map(lambda u: (t, u))
    )
    for_all(xp, lambda tu: laws.check_all(*tu), same_shape, examples=6)
