"""The journal of a session: its decisions in order, from which `tune --resume` goes on.

.laptime/tuning/KEY.jsonl     one `RungDecided` a line, as in the journal of a run; KEY is a hash of the
                              command, the script's text and the options that decide what is tried
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

from laptime.kit.errors import UsageError
from laptime.launch.script import Program
from laptime.records.event import Event, RungDecided
from laptime.records.tuning import Rung
from laptime.store import folder
from laptime.store.encoding import decode, encode
from laptime.store.schema import DAMAGE


class SessionJournal:
    """Keeps the decisions of a session until it is over.

    Attributes:
        path: where they are; None when nothing is to be kept.
        rungs: what the session that is resumed has decided, in order.
        complaint: why it cannot be written, "" while it can.

    Raises:
        UsageError: there is no session to go on with.
    """

    def __init__(self, program: Program, terms: dict[str, Any], *, resume: bool, save: bool) -> None:
        self.rungs: list[Rung] = []
        self.complaint = ""
        terms_of_session = [program.words, program.subject.sha256, program.python, terms]
        key = hashlib.sha256(json.dumps(terms_of_session, sort_keys=True).encode()).hexdigest()[:16]
        self.path = folder.home() / "tuning" / f"{key}.jsonl" if save else None
        if resume:
            self.rungs = self._read()
        elif self.path is not None:
            self._write(b"", mode="wb")

    def __call__(self, event: Event) -> None:
        """Keep a decision at once; other events are passed over."""
        if isinstance(event, RungDecided):
            self._write(encode(event) + b"\n")

    def _write(self, line: bytes, mode: str = "ab") -> None:
        if self.path is None:
            return
        try:
            folder.make(folder.home())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode) as file:
                file.write(line)
        except OSError as error:
            self.complaint, self.path = error.strerror or str(error), None

    def _read(self) -> list[Rung]:
        """What was decided; a line that was cut off is left out."""
        try:
            lines = self.path.read_bytes().splitlines() if self.path else []
        except OSError as error:
            raise UsageError(
                "there is no session to go on with",
                why="none was begun in this folder with this script, its arguments and these options",
                next="the same command without --resume",
            ) from error
        return [rung for line in lines if (rung := _rung(line)) is not None]

    def over(self) -> None:
        """The session came to its end: nothing is left to go on with."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _rung(line: bytes) -> Rung | None:
    with suppress(*DAMAGE):
        event: Event = decode(line, Event)  # type: ignore[arg-type]
        return event.rung if isinstance(event, RungDecided) else None
    with suppress(*DAMAGE):  # before 0.2 a line was a rung
        return decode(line, Rung)
    return None
