"""The densify policy: modes, limits, contexts, and when it does not apply."""

import threading
import warnings

import numpy as np
import pytest

from sparsetangent import DensifyError, DensifyWarning, Fill, IndexedSlices, densify_policy, namespace


@pytest.fixture
def t(xp):
    return IndexedSlices(xp.asarray([1, 1]), xp.asarray([2.0, 3.0]), (4,))


def test_the_default_warns_and_is_right(t):
    nx = namespace(t)
    with pytest.warns(DensifyWarning, match=r"exp has no compact answer for a tangent of shape \(4,\); the dense array takes"):
        result = nx.exp(t)
    assert np.isclose(float(result[1]), np.exp(5)) and float(result[0]) == 1


def test_the_warning_points_at_the_callers_line(t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t + 1.0
    assert caught[0].filename == __file__


def test_modes(t):
    with densify_policy("raise"), pytest.raises(DensifyError, match="add"):
        t + 1.0
    with warnings.catch_warnings(), densify_policy("allow", max_bytes=0):
        warnings.simplefilter("error")
        t + 1.0
    with densify_policy("warn", max_bytes=8), pytest.raises(DensifyError, match="more than the 8"):
        t + 1.0


def test_settings_nest_and_restore(t):
    with densify_policy("allow"):
        with densify_policy("raise"), pytest.raises(DensifyError):
            t + 1.0
        t + 1.0
    with pytest.warns(DensifyWarning):
        t + 1.0


def test_a_thread_has_its_own_setting(t):
    seen = []

    def other():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            t + 1.0
            seen.extend(caught)

    with densify_policy("raise"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen and seen[0].category is DensifyWarning


def test_explicit_and_covered_densification_is_silent(xp, t):
    with densify_policy("raise"):
        t.densify()
        assert (t + xp.zeros((4,))).shape == (4,)
        assert (t < xp.zeros((4,))).shape == (4,)
        with pytest.raises(DensifyError):
            t + xp.asarray(1.0)
        with pytest.raises(DensifyError):
            t + Fill(xp.asarray(1.0), (4,))


def test_bad_settings():
    with pytest.raises(ValueError, match="'sometimes'"):
        densify_policy("sometimes")
    with pytest.raises(ValueError, match="-1"):
        densify_policy("warn", max_bytes=-1)
