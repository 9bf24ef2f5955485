"""Small words: nearest match, plural, joining."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None when nothing comes near."""
    known = list(known)
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def count(number: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
