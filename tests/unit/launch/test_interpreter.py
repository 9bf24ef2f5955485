from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from laptime.kit.errors import Unavailable, UsageError
from laptime.launch import interpreter
from laptime.launch.worker import WorkerProcess
from laptime.measure.protocol import Load, Loaded, Prepare
from laptime.records.plan import Variant


@pytest.fixture(autouse=True)
def _asked_again() -> None:
    interpreter.environment.cache_clear()


def script(path: Path, text: str) -> str:
    """A program that stands for an interpreter."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def answering(path: Path, **more: Any) -> str:
    told = {"version": [3, 13], "tag": "cpython-313", "lacks": []} | more
    return script(path, f"echo '{json.dumps(told)}'")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A virtual environment with nothing in it."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    return tmp_path / "bare" / "bin" / "python"


def test_a_bare_environment_runs_the_worker_with_what_it_is_lent(bare: Path) -> None:
    environ = interpreter.environment(str(bare))
    worker = WorkerProcess(name="null:noop", python=interpreter.path_of(str(bare)), environ=environ)
    try:
        (loaded,) = worker.ask(Load(variant=Variant(target="null:noop", backend="null")), timeout=60)
        assert isinstance(loaded, Loaded)
        assert loaded.python
        assert worker.ask(Prepare(batch=1), timeout=60)
    finally:
        worker.close()


def test_only_what_is_lacking_is_lent(bare: Path) -> None:
    lent = interpreter.environment(str(bare))["PYTHONPATH"].split(os.pathsep)[0]
    assert sorted(entry.name for entry in Path(lent).iterdir()) == ["laptime", *interpreter.NEEDED]
    ours = interpreter.environment(sys.executable)["PYTHONPATH"].split(os.pathsep)[0]
    assert [entry.name for entry in Path(ours).iterdir()] == ["laptime"]


def test_a_folder_of_an_environment_means_its_python(bare: Path) -> None:
    assert interpreter.path_of(str(bare.parent.parent)) == str(bare)


def test_the_link_of_an_environment_is_not_followed(bare: Path) -> None:
    told = subprocess.run(
        [interpreter.path_of(str(bare)), "-c", "import sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
    )
    assert Path(told.stdout.strip()) == bare.parent.parent


def test_binaries_of_another_version_are_not_lent(tmp_path: Path) -> None:
    python = answering(tmp_path / "python", lacks=["msgspec"])
    with pytest.raises(Unavailable, match="lacks msgspec") as caught:
        interpreter.environment(python)
    assert "Python 3.13" in caught.value.why
    assert caught.value.next == f"{python} -m pip install msgspec"


def test_another_version_that_has_them_is_taken(tmp_path: Path) -> None:
    assert "PYTHONPATH" in interpreter.environment(answering(tmp_path / "python"))


def test_too_old_a_python_is_refused(tmp_path: Path) -> None:
    python = answering(tmp_path / "python", version=[3, 9])
    with pytest.raises(Unavailable, match="too old") as caught:
        interpreter.environment(python)
    assert "Python 3.9" in caught.value.why


@pytest.mark.parametrize("text", ["echo hello", "echo broken >&2; exit 1"])
def test_what_is_no_python_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="Python interpreter"):
        interpreter.environment(script(tmp_path / "python", text))


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python"):
        interpreter.environment(str(tmp_path / "python"))
    with pytest.raises(UsageError, match="no Python") as caught:
        interpreter.environment(str(tmp_path))
    assert "bin/python" in caught.value.why
