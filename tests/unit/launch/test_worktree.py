"""A revision beside the working tree: the right files, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from laptime.kit.errors import UsageError
from laptime.launch.git_worktree import checked_out


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose folder `a b;c` has a committed file, changed since; we are in that folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    top = tmp_path / "re po$(x)"
    folder = top / "a b;c"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    git("init", "-q", str(top))
    (folder / "model.py").write_text("SPEED = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (folder / "model.py").write_text("SPEED = 2\n")
    return top


def test_a_revision_is_seen_from_the_same_folder_and_gone_afterwards(repository: Path) -> None:
    with checked_out("HEAD") as there:
        assert (there.folder / "model.py").read_text() == "SPEED = 1\n"
        assert there.folder.name == "a b;c"
        assert Path("model.py").read_text() == "SPEED = 2\n"
        assert there.commit == git("rev-parse", "HEAD").strip()
    assert not there.place.exists()
    assert len(git("worktree", "list").splitlines()) == 1


def test_nothing_is_left_when_the_measurement_fails(repository: Path) -> None:
    with pytest.raises(KeyboardInterrupt), checked_out("HEAD") as there:
        raise KeyboardInterrupt
    assert not there.place.exists()
    assert len(git("worktree", "list").splitlines()) == 1


def test_hooks_of_the_repository_are_not_run(repository: Path) -> None:
    hook = repository / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{repository}/ran'\n")
    hook.chmod(0o755)
    with checked_out("HEAD"):
        pass
    assert not (repository / "ran").exists()


def test_code_of_the_revision_is_imported_also_where_the_working_tree_is_installed(repository: Path) -> None:
    (repository / "src").mkdir()
    (repository / "src" / "x.py").touch()
    git("add", str(repository))
    git("commit", "-q", "-m", "two")
    with checked_out("HEAD") as there:
        known = os.pathsep.join(["/lent", str(repository / "src"), "relative"])
        found = there.python_path(known).split(os.pathsep)
    place = str(there.place)
    assert found == ["/lent", f"{place}/src", "relative", place]


@pytest.mark.parametrize("revision", ["nope", "--exec=touch x", "", "HEAD:model.py", "$(touch x)"])
def test_what_is_no_revision_is_refused(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError, match="no revision"), checked_out(revision):
        raise AssertionError
    assert not Path("x").exists()


def test_a_folder_that_was_not_there_yet_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "new").mkdir()
    monkeypatch.chdir(repository / "new")
    with pytest.raises(UsageError, match="new/ at HEAD"), checked_out("HEAD"):
        raise AssertionError
    assert len(git("worktree", "list").splitlines()) == 1


def test_outside_of_a_repository_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="git repository"), checked_out("HEAD"):
        raise AssertionError
