"""Tangents and arrays in a safetensors file: written whole or not at all, and read only if every byte is as it was written.

The arrays are ordinary tensors of the file, for any reader. What they stand for is in its metadata as JSON, with a checksum for each
tensor and one for the JSON itself. bfloat16 is stored as its bits (uint16), complex numbers as pairs of reals.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..backend import backend_of
from ..kernels.base import Array, Namespace
from ..types import Fill, IndexedSlices, OneHot, Tangent, Zero
from ..types.tangent import dtype_name
from .conversion import convert
from .coordinates import from_coordinates

__all__ = ["load", "save"]

_FORMAT = 1
_KEYS = ("sparsetangent", "sparsetangent.crc32")
# Kept as they are; the others are stored under another dtype.
_PLAIN = ("bool", *(f"{sign}int{8 * width}" for sign in ("", "u") for width in (1, 2, 4, 8)), "float16", "float32", "float64")
_STORED = {**{name: name for name in _PLAIN}, "bfloat16": "uint16", "complex64": "float32", "complex128": "float64"}

Spec = dict[str, Any]


def save(items: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write tangents and arrays to a file, which takes the place of an older one in a single step.

    Parameters
    ----------
    items : mapping of str to Tangent, Array, None, or a list of these
        Of any libraries, shapes and dtypes that the format has. Tangents keep their type, entries, order and known facts; a type of a third party is saved as its slices.
    path : path
        The file is written beside it under another name, flushed to the disk, and renamed: whoever reads `path` meanwhile, or
        after a crash, finds the old file whole or the new one.

    Raises
    ------
    TypeError
        If a name is no string, or an item is none of the above or of a dtype that the format has not.
    OSError
        If the file cannot be written; nothing is left behind, and an older file stays.

    Examples
    --------
    >>> import numpy as np, os, sparsetangent as st, tempfile
    >>> from sparsetangent.interop.safetensors import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "step.safetensors")
    >>> t = st.IndexedSlices(np.array([7, 7]), np.array([[1.0], [2.0]]), (10, 1))
    >>> save({"gradient": t, "history": [np.arange(3), st.Zero((2, 2)), None]}, path)
    >>> load(path)["gradient"]
    IndexedSlices(shape=(10, 1), dtype=float64, axis=0, stored=2, density=0.2, numpy)
    >>> load(path)["history"]
    [array([0, 1, 2]), Zero(shape=(2, 2), dtype=float64, numpy), None]
    """
    tensors: dict[str, Any] = {}
    specs = []
    for name, item in items.items():
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, not {name!r}")
        specs.append([name, _described(item, name, tensors)])
    checks = {key: [x.dtype.name, list(x.shape), _crc32(x)] for key, x in tensors.items()}
    text = json.dumps({"format": _FORMAT, "items": specs, "tensors": checks})
    _replace(os.path.realpath(path), tensors, dict(zip(_KEYS, (text, str(zlib.crc32(text.encode()))), strict=True)))


def load(path: str | os.PathLike[str], *, xp: Namespace | None = None, device: Any = None) -> dict[str, Any]:
    """Read what `save` has written.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    xp : namespace, optional
        The library for the arrays, whichever they were saved from; NumPy by default.
    device : optional
        A device of that library.

    Returns
    -------
    dict
        The names in their order, each with what was saved under it: type, shape, dtype, entries, order and known facts. Ids have
        the library's index dtype where it is narrower (JAX without x64).

    Raises
    ------
    ValueError
        If the file is truncated, was changed since, was written by something else, or holds ids out of range.
    TypeError
        If the library cannot hold a dtype, as it is set up.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import numpy as np, os, sparsetangent as st, tempfile
    >>> from sparsetangent.interop.safetensors import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "fill.safetensors")
    >>> save({"bias": st.Fill(np.float32(0.5), (1000,))}, path)
    >>> load(path)
    {'bias': Fill(shape=(1000,), dtype=float32, numpy)}
    >>> os.truncate(path, 100)
    >>> load(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: .../fill.safetensors is damaged or no safetensors file: ...
    """
    name = os.fspath(path)
    manifest, tensors = _verified(name)
    try:
        items = {key: _restored(spec, tensors) for key, spec in manifest["items"]}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} does not hold what it claims: {error}") from error
    return {key: _moved(item, np if xp is None else xp, device) for key, item in items.items()}


# What an item is made of


def _described(item: Any, name: str, tensors: dict[str, Any]) -> Spec:
    """An item as JSON; its arrays go to `tensors`, under names that tell what they are."""
    if item is None:
        return {"type": "None"}
    if isinstance(item, (list, tuple)):
        return {"type": "list", "items": [_described(x, f"{name}.{i}", tensors) for i, x in enumerate(item)]}

    def put(x: Array, field: str = "") -> Spec:
        key = f"{name}.{field}" if field else name
        if key in tensors:
            raise ValueError(f"two arrays would have the name {key!r}; rename {name!r}")
        dtype, tensors[key] = _host(x, key)
        return {"tensor": key, "dtype": dtype}

    if not isinstance(item, Tangent):
        try:
            backend_of(item)
        except TypeError as error:
            raise TypeError(f"{name!r} must be a tangent, an array, None or a list of these: {error}") from None
        return {"type": "array", "array": put(item)}
    if isinstance(item, OneHot):
        dtype = None if item.weak else dtype_name(item)
        static = {"depth": item.depth, "axis": item.axis, "dtype": dtype, "padded": item._padded}
        return {"type": "OneHot", "indices": put(item.indices, "indices"), **static}
    if isinstance(item, Fill):
        return {"type": "Fill", "value": put(item.value, "value"), "shape": item.shape}
    if isinstance(item, Zero):
        return {"type": "Zero", "like": put(item._probe, "like"), "shape": item.shape}
    axes, ids, values, shape, unique, ordered, padded = item._frame()
    known = {"shape": shape, "axes": axes, "unique": unique, "ordered": ordered, "padded": padded}
    indices = [put(column, f"indices.{axis}") for axis, column in zip(axes, ids, strict=True)]
    return {"type": "IndexedSlices", "indices": indices, "values": put(values, "values"), **known}


