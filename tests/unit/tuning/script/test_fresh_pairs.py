"""Two processes of a script that take turns: who stands still when, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from laptime.experiment.pairs import ratios
from laptime.launch.script import resolve
from laptime.process.program import Guard
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.fresh_pairs import TrialSide, alone, in_turns, pair_of, why_apart
from laptime.tuning.script.trial_runner import TrialPair, TrialRunner
from laptime.tuning.search.evaluator import TrialFailed

LOOP = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)

def main():
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(40000, 64), batch_size=4, num_workers=1)
    for epoch in range(1000):
        for number, batch in enumerate(loader):
            optimizer.zero_grad()
            model(batch).pow(2).mean().backward()
            optimizer.step()

main()
"""
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def runner(folder: Path, text: str = LOOP) -> TrialRunner:
    script = folder / "train.py"
    script.write_text(text)
    made = TrialRunner(resolve(str(script), []), folder / "session", timeout=200)
    made.step = 0.1
    return made


def family(pid: int) -> list[psutil.Process]:
    leader = psutil.Process(pid)
    return [leader, *leader.children(recursive=True)]


def stand_still(processes: list[psutil.Process]) -> bool:
    end = time.monotonic() + 10
    while any(each.status() != psutil.STATUS_STOPPED for each in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_a_side_stands_still_with_its_workers_outside_its_turns(tmp_path: Path) -> None:
    guard = Guard()
    side = TrialSide(runner(tmp_path), Recipe(), 0, guard=guard)
    try:
        side.start()
        side.warm()
        processes = family(side._running.process.pid)
        assert len(processes) > 1
        assert stand_still(processes)
        assert side.block() > 0
        assert stand_still(processes)
        assert [len(block.seconds) for block in side.timed.blocks] == [6]
        side.finish()
        assert side.timed.result.ended == "stopped"
    finally:
        side.close()
        guard.close()
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def pair(of: TrialRunner, until: float = 0.0) -> TrialPair:
    return in_turns(of, Recipe(), 0, sources={}, until=until)


def test_a_pair_has_the_same_steps_on_both_sides_and_a_second_one_runs_in_turns_too(tmp_path: Path) -> None:
    trials = runner(tmp_path)
    assert why_apart(trials) == ""
    made = pair(trials)
    assert made.turns is not None
    assert len(made.turns.rounds) == 4
    assert made.baseline.losses == made.final.losses
    assert alone(trials, Recipe(), 0).losses == made.final.losses
    assert 0.2 < ratios([pair_of(made)])[0] < 5


def test_what_does_not_run_at_once_says_why_and_runs_one_after_the_other(tmp_path: Path) -> None:
    """It listens on a port: the second one cannot."""
    port = 20000 + os.getpid() % 10000
    listening = f"import socket\nheld = socket.create_server(('127.0.0.1', {port}))\n"
    trials = runner(tmp_path, listening + LOOP)
    with pytest.raises(TrialFailed, match="in use"):
        pair(trials)
    assert trials.pair(Recipe(), Recipe(), 0, rounds=2).turns is None


def test_a_side_that_fails_alone_fails_the_pair(tmp_path: Path) -> None:
    failing = LOOP.replace("optimizer.step()", "optimizer.step()\n            assert number < 20, 'no luck'")
    with pytest.raises(TrialFailed, match="no luck"):
        pair(runner(tmp_path, failing))


SESSION = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_fresh_pairs import *
print("begun", flush=True)
pair(runner(Path({folder!r})), until=1e9)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_session_that_is_killed_while_one_side_stands_still(
    number: int, tmp_path: Path
) -> None:
    text = SESSION.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    session = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL)
    try:
        end, still = time.monotonic() + 150, list[psutil.Process]()
        while not still and time.monotonic() < end:
            found = psutil.Process(session.pid).children(recursive=True)
            still = [each for each in found if each.status() == psutil.STATUS_STOPPED]
            time.sleep(0.05)
        assert still
        everyone = psutil.Process(session.pid).children(recursive=True)
    finally:
        session.send_signal(number)
        session.wait(60)
    _, left = psutil.wait_procs(everyone, timeout=20)
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []
