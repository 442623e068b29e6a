"""Benchmarks run; what they print of time is nobody's concern here."""

import json

import pytest

from benchmarks.guard import compare, ratios
from benchmarks.measure import Result, measured
from benchmarks.tables import TABLES
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
