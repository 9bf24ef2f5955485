"""Runs of laptime itself: run files, and JSON reports of `-o FILE.json`, which carry their run.

Targets that they name are not trusted: `compare` and `check` do not measure it again unasked."""

from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.records.run import IMPORTED, Run
from laptime.store import files


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    return isinstance(document, dict) and str(document.get("schema")).startswith("laptime.")


def runs(document: Any, path: Path) -> list[Run]:
    """The run in the file."""
    run = files.read(path)
    subjects = [structs.replace(subject, source=f"{IMPORTED}{subject.source}") for subject in run.subjects]
    return [structs.replace(run, subjects=subjects)]
