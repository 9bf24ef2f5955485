"""A run on disk while it is being measured, so that no end of the process loses a sample.

events --> <id>.jsonl, one line each, written at once --> RunFinished --> <id>.json, journal removed
                |                                             |
                +-- cannot be written: goes on in the         +-- no room for it: the journal is kept,
                    temporary folder, `complaint` tells           it reads back as the same run

`read_journal` gives the run as far as its journal goes: still running, interrupted, or complete."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import tempfile
import threading
from pathlib import Path

from msgspec import Struct, structs
from msgspec.json import Decoder

from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.records import event as events
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.event import Event
from laptime.records.run import Run
from laptime.store import folder
from laptime.store.encoding import DAMAGE, decode, encode
from laptime.store.schema import CURRENT, Opening, current, refuse_file, version_of

_MEASURED = (events.Measured, events.RequestsEnded, events.CaseChanged, events.ProfileMade, events.Diagnosed)
COMPRESS_ABOVE = 1_000_000  # bytes of JSON from which a finished run is stored gzipped


class Journal:
    """Listens to a run's events and keeps them.

    A disk that fails must not end the measurement, so calling a journal never raises OSError: read
    `complaint` once the results have been shown."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or folder.home()
        self._builder = events.RunBuilder()
        self._file: int | None = None
        self._torn = False
        self._measured = False
        self._lock = threading.Lock()
        self._fault: OSError | None = None
        self.path: Path | None = None  # where the run lies; None before it starts, or if there is no place
        self.run_id = ""  # that it is kept under

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def __call__(self, event: Event) -> None:
        """Keep one event; workers' events may come from several threads."""
        with self._lock:
            if isinstance(event, events.RunStarted):
                event = self._begin(event.run)
            self._builder(event)
            if isinstance(event, events.Progress):
                return
            try:
                self._write(event)
            except OSError as error:
                self._fault = self._fault or error
                self._move()
            self._measured |= isinstance(event, _MEASURED)
            if isinstance(event, events.RunFinished):
                self._finish()

    def close(self) -> None:
        """Close the file. An unfinished run stays as an interrupted one, if anything was measured."""
        if self._file is None:
            return
        self._close_file()
        if not self._measured and self.path:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.path = None

    @property
    def complaint(self) -> UsageError | None:
        """Why the run is not kept where it belongs, and where it is instead; None when it is there."""
        if self._fault is None:
            return None
        return UsageError(
            f"the run could not be saved under {self._root}",
            why=self._fault.strerror or str(self._fault),
            next=f"it is kept in {self.path}; move it to a safe place"
            if self.path
            else "free some disk space, or set LAPTIME_HOME to another disk, and measure again",
        )

    def _begin(self, run: Run) -> events.RunStarted:
        try:
            return self._open(run, self._root)
        except OSError as error:
            self._fault = error
        try:
            return self._open(run, _temporary())
        except OSError:
            return events.RunStarted(run)

    def _open(self, run: Run, root: Path) -> events.RunStarted:
        """Open a file under a name that no other run has or will get."""
        run_id = run.id if folder.is_id(run.id) else folder.new_id()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            month = folder.month_of(run_id, root)
            path = month / f"{run_id}.jsonl"
            try:
                file = os.open(path, flags, 0o666)
            except FileExistsError:
                run_id = folder.new_id()
                continue
            # Another run may have finished under this id: its journal is gone, its file is there.
            if not any((month / f"{run_id}{suffix}").exists() for suffix in (".json", ".json.gz")):
                break
            os.close(file)
            path.unlink()
            run_id = folder.new_id()
        # Readers see by this lock that the run is going on; file systems without locks do without.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file, self.path, self.run_id, self._torn = file, path, run_id, False
        return events.RunStarted(run if run_id == run.id else structs.replace(run, id=run_id))

    def _write(self, event: Struct) -> None:
        """One line, straight to the system: after this only a power cut can lose it."""
        if self._file is None:
            return
        # A line cut short by a full disk or a signal must not take the next one with it.
        line = b"\n" * self._torn + encode(event) + b"\n"
        self._torn = True
        while line:
            line = line[os.write(self._file, line) :]
        self._torn = False

    def _move(self) -> None:
        """Continue in the temporary folder, with all that was measured so far."""
        old = self.path
        self._close_file()
        self.path = None
        try:
            self._write(self._open(self._builder.run(), _temporary()))
        except OSError:
            self._close_file()
            self.path = old  # better half a journal than none
            return
        if old:
            with contextlib.suppress(OSError):
                old.unlink()

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _finish(self) -> None:
        if self._file is None or self.path is None:
            return
        data = encode(self._builder.run())
        suffix = ".json"
        if len(data) > COMPRESS_ABOVE:
            # No time and no name inside: the same run gives the same bytes.
            data, suffix = gzip.compress(data, 4, mtime=0), ".json.gz"
        final = self.path.with_suffix(suffix)
        try:
            folder.write_whole(final, data)
        except OSError:
            pass  # the journal holds the same run
        else:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.path = final
        self._close_file()


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="laptime-"))


_EVENT: Decoder[Event] = Decoder(Event, strict=False)


def is_running(path: Path) -> bool:
    """Whether the process that writes this journal is still alive."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is not waited for
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def read_journal(data: bytes, path: Path) -> Run:
    """The run as far as its journal goes. Damaged lines are left out, a torn last one among them.
    Raises UsageError: not even the beginning can be read, or a newer laptime wrote it."""
    builder = events.RunBuilder()
    lost, version = 0, CURRENT
    for number, line in enumerate(data.split(b"\n")):
        if not line:
            continue
        try:
            if number == 0:
                version = version_of(decode(line, Opening).run, path)
            builder(_EVENT.decode(line))
        except (*DAMAGE, KeyError):
            lost += 1
    try:
        run = current(builder.run(), version)
    except ValueError as error:
        raise refuse_file(path, f"the journal holds {count(lost, 'line')}, and none begins a run") from error
    if run.status != "running":
        return run
    return run if is_running(path) else _interrupt(run, lost)


def _interrupt(run: Run, lost: int) -> Run:
    checks = [*run.checks]
    if lost:
        sentence = f"{count(lost, 'line')} of the journal could not be read; the samples in it are lost"
        checks.append(Check(name="journal", outcome="note", sentence=sentence))
    cases = [_interrupt_case(case) for case in run.cases]
    return structs.replace(run, status="interrupted", cases=cases, checks=checks)


def _interrupt_case(case: Case) -> Case:
    """A case whose samples were not checked any more: they are kept, and say so."""
    if case.status != "ok" or case.checks:
        return case
    unchecked = Check(
        name="journal",
        outcome="warn",
        sentence="the run was interrupted before these numbers were checked",
        next="measure again",
    )
    return structs.replace(case, status="interrupted", checks=[unchecked])
