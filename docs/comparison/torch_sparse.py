"""PyTorch: sparse COO tensors, gradients of ``embedding(sparse=True)``, optimizers and clipping."""

from typing import Any

import numpy as np
import torch
from harness import Case, child, main

import sparsetangent as st
from sparsetangent.interop import torch as ours

L = torch.tensor


def coo(ids: list[int], values: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """A COO tensor that stores the first axis, not coalesced."""
    return torch.sparse_coo_tensor(L([ids]), torch.as_tensor(values), shape, check_invariants=True)


def slices(ids: list[int], values: Any, shape: tuple[int, ...]) -> st.IndexedSlices:
    """The same as a tangent."""
    return st.IndexedSlices(L(ids), torch.as_tensor(values), shape)


def parameter(value: float = 1.0) -> torch.nn.Parameter:
    """A table whose gradient has row 1 twice, [3, 0] each time, and [0, 1] in row 3."""
    weight = torch.nn.Parameter(torch.full((5, 2), value))
    (torch.nn.functional.embedding(L([1, 1, 3]), weight, sparse=True) * L(ROWS)).sum().backward()
    return weight


def clipped(clip: Any, *args: Any) -> torch.Tensor:
    """The gradient after clipping."""
    weight = parameter()
    clip([weight], *args)
    return weight.grad.to_dense()


def stepped(optimizer: str, **options: Any) -> torch.Tensor:
    """The table after one step of one of torch's optimizers."""
    weight = parameter()
    getattr(torch.optim, optimizer)([weight], lr=0.1, **options).step()
    return weight.detach()


def updated(step: Any, *state: Any, **options: Any) -> Any:
    """The table after one of our steps."""
    weight = parameter()
    with torch.no_grad():
        return st.update_rows(weight, G, step, *state, **options)[0]


def held(x: Any) -> int:
    """How many numbers a gradient holds, ids among them."""
    if isinstance(x, st.IndexedSlices):
        return x.values.numel() + x.indices.numel()
    return x._values().numel() + x._indices().numel() if x.is_sparse else x.numel()


def gradient(f: Any, weight: torch.Tensor) -> torch.Tensor:
    """Of the sum of what `f` reads."""
    weight = weight.clone().requires_grad_()
    return torch.autograd.grad(f(weight).sum(), weight)[0]


ROWS = [[3.0, 0.0], [3.0, 0.0], [0.0, 1.0]]
DENSE = np.array([[0.0, 0], [6, 0], [0, 0], [0, 1], [0, 0]])
G = slices([1, 1, 3], ROWS, (5, 2))
T = coo([1, 3, 1], [3.0, -2.0, -1.0], (5,))
D = np.array([0.0, 2, 0, -2, 0])
U = slices([1, 3, 1], [3.0, -2.0, -1.0], (5,))
x = st.namespace(torch)
HALF, BFLOAT = torch.ones(3000, dtype=torch.float16), torch.ones(1000, dtype=torch.bfloat16)
BYTES = L([200, 100], dtype=torch.uint8)
PRODUCT = """
import json, torch
t = torch.sparse_coo_tensor([[7, 3, 7]], [1.0, 2.0, 4.0], (2**40,))
print(json.dumps((t * t).coalesce().values().tolist()))
"""
OUTSIDE = """
import json, torch
print(json.dumps(torch.sparse_coo_tensor([[2**40]], [1.0], (3,)).to_dense().tolist()))
"""
SLOW = "Sums of 16-bit numbers are rounded after each addition."
CAST = "The entries are cast, and then merged. Right after `coalesce()`."
ALWAYS = "Coalesced or not."

CASES = [
    # Numbers
    Case(
        "a row times an array that broadcasts it",
        "coo([0], [[1.0, 2.0]], (1, 2)) * torch.ones(3, 2)",
        "np.array([[1.0, 2]]) * np.ones((3, 2))",
        "slices([0], [[1.0, 2.0]], (1, 2)) * torch.ones(3, 2)",
        "Silent; addition refuses to broadcast. Public report: pytorch/pytorch#116633.",
    ),
    Case(
        "cast to bool of 1 and -1 at one place",
        "coo([1, 1], [1.0, -1.0], (3,)).to(torch.bool)",
        "np.array([0.0, 0, 0]).astype(bool)",
        "slices([1, 1], [1.0, -1.0], (3,)).astype(torch.bool)",
        CAST,
    ),
    Case(
        "cast to int of 0.6 twice",
        "coo([1, 1], [0.6, 0.6], (3,)).to(torch.int32)",
        "np.array([0, 1.2, 0]).astype(np.int32)",
        "slices([1, 1], [0.6, 0.6], (3,)).astype(torch.int32)",
        CAST,
    ),
    Case(
        "cast to float16 of 70000 and -69000",
        "coo([0, 0], [70000.0, -69000.0], (1,)).half()",
        "np.array([1000.0]).astype(np.float16)",
        "slices([0, 0], [70000.0, -69000.0], (1,)).astype(torch.float16)",
        CAST,
    ),
    Case(
        "uint8 200 and 100 at one place, widened",
        "coo([0, 0], BYTES, (1,)).to(torch.int32)",
        "np.array([200 + 100], np.int64).astype(np.uint8).astype(np.int32)",
        "slices([0, 0], BYTES, (1,)).astype(torch.int32)",
        CAST + " Without the cast, `to_dense()` gives 44.",
    ),
    Case(
        "3000 ones of float16 in one row, merged",
        "coo([0] * 3000, HALF, (1,)).coalesce()",
        "np.array([3000.0])",
        "slices([0] * 3000, HALF, (1,)).coalesce()",
        SLOW,
    ),
    Case(
        "1000 ones of bfloat16 in one row, merged",
        "coo([0] * 1000, BFLOAT, (1,)).coalesce()",
        "np.array([1000.0])",
        "slices([0] * 1000, BFLOAT, (1,)).coalesce()",
        SLOW,
    ),
    Case(
        "gradient of a row of float16 read 3000 times",
        "gradient(lambda w: torch.nn.functional.embedding(L([0] * 3000), w), torch.ones(1, 1, dtype=torch.float16))",
        "np.array([[3000.0]])",
        "gradient(lambda w: ours.embedding(w, L([0] * 3000)), torch.ones(1, 1, dtype=torch.float16))",
        SLOW + " This is the dense gradient.",
    ),
    Case(
        "infinity times 3 and -1 at one place",
        "(T * float('inf'))[1]",
        "(D * np.inf)[1]",
        "(U * float('inf'))[1]",
        "Entries are scaled before they are merged: inf - inf. Right after `coalesce()`.",
    ),
    Case(
        "sum of squares from the stored values",
        "T._values().square().sum()",
        "np.sum(D**2)",
        "x.sum(x.square(U))",
        "`_values()` is documented as the entries before merging, and the public `values()` refuses until `coalesce()`.",
    ),
    # Crashes
    Case(
        "an id out of range, made dense",
        "child(OUTSIDE)",
        "np.add.at(np.zeros(3), [2**40], 1.0)",
        "slices([2**40], [1.0], (3,)).densify()",
        "Documented: ids are unchecked by default, and a warning says so. `check_invariants=True` raises.",
    ),
    Case(
        "t * t on 2**40 rows, repeats among them",
        "child(PRODUCT)",
        "np.array([4.0, 25])",
        "(lambda t: (t * t).coalesce().values)(slices([7, 3, 7], [1.0, 2.0, 4.0], (2**40,)))",
        "Right after `coalesce()`, and right on 2**20 rows.",
    ),
    # Training
    Case(
        "clip_grad_norm_ of a sparse gradient",
        "clipped(torch.nn.utils.clip_grad_norm_, 1.0)",
        "DENSE / np.sqrt(37)",
        "clipped(ours.clip_grad_norm_, 1.0)",
        ALWAYS,
    ),
    Case(
        "clip_grad_value_ of a sparse gradient",
        "clipped(torch.nn.utils.clip_grad_value_, 1.0)",
        "np.clip(DENSE, -1, 1)",
        "x.clip(G, -1.0, 1.0)",
        ALWAYS,
    ),
    Case(
        "Adam",
        "stepped('Adam')",
        "1 - 0.1 * np.sign(DENSE)",
        "updated(st.steps.lazy_adam(0.1), torch.zeros(5, 2), torch.zeros(5, 2), count=1)",
        "The message names SparseAdam, which is right.",
    ),
    Case(
        "SGD with weight decay",
        "stepped('SGD', weight_decay=0.5)[1]",
        "np.array([1 - 0.1 * (6 + 0.5), 1 - 0.1 * 0.5])",
        "updated(st.steps.sgd(0.1, weight_decay=0.5))[1]",
        "Compared at a row that was read. In ours the others rest, unless the step is made by `catch_up`.",
    ),
    Case(
        "SparseAdam on repeated rows",
        "stepped('SparseAdam')",
        "1 - 0.1 * np.sign(DENSE)",
        "updated(st.steps.lazy_adam(0.1), torch.zeros(5, 2), torch.zeros(5, 2), count=1)",
    ),
    Case(
        "Adagrad on repeated rows",
        "stepped('Adagrad')",
        "1 - 0.1 * np.sign(DENSE)",
        "updated(st.steps.adagrad(0.1), torch.zeros(5, 2))",
    ),
    Case(
        "scale_grad_by_freq with sparse=True",
        "gradient(lambda w: torch.nn.functional.embedding(L([1, 1]), w, scale_grad_by_freq=True, sparse=True), torch.ones(3, 2))",
        "np.array([[0.0, 0], [1, 1], [0, 0]])",
        "gradient(lambda w: ours.embedding(w, L([1, 1]), scale_grad_by_freq=True), torch.ones(3, 2))",
    ),
    Case(
        "embedding_bag of maxima with sparse=True",
        "gradient(lambda w: torch.nn.functional.embedding_bag(L([1, 2]), w, L([0]), mode='max', sparse=True), torch.eye(3))",
        "np.array([[0.0, 0, 0], [0.5, 1, 0], [0.5, 0, 1]])",
        "st.rules.embedding_bag_vjp_weight(torch.ones(1, 3), torch.eye(3), L([1, 2]), L([0]), mode='max')",
        "Documented.",
    ),
    Case(
        "vmap of the gradient with sparse=True",
        "torch.func.vmap(torch.func.grad(lambda w: torch.nn.functional.embedding(L([1, 1]), w, sparse=True).sum()))"
        "(torch.ones(2, 3, 1))",
        "np.array([[[0.0], [2], [0]]] * 2)",
        "torch.func.vmap(torch.func.grad(lambda w: ours.embedding(w, L([1, 1])).sum()))(torch.ones(2, 3, 1))",
        "Ours gives dense gradients under torch.func.",
    ),
    Case(
        "numbers held by the gradient of weight[ids], 2 rows of a table of 1000 by 4",
        "held(gradient(lambda w: w[L([1, 2])], torch.ones(1000, 4)))",
        "2 * 4 + 2",
        "held(ours.from_torch(gradient(lambda w: ours.take(w, L([1, 2])), torch.ones(1000, 4))))",
        "`embedding(sparse=True)` holds as few as ours.",
        counts=True,
    ),
    # Functions that refuse
    Case("maximum", "T.max()", "D.max()", "x.max(U)", ALWAYS),
    Case("comparison with a number", "T > 0", "D > 0", "U > 0", ALWAYS),
    Case("clamp", "T.clamp(-1, 1)", "np.clip(D, -1, 1)", "x.clip(U, -1, 1)", ALWAYS),
    Case("a slice", "T[1:3]", "D[1:3]", "U[1:3]", ALWAYS),
    Case("reshape", "T.reshape(5, 1)", "D.reshape(5, 1)", "x.reshape(U, (5, 1))"),
    Case("sparse plus dense", "T + torch.ones(5)", "D + np.ones(5)", "U + torch.ones(5)", "`torch.ones(5) + t` is right."),
    Case("vector norm by torch.linalg", "torch.linalg.vector_norm(T)", "np.sqrt(8)", "torch.linalg.vector_norm(U)",
         "`t.norm()` is right."),
    Case("divide by an array", "T / torch.ones(5)", "D / np.ones(5)", "U / torch.ones(5)"),
    Case(
        "two axes of 2**50 rows",
        "torch.sparse_coo_tensor(L([[3], [5]]), L([1.0]), (2**50, 2**50))._values()",
        "np.array([1.0])",
        "st.IndexedSlices((L([3]), L([5])), L([1.0]), (2**50, 2**50), axis=(0, 1)).values",
    ),
    # Functions that are right
    Case("abs", "T.abs()", "np.abs(D)", "abs(U)"),
    Case("square", "T.square()", "D**2", "x.square(U)"),
    Case("sqrt", "T.abs().sqrt()", "np.sqrt(np.abs(D))", "x.sqrt(abs(U))"),
    Case("t * t", "T * T", "D * D", "U * U"),
    Case("norm", "T.norm()", "np.sqrt(8)", "x.linalg.vector_norm(U)"),
    Case("times an array", "T * torch.arange(5.0)", "D * np.arange(5.0)", "U * torch.arange(5.0)"),
    Case("rows chosen by index_select", "T.index_select(0, L([1, 1]))", "D[[1, 1]]", "x.take(U, L([1, 1]))"),
    Case("sum over 2**50 rows", "coo([2**40, 3], [1.0, 2.0], (2**50,)).sum()", "3.0",
         "x.sum(slices([2**40, 3], [1.0, 2.0], (2**50,)))"),
]  # fmt: skip

if __name__ == "__main__":
    main("PyTorch", ["torch"], CASES, globals())
