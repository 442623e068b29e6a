"""The examples run, and what they print holds: a small configuration, in a process of its own as a user would start it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_word_vectors_compare_compact_with_dense(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "word_vectors.png"
    small = ["--rows", "16384", "--dim", "16", "--min-count", "30", "--seconds", "1", "--output", str(picture)]
    printed = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "word_vectors.py"), *small],
        env={**os.environ, "COLUMNS": "120"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert re.search(r"thread +│ .*threads", printed)
    stored, rows, excess = _numbers(r"([\d,]+) of ([\d,]+) rows stored; ([+-][\d.]+)%", printed)
    assert (stored, rows) == (64 * (12 + 20), 16384)
    assert abs(excess) < 10
    apart, moved = _numbers(r"largest difference (\S+), in a table that moved by up to (\S+)", printed)
    assert apart < 1e-5 < moved
    assert re.search(r"step time: compact is [\d.]+ times faster", printed)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in printed


def test_distributed_training() -> None:
    """Two processes, replicated and split: one computation, and far fewer bytes than a dense all-reduce."""
    for package in ("rich", "matplotlib", "torch"):
        pytest.importorskip(package)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLES / "distributed.py")]
    small = ["--rows", "65536", "--dim", "16", "--min-count", "40", "--steps", "30"]
    done = subprocess.run(
        [sys.executable, *launch, *small],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ("replicated", "split"):
        first, last, sent, dense = _numbers(
            rf"{name}: loss ([\d.]+) -> ([\d.]+), .* ([\d.]+) MiB sent a step and process, dense ([\d.]+)", done.stdout
        )
        assert last < first and 10 * sent < dense
    assert "equal to the bit: True" in done.stdout
    assert _numbers(r"differs from them by at most (\S+)", done.stdout)[0] < 1e-6


def test_matrix_factorization_learns_from_compact_gradients() -> None:
    pytest.importorskip("autograd")
    small = ["--users", "30000", "--items", "20000", "--steps", "300"]
    printed = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "matrix_factorization.py"), *small],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    (before,) = _numbers(r"kept back: ([\d.]+) at first", printed)
    (after,) = _numbers(r"kept back: ([\d.]+) after 300 steps", printed)
    assert after < 0.3 < 2 < before
    assert printed.count("stored=512") == 2
    small_memory, large_memory = _numbers(r"ms and ([\d.]+) MiB with take, [\d.]+ ms and ([\d.]+) MiB without", printed)
    assert large_memory > 5 * small_memory


def _numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    assert found, text
    return [float(group.replace(",", "")) for group in found.groups()]
