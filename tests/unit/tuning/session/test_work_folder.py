"""Temporary folders of sessions: those of killed ones go when the next begins, those in use stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from laptime.tuning.session.journal import work_folder

KILLED = """
import os, signal
from laptime.tuning.session.journal import work_folder
with work_folder("tune") as work:
    print(work, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def aged(work: Path) -> Path:
    os.utime(work / "lock", (1e9, 1e9))
    return work


def test_it_is_gone_at_the_end(temporary: Path) -> None:
    with work_folder("tune") as work:
        (work / "large.pt").write_bytes(b"x")
        assert work.parent == temporary
    assert list(temporary.iterdir()) == []


def test_what_a_killed_session_has_left_goes_with_the_next(temporary: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    left = aged(Path(done.stdout.strip()))
    (left / "large.pt").write_bytes(b"x")
    with work_folder("verify"):
        assert left.exists(), "another verb's"
    with work_folder("tune") as work:
        assert list(temporary.iterdir()) == [work]


def test_a_folder_in_use_stays() -> None:
    with work_folder("tune") as first:
        aged(first)
        with work_folder("tune") as second:
            assert first.exists()
        assert not second.exists()


def test_a_young_folder_and_one_that_is_not_ours_stay(temporary: Path) -> None:
    (temporary / "laptime-tune-young").mkdir()
    (temporary / "laptime-tune-young" / "lock").touch()
    (temporary / "laptime-tune-other").mkdir()
    with work_folder("tune"):
        pass
    assert {path.name for path in temporary.iterdir()} == {"laptime-tune-young", "laptime-tune-other"}
