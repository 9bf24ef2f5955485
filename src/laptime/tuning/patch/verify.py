"""Does a patch apply, and what does it make of the files? Pure: the user's files are only read."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FILE = re.compile(r"^--- a/(?P<path>[^\t\n]+)\t?$")
QUOTED = re.compile(r'^--- "a/(?P<path>.*)"$')
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
SECONDS = 60.0


class DoesNotApply(Exception):
    """The text says which file and line."""


def applies(diff: str, root: Path) -> bool:
    """Whether `git apply --check` takes the diff in a copy of the files that it names.

    `patch` is asked where there is no git. A diff of nothing does not apply.
    """
    try:
        patched_texts = _applied(diff, root)
    except (DoesNotApply, OSError, UnicodeDecodeError):
        return False
    if not patched_texts:
        return False
    with tempfile.TemporaryDirectory(prefix="laptime-patch-") as scratch:
        folder = Path(scratch) / "tree"
        for path in patched_texts:
            copy = folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, copy)
        patch = Path(scratch) / "change.patch"
        patch.write_bytes(diff.encode())
        # A repository of its own, so that one around the temporary folder has no say.
        git = ["git", f"--git-dir={folder / '.none'}"]
        if shutil.which("git") is not None:
            _succeeds([*git, "init", "--quiet"], folder)
            return _succeeds([*git, f"--work-tree={folder}", "apply", "--check", str(patch)], folder)
        if shutil.which("patch") is not None:
            return _succeeds(["patch", "-p1", "--dry-run", "--silent", "--input", str(patch)], folder)
    return True


def _succeeds(command: list[str], folder: Path) -> bool:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode == 0


def patched(diff: str, root: Path, into: Path) -> dict[str, str]:
    """Write the patched files, and only these, below a folder, at the same relative paths.

    Returns:
        Path of the written file, by the path that it stands in for: what
        `instrument.sources.install` takes, so that `__file__` and imports of the script stay as they are.

    Raises:
        DoesNotApply: a line of the diff is not where it should be.
    """
    written = {}
    for path, text in _applied(diff, root).items():
        copy = into / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text.encode())
        written[str(root / path)] = str(copy)
    return written


def _applied(diff: str, root: Path) -> dict[str, str]:
    """New text of every file that the diff names, by relative path."""
    texts: dict[str, str] = {}
    rows = diff.split("\n")
    at = 0
    while at < len(rows):
        named = FILE.match(rows[at]) or QUOTED.match(rows[at])
        if named is None:
            at += 1
            continue
        path = named.group("path") if rows[at].startswith("--- a/") else _unquoted(named.group("path"))
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise DoesNotApply(f"{path} lies outside of {root}")
        old = (root / path).read_bytes().decode().split("\n")
        texts[path], at = _changed(path, old, rows, at + 2)
    return texts


def _changed(path: str, old: list[str], rows: list[str], at: int) -> tuple[str, int]:
    """New text of one file, and the row behind its hunks. The last line is "" where the text ends in LF."""
    new: list[str] = []
    done = 0
    while at < len(rows) and (head := HUNK.match(rows[at])) is not None:
        start, size, grown = int(head[1]), int(head[2] or 1), int(head[4] or 1)
        first = start - 1 if size else start
        new += old[done:first]
        done, at, sign, is_bare = first, at + 1, "", False
        while at < len(rows) and (size > 0 or grown > 0 or rows[at].startswith("\\")):
            if rows[at].startswith("\\"):
                is_bare = is_bare or sign in ("+", " ")
                at += 1
                continue
            sign, line = rows[at][:1], rows[at][1:]
            at += 1
            if sign != "+":
                if done >= len(old) or old[done] != line:
                    raise DoesNotApply(f"{path}, line {done + 1}, is not `{line}`")
                done, size = done + 1, size - 1
            if sign != "-":
                new.append(line)
                grown -= 1
        if is_bare:
            return "\n".join(new), at
        if done == len(old):
            new.append("")  # the last line had no LF, and has one now
    return "\n".join([*new, *old[done:]]), at


def _unquoted(path: str) -> str:
    def value(escape: re.Match[str]) -> str:
        code = escape.group(1)
        return chr(int(code, 8)) if code.isdigit() else code

    return re.sub(r"\\(\d{3}|.)", value, path)
