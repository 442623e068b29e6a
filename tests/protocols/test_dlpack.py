"""Exchange by DLPack: the dense array is handed over, by the policy."""

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent.testing import oracle


@pytest.fixture
def pair(xp64):
    """A tangent with a repeated row, and the dense array by hand."""
    rows = np.random.default_rng(3).standard_normal((3, 2)).astype(np.float32)
    dense = np.zeros((4, 2), np.float32)
    for i, row in zip((2, 0, 2), rows, strict=True):
        dense[i] += row
    return st.IndexedSlices(xp64.asarray([2, 0, 2]), xp64.asarray(rows), (4, 2)), dense


def test_a_library_takes_a_tangent(pair):
    t, dense = pair
    with st.densify_policy("allow"):
        assert np.allclose(np.from_dlpack(t), dense)
        takes_device = not isinstance(t.values, np.ndarray) or np.lib.NumpyVersion(np.__version__) >= "2.1.0"
        for options in ({}, {"copy": True}, *([{"device": t.device}] if takes_device else [])):
            assert np.allclose(oracle.to_numpy(st.namespace(t).from_dlpack(t, **options)), dense)
    assert tuple(map(int, t.__dlpack_device__())) == (1, 0)


def test_the_policy_is_asked_and_nothing_is_shared(pair):
    t, _ = pair
    with st.densify_policy("raise"), pytest.raises(st.DensifyError, match="__dlpack__ has no compact answer"):
        t.__dlpack__()
    nx = st.namespace(t)
    with st.densify_policy("raise"), pytest.raises(st.DensifyError, match="from_dlpack has no compact answer"):
        nx.from_dlpack(t)
    for refused in (lambda: t.__dlpack__(copy=False), lambda: nx.from_dlpack(t, copy=False)):
        with pytest.raises(BufferError, match="copy=False cannot be met"):
            refused()
