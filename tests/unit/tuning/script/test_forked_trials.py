"""Trials that are forked: as fresh ones are, and not where that is not sound."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laptime.launch.script import Program
from laptime.records.run import Subject
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_process import NotPrepared, PreparedInterpreter
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.trial.messages import TrialPlan, TrialResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="trials are forked on Linux")
SCRIPT = """
import json, os, sys
here = {"arguments": sys.argv[1:], "name": __name__, "file": __file__, "variable": os.environ.get("WORD"),
        "group": os.getpgrp() == os.getpid(), "parent": os.getppid(),
        "json": "decimal" in sys.modules}
print(json.dumps(here))
sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


@pytest.fixture
def interpreter() -> Iterator[PreparedInterpreter]:
    made = PreparedInterpreter(sys.executable, ["decimal"], dict(os.environ))
    yield made
    made.close()


def environ(folder: Path, **more: str) -> dict[str, str]:
    from laptime.tuning import wire_format
    from laptime.tuning.trial.messages import VARIABLE

    return {**os.environ, VARIABLE: wire_format.encode(TrialPlan(folder=str(folder))), **more}


def test_a_fork_is_what_a_fresh_interpreter_would_be(
    script: Path, interpreter: PreparedInterpreter, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    forked = [
        interpreter.fork([str(script), "--lr", "1"], environ(tmp_path, WORD=word), output) for word in "ab"
    ]
    assert [each.wait(20) for each in forked] == [3, 3]
    seen = [json.loads(line) for line in output.read_text().splitlines()]
    assert {each["variable"] for each in seen} == {"a", "b"}
    for each in seen:
        assert (each["arguments"], each["name"], each["file"]) == (["--lr", "1"], "__main__", str(script))
        assert (each["group"], each["json"]) == (True, True)
    assert len({each["parent"] for each in seen}) == 1
    assert forked[0].poll() == 3


def test_a_fork_that_hangs_is_ended_with_its_group(interpreter: PreparedInterpreter, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    forked = interpreter.fork([str(tmp_path / "train.py")], environ(tmp_path), tmp_path / "output")
    assert forked.poll() is None
    assert not forked.ends_within(0.05)
    assert forked.end() == -9


def test_threads_and_an_end_are_no_place_to_fork_from(tmp_path: Path) -> None:
    (tmp_path / "has_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    threaded = PreparedInterpreter(sys.executable, ["has_thread"], {**os.environ, "PYTHONPATH": path})
    with pytest.raises(NotPrepared, match="2 threads"):
        threaded.fork(["train.py"], environ(tmp_path), tmp_path / "output")
    threaded.close()
    ended = PreparedInterpreter(sys.executable, ["has_thread"], {**os.environ})
    ended._peer.end()
    with pytest.raises(NotPrepared):
        ended.fork(["train.py"], environ(tmp_path), tmp_path / "output")
    ended.close()


@pytest.mark.parametrize(
    ("result", "plan", "may"),
    [
        (TrialResult(torch=True), {}, True),
        (TrialResult(), {}, False),  # nothing is known of the script
        (TrialResult(torch=True, world=2), {}, False),
        (TrialResult(torch=True, variables=["OMP_NUM_THREADS"]), {}, False),
        (TrialResult(torch=True), {"fresh": True}, False),
        (TrialResult(torch=True), {"base": [{"name": "huge_pages", "options": {}}]}, False),
        (TrialResult(torch=True), {"arms": [[], [{"name": "allocator", "options": {}}]]}, True),
    ],
)
def test_a_trial_is_forked_only_where_that_is_sound(
    tmp_path: Path, result: TrialResult, plan: dict[str, object], may: bool
) -> None:
    runner = TrialRunner(Program(["train.py"], Subject(target="train.py", source="file"), "python"), tmp_path)
    runner.newest = result
    assert runner._may_fork(TrialPlan(folder="x", **plan)) is may  # type: ignore[arg-type]
    runner.close()
    assert not runner._may_fork(TrialPlan(folder="x"))


@pytest.mark.torch
def test_after_a_first_trial_those_of_a_race_are_forked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(40):\n    optimizer.zero_grad()\n    model(torch.randn(2, 4)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    program = Program([str(tmp_path / "train.py")], Subject(target="train.py", source="file"), sys.executable)
    runner = TrialRunner(program, tmp_path / "session", steps=3)
    runner.folder.mkdir()
    try:
        fresh = runner.time_trial(Recipe(), 0)
        assert runner._prepared is None
        runner.prepare()
        assert runner._prepared is not None
        expected = runner.accounting.forked_step
        assert expected is not None
        assert 0 < expected < (runner.accounting.first_step or 0)
        forked = runner.time_trial(Recipe(), 0, fresh=False)
        assert runner._forks
        assert forked.losses == fresh.losses  # same seed, same script
        assert forked.result.variables == fresh.result.variables == []
        assert (forked.result.first or 9) < (fresh.result.first or 0)
    finally:
        runner.close()
