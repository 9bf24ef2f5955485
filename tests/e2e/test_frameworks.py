"""Frameworks in one command: interpreters of their own, what cannot be, what is too fast to be true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

Laptime = Callable[..., subprocess.CompletedProcess[str]]
LAPTIME = [sys.executable, "-m", "laptime"]
QUICK = ["--preset", "quick", "--budget", "300ms", "--no-save"]


def laptime(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LAPTIME_HOME"}
    return subprocess.run(
        [*LAPTIME, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def test_workers_run_in_an_environment_that_has_nothing(here: Laptime, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    words = ["null:spin=1ms", "null:spin=2ms", "--python", "null=bare"]
    found = document(here(tmp_path, "bench", *words, *QUICK, "--json"))
    assert [case["status"] for case in found["cases"]] == ["ok", "ok"]
    assert found["environment"]["knobs"]["null.python"]


def test_a_backend_that_is_asked_for_runs_all_that_it_can(here: Laptime, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "def build():\n    return lambda: sum(range(1000))\n", encoding="utf-8"
    )
    words = ["model.py:build", "null:noop", "--backend", "null"]
    found = document(here(tmp_path, "bench", *words, *QUICK, "--json"))
    assert [case["axes"]["backend"] for case in found["cases"]] == ["null", "null"]


def test_what_cannot_be_is_refused_before_anything_is_measured(here: Laptime, tmp_path: Path) -> None:
    done = here(tmp_path, "bench", "keras:EfficientNetB0", "--backend", "torch", *QUICK)
    assert done.returncode == 2
    assert "keras:EfficientNetB0" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-1].startswith("next:  laptime bench --backend tensorflow ")


def test_faster_than_the_hardware_is_invalid_in_a_backend_that_measures_no_peak(tmp_path: Path) -> None:
    done = laptime("bench", "null:spin=1ms,flops=1e15", *QUICK, cwd=tmp_path)
    assert done.returncode == 3
    assert "more than the" in done.stdout
