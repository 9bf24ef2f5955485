"""The listed facts of every stored run, kept in SQLite: thousands are listed, or put in a history, at once.

The run files are the truth. `index.sqlite` beside them is made from them and may be deleted at any time: what
is missing, damaged or made by another version is made again, and a file that was added, changed or deleted by
hand is noticed by its name, size and time of change. If nothing can be written, listing works without it.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, structs

from laptime.kit import __version__
from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.records.scale import RATE
from laptime.store import files, folder
from laptime.store.schema import refuse_file

NAME = "index.sqlite"
_FORMAT = 3
_FRESH = 2.0  # seconds in which a changed file is not indexed: FAT counts in twos, a change would not show
_COLUMNS = "path text primary key, mtime integer, size integer, line blob"
_TABLES = (
    *(f"create table if not exists {name} ({_COLUMNS}) without rowid" for name in ("lines", "levels")),
    "create table if not exists made (version text primary key)",
)
Row = TypeVar("Row")


class Number(Struct, frozen=True, kw_only=True):
    """One statistic of a case, in its SI unit."""

    case: str | None = None
    tag: str
    value: float | None
    unit: str
    ci95: tuple[float, float] | None = None
    n: int = 1
    regime: str | None = None


class Named(Struct, frozen=True, kw_only=True):
    """The path of a run file, relative to the store, and the --name of its run."""

    path: str
    name: str = ""
    status: str = ""


class ListedRun(Named, frozen=True, kw_only=True):
    """The facts of one run file that a listing shows."""

    id: str  # of the file
    fault: str = ""  # why it cannot be read; everything below is then empty
    verb: str = ""
    started: str = ""
    verdict: str = ""  # trusted, noisy, invalid
    targets: list[str] = []
    cases: int = 0
    first_case: str = ""  # key of the case that the headline is of, or of the first one
    is_failed: bool = False  # whether every case failed
    headline: Number | None = None  # the first number that there is; of a profile, the median step
    bound: str | None = None  # what limits a profile's step; None of other runs


class Kept(Struct, Generic[Row], frozen=True):
    """A table of the index: one row a run file."""

    table: Literal["lines", "levels"]  # its name
    decode: Callable[[bytes], Row]  # a row as it was kept
    # the row of a file and its path in the store; raises UsageError where that cannot be read
    read: Callable[[Path, str], Row]
    unreadable: Callable[[str, UsageError], Row | None]  # the row of such a file; None leaves it out
    final: Callable[[Row], bool]  # whether its run has ended


Indexed = dict[tuple[str, int, int], bytes]  # rows, still as JSON, by path, time of change and size of file
_CHUNK = 1000  # files that are looked up, read and kept at once: what ends early loses no more


class _File(NamedTuple):
    path: str  # a Path takes longer to make than to look up
    relative: str
    mtime: int
    size: int


def listing(root: Path | None = None, limit: int | None = None) -> tuple[Iterator[ListedRun], int]:
    """The newest runs, newest first, at most `limit`, as they are read; and how many there are in all."""
    base = root or folder.home()
    every = files.paths(base)
    return _rows(base, every[:limit], _LINES, drop=limit is None), len(every)


def rows(kept: Kept[Row], root: Path | None = None) -> Iterator[Row]:
    """Yield a table's row of every run, newest first; missing ones are read from the files, and kept."""
    base = root or folder.home()
    return _rows(base, files.paths(base), kept)


def names(paths: list[str], root: Path | None = None) -> Iterator[tuple[str, str]]:
    """Yield the --name of each of these runs that has one, and the path of its file in the store."""
    runs = _rows(root or folder.home(), paths, _NAMES, drop=False)
    return ((run.name, run.path) for run in runs if run.name)


def _rows(base: Path, wanted: list[str], kept: Kept[Row], *, drop: bool = True) -> Iterator[Row]:
    """Rows of these files, newest first; with `drop`, those of other files leave the index at the end."""
    if not wanted:
        return
    index = _open(base / NAME)
    start = len(str(base)) + 1
    try:
        for first in range(0, len(wanted), _CHUNK):
            found = list(_stat(wanted[first : first + _CHUNK], start))
            try:
                indexed = _content(index, kept.table, [file.relative for file in found])
            except sqlite3.DatabaseError:  # a damaged page, which nobody sees before it is read
                index, indexed = _open(base / NAME, damaged=True), {}
            yield from _chunk(index, found, indexed, kept)
        if drop and index is not None:
            there = {path[start:] for path in wanted}
            indexed_paths = index.execute(f"select path from {kept.table}")  # noqa: S608 (ours)
            gone = [row for row in indexed_paths if row[0] not in there]
            _write(index, f"delete from {kept.table} where path = ?", gone)  # noqa: S608 (ours)
    finally:
        if index is not None:
            index.close()


