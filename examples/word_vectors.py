"""Word vectors from Python's own documentation, trained with compact gradients and compared with dense ones.

Skip-gram with negative sampling. One table of 2**20 rows holds everything that is learned: a row for every word as a
centre, a row for every word as a context, and hashed buckets for the 3- to 5-letter pieces of words. A word's vector is
the mean of its own row and its pieces' rows, so "thread" and "threads" share most of what they learn.

A step reads some two thousand rows of the million. Its gradient is the sum of two `take_vjp`, an `IndexedSlices` of
those rows, and `add_into` touches only them. The dense way fills a second table and subtracts it: 256 MiB every step.

    python examples/word_vectors.py [--backend numpy|torch|jax|cupy] [--seconds 30] [--rows 1048576] [--dim 64] [--seed 0]
"""

import argparse
import importlib
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from corpus import Corpus, read_corpus, subword_table
from picture import draw
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import sparsetangent as st
from sparsetangent import rules

Array: TypeAlias = Any  # of whichever backend was asked for
Step: TypeAlias = Callable[[Array, "Batch", float], tuple[Array, Array, Any]]  # -> table, loss, gradient

NAMESPACES = {name: f"array_api_compat.{name}" for name in ("numpy", "torch", "cupy")} | {"jax": "jax.numpy"}
SHOWN = [
    "string",
    "file",
    "list",
    "exception",
    "thread",
    "integer",
    "socket",
    "process",
    "month",
    "dictionary",
    "directory",
    "iterator",
    "float",
]
OUTPUT = Path(__file__).parent / "output" / "word_vectors.png"

WINDOW = 5  # a context is at most so many words away
NEGATIVES = 10  # random words that a centre learns to tell from its contexts
NEGATIVE_WEIGHT = 5  # what they weigh together, against the true contexts
KEPT = 1e-4  # words more frequent than this are thinned out
SUBWORDS = 12  # rows that a word is made of, at most
RATE = 0.15  # of learning, at the start
COMPARED = 40  # batches for which compact and dense are compared
WARM_UP = 10  # the first of them, which fill caches, compile, and are not timed
NEIGHBOURS = 6
MIB = 2**20


class Batch(NamedTuple):
    """What one step over `b` centres reads, as arrays of the backend. Weight 0 stands for what only fills a rectangle."""

    inputs: Array  # (b, SUBWORDS) rows whose weighted sum is the centre's vector
    input_weights: Array
    outputs: Array  # (b, 2 * WINDOW + NEGATIVES) rows of true and of random contexts
    output_weights: Array
    labels: Array  # 1 for a true context, 0 for a random one


@dataclass(frozen=True)
class Sampler:
    """The corpus laid out over the rows of the table (words, contexts, buckets), and batches drawn from it."""

    xp: Any
    corpus: Corpus
    subwords: np.ndarray
    subword_weights: np.ndarray
    batch: int
    rng: np.random.Generator

    def batches(self) -> Iterator[Batch]:
        """Endless: each pass over the text thins the frequent words anew and visits the rest in random order."""
        counts = self.corpus.counts
        kept = np.minimum(1, np.sqrt(KEPT * counts.sum() / counts))
        while True:
            text = self.corpus.text
            text = text[(text < 0) | (self.rng.random(text.size) < kept[text])]
            # The ends of a document hide what lies beyond them.
            text = np.pad(text, WINDOW, constant_values=-1)
            document = np.cumsum(text < 0)
            places = self.rng.permutation(np.flatnonzero(text >= 0))
            for start in range(0, places.size - self.batch + 1, self.batch):
                yield self._batch(text, document, places[start : start + self.batch])

    def _batch(self, text: np.ndarray, document: np.ndarray, places: np.ndarray) -> Batch:
        offsets = np.array([d for d in range(-WINDOW, WINDOW + 1) if d])
        near = places[:, None] + offsets
        reach = self.rng.integers(1, WINDOW + 1, (places.size, 1))  # so that nearer words count more often
        true = (text[near] >= 0) & (document[near] == document[places][:, None]) & (abs(offsets) <= reach)
        random = self._random_words((places.size, NEGATIVES))
        random_weights = np.broadcast_to(true.sum(1, keepdims=True) * (NEGATIVE_WEIGHT / NEGATIVES), random.shape)
        contexts = np.concatenate([np.where(true, text[near], 0), random], axis=1)
        arrays = (
            self.subwords[text[places]],
            self.subword_weights[text[places]],
            (contexts + len(self.corpus.vocabulary)).astype(np.int32),
            np.concatenate([true, random_weights], axis=1).astype(np.float32),
            np.repeat(np.array([1, 0], np.float32), [offsets.size, NEGATIVES])[None, :],
        )
        return Batch(*(self.xp.asarray(a) for a in arrays))

    def _random_words(self, shape: tuple[int, int]) -> np.ndarray:
        share = np.cumsum(self.corpus.counts**0.75)
        return np.asarray(np.searchsorted(share, self.rng.random(shape) * share[-1]))


