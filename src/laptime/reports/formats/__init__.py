"""One file a format: how a document is written, and which suffixes ask for it."""

from __future__ import annotations

from pathlib import Path

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.kit.text import closest


def format_of(path: Path) -> str:
    """The name of the report that is written to a file of this suffix.

    Raises:
        UsageError: there is none; says which suffixes there are.
    """
    suffixes = {
        suffix: name
        for name in registry.names("reports")
        for suffix in registry.load("reports", name).SUFFIXES
    }
    found = suffixes.get(path.suffix.lower())
    if found is None:
        near = closest(path.suffix.lower(), suffixes)
        raise UsageError(
            f"no report is written to {path.suffix or 'a file without suffix'}: {path}",
            why=f"known suffixes: {' '.join(sorted(suffixes))}",
            next=f"-o {path.with_suffix(near or '.html')}" if path.name else "-o report.html",
        )
    return found
