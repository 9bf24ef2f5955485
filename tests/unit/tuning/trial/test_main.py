"""A script as a trial: in a process of its own, and once in this one to see what is left of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from laptime.instrument import program
from laptime.kit.system_files import children
from laptime.tuning.trial import watched
from laptime.tuning.trial.messages import FILE, VARIABLE, TrialPlan
from laptime.tuning.trial.process import TrialProcess
from laptime.tuning.trial.state_snapshot import SeedShift
from laptime.tuning.wire_format import encode

TRAIN = """
import random, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

def main(workers):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    data = TensorDataset(torch.randn(40, 2, 4, 4), torch.randint(0, 2, (40,)))
    loader = DataLoader(data, 8, True, num_workers=workers, persistent_workers=workers > 0)
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        scheduler.step()

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
SWALLOWS = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
while True:
    try:
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    except BaseException:
        pass
"""
HOARDS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
hoard = []
while True:
    hoard.append(b"1" * 10_000_000)
    time.sleep(0.005)
"""
RANKS = """
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
while True:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
"""


def started(folder: Path, text: str, *words: str, **plan: Any) -> subprocess.Popen[str]:
    """The script as a trial, in a process group of its own."""
    script = folder / "script.py"
    script.write_text(text)
    plan = {"folder": str(folder), "steps": 2, "rounds": 3, "seconds": 5.0, **plan}
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -m laptime.tuning.trial "$@"\n')
    wrapper.chmod(0o755)
    environment = {**os.environ, VARIABLE: encode(TrialPlan(**plan)), "PYTHON_EXEC": str(wrapper)}
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "laptime.tuning.trial",
            *[str(script) if word == "@" else word for word in words],
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(folder: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    """How the trial went, with its exit status and output; none of its processes may be left."""
    output, errors = process.communicate(timeout=120)
    for _ in range(40):
        left = [pid for pid in Path("/proc").glob("[0-9]*") if _group(pid) == process.pid]
        if not left:
            break
        time.sleep(0.05)
    assert left == []
    found: dict[str, Any] = result_of(folder / FILE)
    return {**found, "returncode": process.returncode, "output": output, "errors": errors}


def _group(pid: Path) -> int:
    try:
        words = (pid / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if words[0] == "Z" else int(words[2])


def messages(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def result_of(path: Path) -> dict[str, Any]:
    (result,) = [message for message in messages(path) if message["kind"] == "TrialResult"]
    return result


def blocks(folder: Path) -> list[dict[str, Any]]:
    return [message for message in messages(folder / FILE) if message["kind"] == "Block"]


@pytest.mark.torch
@pytest.mark.slow
def test_a_race_of_a_live_change_in_a_script_with_workers(tmp_path: Path) -> None:
    arms = [[], [{"name": "channels_last", "options": {}}]]
    found = ended(tmp_path, started(tmp_path, TRAIN, "@", "1", arms=arms, memory=20_000_000_000))
    assert (found["ended"], found["status"], found["returncode"]) == ("stopped", 0, 0), found["errors"]
    assert (found["source"], found["left"], found["refused"]) == ("optimizer", [], [])
    assert found["peak"] > 1e8
    assert sorted((block["round"], block["arm"]) for block in blocks(tmp_path)) == [
        (number, arm) for number in range(3) for arm in range(2)
    ]
    for block in blocks(tmp_path):
        assert block["samples"] == [8, 8]
        assert all(0 < loss < 3 for loss in block["losses"])
        assert len(block["losses"]) == 2


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_swallows_its_end_is_ended(tmp_path: Path) -> None:
    found = ended(tmp_path, started(tmp_path, SWALLOWS, "@"))
    assert (found["ended"], found["returncode"]) == ("stopped", 0), found["errors"]
    assert len(blocks(tmp_path)) == 3


@pytest.mark.torch
@pytest.mark.slow
def test_of_several_ranks_the_first_is_told_of(tmp_path: Path) -> None:
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    words = [torchrun, "--nproc-per-node", "2", "--standalone", "@"]
    found = ended(tmp_path, started(tmp_path, RANKS, *words))
    other = result_of(tmp_path / f"1-{FILE}")
    assert (found["world"], found["rank"], found["source"]) == (2, 0, "optimizer"), found["errors"]
    assert (other["world"], other["rank"], other["source"]) == (2, 1, "optimizer")
    assert len(blocks(tmp_path)) == 3


def test_a_script_that_fails_does_so_as_without_us(tmp_path: Path) -> None:
    found = ended(tmp_path, started(tmp_path, "import nothing_like_this\n", "@"))
    assert (found["ended"], found["returncode"]) == ("raised", 1)
    assert "ModuleNotFoundError" in found["error"]
    assert "laptime" not in found["traceback"]
    assert found["traceback"] in found["errors"]


def test_a_script_without_torch_runs_to_its_end(tmp_path: Path) -> None:
    text = "import sys\nprint(sys.argv[1:], __name__, 'torch' in sys.modules)\nsys.exit(3)\n"
    found = ended(tmp_path, started(tmp_path, text, "@", "--steps", "4", seed=3))
    assert (found["ended"], found["status"], found["returncode"]) == ("exited", 3, 3)
    assert found["output"] == "['--steps', '4'] __main__ False\n"
    assert (found["torch"], found["source"]) == (False, "")


def test_a_trial_above_its_memory_ends_with_its_children(tmp_path: Path) -> None:
    limit = 300_000_000
    found = ended(tmp_path, started(tmp_path, HOARDS, "@", memory=limit))
    assert (found["ended"], found["returncode"]) == ("memory", 1)
    assert limit < found["peak"] < 1.5 * limit
    assert "0.30 GB is" in found["error"]
    assert not _group(Path(f"/proc/{int(found['output'])}"))


def test_pages_that_a_child_shares_count_once() -> None:
    block = bytearray(os.urandom(1) * 60_000_000)
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        pids = [os.getpid(), child]
        assert children(os.getpid()).count(child) == 1
        assert sum(map(watched.read_used, pids)) - sum(map(watched.share, pids)) > 0.8 * len(block)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.torch
def test_nothing_is_left_in_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch
    from torch.utils.data import dataloader

    torch.optim.SGD([torch.zeros(1)], lr=1.0)  # torch wraps `step` itself
    script = tmp_path / "script.py"
    script.write_text(TRAIN)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    owners: list[Any] = [torch, torch.nn.Module, torch.optim.Optimizer, torch.optim.SGD, torch.autograd]
    owners += [torch.random, torch.cuda, random, dataloader.DataLoader, dataloader._BaseDataLoaderIter]
    before, threads = [dict(vars(owner)) for owner in owners], torch.get_num_threads()
    watching, state = list(sys.meta_path), torch.get_rng_state()
    plan = TrialPlan(folder=str(tmp_path), base=[{"name": "channels_last"}], seed=3, rounds=2, memory=10**12)
    process = TrialProcess(plan)
    process.open()
    try:
        assert torch.manual_seed is not before[0]["manual_seed"]
        told = program.run([str(script), "1"], is_module=False)
        workers = [worker for each in process.hooks._torch_hooks.iterators for worker in each._workers]
    finally:
        process.close()
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
    assert told.how == "stopped"
    assert workers
    assert not any(worker.is_alive() for worker in workers)
    for owner, was in zip(owners, before, strict=True):
        assert [name for name, each in was.items() if vars(owner).get(name) is not each] == []
        assert set(vars(owner)) - set(was) == set()
    assert sys.meta_path == watching
    assert result_of(tmp_path / FILE)["left"] == []


@pytest.mark.torch
def test_seeds_of_the_script_are_shifted_once() -> None:
    import torch

    state, own = torch.get_rng_state(), random.getstate()
    original = torch.manual_seed, random.seed
    try:
        torch.manual_seed(7)
        random.seed(7)
        expected = torch.rand(1).item(), random.random()
        seeds = SeedShift(4)
        seeds.install()
        first = random.random()
        torch.manual_seed(3)
        random.seed(3)
        assert (torch.rand(1).item(), random.random()) == expected
        random.seed("words")
        random.seed(None)
        assert seeds.undo() == []
        assert (torch.manual_seed, random.seed) == original
        random.seed(4)
        assert random.random() == first
    finally:
        torch.set_rng_state(state)
        random.setstate(own)


def test_numpy_generators_without_a_seed_are_the_same_in_every_trial_of_a_seed() -> None:
    """gymnasium's games begin with one: the gate of a reinforcement learner compared other games."""
    numpy = pytest.importorskip("numpy")
    state, own, asked = numpy.random.get_state(), random.getstate(), numpy.random.bit_generator.randbits

    def games(shift: int) -> list[float]:
        seeds = SeedShift(shift)
        seeds.install()
        drawn = [numpy.random.default_rng().random() for _ in range(2)]
        assert seeds.undo() == []
        return drawn

    try:
        first = games(0)
        assert games(0) == first
        assert len({*first, *games(1)}) == 4
        assert numpy.random.bit_generator.randbits == asked
    finally:
        numpy.random.set_state(state)
        random.setstate(own)
