"""The workhorse: slices of a dense array, each with its place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import itemgetter
from typing import Any

from ..backend import Backend, backend_of, is_array
from ..dtypes import facts
from ..kernels.base import Array, DType
from ..registry import apply
from .axes import as_axes, as_axis, as_shape
from .frame import Frame
from .indices import Ids, Validate, as_index_array, check_ids, check_size
from .tangent import Tangent, dtype_name, where

__all__ = ["IndexedSlices"]

_SWAPPED = " (were indices and values swapped? indices come first)"


class IndexedSlices(Tangent):
    """The adjoint of reading slices: zeros of `shape`, with ``values[k]`` added at ``indices[k]`` along `axis`.

    With one axis it is TensorFlow's type of that name and torch's row-sparse gradient; with several it is a hybrid COO
    array, with all of them COO, and with none (``axis=()``, ``indices=()``, values ``(n, *shape)``) a sum of whole arrays.
    Repeated indices sum (bools are or-ed). The arrays are held, not copied.

    Parameters
    ----------
    indices : Array of integers, or a tuple of them for a tuple `axis`
        One coordinate array for each axis, all of one shape; ``-size <= i < size``, negatives count from the end. A Python list
        of integers is converted. Indices of more than one dimension are flattened.
    values : Array
        Shape ``(*indices.shape, *dense axes in order)``, bool or any numeric dtype: the entries come first, whatever `axis` is.
    shape : tuple of int
        The dense array's shape.
    axis : int or tuple of int
        The axes that `indices` index. A tuple is sorted together with its indices.
    unique : bool
        The caller knows that no index repeats; verified when validating.
    validate : bool or "now"
        True checks the indices, at once on the CPU, on a device by a flag that is read later (`check_errors`); ``"now"``
        waits for the device. False skips the check and the normalisation of negatives: the caller vouches for ids in
        ``[0, size)``. Memory stays safe in any case.

    Raises
    ------
    TypeError
        Indices not of an integer dtype, values not an array, or arrays of different libraries.
    ValueError
        Shapes that do not fit together, a bad axis, repeats despite ``unique=True``, or different devices.
    IndexError
        An index out of range.

    Notes
    -----
    ``densify(t)[j] = sum over k with indices[k] == j of values[k]``, the transpose of ``x -> x[indices]``; see Griewank and Walther,
    *Evaluating Derivatives* (2008), section 3.2, for adjoints of reads.

    Examples
    --------
    The gradient of ``x[[1, 1, 3]]``: the repeated row sums.

    >>> import numpy as np, sparsetangent as st
    >>> t = st.IndexedSlices(np.array([1, 1, 3]), np.array([[1.0, 2.0], [10.0, 20.0], [5.0, 6.0]]), (5, 2))
    >>> t.densify().tolist()
    [[0.0, 0.0], [11.0, 22.0], [0.0, 0.0], [5.0, 6.0], [0.0, 0.0]]
    >>> t
    IndexedSlices(shape=(5, 2), dtype=float64, axis=0, stored=3, density=0.6, numpy)

    Two coordinates, negatives counted from the end:

    >>> t = st.IndexedSlices(([0, -1], [2, 2]), np.array([7.0, 8.0]), (2, 3), axis=(0, 1))
    >>> t.densify().tolist()
    [[0.0, 0.0, 7.0], [0.0, 0.0, 8.0]]
    >>> t.axis, t.coords == t.indices, t.values.tolist(), t.unique
    ((0, 1), True, [7.0, 8.0], False)
    """

    __slots__ = ("_data", "_vouched")
    _data: Frame
    _vouched: bool

    def __init__(
        self,
        indices: Any,
        values: Array,
        shape: Sequence[int],
        *,
        axis: int | tuple[int, ...] = 0,
        unique: bool = False,
        validate: Validate = True,
    ) -> None:
        if isinstance(axis, tuple):
            if not isinstance(indices, (tuple, list)) or len(indices) != len(axis):
                raise ValueError(f"indices must be a tuple of {len(axis)} arrays, one for each axis of {axis}")
            self._data = _intake(tuple(indices), values, as_shape(shape), axis, validate)
        else:
            self._data = _intake_one(indices, values, as_shape(shape), axis, validate)
        self._vouched = True
        if unique:
            if validate:
                _verify_unique(self)
            self._data = self._data._replace(unique=True)

    @classmethod
    def _of(cls, frame: Frame, *, vouched: bool = True) -> IndexedSlices:
        """Wrap a frame without a check."""
        self = object.__new__(cls)
        self._data = frame
        self._vouched = vouched
        return self

    def _frame(self) -> Frame:
        if not self._vouched:
            refuse_corrupted(self._data)
            self._vouched = True
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> DType:
        return self._data.values.dtype

    @property
    def axis(self) -> tuple[int, ...]:
        """The stored axes, ascending."""
        return self._data.axes

    @property
    def indices(self) -> Any:
        """The index array of the only stored axis, or the tuple of them."""
        ids = self._data.ids
        return ids[0] if len(ids) == 1 else ids

    @property
    def coords(self) -> tuple[Array, ...]:
        """The index arrays, always as a tuple."""
        return self._data.ids

    @property
    def values(self) -> Array:
        """The slices, shape ``(n, *dense axes in order)``."""
        frame = self._data
        if len(getattr(frame.values, "shape", ())) != 1 + len(frame.dense_sizes):
            return frame.values  # a leaf that a transformation made, such as a batch
        full = (frame.values.shape[0], *frame.dense_sizes)
        if tuple(frame.values.shape) == full:
            return frame.values
        return frame.backend.xp.broadcast_to(frame.values, full)

    @property
    def unique(self) -> bool:
        """Whether no coordinates are known to repeat."""
        return self._data.unique

    def to_slices(self) -> IndexedSlices:
        return self

    def _described(self) -> list[str]:
        axes, _, values, shape = self._data[:4]
        parts = [f"shape={shape}", f"dtype={dtype_name(values)}", f"axis={axes[0] if len(axes) == 1 else axes}"]
        if is_array(values) and values.ndim:
            held = values.shape[0] * prod(self._data.dense_sizes)
            parts += [f"stored={values.shape[0]}", f"density={held / self.size if self.size else 0.0:.3g}"]
        return parts + where(values)

    def __copy__(self) -> IndexedSlices:
        return IndexedSlices._of(self._data, vouched=self._vouched)

    def __reduce__(self) -> Any:
        axes, ids, values, shape, unique, _, padded = self._data
        return _restore, (ids, values, shape, axes, unique, padded)


def _intake_one(indices: Any, values: Array, shape: tuple[int, ...], axis: int, validate: Validate) -> Frame:
    """The frame of one index array and values with the entries first: the common case, kept short for small inputs."""
    backend = _backend_of_values(values)
    axis = as_axis(axis, len(shape))
    ids, padded = _coordinate(indices, values, shape, axis, backend, validate)
    dense = shape[:axis] + shape[axis + 1 :]
    _check_values(values, ids.shape, dense, shape, (axis,))
    if ids.ndim != 1:
        values, ids = _flattened(values, dense), backend.xp.reshape(ids, (-1,))
    frame = Frame((axis,), (ids,), values, shape, False, False, padded)
    return apply("blank_padding", frame) if padded else frame


def _intake(
    indices: tuple[Any, ...], values: Array, shape: tuple[int, ...], axis: tuple[int, ...], validate: Validate
) -> Frame:
    """The frame of any number of index arrays, sorted by their axes."""
    backend = _backend_of_values(values)
    axes = as_axes(axis, len(shape))
    by_axis = sorted(zip(axes, indices, strict=True), key=itemgetter(0))
    checked = [(a, *_coordinate(given, values, shape, a, backend, validate)) for a, given in by_axis]
    ids = tuple(c[1] for c in checked)
    entries = tuple(ids[0].shape) if ids else tuple(values.shape[:1])
    if any(tuple(i.shape) != entries for i in ids):
        raise ValueError(f"the arrays of indices must have one shape, not {[tuple(i.shape) for i in ids]}")
    if not ids and not values.ndim:
        raise ValueError("values of whole arrays must have an entry axis")
    axes = tuple(c[0] for c in checked)
    dense = tuple(n for a, n in enumerate(shape) if a not in axes)
    _check_values(values, entries, dense, shape, axes)
    if len(entries) != 1:
        values, ids = _flattened(values, dense), tuple(backend.xp.reshape(i, (-1,)) for i in ids)
    if len({i.dtype for i in ids}) > 1:
        widest = backend.xp.result_type(*ids)
        ids = tuple(backend.xp.astype(i, widest) for i in ids)
    frame = Frame(axes, ids, values, shape, padded=any(c[2] for c in checked))
    return apply("blank_padding", frame) if frame.padded else frame


def _backend_of_values(values: Array) -> Backend:
    try:
        backend = backend_of(values)
    except TypeError as error:
        raise TypeError(f"values must be an array: {error}") from None
    if facts(backend, values.dtype).kind == "other":
        raise TypeError(f"values must be bool or numeric, not {values.dtype}")
    return backend


def _coordinate(given: Any, values: Array, shape: tuple[int, ...], axis: int, backend: Backend, validate: Validate) -> Ids:
    """One checked index array."""
    size = shape[axis]
    ids = as_index_array(given, values, hint=_SWAPPED)
    check_size(size, axis, backend, values)
    return check_ids(ids, size, axis, validate=validate)


def _check_values(
    values: Array, entries: tuple[int, ...], dense: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    if values.shape != entries + dense:
        raise ValueError(
            f"values must have shape {(*entries, *dense)} (the shape of the indices, then the axes of {shape} "
            f"that are not in {axes}), not {tuple(values.shape)}"
        )


def _flattened(values: Array, dense: tuple[int, ...]) -> Array:
    """Values of any-dimensional entries with one entry axis."""
    entries = values.shape[: len(values.shape) - len(dense)]
    return backend_of(values).xp.reshape(values, (prod(entries), *dense))


def _verify_unique(t: IndexedSlices) -> None:
    frame = t._data
    if frame.concrete and frame.n > 1 and (distinct := apply("coalesce", t).stored) != frame.n:
        raise ValueError(f"unique=True, but the {frame.n} indices hold only {distinct} distinct ones")


def refuse_corrupted(frame: Frame) -> None:
    """Transformations of pytrees may put anything into the leaves; the first operation names the usual trap."""
    for ids in frame.ids:
        if not is_array(ids) or not facts(backend_of(ids), ids.dtype).is_integer:
            raise TypeError(
                f"the indices of this IndexedSlices are {dtype_name(ids)}, not integers: a tree-map probably reached them. "
                "Map over the values only, with sparsetangent.tree.map"
            )
    if any(ids.ndim != 1 for ids in frame.ids):
        raise TypeError(
            f"the leaves of this IndexedSlices have shapes {[tuple(x.shape) for x in (*frame.ids, frame.values)]}: a batch, which is for vmap"
        )
    if not is_array(frame.values):
        raise TypeError(f"the values of this IndexedSlices are no array but {type(frame.values).__name__}")


def _restore(
    ids: tuple[Array, ...], values: Array, shape: tuple[int, ...], axes: tuple[int, ...], unique: bool, padded: bool
) -> IndexedSlices:
    """Unpickle through the constructor's checks: a tampered file must not become an unchecked tangent."""
    if not padded:
        return IndexedSlices(ids, values, shape, axis=axes, unique=unique)
    # Padding is the one id that the constructor refuses: check against one more place, and that the padded rows are zero.
    grown = tuple(n + (a in axes) for a, n in enumerate(shape))
    frame = IndexedSlices(ids, values, grown, axis=axes)._data
    return IndexedSlices._of(apply("blank_padding", frame._replace(shape=as_shape(shape), padded=True)))
