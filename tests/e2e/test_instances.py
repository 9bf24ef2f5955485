"""`laptime bench --threads --instances` with real processes: a program of known truth, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import time, torch

class Waits(torch.nn.Module):
    def forward(self, x):
        time.sleep(0.02)
        return x

def build():
    return Waits(), torch.zeros(1, 4)
"""


def laptime(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "LAPTIME_HOME": str(folder / "store"), "LAPTIME_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "laptime", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=240)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two instances need two CPUs")
def test_two_instances_of_a_program_that_waits_do_twice_as_much(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(PROGRAM)
    done = laptime(
        tmp_path, "bench", "waits.py:build", "--threads", "1", "--instances", "1,2", "--budget", "12s"
    )
    assert done.returncode in (0, 3), done.stderr
    assert "Cores" in done.stdout
    shown = json.loads(laptime(tmp_path, "show", "last", "--json").stdout)
    rates = {
        case["axes"].get("instances", 1): case["metrics"]["throughput/isolated"]["value"]
        for case in shown["cases"]
    }
    # One makes at most 50 calls a second; two make twice what one does, and never more than 100.
    assert 30 < rates[1] <= 50
    assert rates[2] == pytest.approx(2 * rates[1], rel=0.1)
    assert rates[2] <= 100
    cost = json.loads(laptime(tmp_path, "cost", "last", "--usd-per-hour", "3.6", "--json").stdout)
    rows = {row["instances"]: row for row in cost["cores"]}
    assert rows[2]["efficiency"] == pytest.approx(1.0, abs=0.1)
    assert rows[2]["cheapest"]
    assert rows[2]["usd_per_million"] == pytest.approx(1000 / rates[2], rel=0.01)
