"""``densify(f(t)) == f(densify(t))`` for every unary function, reduction, manipulation and basic key, on every type and backend."""

import pytest

from sparsetangent.testing import laws, strategies
from tests.helpers import for_all


@pytest.mark.parametrize("law", sorted(set(laws.NAMES) - {"two tangents"}))
def test_law(xp, law):
    check = laws._LAWS[law]
    heavy = law in ("reductions", "shapes", "unary functions", "indexing")
    for_all(xp, check, strategies.tangents(xp), examples=60 if heavy else 120)


@pytest.mark.parametrize("law", ["numbers", "sums and products", "unary functions", "reductions"])
def test_law_with_nan_and_inf(xp, law):
    floats = strategies.dtypes_of(xp, ("float32", "float64"))
    slices = strategies.indexed_slices(xp, dtypes=floats, special=True)
    for_all(xp, laws._LAWS[law], slices, examples=60)


def test_check_all_takes_two(xp):
    for_all(xp, laws.check_all, strategies.one_hots(xp, strategies.shapes(1, 2)), examples=12)
    floats = strategies.dtypes_of(xp, ("float32",))
    pair = strategies.indexed_slices(xp, strategies.shapes(2, 2), floats)
    same_shape = pair.flatmap(
        lambda t: strategies.indexed_slices(xp, strategies.st.just(t.shape), floats).map(lambda u: (t, u))
    )
    for_all(xp, lambda tu: laws.check_all(*tu), same_shape, examples=12)
