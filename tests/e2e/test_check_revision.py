"""laptime check --against-rev as a process: both revisions measured side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MODEL = """
import time
from speed import SECONDS

def build():
    def model(x):
        time.sleep(SECONDS)
        return x
    return model, 1.0
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k != "LAPTIME_HOME" and not k.startswith("GIT_")}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=240)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "speed.py").write_text("SECONDS = 0.002\n")
    (tmp_path / ".gitignore").write_text(".laptime\n__pycache__\n")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b.c commit -q -m one"):
        assert run("git", *command.split(), cwd=tmp_path).returncode == 0
    return tmp_path


def check(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "laptime", "check", *arguments, cwd=cwd)


@pytest.mark.torch
def test_what_a_module_beside_the_target_changed_is_seen(repository: Path) -> None:
    """The target's own file is the same; only the module that it imports is slower now."""
    (repository / "speed.py").write_text("SECONDS = 0.006\n")
    words = ("model.py:build", "--against-rev", "HEAD", "--device", "cpu", "--budget", "3s", "--json")
    ended = check(*words, cwd=repository)
    assert ended.returncode in (1, 3), ended.stderr
    (verdict,) = json.loads(ended.stdout)["verdicts"]
    # On a crowded machine it may not be called broken, but the times of both show what was planted.
    assert verdict["word"] == ("broken" if ended.returncode == 1 else "undecided")
    assert 1.8 < verdict["value"] < 5
    assert verdict["case"].endswith("device=cpu")
    assert len(run("git", "worktree", "list", cwd=repository).stdout.splitlines()) == 1
    assert run("git", "status", "--porcelain", cwd=repository).stdout.split() == ["M", "speed.py"]


def test_what_did_not_change_is_never_broken(repository: Path) -> None:
    ended = check("null:spin=2ms", "--against-rev", "HEAD", "--budget", "2s", "-o", "j.xml", cwd=repository)
    assert ended.returncode in (0, 3), ended.stdout + ended.stderr
    assert ended.stdout.startswith(("passed", "undecided"))
    assert "<failure" not in (repository / "j.xml").read_text()


@pytest.mark.torch
@pytest.mark.parametrize("returned", ["None", "{}", "'text'"])
def test_a_call_that_returns_no_numbers_has_no_outputs_that_differ(repository: Path, returned: str) -> None:
    (repository / "model.py").write_text(MODEL.replace("return x", f"return {returned}"))
    assert run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qam", "two", cwd=repository)
    words = ("model.py:build", "--against-rev", "HEAD", "--device", "cpu", "--budget", "2s", "--json")
    ended = check(*words, cwd=repository)
    assert ended.returncode in (0, 3), ended.stdout + ended.stderr
    assert "outputs differ" not in ended.stdout
    assert json.loads(ended.stdout)["verdicts"][0]["word"] in ("kept", "undecided")
