"""Backends are found by array type, third parties register theirs, and device checks are read later."""

import runpy

import numpy as np
import pytest

import sparsetangent
from sparsetangent import IndexedSlices, backend
from sparsetangent.kernels.generic import GenericKernels
from sparsetangent.kernels.numpy import NumpyKernels


class OnDevice(np.ndarray):
    """Stands for arrays of a device whose values cannot be read without waiting."""

    def __array_function__(self, func, types, args, kwargs):
        result = super().__array_function__(func, types, args, kwargs)
        return result.view(OnDevice) if type(result) is np.ndarray else result


class DeviceKernels(NumpyKernels):
    def synchronous(self, x):
        return False

    def _checked(self, ids, size):
        return np.where((ids < 0) | (ids > size), size, ids), (ids >= 0) & (ids < size)


@pytest.fixture
def on_device():
    plugins = list(backend._PLUGINS)
    sparsetangent.register_kernels(lambda x: type(x) is OnDevice, DeviceKernels)
    yield lambda x: np.asarray(x).view(OnDevice)
    backend._PLUGINS[:] = plugins
    backend._BY_TYPE.clear()


def test_a_backend_is_found_once(xp):
    x = xp.zeros((1,))
    found = backend.backend_of(x)
    assert backend.backend_of(x) is found and found in backend.known_backends()
    assert found.xp.zeros((1,)).shape == (1,)


def test_what_is_no_array_is_refused():
    for bad in (1.0, [1], None, "text", object(), np.zeros):
        with pytest.raises(TypeError, match=type(bad).__name__):
            backend.backend_of(bad)
        assert not backend.is_array(bad)


def test_a_conforming_library_works_with_generic_kernels():
    strict = pytest.importorskip("array_api_strict")
    assert type(backend.backend_of(strict.zeros(1)).kernels) is GenericKernels


def test_a_check_on_a_device_is_read_later(on_device):
    sparsetangent.check_errors()
    t = IndexedSlices(on_device([1, 9, -1]), on_device([1.0, 2.0, 4.0]), (4,))
    assert np.asarray(t.indices).tolist() == [1, 4, 3] and np.asarray(t.values).tolist() == [1, 0, 4]
    with pytest.raises(IndexError, match="axis 0 of size 4"):
        sparsetangent.check_errors()
    sparsetangent.check_errors()


def test_a_coalesce_waits_and_so_reads_the_flags(on_device):
    t = IndexedSlices(on_device([1, 9]), on_device([1.0, 2.0]), (4,))
    with pytest.raises(IndexError):
        t.coalesce()


def test_a_coalesce_on_the_cpu_waits_for_no_device(on_device):
    IndexedSlices(on_device([1, 9]), on_device([1.0, 2.0]), (4,))
    assert IndexedSlices([1, 1], np.array([1.0, 2.0]), (4,)).coalesce().values.tolist() == [3]
    with pytest.raises(IndexError):
        sparsetangent.check_errors()


def test_validate_now_waits_for_the_device(on_device):
    with pytest.raises(IndexError, match="holds 9 at position 1"):
        IndexedSlices(on_device([1, 9]), on_device([1.0, 2.0]), (4,), validate="now")


def test_a_device_array_is_not_converted_implicitly(on_device):
    t = IndexedSlices(on_device([1]), on_device([1.0]), (4,), validate=False)
    with pytest.raises(TypeError, match="device"):
        np.asarray(t)


@pytest.mark.parametrize("how", ["function", "module"])
def test_show_config(how, capsys):
    if how == "function":
        sparsetangent.show_config()
    else:
        runpy.run_module("sparsetangent", run_name="__main__")
    printed = capsys.readouterr().out
    assert f"numpy {np.__version__}" in printed and "sparsetangent 0.1.0" in printed
