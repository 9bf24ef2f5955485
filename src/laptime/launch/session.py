"""A conversation with one worker: in a fresh process, or in this one.

The parent blocks in `select` while the worker measures; it never spins, because a spinning parent takes a
core away from what is being measured.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

import msgspec

from laptime.kit.clock import SystemClock
from laptime.kit.errors import Died, Hung, LaptimeError
from laptime.measure.engine import Engine
from laptime.measure.protocol import Close, Command, Done, Failed, Message
from laptime.records.case import Failure


class Session(Protocol):
    """One worker."""

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """Send a command and wait for its whole answer, without the closing Done.

        Raises:
            CommandFailed: the worker answered Failed, died, or gave no answer within `timeout` seconds.
                After the last two the session is closed.
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


class InProcess:
    """The engine in this process: for models that exist only in its memory."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.alive = True

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """As in Session; a call that hangs hangs us, too: there is nobody to stop it."""
        found: list[Message] = []
        for message in self._engine.answer(command):
            if isinstance(message, Failed):
                raise CommandFailed(message.failure)
            if not isinstance(message, Done):
                found.append(message)
        return found

    def close(self) -> None:
        """Give back what the engine holds."""
        if self.alive:
            self.alive = False
            self._engine.close()


class Worker:
    """A fresh process that runs `laptime.launch.worker`, in a process group of its own.

    Args:
        python: interpreter to run it with; another one may hold another framework.
        name: for messages, the target.
        folder: to start in; None is ours.
        environ: variables beside ours, or instead of them.
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
        self._process = subprocess.Popen(
            [python, "-m", "laptime.launch.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us: we close the workers in order
            cwd=folder,
            env={**_environment(), **(environ or {})},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._is_busy = False
        self._is_swept = False
        self._decode = msgspec.json.Decoder(Message).decode
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        if self._process.poll() is None:
            return True
        self._kill()
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
        found: list[Message] = []
        end = SystemClock.now() + timeout
        for line in self._lines(end, timeout):
            message = self._decode(line)
            self._is_busy = not isinstance(message, Done | Failed)
            if isinstance(message, Done):
                break
            if isinstance(message, Failed):
                raise CommandFailed(message.failure)
            found.append(message)
        return found

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """As in Session."""
        self.start(command)
        return self.finish(timeout=timeout)

    def _lines(self, end: float, timeout: float) -> Iterator[bytes]:
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                yield line
            if not self._selector.select(max(0.0, end - SystemClock.now())):
                self._kill()
                raise CommandFailed(_of(self._hung(timeout), "hung"))
            chunk = os.read(self._output.fileno(), 1 << 20)
            if not chunk:
                raise CommandFailed(self._obituary())
            self._buffer += chunk

    def _hung(self, timeout: float) -> Hung:
        return Hung(
            f"{self._name} gave no answer within {timeout:g} s",
            why="one call may take longer than that, or it waits for something that never comes",
            next=f"--timeout {timeout * 5:g}s   if it is only slow",
        )

    def _obituary(self) -> Failure:
        """Why the worker is gone: the signal that ended it, or its last words."""
        code = self._process.wait()
        self._kill()
        tail = self._last_words()
        if code < 0:
            name = _signal_name(-code)
            why = {
                "SIGKILL": "the kernel's out-of-memory killer does that, or somebody typed kill -9",
                "SIGSEGV": "native code (an operator, an extension) accessed memory it does not own",
                "SIGABRT": "native code gave up; its last words are in the traceback",
            }.get(name, "see its last words in the traceback")
            error = Died(
                f"the process that ran {self._name} was ended by {name}",
                why=why,
                next="run the model alone with python -X faulthandler",
            )
        else:
            error = Died(
                f"the process that ran {self._name} ended with status {code}",
                why=(tail.strip().splitlines() or ["it said nothing"])[-1],
                next="a model must not end the process (sys.exit, os._exit)",
            )
        return _of(error, "died", traceback=tail)

    def _last_words(self, size: int = 4000) -> str:
        if self._log.closed:
            return ""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - size))
        return self._log.read().decode(errors="replace")

    def _kill(self) -> None:
        """End the worker's process group: what a model has started (data loaders, servers) ends with it.

        Once, and as soon as its leader has ended: its number may be somebody else's later.
        """
        if not self._is_swept:
            self._is_swept = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the worker and all it started: politely, or at once when it is in the middle of a command.

        The latter is Ctrl-C; nobody wants to wait then.
        """
        if self.alive and not self._is_busy:
            with suppress(CommandFailed, subprocess.TimeoutExpired):
                self.ask(Close(), timeout=5.0)
                self._process.wait(timeout=5.0)
        self._kill()
        self._selector.close()
        for stream in (self._input, self._output, self._log):
            with suppress(BrokenPipeError):
                stream.close()


def _of(error: LaptimeError, kind: str, *, traceback: str = "") -> Failure:
    return Failure(kind=kind, what=error.what, why=error.why, next=error.next, traceback=traceback)


def _environment() -> dict[str, str]:
    """The worker's environment: ours, with the folder we were started in on its import path.

    `python -m` puts the current folder on the path already; nothing is added that would change speed.
    """
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
