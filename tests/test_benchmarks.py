"""Benchmarks run; what they print of time is nobody's concern here."""

import json

import numpy as np
import pytest

from benchmarks.c_loops import c_loops
from benchmarks.guard import compare, ratios
from benchmarks.measure import Result, measured
from benchmarks.tables import TABLES
from benchmarks.targets import Target, verdicts
from tests.cuda_emulator.module import MISSING


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_gpu_benchmark_on_the_emulator(tmp_path, capsys):
    from benchmarks import gpu

    path = tmp_path / "gpu.json"
    assert gpu.main(["--emulate", "--repeats", "1", "--json", str(path)]) == 0
    found = {result["question"] for result in json.loads(path.read_text())["results"]}
    assert {
        "launch",
        "argsort",
        "distinct ids",
        "gather",
        "scatter_add",
        "densify",
        "coalesce",
        "sgd",
        "adagrad",
        "adam",
    } == found
    assert "times mean nothing" in capsys.readouterr().out


SMALL = [(40, 60, 4, "float32", "uniform"), (40, 60, 1, "float64", "Zipf 1.1"), (40, 60, 4, "float16", "uniform")]


@pytest.mark.parametrize("table", sorted(set(TABLES) - {"structure", "growth"}))
@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
def test_every_table_runs_and_contenders_agree_on_shapes(table):
    for case in TABLES[table](SMALL if table != "accumulate" else [(40, 300, 4, "float32", "uniform")]):
        result = measured(case, budget=0.0, most=1)
        assert result.ours.keys() == case.ours.keys() and result.peers.keys() <= case.peers.keys()
        assert result.peers.keys() == case.peers.keys() or case.on["dtype"] == "float16"
        assert min((*result.ours.values(), *result.peers.values())) > 0 and result.floor > 0


def test_structure_table_runs():
    cases = list(TABLES["structure"]([]))
    assert {case.on["V"] for case in cases} >= {10**4, 2**50}
    for case in cases[:2] + cases[-2:]:
        measured(case, budget=0.0, most=1)


def test_pictures_of_what_was_measured(tmp_path):
    draw = pytest.importorskip("benchmarks.pictures", reason="Matplotlib is not installed").draw
    on = {"V": 10**6, "d": 64, "dtype": "float32", "ids": "uniform"}
    results = [
        {"table": "densify", "on": {**on, "n": n}, "ours": {"numpy": n}, "peers": {"a": 2 * n}, "floor": 1} for n in (5, 9)
    ]
    results += [
        {"table": "flat in V", "on": {"call": "abs", "V": size}, "ours": {"numpy": 1}, "peers": {}} for size in (10, 99)
    ]
    results += [{"table": "length", "on": {"V": size}, "ours": {"compact": 1}, "peers": {}} for size in (10, 99)]
    assert [path.name for path in draw(results, tmp_path)] == ["densify.svg", "length.svg", "flat.svg"]
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("densify.svg", "length.svg", "flat.svg"))


def test_guard_tells_what_moved_and_fails_on_twice():
    results = [Result("densify", {"V": 4}, {"numpy": 3.0}, {"a": 6.0, "b": 4.0}, 1.0, {})]
    assert ratios(results) == {"densify V=4: numpy": 0.75}
    assert compare({"x": 1.0, "y": 2.1, "z": 0.9}, {"x": 1.0, "y": 1.0, "w": 3.0}) == (["y: 1.00 -> 2.10"], ["y"])
    assert compare({"x": 1.5}, {"x": 1.0}) == (["x: 1.00 -> 1.50"], [])


@pytest.mark.parametrize("size", [50, 10**4])
def test_c_loops_do_what_ours_do(size):
    loops = c_loops()
    if loops is None:
        pytest.skip("no C compiler")
    rng = np.random.default_rng(size)
    ids, rows = rng.integers(0, size, 300), rng.standard_normal((300, 5)).astype(np.float32)
    dense = np.zeros((size, 5))
    np.add.at(dense, ids, rows)
    named = np.unique(ids)
    np.testing.assert_allclose(loops.densify(ids, rows, size), dense, atol=1e-4)
    distinct, sums = loops.coalesce(ids, rows, size)
    assert distinct.tolist() == named.tolist()
    np.testing.assert_allclose(sums, dense[named], atol=1e-4)
    table = rng.standard_normal((size, 5)).astype(np.float32)
    np.testing.assert_array_equal(loops.gather(table, ids), table[ids])
    want = table - 0.5 * dense
    moved = table.copy()
    loops.sgd(moved, ids, rows, 0.5)
    np.testing.assert_allclose(moved, want, atol=1e-4)
    squares = np.ones_like(table)
    loops.adagrad(table, squares, ids, rows, 0.5, 0.1)
    np.testing.assert_allclose(squares, 1 + dense**2, rtol=1e-4)
    np.testing.assert_allclose(table, want + 0.5 * dense - 0.5 * dense / (np.sqrt(1 + dense**2) + 0.1), atol=1e-4)


def test_verdicts():
    def cell(n, ours, peer, **on):
        return Result("densify", {"n": n, "d": 64, **on}, {"numpy": ours}, {"a": peer, "b": 9.0}, 1.0, {})

    results = [cell(10, 2.0, 4.0), cell(100, 6.0, 3.0), cell(1000, 3.0, 9.0)]
    for target, figure, hit in (
        (Target("densify", "numpy", "a", "at most", 0.5), 0.5, True),
        (Target("densify", "numpy", "a", "at most", 1.2, "worst"), 2.0, False),
        (Target("densify", "numpy", "a", "at least", 0.6, "worst", {"n": (">=", 100)}), 0.5, False),
        (Target("densify", "numpy", "floor", "at most", 3, "median", {"n": ("<=", 100), "d": 64}), 4.0, False),
        (Target("densify", "numpy", "best peer", "at least", 1, "worst"), 0.5, False),
        (Target("densify", "numpy", "best peer", "at least", 1, "worst", {}, ("a",)), 1.5, True),
        (Target("densify", "numpy", "the smallest n", "at most", 2, "worst"), 1.5, True),
        (Target("densify", "numpy", "the smallest n, for each", "at most", 2, "worst"), 0.015, True),
        (Target("densify", "torch", "a", "at most", 1), None, None),
    ):
        (found,) = verdicts(results, [target])
        assert (found.measured, found.hit) == (figure, hit), target
