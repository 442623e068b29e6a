"""Tables on disk that are larger than memory: an update touches the pages of the rows named, and no others."""

import os
import subprocess
import sys

import numpy as np
import pytest

import sparsetangent as st
from sparsetangent import IndexedSlices
from sparsetangent.interop.memmap import open_table

ROWS, WIDTH = 80_000_000, 64  # 20.5 GB of float32

UPDATE = """
import sys
import numpy as np, sparsetangent as st
from sparsetangent.interop.memmap import open_table
path, axis, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
shape = ({rows}, {width}) if axis == 0 else ({rows} * {width} // 1024, 2, 512)
table = open_table(path, np.float32, shape)
rng = np.random.default_rng(0)
if axis == 0:
    ids, rows = rng.integers(0, shape[0], 1000), rng.standard_normal((1000, shape[1])).astype(np.float32)
    g = st.IndexedSlices(np.concatenate([ids, ids[:10]]), np.concatenate([rows, rows[:10]]), shape)
else:
    ids = rng.integers(0, shape[0], 1000), rng.integers(0, 2, 1000)
    g = st.IndexedSlices(ids, rng.standard_normal((1000, 512)).astype(np.float32), shape, axis=(0, 1))
if how == "add_into":
    assert st.add_into(table, g, alpha=-0.5) is table
elif how == "update_rows":
    squares = open_table(path + ".state", np.float32, shape, mode="w+")
    assert st.update_rows(table, g, st.steps.adagrad(0.5, eps=0.0), squares)[0] is table
else:
    before = table
    table -= 0.5 * g
    assert before is table
read = st.rules.take(table, g.coords[0][:5])
table.flush()
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(line.split()[1])
np.save(path + ".read.npy", read)
"""


@pytest.fixture
def on_disk(tmp_path):
    path = tmp_path / "table"
    with open(path, "wb") as file:
        file.truncate(ROWS * WIDTH * 4)
    yield path
    for file in tmp_path.iterdir():
        file.unlink()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for the memory used")
@pytest.mark.parametrize(("axis", "how"), [(0, "-="), (0, "update_rows"), (1, "add_into")])
def test_update_of_20_gb_with_under_200_mb(on_disk, axis, how):
    code = UPDATE.format(rows=ROWS, width=WIDTH)
    done = subprocess.run([sys.executable, "-c", code, str(on_disk), str(axis), how], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200 * 1024, f"{int(done.stdout) // 1024} MB"
    # A hole in the file stays a hole unless one of its pages was written: 1000 rows lie in 2000 pages at most.
    written = os.stat(on_disk).st_blocks * 512
    assert 1000 * (256 if axis == 0 else 2048) <= written <= 2000 * 4096 * 2
    # The same update by NumPy, on the rows alone.
    rng = np.random.default_rng(0)
    if axis == 0:
        ids, rows = rng.integers(0, ROWS, 1000), rng.standard_normal((1000, WIDTH)).astype(np.float32)
        wanted = np.array([sum(rows[k] * (2 if k < 10 else 1) for k in range(1000) if ids[k] == i) for i in ids[:5]])
        wanted = np.sign(wanted) if how == "update_rows" else wanted  # what Adagrad makes of it in its first step
        np.testing.assert_allclose(np.load(f"{on_disk}.read.npy"), -0.5 * wanted, rtol=1e-6)


def test_it_is_the_sum(tmp_path):
    """A small table on disk against a loop."""
    rng = np.random.default_rng(1)
    for axis, dtype in ((0, np.float64), (1, np.float32), ((0, 1), np.int64), (0, np.float16), ((), np.float64)):
        axes = axis if isinstance(axis, tuple) else (axis,)
        shape = (7, 5, 2)
        ids = tuple(rng.integers(0, shape[a], 9) for a in axes)
        values = (rng.standard_normal((9, *(n for a, n in enumerate(shape) if a not in axes))) * 8).astype(dtype)
        start = (rng.standard_normal(shape) * 8).astype(dtype)
        table = open_table(tmp_path / "table", dtype, shape, mode="w+")
        table[:] = start
        wanted = start.astype(np.float64)
        for k in range(9):
            place = [slice(None)] * 3
            for a, column in zip(axes, ids, strict=True):
                place[a] = column[k]
            wanted[tuple(place)] += 2 * values[k].astype(np.float64)
        result = st.add_into(table, IndexedSlices(ids, values, shape, axis=axes), alpha=2)
        assert result is table
        table.flush()
        again = np.memmap(tmp_path / "table", dtype, "r", shape=shape)
        np.testing.assert_allclose(again, wanted, rtol=3e-3 if dtype == np.float16 else 1e-5, atol=1e-5)


def test_a_table_that_is_read_only(tmp_path):
    open_table(tmp_path / "table", np.float64, (4, 2), mode="w+").flush()
    table = open_table(tmp_path / "table", np.float64, (4, 2), mode="r")
    with pytest.raises(ValueError, match="dense is read-only"):
        st.add_into(table, IndexedSlices(np.array([1]), np.array([[1.0, 2.0]]), (4, 2)))
    assert not np.any(table)


def test_a_plain_memmap_is_a_table_too(tmp_path):
    table = np.memmap(tmp_path / "table", np.float64, "w+", shape=(4, 2))
    assert st.add_into(table, IndexedSlices(np.array([1, 1]), np.array([[1.0, 2.0], [3.0, 4.0]]), (4, 2))) is table
    assert np.array(table).tolist() == [[0, 0], [4, 6], [0, 0], [0, 0]]


def test_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_table(tmp_path / "none", np.float64, (4, 2))
    with pytest.raises(ValueError, match="no negative size"):
        open_table(tmp_path / "table", np.float64, (-1, 2), mode="w+")
    assert not (tmp_path / "table").exists()
