"""What the tests share: examples a backend, and a runner that draws from strategies built for the backend at hand."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

# Eager JAX compiles for every new shape, so an example there costs as much as fifty on NumPy.
WEIGHT = {"numpy": 1.0, "torch": 0.6, "array_api_strict": 0.3, "jax": 0.04, "jax32": 0.04, "cupy": 0.6}
LONG = 20 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1


def for_all(xp: Any, body: Callable[..., None], *strategies: st.SearchStrategy[Any], examples: int = 60) -> None:
    """Run `body` on values drawn from the strategies: fewer on slow backends, the same ones every time."""
    count = max(2, int(examples * WEIGHT[xp.backend_name])) * LONG
    configured = settings(
        max_examples=count,
        deadline=None,
        derandomize=LONG == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    configured(given(*strategies)(_plain(body, len(strategies))))()


def _plain(body: Callable[..., None], count: int) -> Callable[..., None]:
    """A function with exactly `count` positional arguments, which is what `given` fills."""
    if count == 1:
        return lambda a: body(a)
    if count == 2:
        return lambda a, b: body(a, b)
    return lambda a, b, c: body(a, b, c)
