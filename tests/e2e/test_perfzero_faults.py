"""`laptime suite perfzero` on a class of 20 faults: each is told for what it is, and none is trusted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

Laptime = Callable[..., subprocess.CompletedProcess[str]]
CLASSES = Path(__file__).with_name("perfzero_classes") / "faulty.py"

FAULTS = {
    "segfault": ("crashed", "error"),
    "abort_after_report": ("crashed", "error"),
    "exit": ("raised", "error"),
    "vanish": ("crashed", "error"),
    "raise": ("raised", "error"),
    "hang_with_child": ("hung", "error"),
    "hang_deaf": ("hung", "error"),
    "silent": ("no_report", "error"),
    "cut_report": ("bad_report", "error"),
    "empty_report": ("bad_report", "error"),
    "twice": ("reported_twice", "error"),
    "nan": ("not_a_number", "error"),
    "infinite": ("not_a_number", "error"),
    "negative_time": ("negative", "error"),
    "bound": ("bound_violated", "passed"),
    "one_name": ("passed", "passed"),
    "metric_wall_time": ("passed", "passed"),
    "no_wall_time": ("passed", "passed"),
    "leaves_child": ("passed", "passed"),
    "hostile_name": ("passed", "passed"),
}
"""What each method comes to, and its own test of the JUnit report; a bound has one of its own, beside it."""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    shutil.copy(CLASSES, tmp_path)
    return tmp_path


@pytest.fixture
def perfzero(here: Laptime) -> Laptime:
    """Runs methods of the class, each in a process of its own."""

    def call(work: Path, *names: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        methods = ",".join(f"faulty.Faulty.benchmark_{name}" for name in names)
        return here(work, "suite", "perfzero", f"--benchmark_methods={methods}", *flags)

    return call


def summaries_of_trials(work: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in work.glob("workspace/output/*/perfzero_summary.json")]


def summaries(work: Path) -> dict[str, dict[str, Any]]:
    found = summaries_of_trials(work)
    return {each["benchmark_result"]["name"].partition("benchmark_")[2]: each for each in found}


def junit(path: Path) -> dict[tuple[str, str], str]:
    """What became of each test, by group and name; every one is counted once."""
    suite = ElementTree.fromstring(path.read_text()).find("testsuite")
    assert suite is not None
    tests = suite.findall("testcase")
    found = {
        (test.get("classname", ""), test.get("name", "")): next(
            (child.tag for child in test if child.tag != "system-out"), "passed"
        )
        for test in tests
    }
    assert suite.get("tests") == str(len(tests)) == str(len(found))
    words = list(found.values())
    assert (suite.get("errors"), suite.get("failures")) == (
        str(words.count("error")), str(words.count("failure")),
    )  # fmt: skip
    return found


def ended(work: Path, execution: str) -> bool:
    """Whether the child that a method has left behind is gone."""
    pid = int((work / "workspace" / "output" / execution / "child").read_text())
    for _ in range(20):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_twenty_faults_are_told_and_none_is_trusted(perfzero: Laptime, work: Path) -> None:
    assert len(FAULTS) == 20
    done = perfzero(work, "sound", *FAULTS, flags=("--timeout=2s", "-o", "r.xml", "-o", "r.html"))
    assert done.returncode == 4, done.stderr
    found = summaries(work)
    assert len(found) == 21
    words = {name: each["laptime"]["verdict"]["word"] for name, each in found.items() if name != "sound"}
    assert words == {name: word for name, (word, _) in FAULTS.items()}
    assert {each["laptime"]["verdict"]["trust"] for each in found.values()} == {"noisy", "invalid"}
    tests = junit(work / "r.xml")
    for name, (_, outcome) in FAULTS.items():
        method = f"faulty.Faulty.benchmark_{name}"
        assert tests[method, method] == outcome, name
    assert tests["faulty.Faulty.benchmark_bound", "reported/exp_per_second min"] == "failure"
    assert tests["faulty.Faulty.benchmark_sound", "reported/exp_per_second min"] == "passed"
    for name in ("hang_with_child", "leaves_child"):
        assert ended(work, found[name]["execution_id"]), name
    assert "\x1b" not in done.stdout
    assert "<script>alert" not in (work / "r.html").read_text()


def test_numbers_of_one_name_are_different_numbers(perfzero: Laptime, work: Path) -> None:
    done = perfzero(work, "one_name", "metric_wall_time", "no_wall_time")
    assert done.returncode == 0, done.stderr
    metrics = {name: each["laptime"]["metrics"] for name, each in summaries(work).items()}
    values = {name: {metric: one["values"] for metric, one in each.items()} for name, each in metrics.items()}
    assert values == {
        "one_name": {"wall_time": [0.001], "loss": [0.5], "loss#2": [100.0]},
        "metric_wall_time": {"wall_time": [0.001], "wall_time#2": [7.0]},
        "no_wall_time": {"exp_per_second": [10.0]},
    }
    assert "noisy" in done.stdout
    assert "one trial" in done.stdout


def test_terminal_and_reports_have_one_mean_and_say_which(
    here: Laptime, perfzero: Laptime, work: Path
) -> None:
    done = perfzero(work, "sound", flags=("--benchmark_num_trials=3",))
    assert done.returncode == 0, done.stderr
    assert "geometric mean of 3 trials" in done.stdout
    shown = here(work, "show", "last", "--json")
    assert shown.returncode == 0
    assert "geometric mean of 3 trials" in shown.stdout
    text = here(work, "show", "last").stdout
    assert "of 3 trials" in " ".join(text.split())


def test_a_missing_method_is_told_with_the_nearest_one(perfzero: Laptime, work: Path) -> None:
    done = perfzero(work, "soud")
    assert done.returncode == 4
    assert "benchmark_sound?" in done.stdout
    listed = perfzero(work, "soud", flags=("--list",))
    assert (listed.returncode, listed.stdout) == (2, "")
    assert "benchmark_sound?" in listed.stderr


@pytest.mark.parametrize("method", ["nowhere.Tiny.filter:x", "nowhere.Tiny.one", "faulty.Tiny.one"])
def test_a_class_that_cannot_be_imported_is_no_list(here: Laptime, work: Path, method: str) -> None:
    listed = here(work, "suite", "perfzero", f"--benchmark_methods={method}", "--list")
    assert (listed.returncode, listed.stdout) == (4, "")
    assert len(listed.stderr.strip().splitlines()) == 3
    assert "be imported" in listed.stderr


def test_a_scratch_folder_may_be_a_file_url(perfzero: Laptime, work: Path, tmp_path: Path) -> None:
    place = tmp_path / "some where"
    done = perfzero(work, "sound", flags=(f"--scratch_gcs_url={place.as_uri()}", "--execution_id=one"))
    assert done.returncode == 0, done.stdout
    assert (place / "one").is_dir()
    assert not (work / "file:").exists()


def test_an_uploader_that_aborts_does_not_stop_the_next(perfzero: Laptime, work: Path) -> None:
    uploaders = "--result_upload_methods=faulty.aborting_upload,faulty.upload"
    done = perfzero(work, "sound", flags=(uploaders, "--execution_id=one"))
    assert done.returncode == 2
    assert "faulty.aborting_upload could" in done.stderr
    assert "SIGABRT" in done.stderr
    assert (work / "uploaded").read_text() == "one\n"


def test_a_method_beside_a_busy_program_is_noisy_and_says_why(work: Path) -> None:
    """Both are bound to one CPU, so that each waits for it half of the time."""
    bound = f"import os, sys\nos.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}])\n"
    other = subprocess.Popen([sys.executable, "-c", f"{bound}while True: pass"])
    words = ["suite", "perfzero", "--benchmark_methods=faulty.Busy.benchmark_half_a_second"]
    command = [sys.executable, "-m", "laptime", *words, "--benchmark_num_trials=3"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"{bound}os.execv(sys.executable, {command!r})"],
            cwd=work, env={k: v for k, v in os.environ.items() if k != "LAPTIME_HOME"},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 0, done.stderr
    last = max(summaries_of_trials(work), key=lambda each: each["benchmark_result"]["trial_id"])
    assert last["laptime"]["verdict"]["trust"] == "noisy"
    reasons = " ".join(last["laptime"]["verdict"]["reasons"])
    assert "3 of 3 trials" in reasons


def test_what_is_not_stored_has_no_id(perfzero: Laptime, work: Path) -> None:
    done = perfzero(work, "sound", flags=("--no_save",))
    assert done.returncode == 0
    assert "not stored" in done.stdout


def test_a_format_of_timings_refuses_reported_numbers(here: Laptime, perfzero: Laptime, work: Path) -> None:
    assert perfzero(work, "sound").returncode == 0
    for format in ("asv", "pytest_benchmark"):
        shown = here(work, "show", "last", "--format", format)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "nothing to" in shown.stderr


def test_a_cut_archive_leaves_nothing(perfzero: Laptime, work: Path, tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.mkdir()
    for number in range(4):
        (noise / f"{number}.bin").write_bytes(os.urandom(200_000))
    whole = tmp_path / "data.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(noise, arcname="noise")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:500_000])
    flags = (f"--data_downloads={cut.as_uri()};set/cut.tar.gz", "--root_data_dir=data")
    done = perfzero(work, "sound", flags=flags)
    assert done.returncode == 2
    assert "be unpacked" in done.stderr
    assert [*(work / "data" / "set").iterdir()] == []


def test_cpu_time_is_never_more_than_there_is(perfzero: Laptime, work: Path) -> None:
    assert perfzero(work, "sound", flags=("--benchmark_num_trials=5",)).returncode == 0
    for path in work.glob("workspace/output/*/perfzero_summary.json"):
        info = json.loads(path.read_text())["process_info"]
        assert 0 <= info["max_cpu_percent"] <= 100 * (os.cpu_count() or 1)
