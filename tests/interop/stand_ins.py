"""Stand-ins for neighbours that are not installed here: TensorFlow, and CuPy, which needs a GPU."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import array_api_compat.numpy as xp
import numpy as np

import sparsetangent as st
from sparsetangent.kernels.generic import GenericKernels


class Tensor:
    """An eager tensor: what is used of one is that it is made from an array and gives it back."""

    def __init__(self, x: Any) -> None:
        self._x = np.array(x)

    def numpy(self) -> Any:
        return self._x


class Slices:
    """`tf.IndexedSlices`, with its order of arguments: values first."""

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        assert all(isinstance(x, Tensor) for x in (values, indices))
        self.values, self.indices, self.dense_shape = values, indices, dense_shape


@contextmanager
def _importable(modules: dict[str, ModuleType]) -> Iterator[None]:
    """With these in `sys.modules`; what else is imported meanwhile stays (torch cannot be imported twice)."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@contextmanager
def tensorflow() -> Iterator[Any]:
    """TensorFlow itself where it is installed."""
    if find_spec("tensorflow"):
        yield import_module("tensorflow")
        return
    module: Any = ModuleType("tensorflow")
    module.IndexedSlices, module.convert_to_tensor = Slices, Tensor
    with _importable({"tensorflow": module}):
        yield module


class OnCard(np.ndarray):
    """An array of CuPy."""


class CooMatrix:
    """CuPy's COO matrix: of two axes and five dtypes, with ``row`` and ``col`` in int32 and no ``coords``."""

    format = "coo"

    def __init__(self, entries: Any, shape: tuple[int, ...]) -> None:
        assert isinstance(entries[0], OnCard) and len(shape) == 2
        if entries[0].dtype.char not in "?fdFD":
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        self.data, (self.row, self.col) = entries[0], (ids.astype(np.int32).view(OnCard) for ids in entries[1])
        self.shape, self.has_canonical_format = shape, False

    def tocoo(self, copy: bool = True) -> Any:
        return self


class CsrMatrix:
    """CuPy's CSR matrix."""

    def __init__(self, entries: Any, shape: tuple[int, ...]) -> None:
        self.data, self.indices, self.indptr = entries
        self.shape, self.has_canonical_format = shape, False


@contextmanager
def cupy() -> Iterator[None]:
    """Arrays of `OnCard` belong to CuPy, and ``cupyx.scipy.sparse`` can be imported."""
    module: Any = ModuleType("cupyx.scipy.sparse")
    module.coo_matrix, module.csr_matrix = CooMatrix, CsrMatrix
    modules = {"cupyx": ModuleType("cupyx"), "cupyx.scipy": ModuleType("cupyx.scipy"), "cupyx.scipy.sparse": module}
    st.register_kernels(lambda x: isinstance(x, OnCard), lambda: GenericKernels(xp, "cupy"))
    with _importable(modules):
        yield
    st.backend._PLUGINS.pop()
    st.backend._BY_TYPE.pop(OnCard, None)
