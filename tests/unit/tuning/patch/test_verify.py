"""Whether a patch applies, and what it makes of the files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.patch.diff import DoesNotApply, diff_file, hunks, lines, patch_copies

PAIRS = [
    ("a\nb\nc\n", "a\nB\nc\n"),
    ("a\nb", "a\nB"),
    ("a\nb", "a\nb\n"),
    ("a\nb\n", "a\nb"),
    ("a\r\nb\r\n", "x\r\na\r\nb\r\n"),
    ("a\n" * 40, "a\n" * 20 + "b\n" + "a\n" * 20),
    ("é\nb\u2028c\n", "é\nb\u2028d\n"),
    ("only\n", "first\nonly\n"),
]


def diff_of(old: str, new: str, name: str = "dir/a b.py") -> str:
    """The diff of one file."""
    return diff_file(old, new, name, hunks(old, new, [("x",)] * len(lines(new))))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_what_was_diffed_applies_and_gives_the_new_text(tmp_path: Path, old: str, new: str) -> None:
    root = tmp_path / "root"
    (root / "dir").mkdir(parents=True)
    (root / "dir" / "a b.py").write_bytes(old.encode())
    text = diff_of(old, new)
    written = patch_copies(text, {root / "dir" / "a b.py": new}, root, tmp_path / "into")
    assert written == {str(root / "dir" / "a b.py"): str(tmp_path / "into" / "dir" / "a b.py")}
    assert (tmp_path / "into" / "dir" / "a b.py").read_bytes() == new.encode()
    assert (root / "dir" / "a b.py").read_bytes() == old.encode()
    assert [each.name for each in (tmp_path / "into").rglob("*") if each.is_file()] == ["a b.py"]


@pytest.mark.parametrize(("old", "new"), PAIRS)
@pytest.mark.skipif(shutil.which("git") is None or shutil.which("patch") is None, reason="no git or no patch")
def test_git_and_patch_agree(tmp_path: Path, old: str, new: str) -> None:
    for command in (["git", "apply", "../p"], ["patch", "-p1", "--binary", "-i", "../p"]):
        root = tmp_path / command[0]
        (root / "dir").mkdir(parents=True)
        (root / "dir" / "a b.py").write_bytes(old.encode())
        (tmp_path / "p").write_bytes(diff_of(old, new).encode())
        if command[0] == "git":
            subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "fuzz" not in done.stdout
        assert (root / "dir" / "a b.py").read_bytes() == new.encode()


def test_a_diff_of_another_text_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("other\n")
    with pytest.raises(DoesNotApply, match=r"a\.py"):
        patch_copies(diff_of("a\n", "b\n", "a.py"), {tmp_path / "a.py": "b\n"}, tmp_path, tmp_path / "into")


def test_a_diff_that_makes_something_else_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\n")
    with pytest.raises(DoesNotApply, match="something else"):
        patch_copies(diff_of("a\n", "b\n", "a.py"), {tmp_path / "a.py": "c\n"}, tmp_path, tmp_path / "into")


def test_nothing_does_not_apply(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match="nothing"):
        patch_copies("", {}, tmp_path, tmp_path / "into")
    missing = {tmp_path / "missing.py": "b\n"}
    with pytest.raises(DoesNotApply, match="nothing"):
        patch_copies(diff_of("a\n", "b\n", "missing.py"), missing, tmp_path, tmp_path / "into")


def test_a_path_outside_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(DoesNotApply):
        patch_copies(diff_of("a\n", "b\n", "../a.py"), {tmp_path / "a.py": "b\n"}, inner, tmp_path / "into")
    assert (tmp_path / "a.py").read_text() == "a\n"


@pytest.mark.parametrize("there", [("git", "patch"), ("patch",), ()])
def test_without_git_patch_is_asked_and_without_both_the_text_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...]
) -> None:
    (tmp_path / "a.py").write_text("a\n")
    asked = []
    real = subprocess.run

    def run(command: list[str], **settings: Any) -> Any:
        asked.append(command[0])
        return real(command, **settings)

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in there else None)
    monkeypatch.setattr(subprocess, "run", run)
    copies = patch_copies(
        diff_of("a\n", "b\n", "a.py"), {tmp_path / "a.py": "b\n"}, tmp_path, tmp_path / "into"
    )
    assert [Path(copy).read_text() for copy in copies.values()] == ["b\n"]
    assert asked == list(there[:1])
