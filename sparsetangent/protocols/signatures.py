"""The signatures of the standard's functions (2025.12), as data: what `help` and `inspect.signature` say of a namespace's functions."""

from __future__ import annotations

import inspect

from ..registry import BINARY, UNARY

__all__ = ["signature_of"]

# By the parameters, the functions that have them beside the elementwise ones.
_PARAMETERS = {
    "x, /": "det eig eigh eigvals eigvalsh inv matrix_transpose nonzero slogdet svdvals unique_all unique_counts unique_inverse unique_values",
    "*arrays": "broadcast_arrays",
    "*shapes": "broadcast_shapes",
    "type, /": "finfo iinfo",
    "x, n, /": "matrix_power",
    "x1, x2, /": "matmul outer solve",
    "x, /, axes": "permute_dims",
    "x, /, axis": "expand_dims squeeze",
    "dtype, kind": "isdtype",
    "x, /, shape": "broadcast_to",
    "from_, to, /": "can_cast",
    "x, /, *, k=0": "tril triu",
    "x, /, *, axis=0": "unstack",
    "x, /, *, offset=0": "diagonal",
    "x, repetitions, /": "tile",
    "*arrays_and_dtypes": "result_type",
    "x, /, *, axes=None": "fftshift ifftshift",
    "x, /, *, axis=None": "flip",
    "x, /, *, rtol=None": "matrix_rank pinv",
    "arrays, /, *, axis=0": "concat stack",
    "condition, x1, x2, /": "where",
    "x, /, *, upper=False": "cholesky",
    "x1, x2, /, *, axes=2": "tensordot",
    "x1, x2, /, *, axis=-1": "cross vecdot",
    '*arrays, indexing="xy"': "meshgrid",
    'x, /, *, mode="reduced"': "qr",
    "x, /, min=None, max=None": "clip",
    "x, /, shape, *, copy=None": "reshape",
    "x, /, shift, *, axis=None": "roll",
    "x, indices, /, *, axis=-1": "take_along_axis",
    "x, source, destination, /": "moveaxis",
    "x1, x2, /, *, invert=False": "isin",
    "x, /, *, full_matrices=True": "svd",
    "x, indices, /, *, axis=None": "take",
    "x, repeats, /, *, axis=None": "repeat",
    "x, /, *, offset=0, dtype=None": "trace",
    "x, /, *, device=None, copy=None": "from_dlpack",
    "x, /, *, dtype=None, device=None": "empty_like ones_like zeros_like",
    "shape, *, dtype=None, device=None": "empty ones zeros",
    "x, /, *, axis=None, keepdims=False": "all any argmax argmin count_nonzero max mean min",
    'x, /, *, keepdims=False, ord="fro"': "matrix_norm",
    "x, dtype, /, *, copy=True, device=None": "astype",
    'x1, x2, /, *, side="left", sorter=None': "searchsorted",
    "n, /, *, d=1.0, dtype=None, device=None": "fftfreq rfftfreq",
    "x, /, *, axis=None, keepdims=False, ord=2": "vector_norm",
    'x, /, *, n=None, axis=-1, norm="backward"': "fft hfft ifft ihfft irfft rfft",
    'x, /, *, s=None, axes=None, norm="backward"': "fftn ifftn irfftn rfftn",
    "x, /, fill_value, *, dtype=None, device=None": "full_like",
    "obj, /, *, dtype=None, device=None, copy=None": "asarray",
    "shape, fill_value, *, dtype=None, device=None": "full",
    "x, /, *, axis=None, dtype=None, keepdims=False": "prod sum",
    "x, /, *, axis=-1, descending=False, stable=True": "argsort sort",
    "x, /, *, axis=-1, n=1, prepend=None, append=None": "diff",
    "x, /, *, axis=None, correction=0.0, keepdims=False": "std var",
    "x, /, *, axis=None, dtype=None, include_initial=False": "cumulative_prod cumulative_sum",
    "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None": "eye",
    "start, /, stop=None, step=1, *, dtype=None, device=None": "arange",
    "start, stop, /, num, *, dtype=None, device=None, endpoint=True": "linspace",
}
_BY_NAME = {
    **dict.fromkeys(UNARY, "x, /"),
    **dict.fromkeys(BINARY, "x1, x2, /"),
    **{name: parameters for parameters, names in _PARAMETERS.items() for name in names.split()},
}


def signature_of(name: str) -> inspect.Signature | None:
    """The standard's signature of a function, or None for one that the standard does not have."""
    if name not in _BY_NAME:
        return None
    return inspect.signature(eval(f"lambda {_BY_NAME[name]}: None"))  # the text is one of those above


# As torch.compiler.assume_constant_result does: a compiler runs it and does not trace it.
signature_of._dynamo_marked_constant = True  # type: ignore[attr-defined]
