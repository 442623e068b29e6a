"""``densify(f(t)) == f(densify(t))`` for every unary function, reduction, manipulation and basic key, on every type and backend."""

import pytest

from sparsetangent import IndexedSlices
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
    floats = strategies.dtypes_of(xp, ("float32",))
    if xp.backend_name.startswith("jax"):
        # Each law is tested above; eager JAX takes 20 s for an example of all of them.
        t, u = (
            IndexedSlices(xp.asarray(ids), xp.asarray([1.5, -2.0, 0.25], dtype=floats[0]), (4,))
            for ids in ([1, -1, 1], [3, 0, 2])
        )
        laws.check_all(t, u)
        return
    for_all(xp, laws.check_all, strategies.one_hots(xp, strategies.shapes(1, 2)), examples=12)
    pair = strategies.indexed_slices(xp, strategies.shapes(2, 2), floats)
    same_shape = pair.flatmap(
        lambda t: strategies.indexed_slices(xp, strategies.st.just(t.shape), floats).map(lambda u: (t, u))
    )
    for_all(xp, lambda tu: laws.check_all(*tu), same_shape, examples=12)
