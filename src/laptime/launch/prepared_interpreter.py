"""An interpreter that has imported what the trials of a script import, and forks them.

Decision 0020 says where that is sound. Whoever cannot have one starts fresh interpreters.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from laptime.process.peer import Gone, Peer, Silent
from laptime.process.program import Process

MODULE = "laptime.tuning.trial.prepared"
LONGEST_START = 120.0
"""Seconds that importing may take."""
ANSWER = 10.0
"""Seconds that a fork may take."""


class NotPrepared(Exception):
    """No trial can be forked; the text says why."""


class PreparedInterpreter:
    """The interpreter, started at once; `fork` waits until it has imported."""

    def __init__(self, python: str, modules: Sequence[str], environ: dict[str, str]) -> None:
        words = [python, "-m", MODULE, *modules]
        self._peer = Peer.start(words, keeps_terminal=True, env=environ, stderr=subprocess.DEVNULL)
        self._is_ready = False
        self._statuses: dict[int, int] = {}

    def fork(self, words: list[str], environ: dict[str, str], output: Path) -> ForkedProcess:
        """Begin a trial.

        Raises:
            NotPrepared: the interpreter is gone, does not answer, or has threads of its own.
        """
        self.get_ready()
        request = {"words": words, "environ": environ, "output": str(output)}
        try:
            self._peer.send(json.dumps(request).encode(), ANSWER)
        except (Gone, Silent) as error:
            raise NotPrepared(f"the prepared interpreter is gone: {error}") from error
        return ForkedProcess(self._awaited("pid", ANSWER), self)

    def status(self, pid: int, wait: float) -> int | None:
        """The exit status of a trial; None where it has not ended within so many seconds."""
        until = time.monotonic() + wait
        while pid not in self._statuses:
            try:
                self._read(max(0.0, until - time.monotonic()))
            except Silent:
                return None
            except Gone:
                self._statuses[pid] = -9  # what was lost with its parent cannot be known
        return self._statuses[pid]

    def close(self) -> None:
        """End it; trials that still run are ended by whoever has asked for them."""
        self._peer.close()

    def get_ready(self) -> None:
        """Wait until everything is imported.

        Raises:
            NotPrepared: as of `fork`.
        """
        if not self._is_ready:
            threads = self._awaited("threads", LONGEST_START)
            if threads > 1:
                raise NotPrepared(f"{threads} threads run once everything is imported")
            self._is_ready = True

    def _awaited(self, name: str, seconds: float) -> int:
        """The value of the next answer that has this name; statuses are kept on the way."""
        until = time.monotonic() + seconds
        try:
            while True:
                answer = self._read(until - time.monotonic())
                if name in answer and "status" not in answer:
                    return answer[name]
        except (Gone, Silent):
            raise NotPrepared("the prepared interpreter does not answer") from None

    def _read(self, seconds: float) -> dict[str, int]:
        """The next answer.

        Raises:
            Gone: it has ended. Silent: none came within so many seconds.
        """
        answer: dict[str, int] = json.loads(self._peer.receive(seconds))
        if "status" in answer:
            self._statuses[answer["pid"]] = answer["status"]
        return answer


class ForkedProcess(Process):
    """A trial that was forked: its parent is the prepared interpreter, which tells how it ended."""

    def __init__(self, pid: int, interpreter: PreparedInterpreter) -> None:
        self._is_ended, self._mark, self._began = False, "", time.monotonic()
        self._interpreter = interpreter
        self.pid, self.returncode = pid, None
        self.stdin = self.stdout = self.stderr = None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when there is one.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        status = self._status(float("inf") if timeout is None else timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"trial {self.pid}", timeout or 0.0)
        return status

    def _status(self, wait: float) -> int | None:
        if self.returncode is None:
            self.returncode = self._interpreter.status(self.pid, min(wait, 1e6))
        return self.returncode