def new_table(words: int, rows: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Small random vectors, and zeros for the contexts."""
    table = rng.random((rows, dim), dtype=np.float32)
    table -= 0.5
    table /= dim
    table[words : 2 * words] = 0
    return table


def backward(xp: Any, table: Array, batch: Batch) -> tuple[Array, list[tuple[Array, Array]]]:
    """The mean loss, and for each of the two reads of the table its ids and the cotangent of what was read."""
    parts = rules.take(table, batch.inputs)  # (b, SUBWORDS, dim)
    contexts = rules.take(table, batch.outputs)  # (b, contexts, dim)
    centre = batch.input_weights[:, None, :] @ parts  # (b, 1, dim)
    scores = (contexts @ xp.permute_dims(centre, (0, 2, 1)))[:, :, 0]
    chance = 0.5 + 0.5 * xp.tanh(0.5 * scores)  # the logistic function, without overflow
    right = xp.where(batch.labels > 0, chance, 1 - chance)
    loss = -xp.sum(batch.output_weights * xp.log(right + 1e-7)) / xp.sum(batch.output_weights)
    errors = (chance - batch.labels) * batch.output_weights
    d_centre = errors[:, None, :] @ contexts
    d_parts = batch.input_weights[:, :, None] * d_centre
    d_contexts = errors[:, :, None] * centre
    return loss, [(batch.inputs, d_parts), (batch.outputs, d_contexts)]


def compact_step(xp: Any, table: Array, batch: Batch, rate: float) -> tuple[Array, Array, st.IndexedSlices]:
    """The gradient of a read is the rows that were read, and the gradients of two reads add up."""
    loss, reads = backward(xp, table, batch)
    first, second = (rules.take_vjp(cotangent, table.shape, ids) for ids, cotangent in reads)
    gradient = first + second
    return st.add_into(table, gradient * -rate), loss, gradient


def dense_step(xp: Any, table: Array, batch: Batch, rate: float) -> tuple[Array, Array, Array]:
    """The same without this package: a gradient of the table's shape, filled in the backend's quickest way."""
    loss, reads = backward(xp, table, batch)
    ids = xp.concat([xp.reshape(ids, (-1,)) for ids, _ in reads])
    rows = xp.concat([xp.reshape(cotangent, (-1, table.shape[1])) for _, cotangent in reads])
    gradient = DENSE_SCATTER[xp.__name__](table, ids, rows)
    gradient *= rate
    table -= gradient
    return table, loss, gradient


def numpy_scatter(table: Array, ids: Array, rows: Array) -> Array:
    """A product with SciPy's sparse matrix of ones, which is quicker than `np.add.at`."""
    from scipy.sparse import csc_array

    ones = np.ones(ids.shape[0], rows.dtype)
    return csc_array((ones, ids, np.arange(ids.shape[0] + 1)), shape=(table.shape[0], ids.shape[0])) @ rows


def torch_scatter(table: Array, ids: Array, rows: Array) -> Array:
    return table.new_zeros(table.shape).index_add_(0, ids, rows)


def jax_scatter(table: Array, ids: Array, rows: Array) -> Array:
    return importlib.import_module("jax.numpy").zeros_like(table).at[ids].add(rows)


def cupy_scatter(table: Array, ids: Array, rows: Array) -> Array:
    gradient = importlib.import_module("cupy").zeros_like(table)
    importlib.import_module("cupyx").scatter_add(gradient, ids, rows)
    return gradient


DENSE_SCATTER: dict[str, Callable[[Array, Array, Array], Array]] = {
    NAMESPACES["numpy"]: numpy_scatter,
    NAMESPACES["torch"]: torch_scatter,
    NAMESPACES["jax"]: jax_scatter,
    NAMESPACES["cupy"]: cupy_scatter,
}


def prepared(step: Callable[..., tuple[Array, Array, Any]], xp: Any) -> Step:
    """JAX compiles a step and lets it reuse the memory of the table; the others run it as it stands."""
    bound = partial(step, xp)
    if xp.__name__ != NAMESPACES["jax"]:
        return bound
    compiled: Step = importlib.import_module("jax").jit(bound, donate_argnums=0)
    return compiled


def train(sampler: Sampler, table: Array, seconds: float, console: Console) -> tuple[Array, list[float]]:
    """Compact steps until the time is up, at a rate that falls to nothing."""
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    step = prepared(compact_step, sampler.xp)
    losses: list[float] = []
    begin = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=seconds, state="")
        for batch in sampler.batches():
            passed = time.perf_counter() - begin
            if passed >= seconds and losses:
                break
            table, loss, _ = step(table, batch, RATE * max(0.0, 1 - passed / seconds))
            losses.append(float(loss))
            if len(losses) % 50 == 1:
                state = f"step {len(losses):,}  loss {fmean(losses[-200:]):.3f}"
                progress.update(task, completed=passed, state=state)
        progress.update(task, completed=seconds)
    return table, losses


