"""Scripts and modules run as Python would run them, in a process of their own. No torch is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from laptime.instrument.messages import VARIABLE, Settings, rank, world

LOOK = """
import sys
import __main__
print([sys.argv, __name__, __file__, sys.path[0], __main__ is sys.modules["__main__"], __spec__ is None])
class Thing: pass
print(__main__.Thing is Thing, __builtins__ is not None, "laptime" in __file__)
"""


def python(*words: str, cwd: Path, hooked: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python itself, or Python under hooks."""
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
    if hooked is not None:
        environment[VARIABLE] = Settings(folder=str(hooked)).text()
        words = ("-m", "laptime.instrument", *words)
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "sub" / "look.py").write_text(LOOK)
    return tmp_path


@pytest.mark.parametrize(
    "words", [["sub/look.py", "--lr", "1"], ["-m", "sub.look", "-x"]], ids=["script", "module"]
)
def test_a_script_sees_what_it_would_see_under_python(folder: Path, words: list[str]) -> None:
    plain, hooked = python(*words, cwd=folder), python(*words, cwd=folder, hooked=folder / "out")
    assert plain.returncode == 0
    assert (hooked.stdout, hooked.stderr, hooked.returncode) == (plain.stdout, "", 0)
    assert not (folder / "sub" / "__pycache__").exists() or words[0] == "-m"


@pytest.mark.parametrize(
    ("code", "how", "status"),
    [
        ("import sys; sys.exit(3)", "exited", 3),
        ("import sys; sys.exit('words')", "exited", 1),
        ("raise SystemExit", "exited", 0),
        ("1 / 0", "raised", 1),
        ("raise KeyboardInterrupt", "interrupted", 130),
        ("x = (", "raised", 1),
        ("pass", "returned", 0),
    ],
)
def test_a_script_ends_as_it_would_under_python(folder: Path, code: str, how: str, status: int) -> None:
    (folder / "end.py").write_text(code)
    plain, hooked = python("end.py", cwd=folder), python("end.py", cwd=folder, hooked=folder / "out")
    assert hooked.returncode == status
    (file,) = (folder / "out").glob("ended-*.json")
    ended = json.loads(file.read_text())
    assert (ended["how"], ended["status"]) == (how, status)
    if how != "interrupted":
        assert hooked.stderr == plain.stderr
        assert plain.returncode == status


def test_a_script_without_torch_is_told_apart(folder: Path) -> None:
    python("sub/look.py", cwd=folder, hooked=folder / "out")
    (file,) = (folder / "out").glob("observed-*.json")
    seen = json.loads(file.read_text())
    assert (seen["torch"], seen["source"], seen["untraced"]) == (False, "", [])


def test_a_hook_waits_for_somebody_else_to_import(folder: Path) -> None:
    (folder / "late.py").write_text("loaded = 1")
    code = """
import sys
from laptime.instrument.importing import WhenImported
told = []
watch = WhenImported("late", lambda: told.append(sys.modules["late"].loaded))
watch.install()
assert told == []
import late
assert told == [1], told
assert watch not in sys.meta_path
assert "exec_module" not in vars(late.__spec__.loader)
WhenImported("late", lambda: told.append(2)).install()
assert told == [1, 2]
"""
    done = python("-c", code, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_settings_travel_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(folder="/a b", steps=7, stack=False, step_by="loader")
    monkeypatch.setenv(VARIABLE, settings.text())
    assert Settings.from_environment() == settings
    monkeypatch.delenv(VARIABLE)
    assert Settings.from_environment() is None


def test_a_process_alone_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "")
    assert (rank(), world()) == (0, 1)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (rank(), world()) == (3, 8)


def test_without_settings_it_says_what_it_is_for(folder: Path) -> None:
    done = python("-m", "laptime.instrument", "sub/look.py", cwd=folder)
    assert done.returncode == 1
    assert "laptime profile" in done.stderr
