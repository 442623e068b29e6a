"""The faults: a file, a piece of it, what is put in its place, and the tests that must see it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """One change. `tests` are arguments for pytest; any failure among them catches the fault."""

    file: str
    old: str
    new: str
    tests: str


_KERNELS = "tests/kernels/test_contract.py"
_LAWS = "tests/algebra/test_laws.py -k numpy"

FAULTS = {
    # Kernels from standard functions
    "a pair folded twice": Fault("kernels/generic.py", "place % 2 == 0", "place % 2 != 1 - place", f"{_KERNELS} -k strict"),
    "padding placed by length": Fault(
        "kernels/generic.py", "xp.where(inverse < m,", "xp.where(inverse <= m,", f"{_KERNELS} -k strict"
    ),
    "a scan that skips": Fault("kernels/generic.py", "shift *= 2", "shift *= 3", "tests/kernels/test_generic.py"),
    "half types summed in half": Fault(
        "kernels/generic.py", "return self.xp.float32 if str", "return dtype if str", f"{_KERNELS} -k 'jax and half'"
    ),
    "one id more is padding": Fault(
        "kernels/generic.py",
        "if least < 0 or greatest > size:",
        "if least < 0 or greatest > size + 1:",
        f"{_KERNELS} -k strict",
    ),
    "the mean forgets the destination": Fault(
        "kernels/generic.py", "+ int(include_self)\n        return", "\n        return", f"{_KERNELS} -k strict"
    ),
    # NumPy's
    "crowded sums not cut into runs": Fault(
        "kernels/numpy.py", "np.bincount(ids) > RUN", "np.bincount(ids) > 2**60", "tests/test_sums_into_arrays.py -k numpy"
    ),
    "entries added in order where they should be merged": Fault(
        "kernels/numpy.py", "(in_order or exact)", "True", "tests/test_sums_into_arrays.py -k numpy"
    ),
    "the last runs of a long sum lost": Fault(
        "kernels/loops.py",
        "if (runs >> level) & 1:\n            for",
        "if level and (runs >> level) & 1:\n            for",
        "tests/test_sums_into_arrays.py -k bits",
    ),
    "padding ranks first": Fault(
        "kernels/numpy.py", "rank[size] = distinct.shape[0]", "rank[size] = 0", f"{_KERNELS} -k numpy"
    ),
    "the upper digits of ids unsorted": Fault(
        "kernels/numpy.py",
        "(bound - 1).bit_length(), _DIGIT",
        "min((bound - 1).bit_length(), 32), _DIGIT",
        "tests/kernels/test_numpy.py",
    ),
    "a read-only target": Fault(
        "kernels/numpy.py", "if not dst.flags.writeable:", "if False:", "tests/kernels tests/cases -k numpy"
    ),
    "complex numbers times one": Fault(
        "kernels/product.py",
        "return flat.view(_REAL.get(flat.dtype, flat.dtype))",
        "return flat",
        "tests/kernels/test_numpy.py",
    ),
    "the rows before in a product": Fault(
        "kernels/numpy.py",
        "product[at] = rows[at - 1]",
        "product[at] = rows[at]",
        "tests/kernels/test_numba.py -k product_of_others",
    ),
    "a step on the first row of a group": Fault(
        "kernels/row_steps.py",
        "return stop - start == 1 and",
        "return stop - start >= 1 and",
        "tests/kernels/test_row_steps.py",
    ),
    "states that are not written": Fault(
        "kernels/block_steps.py", "x[at] = new", "x[at] = x[at]", "tests/kernels/test_row_steps.py"
    ),
    "a compiled sort stops a digit early": Fault(
        "kernels/loops.py", "while (size >> shift) > 0:", "while (size >> (shift + _DIGIT)) > 0:", "tests/kernels/test_numba.py"
    ),
    # torch's and JAX's
    "torch: rows overlap their target": Fault(
        "kernels/torch.py", "return rows.clone() if rows.untyped", "return rows if rows.untyped", "tests/kernels/test_torch.py"
    ),
    "torch: written inside a transform": Fault(
        "kernels/torch.py", "return not _is_transformed()", "return True", "tests/transforms/test_torch_func.py"
    ),
    "torch: the tape does not hear of a write": Fault(
        "kernels/torch.py", "        increment_version(dst)", "        pass", "tests/kernels/test_torch.py tests/transforms"
    ),
    "JAX: negative ids wrap": Fault(
        "kernels/jax.py",
        "jnp.where((ids < 0) | (ids >= size)",
        "jnp.where((ids >= size)",
        "tests/kernels/test_jax.py tests/transforms/test_jax_jit.py",
    ),
    # Indices
    "one negative id too many": Fault(
        "types/indices.py", "if least >= low and", "if least >= low - 1 and", "tests/types tests/cases/test_indices.py -k numpy"
    ),
    "unsigned ids count from the end": Fault(
        "types/indices.py",
        "low = -size if negatives and not unsigned else 0",
        "low = -size if negatives else 0",
        "tests/types/test_indexed_slices.py -k unsigned",
    ),
    "the indices of sorted axes": Fault(
        "types/indexed_slices.py",
        "sorted(zip(axes, indices, strict=True), key=itemgetter(0))",
        "list(zip(sorted(axes), indices, strict=True))",
        "tests/types tests/algebra -k numpy -x",
    ),
    # Frames
    "casts of summands": Fault(
        "algebra/frames.py",
        "if not cast_is_linear(",
        "if False and not cast_is_linear(",
        "tests/algebra/test_dense.py -k numpy",
    ),
    "nan in padding": Fault(
        "algebra/frames.py",
        "values=mask_rows(frame.values, inside), padded",
        "values=frame.values, padded",
        "tests/transforms tests/types",
    ),
    "repeats where none may be": Fault(
        "algebra/frames.py", "return frame if frame.unique else coalesce(frame)", "return frame", _LAWS
    ),
    "two long axes in one key": Fault(
        "algebra/keys.py",
        "if bound * size >= limit:\n            (keys",
        "if False:\n            (keys",
        "tests/test_structure.py tests/algebra -k numpy",
    ),
    "the implicit zero of a maximum": Fault("algebra/folds.py", "counts < total", "counts < 0", _LAWS),
    "one zero too many": Fault("algebra/folds.py", "counts < total", "counts <= total", _LAWS),
    "wrapped multiples of a sum": Fault(
        "algebra/folds.py", "wrapped -= 2 ** (8 * itemsize)", "pass", "tests/algebra/test_dense.py -k numpy"
    ),
    "equal keys of an unsorted side": Fault(
        "algebra/join.py", "xp.take(first, i, axis=0) + offset", "xp.take(first, i, axis=0)", "tests/algebra -k numpy -x"
    ),
    # Operations
    "the sign of a difference": Fault(
        "algebra/sums.py", "signed(promote(right, dtype))", "promote(right, dtype)", "tests/algebra -k numpy -x"
    ),
    "a step of a slice": Fault("algebra/indexing.py", "inside = inside & (new % abs(step) == 0)", "pass", _LAWS),
    "a backward slice": Fault(
        "algebra/indexing.py",
        "new = ids - start if step > 0 else start - ids",
        "new = abs(ids - start) if step > 0 else abs(ids)",
        "tests/algebra/test_dense.py -k numpy",
    ),
    "axes put back in another order": Fault(
        "algebra/dense.py", "tuple(order.index(a) for a in range(len(order)))", "order", "tests/algebra tests/types -k numpy -x"
    ),
    "the sign of zero": Fault("algebra/dense.py", "nonzero | xp.signbit(x)", "nonzero", "tests/algebra/test_dense.py -k numpy"),
    "the factor of a sum at coordinates": Fault(
        "algebra/dense.py", "else frame.values * alpha", "else frame.values", "tests/algebra/test_dense.py -k numpy"
    ),
    "a roll of padding": Fault(
        "algebra/shapes.py", "xp.where(inside, new, old)", "new", "tests/transforms/test_jax_jit.py tests/types"
    ),
    "an infinite factor": Fault(
        "algebra/products.py", "number - number != 0 or", "False or", "tests/algebra/test_dense.py -k numpy"
    ),
    "a label on which nothing depends": Fault(
        "algebra/contractions.py",
        "repeated(values, in_neither, backend) if in_neither != 1 else values",
        "values",
        "tests/algebra/test_contractions.py -k numpy",
    ),
    "bools added in a product": Fault(
        "algebra/contractions.py",
        "return repeated(values != 0, in_neither, backend)",
        "return repeated(values != 1, in_neither, backend)",
        "tests/algebra/test_contractions.py -k numpy",
    ),
    # Rules
    "the rows after in a product": Fault(
        "rules/groups.py", "xp.take(before * after,", "xp.take(before,", "tests/rules/test_scatter.py -k array_api_strict"
    ),
    "ties that forget the destination": Fault(
        "rules/groups.py",
        "number if own is None else number + xp.astype(own, held)",
        "number",
        "tests/rules/test_scatter.py -k numpy",
    ),
    "the first of equals after the destination": Fault(
        "rules/groups.py", "chosen = chosen & ~kernels.gather(own, key)", "pass", "tests/rules/test_scatter.py -k numpy"
    ),
    "the sign of a quotient": Fault(
        "rules/groups.py", "factor = -xp.astype(slots", "factor = xp.astype(slots", "tests/rules/test_scatter.py -k numpy"
    ),
    "a cotangent for dropped rows": Fault(
        "rules/groups.py", "return mask_rows(factor, key < size)", "return factor", "tests/rules -k numpy"
    ),
    "the gradient of padding": Fault(
        "rules/embedding.py",
        "if padding is not None:",
        "if False:",
        "tests/rules tests/cases -k 'numpy and (embedding or padding)'",
    ),
    "cotangents of the wrong axes": Fault(
        "rules/gather.py",
        "(*entries, *range(axis), *range(axis + given.ndim, dy.ndim))",
        "(*range(axis), *entries, *range(axis + given.ndim, dy.ndim))",
        "tests/rules -k numpy",
    ),
    # What an optimizer needs
    "the norm of repeats": Fault(
        "norms.py", "frame = distinct(promote(frame, _held(", "frame = (promote(frame, _held(", "tests/test_norms.py -k numpy"
    ),
    "a step for each repeat": Fault(
        "update.py", "frame = expand(distinct(frame))", "frame = expand(frame)", "tests/test_update.py -k numpy"
    ),
    "half sums in an accumulator": Fault(
        "accumulate.py",
        "held = kernels.accumulator(dtype)\n        if dtype",
        "held = dtype\n        if dtype",
        "tests/test_accumulate.py -k numpy",
    ),
    "an accumulator that never merges": Fault(
        "accumulate.py", "if self._count > self.merged.n:", "if False:", "tests/test_accumulate.py -k numpy"
    ),
}
