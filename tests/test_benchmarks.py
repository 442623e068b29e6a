"""Benchmarks run; what they print of time is nobody's concern here."""

import json

import pytest

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
