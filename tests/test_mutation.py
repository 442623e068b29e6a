"""The planted faults still name what stands in the sources; `make mutants` plants them."""

from pathlib import Path

import pytest

import sparsetangent
from tests.mutation.faults import FAULTS

PACKAGE = Path(sparsetangent.__file__).parent


def test_there_are_as_many_as_promised():
    assert len(FAULTS) >= 40


@pytest.mark.parametrize("name", FAULTS)
def test_piece_is_in_its_file(name):
    fault = FAULTS[name]
    assert fault.old in (PACKAGE / fault.file).read_text()
    assert fault.old != fault.new
