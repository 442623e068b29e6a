"""JAX with 64-bit types, for the modules here that ask for it, and faults that are known."""

import re
from collections.abc import Iterator

import pytest

_SUMS = (
    r"t \+ u|t - u|t \+ t|t \+ u of another shape|t \+ array|array \+ t|t - array|array - t|add_n.*|add_into|coalesce to a size"
)

# Pattern of the test -> what is wrong. A test that passes again may leave the list.
KNOWN = {
    rf"test_torch_func.*(vmap|derivative).*\b({_SUMS}|array / t|square of a product|hypot)\b": (
        "algebra.dense.add_frame_into returns its unwritten target where a function transform makes the kernel return a new tensor"
    ),
    r"test_torch_func.*nothing_outside": "algebra.dense.add_frame_into, as above",
    r"test_torch_func.*vmap.*(t\[:, ids\]|t\[ids\]|t\[ids, :, ids\]|take)": "moveaxis has no batching rule in torch.func.vmap",
    r"test_torch_func.*ids_are_checked": "ids out of range in a vmap are dropped at intake, where the kernels raise",
    r"test_torch_compile": "operations that Dynamo does not trace: prod of a generator, __name__ of a function of C, ContextVar",
    r"test_torch_autograd.*never_warned": "torch.asarray(copy=True) warns of, and in older versions leaves, the tape",
    r"test_pytrees.*(odd_leaves.*NumPy array|repr_of_mapped)": "repr reads the frame of corrupted slices",
    r"test_jax_gradients.*respect_to_a_tangent": "repr reads the frame of corrupted slices",
    r"test_(pytrees.*batched_leaves|jax_vmap.*for_each_example)": "values of a batched tangent are broadcast",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for pattern, reason in KNOWN.items():
            if re.search(pattern, item.nodeid) and "transforms" in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


@pytest.fixture(scope="module")
def x64() -> Iterator[None]:
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