def _chunk(index: Any, found: list[_File], indexed: Indexed, kept: Kept[Row]) -> Iterator[Row]:
    fresh: list[tuple[str, int, int, bytes]] = []
    newest = (time.time() - _FRESH) * 1e9
    try:
        for file in found:
            row = _decode(kept, indexed.get((file.relative, file.mtime, file.size)))
            if row is None:
                row = _read(kept, file)
                if row is None:
                    continue  # another process has just finished or removed it, or it is left out
                if kept.final(row) and file.mtime < newest:
                    fresh.append((file.relative, file.mtime, file.size, msgspec.json.encode(row)))
            yield row
    finally:  # who needs no more rows ends it early
        if index is not None and fresh:
            _write(index, f"replace into {kept.table} values (?, ?, ?, ?)", fresh)  # noqa: S608 (ours)


def _stat(paths: list[str], start: int) -> Iterator[_File]:
    for path in paths:
        try:
            stat = os.stat(path)  # noqa: PTH116 (a Path takes longer to make)
        except OSError:
            continue
        yield _File(path, path[start:], stat.st_mtime_ns, stat.st_size)


def _read(kept: Kept[Row], file: _File) -> Row | None:
    path = Path(file.path)
    try:
        return kept.read(path, file.relative)
    except UsageError as error:
        reason = error
    except Exception as error:
        # Whatever the file of one run holds, the others are listed, and this one with the reason.
        reason = refuse_file(path, f"it cannot be summed up: {type(error).__name__}: {error}")
    return kept.unreadable(file.relative, reason) if path.exists() else None


def _list_run(run: Run, path: str) -> ListedRun:
    case, number = _headline(run)
    return ListedRun(
        id=folder.id_of(Path(path)),
        path=path,
        status=run.status,
        verb=run.verb,
        name=run.name,
        started=run.started,
        verdict=run.trust,
        targets=[subject.target for subject in run.subjects],
        cases=len(run.cases),
        first_case=case,
        is_failed=bool(run.cases) and all(case.status == "failed" for case in run.cases),
        headline=number,
        bound=(run.profile.verdict.bound if run.profile.verdict else "unindexed") if run.profile else None,
    )


def _headline(run: Run) -> tuple[str, Number | None]:
    """The first case that has a number, and the number."""
    # Loads numpy; not needed for what is in the index.
    from laptime.analysis.summary import headline, summarize

    if run.profile is not None:
        overview = run.profile.overview
        seconds = overview.step_median_ns / 1e9
        return "", Number(case=None, tag="step", value=seconds, unit="s", n=overview.steps)
    for case in run.cases:
        stat = headline(case) or (summarize(case).get(RATE.tag) if case.details.ranks else None)
        if stat is not None:
            return case.key, structs.replace(
                msgspec.convert(stat, Number, from_attributes=True), case=case.key
            )
    return (run.cases[0].key if run.cases else ""), None


_LINES = Kept(
    table="lines",
    decode=msgspec.json.Decoder(ListedRun).decode,
    read=lambda path, relative: _list_run(files.read(path), relative),
    unreadable=lambda path, error: ListedRun(
        id=folder.id_of(Path(path)), path=path, fault=error.why or error.what
    ),
    final=lambda run: run.status != "running",
)
_NAMES: Kept[Named] = Kept(**{**structs.asdict(_LINES), "decode": msgspec.json.Decoder(Named).decode})


def _open(path: Path, *, damaged: bool = False) -> sqlite3.Connection | None:
    """The index, made again when it is damaged; None when it cannot be used now."""
    for again in (damaged, True):
        try:
            if again:
                path.unlink(missing_ok=True)
            index = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            _prepare(index)
            return index
        except (sqlite3.OperationalError, OSError):  # locked, or no place to write: not damaged
            return None
        except sqlite3.DatabaseError:
            index.close()
    return None


def _prepare(index: sqlite3.Connection) -> None:
    """Make the tables of an empty file. Raises sqlite3.DatabaseError: damaged, or made by another version."""
    version = f"{_FORMAT}/{__version__}"
    index.execute("pragma synchronous = off")  # it can be made again
    tables = {name for (name,) in index.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        index.executescript(f"begin immediate; {'; '.join(_TABLES)}; commit")
        index.execute("insert or ignore into made values (?)", (version,))
    elif tables != {"lines", "levels", "made"} or list(index.execute("select * from made")) != [(version,)]:
        raise sqlite3.DatabaseError("damaged, or made by another version")


def _content(index: sqlite3.Connection | None, table: str, paths: list[str]) -> Indexed:
    """Return the index's rows of files between the first and the last of these; DatabaseError if damaged."""
    query = f"select path, mtime, size, line from {table} where path between ? and ?"  # noqa: S608 (ours)
    with contextlib.suppress(sqlite3.OperationalError):  # locked
        if index is not None and paths:
            return {row[:3]: row[3] for row in index.execute(query, (min(paths), max(paths)))}
    return {}


def _decode(kept: Kept[Row], data: bytes | None) -> Row | None:
    try:
        return None if data is None else kept.decode(data)
    except (msgspec.MsgspecError, TypeError):
        return None


def _write(index: sqlite3.Connection, statement: str, rows: list[Any]) -> None:
    """Carry out a statement for each row; what fails is done next time."""
    with contextlib.suppress(sqlite3.Error):
        index.execute("begin immediate")
        index.executemany(statement, rows)
        index.execute("commit")
