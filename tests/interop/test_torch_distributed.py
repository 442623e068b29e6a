"""Sums over four processes with gloo; what each of them checks is in `ranks.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]
WORLD = 4

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")


def launched(scenario, tmp_path, rounds=0, timeout=120):
    """The exit codes and outputs of four ranks."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "tests.interop.ranks", scenario]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(WORLD), str(tmp_path / "store"), str(rounds)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]
    try:
        outputs = [rank.communicate(timeout=timeout) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], outputs


def check_sums(tmp_path, rounds, timeout=120):
    codes, outputs = launched("sums", tmp_path, rounds, timeout)
    assert codes == [0] * WORLD, "\n".join(error[-3000:] for _, error in outputs)
    for output, _ in outputs:
        assert all(line in output for line in (f"rounds {rounds}\n", f"reads {rounds // 4}\n", "details\n"))
    return outputs[0][0]


def test_the_sum_of_four_processes(tmp_path):
    """200 random rounds: empty ranks, repeats, every dtype, other axes on other ranks, lists, means, half-precision wires."""
    print(check_sums(tmp_path, 200))


@pytest.mark.long
def test_the_sum_of_four_processes_for_long(tmp_path):
    print(check_sums(tmp_path, 5000, timeout=1200))


def test_a_lost_rank_is_an_error_on_the_others(tmp_path):
    """One that does not come, within the group's timeout of 3 s; one that dies, long before the 60 s of its group."""
    codes, outputs = launched("lost", tmp_path)
    assert codes == [0, 0, 3, 0], "\n".join(error[-3000:] for _, error in outputs)
    for rank in (0, 1, 3):
        output = outputs[rank][0]
        absence, death = (float(output.split(f"{what}: raised after ")[1].split()[0]) for what in ("absence", "death"))
        assert absence < 20 and death < 30, output
