"""A worker, asked and answered: in a fresh process, or in this one.

The parent blocks in `select` while the worker measures; it never spins, because a spinning parent takes a
core away from what is being measured.
"""

from __future__ import annotations

import os
import selectors
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import IO, Protocol

import msgspec

from laptime.kit.clock import SystemClock
from laptime.launch.process import Process, ending, last_line, signal_name, tail
from laptime.measure.engine import Engine
from laptime.measure.protocol import Close, Command, Done, Failed, Message
from laptime.records.case import Failure

_SIGNALS = {
    "SIGKILL": "the kernel's out-of-memory killer does that, or somebody typed kill -9",
    "SIGSEGV": "native code (an operator, an extension) accessed memory it does not own",
    "SIGABRT": "native code gave up; its last words are in the traceback",
}
"""What a signal that ended a worker usually means."""


class Worker(Protocol):
    """Measures one variant, as its commands say (`measure.protocol`)."""

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """Send a command and wait for its whole answer, without the closing Done.

        Raises:
            CommandFailed: the worker answered Failed, died, or gave no answer within `timeout` seconds.
                After the last two the worker is closed.
        """
        ...

    @property
    def alive(self) -> bool:
        """Whether the worker can still be asked."""
        ...

    def close(self) -> None:
        """End the worker. Safe to call twice."""
        ...


class CommandFailed(Exception):
    """A command had no good end; `failure` says why, in the words the user will read."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure


class InProcessWorker:
    """The engine in this process: for models that exist only in its memory."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.alive = True

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """As in Worker, but without a timeout: nothing can stop a call in this process."""
        answer: list[Message] = []
        for message in self._engine.answer(command):
            if isinstance(message, Failed):
                raise CommandFailed(message.failure)
            if not isinstance(message, Done):
                answer.append(message)
        return answer

    def close(self) -> None:
        """Give back what the engine holds."""
        if self.alive:
            self.alive = False
            self._engine.close()


class WorkerProcess:
    """A fresh process that runs `laptime.launch.worker`.

    Args:
        name: of the target, for messages.
        python: interpreter to run it with; another one may have another framework.
        folder: to start in; None is the current one.
        environ: environment variables beside laptime's own, or instead of them.
    """

    def __init__(
        self,
        *,
        name: str,
        python: str = sys.executable,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="laptime-worker-")  # noqa: SIM115 - closed in close()
        # `python -m` puts the current folder on the import path; nothing is added that would change speed.
        self._process = Process(
            [python, "-m", "laptime.launch.worker"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._log,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environ or {})},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._is_busy = False
        self._decode = msgspec.json.Decoder(Message).decode
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        if self._process.poll() is None:
            return True
        self._process.end()
        return False

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def start(self, command: Command) -> None:
        """Send a command without waiting: the answer is fetched with `finish`."""
        self._is_busy = True
        try:
            self._input.write(msgspec.json.encode(command) + b"\n")
            self._input.flush()
        except (BrokenPipeError, ValueError):
            raise CommandFailed(self._obituary()) from None

    def finish(self, *, timeout: float) -> list[Message]:
        """The answer to the command that was started last."""
        answer: list[Message] = []
        end = SystemClock.now() + timeout
        for line in self._lines(end, timeout):
            message = self._decode(line)
            self._is_busy = not isinstance(message, Done | Failed)
            if isinstance(message, Done):
                break
            if isinstance(message, Failed):
                raise CommandFailed(message.failure)
            answer.append(message)
        return answer

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """As in Worker."""
        self.start(command)
        return self.finish(timeout=timeout)

    def _lines(self, end: float, timeout: float) -> Iterator[bytes]:
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                yield line
            if not self._selector.select(max(0.0, end - SystemClock.now())):
                self._process.end()
                raise CommandFailed(self._hung(timeout))
            chunk = os.read(self._output.fileno(), 1 << 20)
            if not chunk:
                raise CommandFailed(self._obituary())
            self._buffer += chunk

    def _hung(self, timeout: float) -> Failure:
        return Failure(
            kind="hung",
            what=f"{self._name} gave no answer within {timeout:g} s",
            why="one call may take longer than that, or it waits for something that never comes",
            next=f"--timeout {timeout * 5:g}s   if it is only slow",
        )

    def _obituary(self) -> Failure:
        """Why the worker is gone: the signal that ended it, or its last words."""
        self._process.wait()
        status, output = self._process.end(), tail(self._log)
        name = signal_name(status)
        why = last_line(output) or "it printed nothing"
        advice = "run the model alone with python -X faulthandler"
        return Failure(
            kind="died",
            what=f"the process that ran {self._name} {ending(status)}",
            why=_SIGNALS.get(name, "see its last words in the traceback") if name else why,
            next=advice if name else "a model must not end the process (sys.exit, os._exit)",
            traceback=output,
        )

    def close(self) -> None:
        """End the worker and all it started: politely, or at once when it is in the middle of a command.

        The latter is Ctrl-C; nobody wants to wait then.
        """
        if self.alive and not self._is_busy:
            with suppress(CommandFailed):
                self.ask(Close(), timeout=5.0)
                self._process.ends_within(5.0)
        self._process.end()
        self._selector.close()
        for stream in (self._input, self._output, self._log):
            with suppress(BrokenPipeError):
                stream.close()
