"""The abstract base: what every tangent has."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import array_api_compat
import numpy as np

from ..backend import backend_of, is_array
from ..dtypes import facts
from ..kernels.base import Array, DType, Namespace
from ..registry import apply
from .frame import Frame
from .operators import Operators

if TYPE_CHECKING:
    from .indexed_slices import IndexedSlices

__all__ = ["Tangent"]


class Tangent(Operators):
    """A compact gradient: an object that stands for a dense array that is zero, or constant, almost everywhere.

    ``densify(f(t)) == f(densify(t))`` for every public operation `f`. Structural zeros are strong: ``t * inf`` leaves the
    places that are not stored 0.

    A third party adds a type by deriving from this class and giving ``shape``, ``dtype`` and ``to_slices()``; all operations
    then work through the slices, and `sparsetangent.registry.implements` replaces those that the type can do better.

    Examples
    --------
    A diagonal matrix as a type of its own:

    >>> import numpy as np, sparsetangent as st
    >>> class Diagonal(st.Tangent):
    ...     def __init__(self, values):
    ...         self.values = values
    ...     shape = property(lambda self: 2 * self.values.shape)
    ...     dtype = property(lambda self: self.values.dtype)
    ...     def to_slices(self):
    ...         ids = np.arange(self.values.shape[0])
    ...         return st.IndexedSlices((ids, ids), self.values, self.shape, axis=(0, 1))
    >>> (2 * Diagonal(np.array([1.0, 3.0]))).densify().tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    >>> (Diagonal(np.array([1.0, 3.0])) @ np.array([10.0, 20.0])).densify().tolist()
    [10.0, 60.0]

    What every tangent tells of itself and turns into:

    >>> t = st.IndexedSlices(np.array([1, 1]), np.float32([[1, 2], [3, 4]]), (4, 2))
    >>> t.shape, t.ndim, t.size, t.dtype, t.device
    ((4, 2), 2, 8, dtype('float32'), 'cpu')
    >>> t.stored, t.density, t.nbytes, t.dense_nbytes
    (2, 0.5, 32, 32)
    >>> t.T.shape, t.mT.shape, t.to_slices() is t
    ((2, 4), (2, 4), True)
    >>> t.densify().tolist() == t.todense().tolist() == [[0, 0], [4, 6], [0, 0], [0, 0]]
    True
    >>> t.coalesce().values.tolist(), t.coalesce(size=3).indices.tolist()
    ([[4.0, 6.0]], [1, 4, 4])
    >>> t.astype(np.float64).dtype, t.to_device("cpu").device, t.retain([0]).densify().any()
    (dtype('float64'), 'cpu', np.False_)
    """

    __slots__ = ("__weakref__",)

    # What a type gives

    @property
    def shape(self) -> tuple[int, ...]:
        """The dense array's shape."""
        raise TypeError(f"{type(self).__name__} must define shape")

    @property
    def dtype(self) -> DType:
        """The dense array's dtype."""
        raise TypeError(f"{type(self).__name__} must define dtype")

    def to_slices(self) -> IndexedSlices:
        """The same tangent as `IndexedSlices`.

        Returns
        -------
        IndexedSlices
            Of the same shape and dtype.
        """
        raise TypeError(f"{type(self).__name__} must define to_slices()")

    def _frame(self) -> Frame:
        """The record that the algebra works on."""
        return self.to_slices()._frame()

    # What follows from it

    @property
    def device(self) -> Any:
        """The device of the arrays held."""
        return array_api_compat.device(self._frame().values)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The dense array's number of elements."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """The number of stored entries, repeats counted."""
        return self._frame().n

    @property
    def nbytes(self) -> int:
        """Bytes held, indices and values."""
        return self._frame().nbytes

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the dense array that this stands for."""
        return self.size * facts(backend_of(self._frame().values), self.dtype).itemsize

    @property
    def density(self) -> float:
        """Values held, counted after broadcasting, over `size`; 0 for an empty array."""
        frame = self._frame()
        return frame.n * prod(frame.dense_sizes) / self.size if self.size else 0.0

    @property
    def T(self) -> Tangent:
        """The transpose of a tangent of two axes (the standard's rule; else `ValueError`)."""
        if self.ndim != 2:
            raise ValueError(f"T needs 2 axes, not {self.ndim}; mT swaps the last two, permute_dims any")
        return apply("permute_dims", self, (1, 0))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tangent:
        """The tangent with its last two axes swapped."""
        if self.ndim < 2:
            raise ValueError(f"mT needs at least 2 axes, not {self.ndim}")
        return apply("permute_dims", self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))  # type: ignore[no-any-return]

    def densify(self, out: Array | None = None) -> Array:
        """The dense array: zeros, with every stored entry added at its place.

        Parameters
        ----------
        out : Array, optional
            Where to write, of the same shape and dtype; its old content is overwritten. The only case in which an
            array that the caller holds is written to.

        Returns
        -------
        Array
            A new array of shape ``shape`` and dtype ``dtype`` (or `out`), which shares no memory with the tangent.

        Raises
        ------
        ValueError, TypeError
            If `out` has another shape or dtype, or is read-only.
        """
        return apply("densify", self, out=out)

    todense = densify

    def coalesce(self, size: int | None = None) -> IndexedSlices:
        """The same tangent with sorted coordinates, each once.

        Parameters
        ----------
        size : int, optional
            Return exactly this many entries, filled up with padding: coordinates equal to the axis sizes, zero rows. For
            static shapes under a compiler, where None means as many as there are now.

        Returns
        -------
        IndexedSlices
            Of the same shape and dtype; its `unique` is true.

        Raises
        ------
        ValueError
            If there are more distinct coordinates than `size` and values can be seen.
        """
        return apply("coalesce", self, size=size)  # type: ignore[no-any-return]

    def astype(self, dtype: DType, *, copy: bool = True) -> Any:
        """The tangent with another dtype; a cast that does not commute with sums coalesces first.

        Parameters
        ----------
        dtype : dtype
            The library's, or a name such as ``"float32"``.
        copy : bool
            There for the standard's signature: a tangent is immutable, so one of the same dtype is returned as it is.

        Returns
        -------
        Tangent
            Of the same shape.
        """
        return apply("astype", self, dtype)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The tangent with its arrays on another device.

        Parameters
        ----------
        device, stream : device, optional
            As the library names and takes them.

        Returns
        -------
        Tangent
            Of the same shape and dtype.
        """
        return apply("to_device", self, device, stream=stream)

    def retain(self, ids: Any) -> Tangent:
        """The tangent with only the rows named in `ids`: the same shape, every other row zero.

        Parameters
        ----------
        ids : Array of integers
            Shape ``(k,)``, along the only stored axis; repeated ids keep a row once.

        Returns
        -------
        Tangent
            Of the same shape and dtype.

        Raises
        ------
        ValueError
            If the number of stored axes is not one.
        TypeError, IndexError
            If `ids` are not integers, or out of range.
        """
        return apply("retain", self, ids)  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> Any:
        return apply("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is immutable; add a tangent instead (t + IndexedSlices(...)), "
            "or write into the dense array with sparsetangent.add_into"
        )

    # Conversions

    def __array_namespace__(self, *, api_version: str | None = None) -> Namespace:
        return apply("__array_namespace__", self, api_version=api_version)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return apply("__array__", self, dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return apply("__dlpack__", self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return apply("__dlpack_device__", self)  # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return apply("__array_ufunc__", self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply("__array_function__", self, func, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return apply("__torch_function__", func, args, kwargs or {})

    def _item(self) -> Any:
        """The only element; a `ValueError` if there are several, without making them."""
        if self.size != 1:
            raise ValueError(
                f"the truth or number of a tangent with {self.size} elements is ambiguous; "
                "reduce it first (any, all, sum) or compare with sparsetangent.equal"
            )
        return backend_of(self._frame().values).xp.reshape(self.densify(), ())

    def __bool__(self) -> bool:
        return bool(self._item())

    def __int__(self) -> int:
        return int(self._item())

    def __float__(self) -> float:
        return float(self._item())

    def __complex__(self) -> complex:
        return complex(self._item())

    def __index__(self) -> int:
        if self.ndim:
            raise TypeError("only a tangent without axes can be an index")
        index: int = self._item().__index__()
        return index

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a tangent without axes")
        return self.shape[0]

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not iterated (it may have 2**50 rows); index it, or densify() first")

    def __contains__(self, value: Any) -> NoReturn:
        self.__iter__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._described())})"

    def _described(self) -> list[str]:
        """What `repr` shows; leaves that are no arrays (pytrees hold anything) are shown by their type."""
        values = self._frame().values
        return [f"shape={self.shape}", f"dtype={dtype_name(values)}", *where(values)]


def dtype_name(x: Any) -> str:
    """``float32`` for any library's way to write it."""
    return str(getattr(x, "dtype", type(x).__name__)).rpartition(".")[2]


def where(x: Any) -> list[str]:
    """Backend and device of a leaf, or nothing for one that is no array."""
    if not is_array(x) or isinstance(x, np.generic):
        return []
    name = backend_of(x).name
    return [name] if name == "numpy" else [name, str(array_api_compat.device(x))]
