"""The interchange page says what is measured."""

import pytest

for _library in ("autograd", "jax", "sparse", "torch"):
    pytest.importorskip(_library)

from tests.interop.interchange import PAGE, page  # noqa: E402  (after the skips)


def test_the_page_is_what_the_script_writes():
    assert PAGE.read_text() == page(), "run python -m tests.interop.interchange"


def test_no_import_of_a_neighbour_that_is_not_asked_for():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, sparsetangent as st;"
        "st.interop.convert(np.ones(2), np);"
        "print(*[m for m in ('torch', 'jax', 'cupy', 'scipy', 'sparse', 'autograd', 'tensorflow') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_neighbours_are_found_by_name():
    import sparsetangent as st

    assert st.interop.scipy.to_coo(st.Zero((3,))).nnz == 0
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        st.interop.nobody
