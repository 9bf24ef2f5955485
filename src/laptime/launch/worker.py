"""A worker, asked and answered: in a fresh process, or in this one.

Commands and messages are JSON (`process.channel`). What a model prints in a process of its own is kept there
in a file, and its end is shown when something fails."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from laptime.kit.registry import load
from laptime.measure.engine import Engine, decode_command
from laptime.measure.protocol import Close, Command, Done, Failed, Load, Message, Model
from laptime.process import channel
from laptime.process.peer import SENDING, Gone, Peer, Silent, receive_any
from laptime.process.program import LastWords
from laptime.records.case import Failure
from laptime.records.plan import Variant

_decode = msgspec.json.Decoder(Message).decode
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
        Raises CommandFailed: the worker answered Failed, died, or gave no answer within `timeout` seconds;
        after the last two it is closed."""

    @property
    def alive(self) -> bool:
        """Whether the worker can still be asked."""

    def close(self) -> None:
        """End the worker. Safe to call twice."""


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
        """Ask as Worker does, but without a timeout: nothing can stop a call in this process. Nor is there a
        limit of memory: it would hold for all else here, and stay when the model is gone."""
        if isinstance(command, Load):
            command = msgspec.structs.replace(command, memory_limit=None)
        answer: list[Message] = []
        for message in self._engine.answer(command):
            if isinstance(message, Failed):
                raise CommandFailed(message.failure)
            if not isinstance(message, Done):
                answer.append(message)
        return answer

    def close(self) -> None:
        if self.alive:
            self.alive = False
            self._engine.close()


class WorkerProcess:
    """A fresh process that runs `laptime.launch.worker`.

    name: of the target, for messages. folder: to start in; None is the current one. environ: environment
    variables beside laptime's own, or instead of them. cpus: on which it runs; none: on all."""

    def __init__(
        self,
        *,
        name: str,
        python: str = sys.executable,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        cpus: Sequence[int] = (),
    ) -> None:
        self._name = name
        self._is_busy = False
        # `python -m` puts the current folder on the import path; nothing is added that would change speed.
        self._peer = Peer.start(
            [python, "-m", "laptime.launch.worker"],
            cpus=cpus,
            marked=True,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environ or {})},
        )

    @property
    def alive(self) -> bool:
        return self._peer.is_alive

    @property
    def pid(self) -> int:
        return self._peer.pid

    def start(self, command: Command) -> None:
        """Send a command without waiting: the answer is fetched with `finish`."""
        self._is_busy = True
        with self._failures(SENDING):
            self._peer.send(msgspec.json.encode(command))

    def finish(self, *, timeout: float) -> list[Message]:
        """The answer to the command that was started last."""
        answer: list[Message] = []
        with self._failures(timeout):
            for _, message in receive_any([self._peer], timeout):
                told = _decode(message)
                self._is_busy = not isinstance(told, Done | Failed)
                if isinstance(told, Done):
                    break
                if isinstance(told, Failed):
                    raise CommandFailed(told.failure)
                answer.append(told)
        return answer

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        self.start(command)
        return self.finish(timeout=timeout)

    @contextmanager
    def _failures(self, timeout: float) -> Iterator[None]:
        """Translate a channel's errors into the words that the user reads."""
        try:
            yield
        except Silent:
            self._peer.end()
            raise CommandFailed(
                Failure(
                    kind="hung",
                    what=f"{self._name} gave no answer within {timeout:g} s",
                    why="one call may take longer than that, or it waits for something that never comes",
                    next=f"--timeout {timeout * 5:g}s   if it is only slow",
                )
            ) from None
        except Gone as gone:
            raise CommandFailed(self._obituary(gone.words)) from None

    def _obituary(self, words: LastWords) -> Failure:
        """Return why the worker is gone: the signal that ended it, or its last words."""
        advice = "run the model alone with python -X faulthandler"
        why = _SIGNALS.get(words.signal, "see its last words in the traceback")
        return Failure(
            kind="died",
            what=f"the process that ran {self._name} {words.how}",
            why=why if words.signal else words.line or "it printed nothing",
            next=advice if words.signal else "a model must not end the process (sys.exit, os._exit)",
            traceback=words.output,
        )

    def close(self) -> None:
        """End the worker and all it started: politely, or at once when it is in the middle of a command.

        The latter is Ctrl-C; nobody wants to wait then."""
        if self.alive and not self._is_busy:
            with suppress(CommandFailed):
                self.ask(Close(), timeout=5.0)
                self._peer.ends_within(5.0)
        self._peer.close()


# The program that runs in a worker process: `python -m laptime.launch.worker`.


def open_variant(variant: Variant) -> Model:
    """Load a variant with the backend it names."""
    model: Model = load("backends", variant.backend).open(variant)
    return model


def import_framework(variant: Variant) -> None:
    """Import what the variant needs, so that import and load can be told apart."""
    imports = getattr(load("backends", variant.backend), "imports", None)
    if imports is not None:
        imports(variant)


def _plain(value: object) -> object:
    """Frameworks like to return their own kinds of strings and numbers."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def main() -> None:
    """Answer commands until Close, or until nobody is there to send one."""
    parent = channel.to_parent()
    own = os.getpid()
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    engine = Engine(open_variant, import_framework=import_framework)
    for sent in parent:
        command = decode_command(sent)
        for message in engine.answer(command):
            if os.getpid() != own:  # a call forked, and the child came back from it: it is nobody's worker
                os._exit(1)
            parent.send(encode(message))
        if isinstance(command, Close):
            break
    sys.stderr.flush()
    # Everything is answered and undone; taking a framework apart, object by object, takes over a second.
    os._exit(0)


if __name__ == "__main__":
    main()
