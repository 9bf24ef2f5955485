"""A session on disk: its decisions in order, from which `tune --resume` goes on, and its temporary folder.

.laptime/tuning/KEY.jsonl     one `RungDecided` a line, as in the journal of a run, and what else a session
                              keeps; KEY is a hash of the terms: what decides what is tried, and on what

The work folder holds captured batches and states, gigabytes for a large model. It is gone when the session
ends; that of one that was killed, when the next one begins: the session holds a lock on a file in it, and the
system releases that lock when the process ends, in whatever way."""

import fcntl
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from msgspec import Struct

from laptime.analysis.tuned import exit_code
from laptime.kit.errors import ExitCode, UsageError
from laptime.records.event import Event, RungDecided
from laptime.records.run import Run
from laptime.records.tuning import Rung
from laptime.store import folder
from laptime.store.encoding import DAMAGE, decode, encode

Document = TypeVar("Document", bound=Struct)


class SessionJournal:
    """Keeps the decisions of a session until it is over. terms: what has to be the same for a session to go
    on; JSON can hold it. of: the same in words.
    Raises UsageError: there is no session to resume, or it still runs."""

    def __init__(self, terms: Any, of: str, *, resume: bool, save: bool) -> None:
        self.complaint = ""  # why it cannot be written, "" while it can
        self._lines: list[bytes] = []
        self._file: IO[bytes] | None = None
        key = hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()[:16]
        # Where decisions are; None when nothing is to be kept.
        self.path: Path | None = folder.home() / "tuning" / f"{key}.jsonl" if save else None
        if self.path is not None and resume and not self.path.is_file():
            raise UsageError(
                "there is no session to resume",
                why=f"no session in this folder began with {of}",
                next="run the same command without --resume",
            )
        if self.path is not None:
            self._open(self.path, of, resume=resume)
        # What the session that is resumed has decided, in order.
        self.rungs = [rung for line in self._lines if (rung := _rung(line)) is not None]

    def __call__(self, event: Event) -> None:
        """Keep a decision at once; other events are passed over."""
        if isinstance(event, RungDecided):
            self.keep(event)

    def keep(self, document: Struct) -> None:
        """Keep something else that a session which goes on needs."""
        if self._file is None:
            return
        try:
            self._file.write(encode(document) + b"\n")
            self._file.flush()
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def read_kept(self, kind: type[Document]) -> list[Document]:
        """Return what the resumed session has kept of a kind, in order."""
        found = []
        for line in self._lines:
            with suppress(*DAMAGE):
                found.append(decode(line, kind))
        return found

    def _open(self, path: Path, of: str, *, resume: bool) -> None:
        """Take the file; it belongs to this process until it ends. A session begins with an empty one.
        Raises UsageError: the session that is to go on still runs."""
        try:
            folder.make(folder.home())
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            with suppress(BlockingIOError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file.seek(0)
                self._lines = self._file.read().splitlines() if resume else []
                self._file.truncate(None if resume else 0)
                return
        except OSError as error:
            self._give_up(error.strerror or str(error))
            return
        if resume:
            raise UsageError(
                "the session to resume is still running",
                why=f"another process tunes with {of}",
                next="run the same command when it has ended",
            )
        self._give_up(f"another session with {of} runs at the same time")

    def _give_up(self, why: str) -> None:
        self.complaint, self.path, self._file = why, None, None

    def over(self) -> None:
        """The session came to its end: nothing is left to go on with."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def is_over(run: Run) -> bool:
    """Whether nothing is left to go on with: a budget that ended it, or an open answer, can be resumed."""
    ended = run.tuning.ended if run.tuning else ""
    return run.status == "complete" and ended == "complete" and exit_code(run) != ExitCode.UNDECIDED


def _rung(line: bytes) -> Rung | None:
    with suppress(*DAMAGE):
        event: Event = decode(line, Event)  # type: ignore[arg-type]
        return event.rung if isinstance(event, RungDecided) else None
    with suppress(*DAMAGE):  # before 0.2 a line was a rung
        return decode(line, Rung)
    return None


# The work folder


_LOCK = "lock"
_YOUNG = 60.0  # age in seconds below which a folder may not be locked yet


@contextmanager
def work_folder(verb: str) -> Iterator[Path]:
    """A new folder for a session of this verb; folders of killed sessions are removed first."""
    prefix = f"laptime-{verb}-"
    _sweep(prefix)
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as work,
        (Path(work) / _LOCK).open("wb") as lock,
    ):
        with suppress(OSError):  # a file system without locks: nobody can take it, either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(work)


def _sweep(prefix: str) -> None:
    """Remove folders whose lock is nobody's. Those of others cannot be opened, and stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*/{_LOCK}"):
        with suppress(OSError):
            if path.parent.is_symlink() or time.time() - path.stat().st_mtime < _YOUNG:
                continue
            with path.open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
