"""Real text that every machine with Python has: the documentation inside the standard library.

Two sources, read in a fixed order: the language reference behind ``help()`` (`pydoc_data.topics`), and the docstrings of
every module, class and function of the standard library. The modules are parsed, never imported, so nothing runs.
"""

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Corpus", "documents", "read_corpus", "subword_table"]

Ids = NDArray[np.int32]

_WORD = re.compile(r"[a-z]+(?:_[a-z0-9]+)*")
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "encodings"}


@dataclass(frozen=True)
class Corpus:
    """Running text as word numbers. The vocabulary is sorted by falling frequency; -1 stands between two documents."""

    vocabulary: list[str]
    counts: NDArray[np.int64]
    text: Ids

    def __len__(self) -> int:
        return int((self.text >= 0).sum())


def documents() -> Iterator[str]:
    """The topics of ``help()`` by name, then the docstrings of the standard library by path."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield topics[name]
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(root).parts):
            yield from _docstrings(path)


def _docstrings(path: Path) -> Iterator[str]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, documented) and (text := ast.get_docstring(node, clean=False)):
            yield text


def read_corpus(min_count: int = 10) -> Corpus:
    """Tokenise the documents and keep the words that occur at least `min_count` times."""
    words = [_WORD.findall(text.lower()) for text in documents()]
    frequency = Counter(word for document in words for word in document)
    kept = sorted((w for w, n in frequency.items() if n >= min_count), key=lambda w: (-frequency[w], w))
    number = {word: i for i, word in enumerate(kept)}
    text = [i for document in words for i in (*(number[w] for w in document if w in number), -1)]
    return Corpus(kept, np.array([frequency[w] for w in kept]), np.array(text, np.int32))


def subword_table(vocabulary: list[str], first: int, last: int, longest: int) -> tuple[Ids, NDArray[np.float32]]:
    """For each word, the rows whose mean is its vector: its own, and those its character 3- to 5-grams hash to.

    Rows `first` to `last` hold the hashed n-grams. Words have different numbers of them, so the ids come as a rectangle
    ``(words, longest)`` with weights of the same shape: ``1 / number of rows``, and 0 for what only fills the rectangle.
    """
    ids = np.zeros((len(vocabulary), longest), np.int32)
    weights = np.zeros((len(vocabulary), longest), np.float32)
    for number, word in enumerate(vocabulary):
        grams = _ngrams(f"<{word}>")[: longest - 1]
        rows = [number, *(first + _fnv1a(gram) % (last - first) for gram in grams)]
        ids[number, : len(rows)] = rows
        weights[number, : len(rows)] = 1 / len(rows)
    return ids, weights


def _ngrams(word: str) -> list[str]:
    return [word[i : i + n] for n in (3, 4, 5) for i in range(len(word) - n + 1)]


def _fnv1a(text: str) -> int:
    """A hash that is the same in every process, which Python's own is not."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