def print_neighbours(sampler: Sampler, table: Array, console: Console) -> None:
    """The words whose vectors point most nearly in the same direction."""
    xp, vocabulary = sampler.xp, sampler.corpus.vocabulary
    weights = xp.asarray(sampler.subword_weights)
    vectors = xp.sum(rules.take(table, xp.asarray(sampler.subwords)) * weights[:, :, None], axis=1)
    vectors = vectors / xp.sqrt(xp.sum(vectors * vectors, axis=1, keepdims=True))
    shown = Table("word", "nearest", title="Nearest neighbours")
    for word in (w for w in SHOWN if w in vocabulary):
        number = vocabulary.index(word)
        nearest = xp.argsort(vectors @ vectors[number, :], descending=True)
        others = [int(i) for i in nearest[: NEIGHBOURS + 1] if int(i) != number]
        shown.add_row(word, ", ".join(vocabulary[i] for i in others[:NEIGHBOURS]))
    console.print(shown)


@dataclass(frozen=True)
class Measured:
    """One way of making gradients, over the batches compared."""

    table: Array
    seconds: float  # median of a step: forward, backward and update
    rows: int  # that one gradient holds
    gradient_bytes: int  # that one gradient takes
    peak_bytes: int | None  # of everything one step makes, where Python can tell


