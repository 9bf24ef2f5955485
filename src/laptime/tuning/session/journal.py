"""What a session of `tune` keeps while it runs: every decided rung, so that a killed one can go on.

.laptime/tuning/KEY.jsonl     a header, then one line a rung; KEY is of the command, the script's text and
the machine
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from laptime.kit.errors import UsageError
from laptime.launch.script import Program
from laptime.records.tuning import Rung
from laptime.store import folder


class Kept:
    """The journal of one session.

    Attributes:
        path: where it is; None when nothing is to be kept.
        done: rungs of the session that is resumed.
        complaint: why it cannot be written, "" while it can.
    """

    def __init__(self, program: Program, terms: dict[str, Any], *, resume: bool, save: bool) -> None:
        self.done: list[Rung] = []
        self.complaint = ""
        self.path: Path | None = None
        if not save:
            return
        known = [program.words, program.subject.sha256, program.python, terms]
        key = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
        self.path = folder.home() / "tuning" / f"{key}.jsonl"
        if resume:
            self.done = self._read()
        else:
            self._begin(program)

    def _begin(self, program: Program) -> None:
        assert self.path is not None
        try:
            folder.month_of(folder.new_id(), folder.home())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"program": program.words}) + "\n")
        except OSError as error:
            self.complaint, self.path = error.strerror or str(error), None

    def _read(self) -> list[Rung]:
        """Rungs of an earlier session, up to a last line that was cut off.

        Raises:
            UsageError: there is none.
        """
        assert self.path is not None
        try:
            lines = self.path.read_bytes().splitlines()[1:]
        except OSError as error:
            raise UsageError(
                "there is no session to go on with",
                why="none was begun in this folder with this script, its arguments and these options",
                next="the same command without --resume",
            ) from error
        found = []
        for line in lines:
            with suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(line, type=Rung))
        return found

    def rung(self, rung: Rung) -> None:
        """Keep a decided rung at once."""
        if self.path is None:
            return
        try:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(rung) + b"\n")
        except OSError as error:
            self.complaint, self.path = error.strerror or str(error), None

    def over(self) -> None:
        """The session came to its end: nothing is left to go on with."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
