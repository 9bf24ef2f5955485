"""Small words: nearest match, plural, joining."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path


def closest(word: str, words: Iterable[str]) -> str | None:
    """The known word most like `word`, or None when nothing comes near."""
    by_lower = {name.lower(): name for name in words}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def count(number: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first of them, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def from_here(path: str | Path) -> str:
    """A path as people in the current folder write it: relative where it lies below."""
    with suppress(ValueError):
        return str(Path(path).resolve().relative_to(Path.cwd()))
    return str(path)
