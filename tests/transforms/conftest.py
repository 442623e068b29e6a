"""JAX with 64-bit types, for the modules here that ask for it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def x64() -> Iterator[None]:
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
