"""The command line as a process, measuring planted programs: every way in which it can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laptime.store import files, lookup

LAPTIME = [sys.executable, "-m", "laptime"]
QUICK = ["--preset", "quick", "--budget", "300ms"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".laptime"


def laptime(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        k: v for k, v in os.environ.items() if k not in ("LAPTIME_HOME", "NO_COLOR", "FORCE_COLOR")
    }
    return subprocess.run(
        [*LAPTIME, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


def _started(cwd: Path, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """A long measurement that has its first samples on disk."""
    process = subprocess.Popen(
        [*LAPTIME, "bench", "null:spin=2ms", "--budget", "60s", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(600):
        if any('"regime":"isolated"' in journal.read_text() for journal in home.glob("runs/*/*.jsonl")):
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


def test_bench_show_list_compare_in_a_row(tmp_path: Path) -> None:
    first = laptime("bench", "null:spin=2ms", *QUICK, "--name", "baseline", "-o", "r.md", cwd=tmp_path)
    assert first.returncode in (0, 3), first.stderr
    assert "baseline" in first.stdout
    assert (tmp_path / "r.md").exists()
    second = laptime("bench", "null:spin=8ms", *QUICK, "--json", cwd=tmp_path)
    document = json.loads(second.stdout)
    listed = json.loads(laptime("list", "--json", cwd=tmp_path).stdout)["runs"]
    assert listed[0]["id"] == document["id"]
    assert listed[1]["name"] == "baseline"
    assert json.loads(laptime("show", "last", "--json", cwd=tmp_path).stdout) == document
    again = ["--budget", "3s"]  # where the two do not tell, both are measured once more
    compared = laptime("compare", "baseline", "last", "--json", *again, cwd=tmp_path)
    (comparison,) = json.loads(compared.stdout)["comparisons"]
    assert comparison["word"] == "slower"
    assert compared.returncode == 0


def test_ctrl_c_shows_and_keeps_what_was_measured(tmp_path: Path, home: Path) -> None:
    process = _started(tmp_path, home)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers, too
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in err
    run = lookup.load("last", home)
    assert run.status == "interrupted"
    series = run.cases[0].find("latency", "isolated")
    assert series is not None
    assert len(series.samples) > 0
    assert list(home.glob("runs/*/*.jsonl")) == []


def test_sigkill_leaves_a_journal_that_reads_back(tmp_path: Path, home: Path) -> None:
    process = _started(tmp_path, home)
    process.kill()
    process.communicate(timeout=60)
    shown = laptime("show", "last", cwd=tmp_path)
    assert shown.returncode == 0
    assert "interrupted" in shown.stdout
    assert "trusted" not in shown.stdout.split()
    assert json.loads(laptime("list", "--json", cwd=tmp_path).stdout)["runs"][0]["status"] == "interrupted"


def test_two_runs_at_once_are_two_files(tmp_path: Path, home: Path) -> None:
    command = [*LAPTIME, "bench", "null:sleep=1ms", *QUICK, "-q"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(2)]
    for process in both:
        assert process.wait(timeout=60) in (0, 3)
    runs = [files.read(path) for path in files.list_files(home)]
    assert len({run.id for run in runs}) == 2
    assert {run.status for run in runs} == {"complete"}


@pytest.mark.parametrize(("fault", "code"), [("raise", 4), ("kill", 4), ("crash", 4), ("oom", 4)])
def test_program_that_fails_is_a_marked_case_and_four(
    tmp_path: Path, home: Path, fault: str, code: int
) -> None:
    ended = laptime("bench", f"null:spin=1ms,{fault}", "null:spin=1ms", *QUICK, cwd=tmp_path)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    statuses = [case.status for case in lookup.load("last", home).cases]
    assert statuses == ["failed", "ok"]


def test_program_that_hangs_is_ended_by_its_timeout(tmp_path: Path, home: Path) -> None:
    ended = laptime("bench", "null:hang", *QUICK, "--timeout", "2s", cwd=tmp_path)
    assert ended.returncode == 4
    failure = lookup.load("last", home).cases[0].failure
    assert failure is not None
    assert failure.kind == "hung"


def test_unknown_target_is_three_lines(tmp_path: Path, home: Path) -> None:
    ended = laptime("bench", "nul:spin=1ms", cwd=tmp_path)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 3
    assert not home.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_behind_stdout_is_two_and_the_run_is_kept(tmp_path: Path, home: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [*LAPTIME, "bench", "null:spin=1ms", *QUICK],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert ended.returncode == 2
    assert "standard output" in ended.stderr
    assert "No space" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert lookup.load("last", home).status == "complete"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_behind_help_is_no_bug(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [*LAPTIME, "--help"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert ended.returncode == 2
    assert "no space" in ended.stderr
    assert len(ended.stderr.splitlines()) == 3


@pytest.mark.parametrize(("verb", "why"), [("tune", "not a known kind of target"), ("profile", "binary")])
def test_a_binary_file_is_no_script(tmp_path: Path, verb: str, why: str) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF\x03\0\0\0")
    ended = laptime(verb, "model.gguf", cwd=tmp_path)
    assert ended.returncode == 2
    assert why in ended.stderr
    assert len(ended.stderr.splitlines()) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_behind_a_report_still_shows_the_result(tmp_path: Path) -> None:
    (tmp_path / "full.md").symlink_to("/dev/full")
    ended = laptime("bench", "null:spin=1ms", *QUICK, "-o", "full.md", cwd=tmp_path)
    assert ended.returncode == 2
    assert "null:spin=1ms" in ended.stdout
    assert "full.md" in ended.stderr
    assert "No space" in ended.stderr


def test_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*LAPTIME, "--help"], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_terminal_without_our_characters_gets_question_marks(tmp_path: Path) -> None:
    encoding = "iso8859-5"  # has no middle dot
    ended = subprocess.run(
        [*LAPTIME, "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        encoding=encoding,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "0 done ? 1 the answer is no" in ended.stdout