def measure(step: Step, xp: Any, table: Array, batches: list[Batch]) -> Measured:
    """Take the steps from a copy of `table`. The first are to warm up, and not timed."""
    table = xp.asarray(table, copy=True)
    times = []
    for batch in batches:
        begin = time.perf_counter()
        table, loss, gradient = step(table, batch, RATE)
        float(loss), float(table[0, 0])  # waits for a backend that only queues the work
        times.append(time.perf_counter() - begin)
        rows, gradient_bytes = getattr(gradient, "stored", gradient.shape[0]), int(gradient.nbytes)
        del gradient
    peak = None
    if xp.__name__ == NAMESPACES["numpy"]:
        tracemalloc.start()
        step(table, batches[-1], 0.0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Measured(table, median(times[WARM_UP:]), rows, gradient_bytes, peak)


def compare(xp: Any, table: Array, batches: list[Batch], console: Console) -> tuple[Measured, Measured]:
    """The same steps from the same table, compact and dense: time, memory, and how far the results are apart."""
    compact = measure(prepared(compact_step, xp), xp, table, batches)
    dense = measure(prepared(dense_step, xp), xp, table, batches)
    apart = float(xp.max(xp.abs(compact.table - dense.table)))
    moved = float(xp.max(xp.abs(compact.table - table)))
    expected = dense.gradient_bytes * compact.rows / dense.rows

    shown = Table("", "compact", "dense", "dense / compact", title=f"The same {len(batches)} batches, compact and dense")
    for column in shown.columns[1:]:
        column.justify = "right"

    def add_row(label: str, pair: tuple[float, float], unit: str) -> None:
        shown.add_row(label, *(f"{n:,.2f} {unit}" for n in pair), f"{pair[1] / pair[0]:.1f}x")

    add_row("a step (median)", (compact.seconds * 1e3, dense.seconds * 1e3), "ms")
    add_row("the gradient", (compact.gradient_bytes / MIB, dense.gradient_bytes / MIB), "MiB")
    if compact.peak_bytes and dense.peak_bytes:
        add_row("peak of all that a step makes", (compact.peak_bytes / MIB, dense.peak_bytes / MIB), "MiB")
    console.print(shown)
    console.print(f"step time: compact is {dense.seconds / compact.seconds:.1f} times faster")
    console.print(f"gradient memory: {compact.rows:,} of {dense.rows:,} rows stored;", end=" ")
    console.print(f"{compact.gradient_bytes / expected - 1:+.1%} against dense x stored / rows")
    console.print(f"results: largest difference {apart:.1e}, in a table that moved by up to {moved:.1e}")
    return compact, dense


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=sorted(NAMESPACES), default="numpy")
    parser.add_argument("--seconds", type=float, default=30.0, help="time to train for (default 30)")
    parser.add_argument("--rows", type=int, default=2**20, help="rows of the table (default 2**20)")
    parser.add_argument("--dim", type=int, default=64, help="length of a vector (default 64)")
    parser.add_argument("--batch", type=int, default=64, help="centres a step (default 64)")
    parser.add_argument("--min-count", type=int, default=15, help="rarer words are left out (default 15)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where to save the picture")
    return parser.parse_args()


def main() -> None:
    options, console = parse(), Console(highlight=False)
    try:
        xp = importlib.import_module(NAMESPACES[options.backend])
    except ImportError as error:
        raise SystemExit(f"--backend {options.backend} is not installed here: {error}") from error

    console.print("reading the documentation inside the standard library")
    corpus = read_corpus(options.min_count)
    words = len(corpus.vocabulary)
    if options.rows < 3 * words:
        raise SystemExit(f"--rows must be at least {3 * words}: words, contexts and buckets")
    console.print(f"{len(corpus):,} words of running text, {words:,} different ones")

    rng = np.random.default_rng(options.seed)
    subwords, weights = subword_table(corpus.vocabulary, 2 * words, options.rows, SUBWORDS)
    sampler = Sampler(xp, corpus, subwords, weights, options.batch, rng)
    table = xp.asarray(new_table(words, options.rows, options.dim, rng))
    console.print(f"a table of {options.rows:,} x {options.dim} float32 = {table.nbytes / MIB:.0f} MiB, on {options.backend}")

    table, losses = train(sampler, table, options.seconds, console)
    print_neighbours(sampler, table, console)
    compact, dense = compare(xp, table, list(islice(sampler.batches(), COMPARED)), console)
    draw(losses, compact, dense, options.output)
    console.print(f"picture: {options.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
