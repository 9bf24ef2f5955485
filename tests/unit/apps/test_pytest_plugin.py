"""The pytest plugin, in pytests of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = """
import time
import pytest

def test_sum(laptime):
    assert laptime(sum, range(1000)) == 499500
    assert 0 < laptime.run.latency.value < 0.01

def test_nap(laptime):
    laptime.extra_info["seconds"] = NAP
    laptime.pedantic(time.sleep, args=(NAP,), rounds=12, warmup_rounds=1)

def test_setup(laptime):
    assert laptime.pedantic(sorted, setup=lambda: (([2, 1],), {}), rounds=3) == [1, 2]

def test_plain():
    pass
"""


def pytest_in(folder: Path, *arguments: str, tests: str = TESTS, nap: float = 0.002) -> tuple[int, str]:
    (folder / "test_it.py").write_text(tests.replace("NAP", str(nap)))
    own = "-p", "laptime.apps.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", str(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *own, "--laptime-budget", "200ms", *arguments, "test_it.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LAPTIME_HOME": str(folder / "runs")},
    )
    return done.returncode, done.stdout + done.stderr


def test_the_table_stands_at_the_end_and_a_first_run_has_no_baseline_but_passes(tmp_path: Path) -> None:
    code, text = pytest_in(tmp_path, "--laptime-compare-fail", "median:5%", "--laptime-report", "comment.md")
    assert code == 0, text
    assert "4 passed" in text
    assert re.search(r"test_it.py::test_sum +[\d.]+ us +\[", text)
    assert re.search(r"test_it.py::test_nap +\S+ ms .* 12 +noisy", text)
    assert "not compared" in text
    assert "test\\_sum" in (comment := (tmp_path / "comment.md").read_text()) or "test_sum" in comment


def test_a_slower_test_fails_the_session_and_one_that_is_not_does_not(tmp_path: Path) -> None:
    code, text = pytest_in(tmp_path, "--laptime-save", "main", "-k", "nap")
    assert (code, "as main" in text) == (0, True), text
    code, text = pytest_in(
        tmp_path, "--laptime-compare", "main", "--laptime-compare-fail", "50%", "-k", "nap"
    )
    assert code == 0, text
    code, text = pytest_in(
        tmp_path, "--laptime-compare", "main", "--laptime-compare-fail", "50%", "-k", "nap", nap=0.02
    )
    assert code == 1, text
    assert "FAILED test_it.py::test_nap: takes" in text


def test_only_skip_and_disable(tmp_path: Path) -> None:
    assert "3 passed, 1 skipped" in pytest_in(tmp_path, "--laptime-only", "-k", "not zzz")[1]
    assert "1 passed, 3 skipped" in pytest_in(tmp_path, "--laptime-skip")[1]
    code, text = pytest_in(tmp_path, "--laptime-disable", "-k", "setup")
    assert (code, "1 passed" in text) == (0, True)
    assert "verdict" not in text


def test_wrong_options_end_pytest_before_a_test_runs(tmp_path: Path) -> None:
    assert pytest_in(tmp_path, "--laptime-compare-fail", "fast")[0] == 4
    assert pytest_in(tmp_path, "--laptime-only", "--laptime-skip")[0] == 4
    code, text = pytest_in(tmp_path, "--laptime-budget", "soon")
    assert (code, "'soon' is not a duration, for example 90s" in text) == (4, True)


def test_a_second_call_and_a_failing_one_fail_their_test(tmp_path: Path) -> None:
    tests = """
def test_twice(laptime):
    laptime(sum, [1])
    laptime(sum, [1])

def test_breaks(laptime):
    calls = []
    def breaks():
        calls.append(1)
        assert len(calls) < 3
    laptime(breaks)
"""
    code, text = pytest_in(tmp_path, tests=tests)
    assert code == 1
    assert "2 failed" in text
    assert "one call" in text


def test_loading_the_plugin_loads_no_library() -> None:
    program = (
        "import sys; import laptime.apps.pytest_plugin; print({'numpy', 'msgspec', 'rich'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "set()"


LAZY = """
import time

def parts():
    for number in range(3):
        time.sleep(NAP)
        yield number

async def late():
    time.sleep(3 * NAP)
    return 7

def test_parts(laptime):
    assert list(laptime(parts)) == [0, 1, 2]
    assert laptime.run.latency.value > 3 * NAP

def test_counted(laptime):
    assert laptime.pedantic(parts, rounds=3) == [0, 1, 2]
    assert laptime.run.latency.value > 3 * NAP

def test_late(laptime):
    assert laptime.pedantic(late, rounds=2, iterations=2) == 7
    assert laptime.run.latency.value > 3 * NAP
"""


def test_what_is_lazy_is_timed_whole(tmp_path: Path) -> None:
    code, text = pytest_in(tmp_path, tests=LAZY, nap=0.003)
    assert code == 0, text
