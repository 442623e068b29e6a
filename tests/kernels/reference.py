"""The contract by literal loops in float64, and cases to try it on. Nothing here calls a kernel.

Values are few-bit numbers, so that float32 sums of them are exact in any order: results are compared bit for bit, and a half
type that was rounded twice shows.
"""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from sparsetangent.backend import backend_of
from sparsetangent.testing.oracle import as_backend, to_numpy

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NARROW = tuple(name for name in INTEGERS if "64" not in name)
DTYPES = {
    "numpy": (
        "bool",
        *INTEGERS,
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "longdouble",
        "complex64",
        "complex128",
        "clongdouble",
    ),
    "torch": ("bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    "jax": ("bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    "jax32": ("bool", *NARROW, "float16", "bfloat16", "float32", "complex64"),
    "array_api_strict": ("bool", *INTEGERS, "float32", "float64", "complex64", "complex128"),
    "cupy": ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"),
}
OPS = ("add", "mul", "min", "max", "mean")
FOLD = {
    "add": lambda a, b: a | b if a.dtype == bool else a + b,
    "mul": lambda a, b: a & b if a.dtype == bool else a * b,
    "min": np.minimum,
    "max": np.maximum,
    "mean": np.add,
}


class Case(NamedTuple):
    """Ids and rows of NumPy; `dtype` is what the backend gets (bfloat16 is float32 here)."""

    ids: Any
    rows: Any
    size: int
    dtype: str
    seed: int

    def more(self, n: int) -> Any:
        """Other rows of the same kind, to scatter into."""
        return values(np.random.default_rng(self.seed + 1), (n, *self.rows.shape[1:]), self.dtype)


def ops_of(dtype: str) -> tuple[str, ...]:
    """The folds that are defined on a dtype."""
    if "complex" in dtype or dtype == "clongdouble":
        return ("add", "mul", "mean")
    return OPS if "float" in dtype or dtype == "longdouble" else ("add", "mul", "min", "max")


def values(rng: Any, shape: tuple[int, ...], dtype: str, special: bool = False) -> Any:
    """Random values that the dtype holds exactly: few bits each, and some nan and inf if asked for."""
    if dtype == "bool":
        return rng.random(shape) < 0.4
    if "int" in dtype:
        return rng.integers(0, 256, shape).astype(dtype)
    real = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], shape)
    if special:
        real = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf], shape), real)
    if "complex" in dtype or dtype == "clongdouble":
        return (real + 1j * rng.choice([-1.0, 0.5, 2.0], shape)).astype(dtype)
    return real.astype("float32" if dtype == "bfloat16" else dtype)


def cases(xp: Any, dtypes: tuple[str, ...] | None = None, *, special: bool = False, padding: bool = True) -> Any:
    """Cases with repeats, empty ids, padding, empty axes and odd strides; few shapes for JAX, which compiles each."""
    is_jax = xp.backend_name.startswith("jax")
    lengths = (0, 1, 7) if is_jax else (0, 1, 2, 7, 30, 600)
    sizes = (0, 3) if is_jax else (0, 1, 3, 40, 10_000)
    inners = ((), (2, 3)) if is_jax else ((), (1,), (3,), (2, 3), (0,), (40,))
    return st.builds(
        _case,
        st.sampled_from(lengths),
        st.sampled_from(sizes),
        st.sampled_from(inners),
        st.sampled_from(dtypes or DTYPES[xp.backend_name]),
        st.sampled_from(("int32",) if xp.backend_name == "jax32" else ("int32", "int64")),
        st.sampled_from(("plain", "stride 0", "reversed", "transposed")),
        st.integers(0, 2**31),
        st.just(special),
        st.just(padding),
    )


def _case(n: int, size: int, inner: Any, dtype: str, ids: str, layout: str, seed: int, special: bool, padding: bool) -> Case:
    rng = np.random.default_rng(seed)
    if size == 0 and not padding:
        n = 0
    # A narrow range half of the time, so that ids repeat often.
    bound = min(size, 3) if seed % 2 else size
    where = rng.integers(0, max(bound, 1), n)
    if padding:
        where = np.where(rng.random(n) < 0.2, size, where) if size else np.zeros(n)
    where = where.astype(ids)
    rows = values(rng, (n, *inner), dtype, special)
    if layout == "stride 0" and n:
        rows = np.broadcast_to(rows[:1], rows.shape)
    elif layout == "reversed":
        rows, where = rows[::-1], np.repeat(where, 2)[::2]
    elif layout == "transposed":
        rows = np.array(rows.T, order="C").T
    return Case(where, rows, size, dtype, seed)


def kernels_of(xp: Any) -> Any:
    return backend_of(xp.zeros((1,))).kernels


def give(xp: Any, x: Any, dtype: str | None = None) -> Any:
    """A NumPy array as the backend's, with its strides where the backend has them."""
    name = dtype or x.dtype.name
    if xp.backend_name == "torch" and name != "bfloat16":
        import torch

        return torch.from_numpy(np.array(x)[::1] if any(s < 0 for s in x.strides) or not x.flags.writeable else x)
    if xp.backend_name == "numpy" and name != "bfloat16":
        return x
    if name == "bfloat16" and xp.backend_name == "numpy":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    if name in ("longdouble", "clongdouble"):
        return x
    return as_backend(xp, x, getattr(xp, name))


def take(x: Any) -> Any:
    """A backend's array as NumPy's, without sharing memory."""
    return np.array(to_numpy(x))


def wide(x: Any) -> Any:
    kind = x.dtype.kind
    if x.dtype.name in ("longdouble", "clongdouble") or kind not in "fc":
        return np.array(x)
    return x.astype(np.complex128 if kind == "c" else np.float64)


def narrow(x: Any, dtype: str) -> Any:
    """Wide results rounded once to `dtype`."""
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16).astype(np.float32)
    return x.astype(dtype)


def loop_add(dst: Any, ids: Any, rows: Any) -> Any:
    """``dst[ids[i]] += rows[i]`` in wide numbers, one at a time, skipping padding."""
    dst = wide(dst)
    with np.errstate(all="ignore"):
        for i, row in zip(ids.tolist(), wide(rows), strict=True):
            if i != dst.shape[0]:
                dst[i] = FOLD["add"](dst[i], row)
    return dst


def loop_gather(src: Any, ids: Any) -> Any:
    zero = np.zeros(src.shape[1:], src.dtype)
    found = [zero if i == src.shape[0] else src[i] for i in ids.tolist()]
    return np.stack(found) if found else np.zeros((0, *src.shape[1:]), src.dtype)


def loop_reduce(op: str, dst: Any, ids: Any, rows: Any, include_self: bool) -> Any:
    result = wide(dst)
    groups: dict[int, list[Any]] = {}
    for i, row in zip(ids.tolist(), wide(rows), strict=True):
        if i != dst.shape[0]:
            groups.setdefault(i, [result[i].copy()] if include_self else []).append(row)
    with np.errstate(all="ignore"):
        for i, members in groups.items():
            folded = np.asarray(members[0])
            for row in members[1:]:
                folded = np.asarray(FOLD[op](folded, row))
            result[i] = folded / len(members) if op == "mean" else folded
    return result


def loop_unique(ids: Any, size: int) -> tuple[list[int], list[int]]:
    distinct = sorted({i for i in ids.tolist() if i != size})
    return distinct, [len(distinct) if i == size else distinct.index(i) for i in ids.tolist()]
