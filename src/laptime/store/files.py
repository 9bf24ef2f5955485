"""Stored runs: found by the words people use for them, read, saved.

A run is named by a path, `last`, `last~2`, its id, any unique beginning or end of that, or its --name.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.event import RunFinished, RunStarted
from laptime.records.run import Run
from laptime.store import folder
from laptime.store.folder import new_id as new_id
from laptime.store.journal import Journal
from laptime.store.recovery import is_running, read_journal
from laptime.store.schema import damaged, read_run

_LAST = re.compile(r"last(?:~(\d{1,9}))?", re.ASCII)


def save(run: Run, root: Path | None = None) -> Path:
    """The file that now holds this run.

    Raises:
        UsageError: it could not be written where it belongs; says where it went instead.
    """
    with Journal(root) as journal:
        journal(RunStarted(run))
        journal(RunFinished(run.status, run.seconds))
        if journal.complaint:
            raise journal.complaint
        assert journal.path is not None
        return journal.path


def load(reference: str, root: Path | None = None) -> Run:
    """The run that a path, id, name or `last~N` means.

    Raises:
        UsageError: there is none, or its file cannot be read.
    """
    return read(find(reference, root))


def read(path: Path) -> Run:
    """The run in one file: finished, or as far as its journal goes.

    Raises:
        UsageError: unreadable, damaged, no run, or written by a newer laptime.
    """
    data = _bytes(path)
    return read_journal(data, path) if path.suffix == ".jsonl" else read_run(data, path)


def stored(root: Path | None = None) -> list[Path]:
    """The files of all runs, newest first."""
    found: dict[str, Path] = {}
    for entry in entries(root or folder.home()):
        path = Path(entry.path)
        found[folder.id_of(path)] = path
    return [found[run_id] for run_id in sorted(found, reverse=True)]


def entries(base: Path) -> list[os.DirEntry[str]]:
    """The run files of a store, in no order but for one: journals come first.

    Of a run that was stopped between its two files, the finished one counts, which is the later one here.
    """
    found: list[os.DirEntry[str]] = []
    for month in _scanned(base / "runs"):
        found += [
            entry
            for entry in (_scanned(month) if month.is_dir() else ())
            if entry.name.endswith(folder.SUFFIXES) and not entry.name.startswith(".")
        ]
    return sorted(found, key=lambda entry: not entry.name.endswith(".jsonl"))


def _scanned(place: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as seen:
            return list(seen)
    except OSError:
        return []


def find(reference: str, root: Path | None = None) -> Path:
    """The file of the run that is meant.

    Raises:
        UsageError: no run, or more than one, answers to this.
    """
    path = lookup(reference, root)
    if path is not None:
        return path
    if reference.endswith(folder.SUFFIXES):
        raise UsageError(
            f"there is no file {reference}", why="the name ends like a run file", next="laptime list"
        )
    runs = stored(root)
    if not runs:
        where = root or folder.home()
        raise UsageError(
            f"no run answers to {reference!r}",
            why=f"nothing is stored under {where} yet",
            next="laptime bench torchvision:resnet18",
        )
    last = _LAST.fullmatch(reference)
    if last:
        finished = sum(1 for _ in _ended(runs))
        why = f"only {finished} of them {'has' if finished == 1 else 'have'} ended"
        raise UsageError(f"there is no run {reference}", why=why, next="laptime list")
    near = closest(reference, _named(root))
    raise UsageError(
        f"no run answers to {reference!r}",
        why="it is no path, no id or part of one, and no --name of a stored run",
        next=f"did you mean {near!r}?" if near else "laptime list",
    )


def lookup(reference: str, root: Path | None = None) -> Path | None:
    """The file of the run that is meant, or None.

    Raises:
        UsageError: more than one run answers to this.
    """
    path = Path(reference)
    if reference.endswith(folder.SUFFIXES) or "/" in reference:
        return path if reference.endswith(folder.SUFFIXES) and path.is_file() else None
    runs = stored(root)
    last = _LAST.fullmatch(reference)
    if last:
        back = int(last[1] or 0)
        return next((path for index, path in enumerate(_ended(runs)) if index == back), None)
    for path in runs:
        if folder.id_of(path) == reference:
            return path
    return _named(root).get(reference) or _by_part(reference, runs)


def _by_part(part: str, runs: list[Path]) -> Path | None:
    ids = {folder.id_of(path): path for path in runs}
    # Three letters at least: less matches by accident what was meant as something else.
    found = [run_id for run_id in ids if run_id.startswith(part) or run_id.endswith(part)]
    if len(part) < 3 or not found:
        return None
    if len(found) > 1:
        raise UsageError(
            f"{part!r} may mean {len(found)} runs",
            why=f"{', '.join(found[:3])}{' ...' if len(found) > 3 else ''}",
            next=f"type more of it: {found[0]}, say",
        )
    return ids[found[0]]


def _ended(runs: list[Path]) -> Iterator[Path]:
    """All but those that are being measured right now."""
    return (path for path in runs if path.suffix != ".jsonl" or not is_running(path))


def _named(root: Path | None) -> dict[str, Path]:
    """Runs by their --name; of equal names the newest counts."""
    from laptime.store import index  # which reads runs with this module

    base = root or folder.home()
    found: dict[str, Path] = {}
    for line in index.lines(root)[0]:
        if line.name:
            found.setdefault(line.name, base / line.path)
    return found


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, error) from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read", why=error.strerror or str(error), next="laptime list"
        ) from error
