"""The generic kernels in static shapes, as under a tracer: what the contract's suite on values that can be seen never takes."""

import array_api_strict
import numpy as np
import pytest

from sparsetangent.kernels.generic import GenericKernels
from tests.conftest import Library
from tests.kernels import reference as ref
from tests.kernels import test_contract as contract

pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")


class Unseen(GenericKernels):
    """As if the values were traced: nothing is read, no entry dropped."""

    def concrete(self, x):
        return False


@pytest.fixture
def xp():
    return Library("array_api_strict", array_api_strict)


@pytest.fixture
def kernels():
    return Unseen(array_api_strict)


@pytest.mark.parametrize("op", ref.OPS)
def test_folds(xp, kernels, op):
    for include_self in (True, False):
        contract.test_scatter_reduce(xp, kernels, op, include_self)
    contract.test_folds_of_many_rows(xp, kernels, op)
    contract.test_nan_propagates(xp, kernels, op)


def test_sums_and_reads(xp, kernels):
    contract.test_gather(xp, kernels)
    contract.test_densify(xp, kernels, True)
    contract.test_scatter_add(xp, kernels, -1)
    contract.test_put(xp, kernels)


def test_distinct_ids(xp, kernels):
    for extra in (0, 2):
        contract.test_unique_inverse_and_coalesce(xp, kernels, extra)


def test_as_many_places_as_entries_where_no_length_is_given(xp, kernels):
    ids, rows = xp.asarray([4, 1, 7, 1, 9]), xp.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    distinct, sums = kernels.coalesce(ids, rows, 9)
    assert ref.take(distinct).tolist() == [1, 4, 7, 9, 9]
    assert ref.take(sums).tolist() == [6, 1, 3, 0, 0]


def test_ids_out_of_range_are_padding(xp, kernels):
    ids, rows = xp.asarray([1, -1, 99, 1]), xp.asarray([[1.0], [2.0], [3.0], [4.0]])
    assert ref.take(kernels.densify(ids, rows, 3)).tolist() == [[0], [5], [0]]
    assert ref.take(kernels.gather(rows, ids)).tolist() == [[2], [0], [0], [2]]
    assert ref.take(kernels.scatter_add(rows, ids, rows, 2)).tolist() == [[1], [12], [3], [4]]
    distinct, inverse = kernels.unique_inverse(ids, 3)
    assert ref.take(distinct).tolist() == [1, 3, 3, 3]
    assert ref.take(inverse).tolist() == [0, 4, 4, 0]
    np.testing.assert_array_equal(ref.take(kernels.put(rows, xp.asarray([-1, 4, 7, 9]), rows)), ref.take(rows))
