"""Whether a patch applies, and what it makes of the files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from laptime.tuning.patch import diff as verify
from laptime.tuning.patch.diff import DoesNotApply, applies, hunks, lines, patched, unified

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
    return unified(old, new, name, hunks(old, new, [("x",)] * len(lines(new))))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_what_was_diffed_applies_and_gives_the_new_text(tmp_path: Path, old: str, new: str) -> None:
    root = tmp_path / "root"
    (root / "dir").mkdir(parents=True)
    (root / "dir" / "a b.py").write_bytes(old.encode())
    text = diff_of(old, new)
    assert applies(text, root)
    written = patched(text, root, tmp_path / "into")
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
    text = diff_of("a\n", "b\n", "a.py")
    assert not applies(text, tmp_path)
    with pytest.raises(DoesNotApply, match=r"a.py, line 1, is not `a`"):
        patched(text, tmp_path, tmp_path / "into")


def test_nothing_does_not_apply(tmp_path: Path) -> None:
    assert not applies("", tmp_path)
    assert not applies(diff_of("a\n", "b\n", "missing.py"), tmp_path)


def test_a_path_outside_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    text = diff_of("a\n", "b\n", "../a.py")
    assert not applies(text, inner)
    with pytest.raises(DoesNotApply, match="outside"):
        patched(text, inner, tmp_path / "into")


def test_without_git_patch_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("a\n")
    asked = []
    real = verify._succeeds
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "git" else f"/usr/bin/{name}")
    monkeypatch.setattr(
        verify, "_succeeds", lambda command, folder: asked.append(command[0]) or real(command, folder)
    )
    assert applies(diff_of("a\n", "b\n", "a.py"), tmp_path)
    assert asked == ["patch"]
