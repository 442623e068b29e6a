"""Membership of a number, in every dtype that a library can hold."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent.testing import oracle


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int16"])
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("number", [34, 0])
def test_isin_a_number(xp64, dtype, invert, number):
    """torch knows wide unsigned integers beside a number, and not beside an array."""
    if xp64.backend_name.startswith("jax"):
        return  # its isin takes arrays
    values = oracle.as_backend(xp64, np.array([30, 4, 7, 34]), getattr(xp64, dtype))
    t = st.IndexedSlices(xp64.asarray([2, 2, 0, 3]), values, (5,))
    with st.densify_policy("allow"):
        result = st.namespace(t).isin(t, number, invert=invert)
    expected = np.isin(np.array([7, 0, 34, 34, 0]), number) != invert
    assert oracle.to_numpy(st.densify(result)).tolist() == expected.tolist()
