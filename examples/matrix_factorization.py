"""Ratings of a shop, factorised with HIPS autograd: plain NumPy code, with gradients that hold only the rows of a batch.

Every user and every item has a row of a table, and a rating is their product plus a bias of each. A batch reads a few hundred rows of
half a million; `grad` of the loss, which looks them up with `take`, gives an `IndexedSlices` for each table, and subtracting it moves
those rows alone. With ordinary indexing autograd fills a table of zeros for each look-up, and the step subtracts it all.

    python examples/matrix_factorization.py [--users 400000] [--items 100000] [--rank 16] [--steps 2000] [--seed 0]
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import autograd.numpy as np
import numpy as onp
from autograd import value_and_grad

from sparsetangent.interop.autograd import install, take

Params = dict[str, Any]
Look = Callable[[Any, Any], Any]
RATE, DECAY, BATCH = 0.05, 0.01, 256
ACTIVE = 300  # users and items that have ratings: the others are why the tables are large


class Ratings(NamedTuple):
    users: Any
    items: Any
    stars: Any

    def at(self, which: Any) -> "Ratings":
        return Ratings(*(part[which] for part in self))


def make_ratings(users: int, items: int, rng: Any) -> Ratings:
    """Tastes of rank 3, seen through noise of standard deviation 0.1."""
    some_users, some_items = (rng.choice(n, min(n, ACTIVE), replace=False) for n in (users, items))
    left, right = rng.normal(size=(len(some_users), 3)), rng.normal(size=(len(some_items), 3))
    i, j = rng.integers(0, len(some_users), 40_000), rng.integers(0, len(some_items), 40_000)
    stars = 3 + onp.sum(left[i] * right[j], axis=1) / 2 + 0.1 * rng.normal(size=len(i))
    return Ratings(some_users[i], some_items[j], stars.astype(onp.float32))


def make_params(users: int, items: int, rank: int, rng: Any) -> Params:
    """The last column of each table is the bias."""
    tables = {"users": (users, rank + 1), "items": (items, rank + 1)}
    params: Params = {k: rng.standard_normal(s, onp.float32) * onp.float32(0.1) for k, s in tables.items()}
    return params | {"mean": onp.zeros(1, onp.float32)}


def predict(params: Params, batch: Ratings, look: Look) -> Any:
    u, v = look(params["users"], batch.users), look(params["items"], batch.items)
    return np.sum(u[:, :-1] * v[:, :-1], axis=1) + u[:, -1] + v[:, -1] + params["mean"]


def loss(params: Params, batch: Ratings, look: Look) -> Any:
    """The squared errors of a batch, and a pull to zero of the rows that it reads."""
    rows = (look(params["users"], batch.users), look(params["items"], batch.items))
    return np.sum((predict(params, batch, look) - batch.stars) ** 2) / 2 + DECAY * sum(np.sum(x**2) for x in rows)


def step(params: Params, batch: Ratings, look: Look, rate: float = RATE) -> Params:
    """One step in place; the gradients."""
    _, gradients = value_and_grad(lambda p: loss(p, batch, look))(params)
    for name, table in params.items():
        factor = onp.float32(rate / (BATCH if name == "mean" else 1))
        table -= factor * gradients[name]
    return dict(gradients)


def error(params: Params, ratings: Ratings) -> float:
    return float(onp.sqrt(onp.mean((predict(params, ratings, index) - ratings.stars) ** 2)))


def index(x: Any, ids: Any) -> Any:
    """Ordinary indexing, whose gradient is dense."""
    return x[ids]


def cost(params: Params, batch: Ratings, look: Look) -> tuple[float, int]:
    """Seconds of the fastest of three steps that change nothing, and the peak of memory of one."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        step(params, batch, look, rate=0.0)
        seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    step(params, batch, look, rate=0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in {"users": 400_000, "items": 100_000, "rank": 16, "steps": 2000, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    install()
    rng = onp.random.default_rng(options.seed)
    ratings = make_ratings(options.users, options.items, rng)
    seen, kept = ratings.at(slice(4000, None)), ratings.at(slice(4000))
    params = make_params(options.users, options.items, options.rank, rng)
    print(f"root mean square error on ratings kept back: {error(params, kept):.3f} at first")
    for _ in range(options.steps):
        gradients = step(params, seen.at(rng.integers(0, len(seen.stars), BATCH)), take)
    print(f"root mean square error on ratings kept back: {error(params, kept):.3f} after {options.steps} steps (noise: 0.1)")
    for name in ("users", "items"):
        print(f"gradient of {name}: {gradients[name]}")
    batch = seen.at(slice(BATCH))
    (fast, small), (slow, large) = cost(params, batch, take), cost(params, batch, index)
    print(
        f"a step: {1e3 * fast:.2f} ms and {small / 2**20:.2f} MiB with take, {1e3 * slow:.2f} ms and {large / 2**20:.2f} MiB without"
    )


if __name__ == "__main__":
    main()
