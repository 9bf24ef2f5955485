"""Trials as processes: followed, stopped, and gone."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from laptime.process.program import tail
from laptime.tuning.script import trial_process as trials
from laptime.tuning.trial.messages import TrialPlan

LOOP = """
import torch, time
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(100000, 4), batch_size=4)
for epoch in range(1000):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""


def plan(folder: Path, **given: object) -> TrialPlan:
    return TrialPlan(folder=str(folder / "trial"), steps=2, rounds=3, settle=1, **given)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.torch
@pytest.mark.slow
def test_blocks_come_as_they_end_and_the_account_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP)
    with trials.start([str(script)], python=sys.executable, plan=plan(tmp_path), timeout=60) as running:
        blocks = list(running.blocks())
        ended = running.finish()
    assert [len(block.seconds) for block in blocks] == [2, 2, 2]
    assert all(block.samples == [4, 4] for block in blocks)
    assert ended.ended == "stopped"
    assert ended.source == "optimizer"
    assert ended.left == []


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_fails_says_why(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.replace("optimizer.zero_grad()", "raise ValueError('no luck')"))
    with trials.start([str(script)], python=sys.executable, plan=plan(tmp_path), timeout=60) as running:
        assert list(running.blocks()) == []
        ended = running.finish()
    assert (ended.ended, ended.error) == ("raised", "ValueError: no luck")
    assert "no luck" in tail(running.folder / "output")


def test_a_process_that_dies_without_a_word_is_told_of(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with trials.start([str(script)], python=sys.executable, plan=plan(tmp_path), timeout=60) as running:
        running.wait()
        ended = running.finish()
    assert ended.ended == "died"
    assert "SIGKILL" in ended.error


def test_a_silent_script_is_ended_at_its_timeout_with_its_children(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    with trials.start([str(script)], python=sys.executable, plan=plan(tmp_path), timeout=2.5) as running:
        running.wait()
        assert running.hung
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not is_alive(child):
            break
        time.sleep(0.02)
    assert not is_alive(child)
    assert not is_alive(running.process.pid)


def test_a_patched_file_runs_under_its_own_name(tmp_path: Path) -> None:
    script, other = tmp_path / "train.py", tmp_path / "other.py"
    script.write_text("raise SystemExit('mine')")
    other.write_text("raise SystemExit(f'patched {__file__}')")
    asked = plan(tmp_path, sources={str(script): str(other)})
    with trials.start([str(script)], python=sys.executable, plan=asked, timeout=60) as running:
        running.wait()
        assert running.finish().error == f"patched {script}"


def test_temporary_files_of_trials_go_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, session = tmp_path / "usual", tmp_path / "s"
    (usual / "torchinductor_me").mkdir(parents=True)
    session.mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(usual))
    monkeypatch.setattr(trials, "LONGEST_SOCKET", 4096)
    for number in range(2):  # the second trial of a session finds the folder
        found = trials._temporary(session / f"trial-{number}")
    assert found == {"TMPDIR": str(session / "tmp"), "LAPTIME_TEMPORARY": str(usual)}
    assert (session / "tmp" / "torchinductor_me").resolve() == usual / "torchinductor_me"


def test_sockets_that_would_not_fit_stay_where_they_were(tmp_path: Path) -> None:
    assert trials._temporary(tmp_path / ("long" * 30) / "trial-0") == {}
