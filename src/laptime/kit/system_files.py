"""Reading the small files of /proc and /sys: what cannot be read, or is not what it should be, is None."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """A small file's text, stripped."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(path: Path) -> int | None:
    """A file that holds one integer; None, too, for `max`."""
    try:
        return int(text(path) or "")
    except ValueError:
        return None


def field(path: Path, name: str) -> str | None:
    """The value of the line `name: value` in a file."""
    for line in (text(path) or "").splitlines():
        left, colon, right = line.partition(":")
        if colon and left.strip() == name:
            return right.strip()
    return None


def size(path: Path, name: str) -> int | None:
    """Bytes of a field that is written in kB (the kernel means KiB)."""
    words = (field(path, name) or "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None