Tensors = Mapping[str, Any]


def _restored(spec: Spec, tensors: Tensors) -> Any:
    """The item of a description on NumPy arrays, through the constructors' checks."""
    return _RESTORE[spec["type"]](spec, tensors)


def _slices(spec: Spec, tensors: Tensors) -> IndexedSlices:
    shape, axes = tuple(spec["shape"]), tuple(spec["axes"])
    values = _read(spec["values"], tensors)
    full = (*values.shape[:1], *(n for a, n in enumerate(shape) if a not in axes))
    if len(full) == len(values.shape) and all(m in (1, n) for m, n in zip(values.shape, full, strict=True)):
        values = np.broadcast_to(values, full)  # a dense axis of size 1 stands for the whole
    known = {key: spec[key] for key in ("unique", "ordered", "padded")}
    return from_coordinates([_read(i, tensors) for i in spec["indices"]], values, shape, axes, **known)


def _one_hot(spec: Spec, tensors: Tensors) -> OneHot:
    dtype = None if spec["dtype"] is None else _viewed(np.zeros(2, _STORED[spec["dtype"]]), spec["dtype"]).dtype
    mode: Literal["raise", "drop"] = "drop" if spec["padded"] else "raise"
    return OneHot(_read(spec["indices"], tensors), spec["depth"], axis=spec["axis"], dtype=dtype, mode=mode)


_RESTORE: dict[str, Callable[[Spec, Tensors], Any]] = {
    "None": lambda spec, tensors: None,
    "list": lambda spec, tensors: [_restored(item, tensors) for item in spec["items"]],
    "array": lambda spec, tensors: _read(spec["array"], tensors),
    "IndexedSlices": _slices,
    "OneHot": _one_hot,
    "Fill": lambda spec, tensors: Fill(_read(spec["value"], tensors), spec["shape"]),
    "Zero": lambda spec, tensors: Zero(spec["shape"], like=_read(spec["like"], tensors)),
}


def _moved(item: Any, xp: Namespace, device: Any) -> Any:
    """An item on the arrays of another library and device."""
    if isinstance(item, list):
        return [_moved(x, xp, device) for x in item]
    if item is None:
        return None
    item = convert(item, xp)
    if device is None:
        return item
    return item.to_device(device) if isinstance(item, Tangent) else backend_of(item).xp.asarray(item, device=device)


# Arrays on the host


def _host(x: Array, key: str) -> tuple[str, Any]:
    """The name of an array's dtype, and the array as it is stored: contiguous, little-endian, of a dtype that every reader knows."""
    host = convert(x.detach() if hasattr(x, "detach") else x, np)
    dtype = host.dtype.name
    if dtype not in _STORED:
        raise TypeError(f"{key!r} has dtype {dtype}, which is not stored; one of {', '.join(_STORED)} is")
    host = np.array(host, host.dtype.newbyteorder("<"), order="C", copy=None)
    if dtype.startswith("complex"):
        return dtype, host.reshape(-1).view(_STORED[dtype]).reshape((*host.shape, 2))
    return dtype, host.view(np.uint16) if dtype == "bfloat16" else host


def _read(spec: Spec, tensors: Tensors) -> Any:
    return _viewed(tensors[spec["tensor"]], spec["dtype"])


def _viewed(host: Any, dtype: str) -> Any:
    """What `_host` has made, in the dtype that it had."""
    if dtype.startswith("complex"):
        return host.reshape(-1).view(dtype).reshape(host.shape[:-1])
    if dtype == "bfloat16":
        import ml_dtypes

        return host.view(ml_dtypes.bfloat16)
    return host


def _crc32(x: Any) -> int:
    return zlib.crc32(x.reshape(-1).view(np.uint8)) if x.size else 0


# The file


def _replace(path: str, tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    """Write a file that appears under `path` at once, by a rename within its folder."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"there is no folder {folder} to write {name} into")
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    try:
        save_file(tensors, temporary, metadata=metadata)
        _flush(temporary)
        os.replace(temporary, path)
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    if os.name == "posix":
        _flush(folder)  # the rename itself


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verified(path: str) -> tuple[Spec, dict[str, Any]]:
    """The description in a file and its tensors, after every checksum."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata, names = file.metadata() or {}, file.keys()
            manifest = _manifest(path, metadata)
            if set(names) != set(manifest["tensors"]):
                raise ValueError(f"{path} is damaged: it holds the tensors {sorted(names)}, not {sorted(manifest['tensors'])}")
            tensors = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from error
    for name, expected in manifest["tensors"].items():
        x = tensors[name]
        if [x.dtype.name, list(x.shape), _crc32(x)] != expected:
            raise ValueError(f"{path} is damaged: tensor {name!r} is not as it was written")
    return manifest, tensors


def _manifest(path: str, metadata: Mapping[str, str]) -> Spec:
    text, crc32 = (metadata.get(key) for key in _KEYS)
    if text is None or crc32 is None:
        raise ValueError(
            f"{path} is damaged or was not written by sparsetangent; safetensors.numpy.load_file reads the tensors of any file"
        )
    if str(zlib.crc32(text.encode())) != crc32:
        raise ValueError(f"{path} is damaged: its description is not as it was written")
    manifest: Spec = json.loads(text)
    if manifest.get("format") != _FORMAT:
        raise ValueError(f"{path} has format {manifest.get('format')}; this version reads {_FORMAT}")
    return manifest
