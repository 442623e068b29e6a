"""Word vectors from Python's own documentation, trained with compact gradients and compared with dense ones.

Skip-gram with negative sampling. One table of 2**20 rows holds everything that is learned: a row for every word as a
centre, a row for every word as a context, and hashed buckets for the 3- to 5-letter pieces of words. A word's vector is
the mean of its own row and its pieces' rows, so "thread" and "threads" share most of what they learn.

A step reads some eighteen thousand rows of the million. Its gradient is the sum of two `take_vjp`, an `IndexedSlices` of
those rows, and `add_into` touches only them. The dense way fills a second table and subtracts it: 256 MB every step.

    python examples/word_vectors.py [--backend numpy|torch|jax|cupy] [--seconds 30] [--rows 1048576] [--dim 64] [--seed 0]
"""

import argparse
import importlib
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
Step: TypeAlias = Callable[[Any, Array, "Batch", float], tuple[Array, float, Any]]  # -> table, loss, gradient

NAMESPACES = {name: f"array_api_compat.{name}" for name in ("numpy", "torch", "cupy")} | {"jax": "jax.numpy"}
SHOWN = "string list exception thread integer socket process month dictionary directory iterator float".split()
OUTPUT = Path(__file__).parent / "output" / "word_vectors.png"

WINDOW = 5  # a context is at most so many words away
NEGATIVES = 10  # random words that a centre learns to tell from its contexts
NEGATIVE_WEIGHT = 5  # what they weigh together, against the true contexts
KEPT = 1e-4  # words more frequent than this are thinned out
SUBWORDS = 16  # rows that a word is made of, at most
COMPARED = 8  # batches for which compact and dense are compared


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
        return np.searchsorted(share, self.rng.random(shape) * share[-1])


def new_table(words: int, rows: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Small random vectors, and zeros for the contexts."""
    table = rng.random((rows, dim), dtype=np.float32)
    table -= 0.5
    table /= dim
    table[words : 2 * words] = 0
    return table


def backward(xp: Any, table: Array, batch: Batch) -> tuple[float, list[tuple[Array, Array]]]:
    """The mean loss, and for each of the two reads of the table its ids and the cotangent of what was read."""
    parts = rules.take(table, batch.inputs)  # (b, SUBWORDS, dim)
    centre = xp.sum(parts * batch.input_weights[:, :, None], axis=1)
    contexts = rules.take(table, batch.outputs)  # (b, contexts, dim)
    scores = xp.sum(contexts * centre[:, None, :], axis=2)
    chance = 0.5 + 0.5 * xp.tanh(0.5 * scores)  # the logistic function, without overflow
    right = xp.where(batch.labels > 0, chance, 1 - chance)
    loss = -xp.sum(batch.output_weights * xp.log(right + 1e-7)) / xp.sum(batch.output_weights)
    errors = (chance - batch.labels) * batch.output_weights
    d_centre = xp.sum(contexts * errors[:, :, None], axis=1)
    d_contexts = errors[:, :, None] * centre[:, None, :]
    d_parts = batch.input_weights[:, :, None] * d_centre[:, None, :]
    return float(loss), [(batch.inputs, d_parts), (batch.outputs, d_contexts)]


def compact_step(xp: Any, table: Array, batch: Batch, rate: float) -> tuple[Array, float, st.IndexedSlices]:
    """The gradient of a read is the rows that were read; gradients of two reads add up."""
    loss, reads = backward(xp, table, batch)
    first, second = (rules.take_vjp(cotangent, table.shape, ids) for ids, cotangent in reads)
    gradient = first + second
    return st.add_into(table, gradient, alpha=-rate), loss, gradient


def dense_step(xp: Any, table: Array, batch: Batch, rate: float) -> tuple[Array, float, Array]:
    """The same without this package: a gradient as large as the table, made in the quickest way the backend has."""
    loss, reads = backward(xp, table, batch)
    ids = xp.concat([xp.reshape(ids, (-1,)) for ids, _ in reads])
    rows = xp.concat([xp.reshape(cotangent, (-1, table.shape[1])) for _, cotangent in reads])
    gradient = DENSE_SCATTER[xp.__name__.rsplit(".", 1)[-1] if "jax" not in xp.__name__ else "jax"](table, ids, rows)
    table -= rate * gradient
    return table, loss, gradient
