"""The files of stored runs: saved, listed, read."""

import gzip
import os
import stat
import zlib
from pathlib import Path

from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.records.event import RunFinished, RunStarted
from laptime.records.run import Run
from laptime.store import folder
from laptime.store.journal import Journal, read_journal
from laptime.store.schema import read_run, refuse_file

LARGEST = 512 << 20  # bytes that a run may have, unpacked; one with a million samples has 50 MB


def save(run: Run, root: Path | None = None) -> Path:
    """The file that now holds this run.
    Raises UsageError: it could not be written where it belongs; says where it went instead."""
    with Journal(root) as journal:  # a plan that says `save: false` was true until now
        journal(RunStarted(structs.replace(run, plan={k: v for k, v in run.plan.items() if k != "save"})))
        journal(RunFinished(run.status, run.seconds))
        if journal.complaint:
            raise journal.complaint
        assert journal.path is not None
        return journal.path


def read(path: Path) -> Run:
    """The run in one file: finished, or as far as its journal goes.
    Raises UsageError: unreadable, damaged, no run, or written by a newer laptime."""
    data = _bytes(path)
    return read_journal(data, path) if path.suffix == ".jsonl" else read_run(data, path)


def list_files(root: Path | None = None) -> list[Path]:
    """The files of all runs, newest first."""
    return [Path(path) for path in paths(root or folder.home())]


def paths(base: Path) -> list[str]:
    """The same as text: a Path takes longer to make than a file to find.

    A run that was stopped between its two files has a journal and a finished file; the finished one counts.
    """
    by_id: dict[str, str] = {}
    for month in _scan(base / "runs"):
        for entry in _scan(month) if month.is_dir() else ():
            if entry.name.endswith(folder.SUFFIXES) and not entry.name.startswith("."):
                run_id = entry.name.partition(".")[0]
                if run_id not in by_id or not entry.name.endswith(".jsonl"):
                    by_id[run_id] = entry.path
    return [by_id[run_id] for run_id in sorted(by_id, reverse=True)]


def _scan(place: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except OSError:
        return []


def _bytes(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device has no end
            raise refuse_file(path, "it is a pipe, a device or a folder")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data: bytes = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise refuse_file(path, f"it holds more than {LARGEST >> 20} MiB")
        return data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise refuse_file(path, error) from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read", why=error.strerror or str(error), next="laptime list"
        ) from error
