"""Completion as a shell asks for it: a fresh process, click's protocol in its environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from laptime.apps.cli.main import cli
from laptime.apps.cli.options import complete_runs, complete_targets

CONTEXT = click.Context(cli)
ANY = click.Argument(["any"])


def completed(line: str, folder: Path, **environment: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    asked = {"_LAPTIME_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "laptime"],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        env={**os.environ, **asked, **environment},
    )
    assert done.stderr == ""
    return [entry.partition(",")[2] for entry in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("laptime com", ["compare", "completion"]),
        ("laptime bench mo", ["model.py", "module:"]),
        ("laptime bench --backend onnx", ["onnxruntime"]),
        ("laptime tune --only tf32,channels", ["tf32,channels_last"]),
        ("laptime show last", ["last", "last~1"]),
    ],
)
def test_the_shell_is_offered_what_exists(line: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    (tmp_path / "model.txt").touch()
    assert completed(line, tmp_path) == expected


def test_names_of_stored_runs_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fixtures.runs import case, run, timings
    from laptime.store import files

    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    files.save(run(case(timings(0.01)), name="before"))
    assert complete_runs(CONTEXT, ANY, "bef") == ["before"]


def test_a_damaged_store_offers_nothing_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", "/dev/null")
    assert "before" not in complete_runs(CONTEXT, ANY, "")
    assert complete_targets(CONTEXT, ANY, "nosuchkind:x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_accepts(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "laptime", "completion", shell], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert f"_LAPTIME_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=done.stdout, text=True, capture_output=True, timeout=60)
        assert checked.returncode == 0, checked.stderr
