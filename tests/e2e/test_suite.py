"""`laptime suite run` as a process: exit codes, kills, and going on afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from laptime.store import files

Laptime = Callable[..., subprocess.CompletedProcess[str]]
LAPTIME = [sys.executable, "-m", "laptime"]
NOWHERE = subprocess.DEVNULL
FAST = """
[defaults]
preset = "quick"
budget = "200ms"

[[benchmark]]
name = "fast"
target = "null:spin=1ms"
tags = ["small"]
{fast}
"""
TWO = (
    FAST
    + """
[[benchmark]]
name = "slow"
target = "null:spin=4ms"
{slow}
"""
)


def laptime(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("LAPTIME_HOME", "FORCE_COLOR")}
    return subprocess.run(
        [*LAPTIME, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


def written(cwd: Path, text: str, *, fast: str = "", slow: str = "") -> str:
    (cwd / "mine.toml").write_text(text.replace("{fast}", fast).replace("{slow}", slow), encoding="utf-8")
    return "mine.toml"


def stored(cwd: Path) -> dict[str, str]:
    """Ids of the newest stored runs by name."""
    return {files.read(path).name: path.stem for path in reversed(files.list_files(cwd / ".laptime"))}


def test_a_suite_is_run_stored_and_shown(tmp_path: Path) -> None:
    suite = written(tmp_path, TWO, fast='max = {latency = "1 s"}', slow="min = {throughput = 1}")
    done = laptime("suite", "run", suite, "--json", "-o", "all.html", "-o", "all.md", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr  # 3: a busy machine made a number invalid
    document = json.loads(done.stdout)
    assert document["verb"] == "suite"
    assert [case["axes"]["benchmark"] for case in document["cases"]] == ["fast", "slow"]
    assert sum(finding["kind"].startswith("check/") for finding in document["findings"]) == 2
    assert (tmp_path / "all.html").stat().st_size > 1000
    assert set(stored(tmp_path)) == {"mine:fast", "mine:slow"}
    shown = laptime("show", "mine:slow", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize(
    ("fast", "code"),
    [
        ('max = {latency = "1 us"}', 1),
        ('regression = "5%"', 0),
    ],
    ids=["broken", "no baseline"],
)
def test_the_exit_code_says_whether_budgets_were_kept(
    here: Laptime, tmp_path: Path, fast: str, code: int
) -> None:
    done = here(tmp_path, "suite", "run", written(tmp_path, FAST, fast=fast))
    assert done.returncode == code, done.stdout + done.stderr
    first = {0: "measured ", 1: "not passed "}[code]
    assert done.stdout.startswith(first)
    assert ("no run" in done.stdout) == (code == 0)


def test_a_budget_of_a_metric_that_there_is_not_is_refused_first(
    here: Laptime,
    tmp_path: Path,
) -> None:
    done = here(tmp_path, "suite", "run", written(tmp_path, FAST, fast="max = {latncy = 1}"))
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert "latency?" in done.stderr


def test_a_benchmark_that_fails_is_marked_and_the_rest_goes_on(here: Laptime, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def build():\n    raise ValueError('planted')\n")
    text = FAST + '[[benchmark]]\nname = "bad"\ntarget = "model.py:build"\nbackend = "null"\n'
    text += '[[benchmark]]\nname = "none"\ntarget = "nothing.py:build"\n'
    text += '[[benchmark]]\nname = "last"\ntarget = "null:noop"\n'
    done = here(tmp_path, "suite", "run", written(tmp_path, text))
    assert done.returncode == 4, done.stdout + done.stderr
    assert "planted" in done.stdout
    assert "no file" in done.stdout
    assert {"mine:fast", "mine:last"} <= set(stored(tmp_path))


@pytest.mark.slow
def test_one_that_hangs_or_ends_its_process_costs_no_other_its_numbers(here: Laptime, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import os, signal, time\n"
        "def hangs():\n    return lambda: time.sleep(1000)\n"
        "def dies():\n    return lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    text = FAST
    for name in ("hangs", "dies"):
        text += f'[[benchmark]]\nname = "{name}"\ntarget = "model.py:{name}"\nbackend = "null"\n'
    text += '[[benchmark]]\nname = "last"\ntarget = "null:noop"\n'
    done = here(tmp_path, "suite", "run", written(tmp_path, text), "--timeout", "3s")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "within 3 s" in done.stdout
    assert "SIGSEGV" in done.stdout
    assert {"mine:fast", "mine:hangs", "mine:dies", "mine:last"} == set(stored(tmp_path))


def test_nothing_that_matches_is_exit_5(here: Laptime, tmp_path: Path) -> None:
    done = here(tmp_path, "suite", "run", written(tmp_path, FAST), "--match", "zzz")
    assert done.returncode == 5
    assert "toml matches" in done.stderr


def test_list_and_dry_run_measure_nothing(here: Laptime, tmp_path: Path) -> None:
    suite = written(tmp_path, TWO, fast="batch = [1, 8]")
    listed = here(tmp_path, "suite", "run", suite, "--list", "--match", "small")
    assert listed.returncode == 0
    assert "fast" in listed.stdout
    assert "slow" not in listed.stdout
    dry = here(tmp_path, "suite", "run", suite, "--dry-run", "--trials", "3")
    assert dry.returncode == 0, dry.stderr
    assert "2 cases, 3 trials" in dry.stdout
    assert "in all" in dry.stdout
    assert not (tmp_path / ".laptime").exists()


@pytest.mark.slow
def test_after_a_kill_the_rest_goes_on(tmp_path: Path) -> None:
    suite = written(tmp_path, TWO, slow='budget = "60s"')
    process = subprocess.Popen(
        [*LAPTIME, "suite", "run", suite],
        cwd=tmp_path,
        stdout=NOWHERE,
        stderr=NOWHERE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob(".laptime/runs/*/*.jsonl")):
        time.sleep(0.05)
    while time.monotonic() < deadline and "mine:slow" not in stored(tmp_path):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = stored(tmp_path)
    assert before["mine:fast"]
    suite = written(tmp_path, TWO)  # the slow one is another question now
    done = laptime("suite", "run", suite, "--resume", "--json", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    assert "1 of them" in done.stderr
    assert stored(tmp_path)["mine:fast"] == before["mine:fast"]
    assert len(json.loads(done.stdout)["cases"]) == 2
    again = laptime("suite", "run", suite, "--resume", cwd=tmp_path)
    assert "2 of them" in again.stderr
    fresh = laptime("suite", "run", suite, "--match", "fast", cwd=tmp_path)
    assert "stored already" not in fresh.stderr
    assert stored(tmp_path)["mine:fast"] != before["mine:fast"]
