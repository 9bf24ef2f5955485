"""An interpreter that has imported what the trials of a script import, and forks them.

Decision 0020 says where that is sound. Whoever cannot have one starts fresh interpreters.
"""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from laptime.launch.process import Process

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
        self._process = Process(
            [python, "-m", MODULE, *modules],
            keeps_terminal=True,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._unread = b""
        self._is_ready = False
        self._statuses: dict[int, int] = {}

    def fork(self, words: list[str], environ: dict[str, str], output: Path) -> ForkedProcess:
        """Begin a trial.

        Raises:
            NotPrepared: the interpreter is gone, does not answer, or has threads of its own.
        """
        self.get_ready()
        line = json.dumps({"words": words, "environ": environ, "output": str(output)}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
        except OSError as error:
            raise NotPrepared(f"the prepared interpreter is gone: {error}") from error
        return ForkedProcess(self._awaited("pid", ANSWER), self)

    def status(self, pid: int, wait: float) -> int | None:
        """The exit status of a trial; None where it has not ended within so many seconds."""
        until = time.monotonic() + wait
        while pid not in self._statuses:
            if self._process.poll() is not None and not self._unread:
                self._statuses[pid] = -9  # what was lost with its parent cannot be known
                break
            if not self._read(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                return None
        return self._statuses[pid]

    def close(self) -> None:
        """End it; trials that still run are ended by whoever has asked for them."""
        self._process.end()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

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
        while time.monotonic() < until:
            answer = self._read(until - time.monotonic())
            if answer is None and self._process.poll() is not None:
                break
            if answer and name in answer and "status" not in answer:
                return answer[name]
        raise NotPrepared("the prepared interpreter does not answer")

    def _read(self, seconds: float) -> dict[str, int] | None:
        """The next answer; None without one within so many seconds, or at the end."""
        assert self._process.stdout is not None
        if b"\n" not in self._unread:
            poll = select.poll()
            poll.register(self._process.stdout, select.POLLIN)
            if not poll.poll(1000 * seconds):
                return None
            self._unread += self._process.stdout.read(65536) or b""
        line, end, rest = self._unread.partition(b"\n")
        if not end:
            return None
        self._unread = rest
        answer: dict[str, int] = json.loads(line)
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
