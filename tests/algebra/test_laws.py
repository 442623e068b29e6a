"""``densify(f(t)) == f(densify(t))`` for every unary function, reduction, manipulation and basic key, on every type and backend."""

import pytest

import sparsetangent
from sparsetangent.testing import laws, strategies
from tests.helpers import for_all


@pytest.mark.parametrize("law", sorted(set(laws.NAMES) - {"two tangents"}))
def test_law(xp, law):
    check = laws._LAWS[law]
    if law.startswith("class"):
        check_class(xp, check)
        return
    heavy = law in ("reductions", "shapes", "unary functions", "indexing")
    for_all(xp, check, strategies.tangents(xp), examples=60 if heavy else 120)


def check_class(xp, check):
    """The functions of one class: many, so on few tangents; on JAX, which compiles each anew for every shape, on one."""
    if xp.backend_name.startswith("jax"):
        check(one_tangent(xp))
        return
    dtypes = strategies.dtypes_of(xp, ("bool", "int32", "uint8", "float32", "float64", "complex64"))
    for_all(xp, check, strategies.tangents(xp, dtypes=dtypes), examples=24)


def one_tangent(xp):
    """Rows that repeat, a row of zeros and a row that is not stored."""
    rows = xp.asarray([[1.5, 0.0], [-2.0, 3.0], [0.25, -1.0], [0.0, 0.0]], dtype=xp.float32)
    return sparsetangent.IndexedSlices(xp.asarray([2, 0, 2, 3]), rows, (4, 2))


@pytest.mark.parametrize("law", ["numbers", "sums and products", "unary functions", "reductions"])
def test_law_with_nan_and_inf(xp, law):
    floats = strategies.dtypes_of(xp, ("float32", "float64"))
    slices = strategies.indexed_slices(xp, dtypes=floats, special=True)
    for_all(xp, laws._LAWS[law], slices, examples=60)


def test_check_all_takes_two(xp):
    if xp.backend_name.startswith("jax"):
        laws.check_all(one_tangent(xp), one_tangent(xp) * 2)
        return
    for_all(xp, laws.check_all, strategies.one_hots(xp, strategies.shapes(1, 2)), examples=12)
    floats = strategies.dtypes_of(xp, ("float32",))
    pair = strategies.indexed_slices(xp, strategies.shapes(2, 2), floats)
    same_shape = pair.flatmap(
        lambda t: strategies.indexed_slices(xp, strategies.st.just(t.shape), floats).map(lambda u: (t, u))
    )
    for_all(xp, lambda tu: laws.check_all(*tu), same_shape, examples=12)
