"""A session of `laptime tune` from its start to its end, or to the moment in which it is stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laptime.reports.documents.tuning.data import Document
from laptime.store import lookup

SCRIPTS = Path(__file__).with_name("tune_scripts")
ASKED = ["--with", "awake.py", "--only", "awake", "--budget", "3m", "sleepy.py"]

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


class Place:
    """A user's folder, with a folder for temporary files of its own: what is left there is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder.with_name(f"{folder.name}-tmp")
        folder.mkdir()
        self.temporary.mkdir()
        for name in ("sleepy.py", "awake.py"):
            shutil.copy(SCRIPTS / name, folder)
        self._shared = set(Path("/dev/shm").iterdir())

    def laptime(self, *words: str) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if k not in ("LAPTIME_HOME", "NO_COLOR", "FORCE_COLOR")}
        own = {"TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "laptime", *words],
            cwd=self.folder,
            env=clean | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.laptime(*words)
        out, err = process.communicate(timeout=800)
        assert "Traceback" not in err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def processes(self) -> list[str]:
        """Command lines of what runs in this folder."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (each / "cwd").readlink() == self.folder:
                    found.append((each / "cmdline").read_text().replace("\0", " "))
        return found

    def rungs(self) -> list[dict[str, Any]]:
        """What the running session has decided so far, as it is kept for --resume."""
        journals = list(self.folder.glob(".laptime/tuning/*.jsonl"))
        lines = [line for journal in journals for line in journal.read_text().splitlines()]
        return [json.loads(line)["rung"] for line in lines]

    def assert_clean(self) -> None:
        """Nothing is left of a session."""
        until(lambda: not self.processes(), seconds=10)
        assert self.processes() == []
        assert [path.name for path in self.temporary.iterdir()] == []
        new = set(Path("/dev/shm").iterdir()) - self._shared
        assert [path for path in new if "torch" in path.name] == []


def until(true: Callable[[], Any], *, seconds: float = 300) -> None:
    """Wait until it is so, or the time is over."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "project")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, subprocess.CompletedProcess[str]]:
    """A whole session, once for those who look at it."""
    place = Place(tmp_path_factory.mktemp("tuned") / "project")
    return place, place.run("tune", "--json", "-o", "report.html", *ASKED)


def test_a_dry_run_diagnoses_and_stores_nothing(place: Place) -> None:
    ended = place.run("tune", "--dry-run", "--json", *ASKED)
    assert ended.returncode == 0, ended.stderr
    document: Any = msgspec.json.decode(ended.stdout, type=Document)
    assert document.outcome == "dry run"
    assert document.trials == 1
    assert document.patch.path == document.recipe_path == ""
    assert "awake.py" in [rung.name for rung in document.ladder]
    left = [path for path in place.folder.rglob("*") if path.is_file()]
    assert sorted(path.name for path in left) == ["awake.py", "sleepy.py"]
    place.assert_clean()


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_known(place: Place) -> None:
    process = place.laptime("tune", *ASKED)
    until(place.rungs)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in out
    run = lookup.load("last", place.folder / ".laptime")
    assert run.status == "interrupted"
    assert run.tuning is not None
    assert run.tuning.before is not None
    assert [rung.name for rung in run.tuning.ladder][:1] == ["identity"]
    place.assert_clean()


@pytest.mark.slow
def test_ctrl_c_hands_back_the_patch_of_what_was_kept(place: Place) -> None:
    process = place.laptime("tune", *ASKED)
    until(lambda: any(rung.get("kept") for rung in place.rungs()))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "1 of them" in out
    assert "1 change: awake.py" in out
    applied = subprocess.run(
        ["git", "apply", "--check", "sleepy.laptime.patch"], cwd=place.folder, check=False
    )
    assert applied.returncode == 0
    assert (place.folder / "sleepy.laptime.json").exists()
    place.assert_clean()


def test_ctrl_c_before_anything_is_known_leaves_nothing(place: Place) -> None:
    process = place.laptime("tune", *ASKED)
    until(lambda: any("tuning.trial" in words for words in place.processes()))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    place.assert_clean()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_trial_outlives_a_killed_session(place: Place, number: signal.Signals) -> None:
    process = place.laptime("tune", *ASKED)
    until(lambda: any("tuning.trial" in words for words in place.processes()))
    time.sleep(1.0)
    process.send_signal(number)
    process.communicate(timeout=60)
    until(lambda: not place.processes(), seconds=10)
    assert place.processes() == []


@pytest.mark.slow
def test_a_killed_session_goes_on(place: Place) -> None:
    process = place.laptime("tune", *ASKED)
    until(place.rungs)
    process.kill()
    process.communicate(timeout=60)
    kept = place.rungs()
    until(lambda: not place.processes(), seconds=10)
    ended = place.run("tune", "--resume", "--json", *ASKED)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr
    ladder = json.loads(ended.stdout)["ladder"]
    for rung in kept:
        (again,) = [each for each in ladder if each["name"] == rung["name"]]
        assert again["ratios"] == rung["ratios"], "it was not raced anew"
    assert place.rungs() == []
    assert place.processes() == []


@pytest.mark.slow
def test_json_is_one_document_of_the_schema(tuned: tuple[Place, subprocess.CompletedProcess[str]]) -> None:
    _, ended = tuned
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr
    document: Any = msgspec.json.decode(ended.stdout, type=Document)  # the schema is made from it
    assert document.outcome == "faster"
    assert document.speedup is not None
    assert document.speedup.value > 2
    assert document.gate.word == "passed"
    assert document.bound.before == "data"


@pytest.mark.slow
def test_a_session_leaves_its_results_and_nothing_else(
    tuned: tuple[Place, subprocess.CompletedProcess[str]],
) -> None:
    place, _ = tuned
    left = {path.name for path in place.folder.iterdir()}
    mine = {"report.html", "sleepy.laptime.patch", "sleepy.laptime.json", ".laptime"}
    assert left == mine | {"sleepy.py", "awake.py"}
    page = (place.folder / "report.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert "awake" in page
    assert (place.folder / "sleepy.py").read_bytes() == (SCRIPTS / "sleepy.py").read_bytes()
    assert lookup.load("last", place.folder / ".laptime").status == "complete"
    place.assert_clean()


@pytest.mark.slow
def test_verify_says_whether_the_gain_still_holds(
    tuned: tuple[Place, subprocess.CompletedProcess[str]],
) -> None:
    place, _ = tuned
    holds = place.run("verify", "--budget", "2m", "sleepy.laptime.json")
    assert holds.returncode == 0, holds.stdout + holds.stderr
    place.assert_clean()
    script = place.folder / "sleepy.py"
    # Now it sleeps with the recipe, and not without: there is no doubt on any machine.
    script.write_text(script.read_text().replace('"AWAKE" not in', '"AWAKE" in'))
    gone = place.run("verify", "--budget", "2m", "sleepy.laptime.json")
    assert gone.returncode == 1, gone.stdout + gone.stderr
    assert "the script" in gone.stdout
    place.assert_clean()
