"""Trials of a user's script: a process each, followed while it runs, and ended with all that it has started.

with start(words, python=..., plan=plan, timeout=600) as trial:
    for block in trial.blocks():        # as they end
        ...
    outcome = trial.finished()          # stopped, and how it went
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from typing import TypeVar

from laptime.launch import hooked_script
from laptime.launch.process import (
    Process,
    deferred_signals,
    ending,
    last_line,
    tail,
    unwound_by_sigterm,
)
from laptime.tuning import wire_format
from laptime.tuning.trial.messages import TEMPORARY, VARIABLE, Block, Messages, TrialPlan, TrialResult

_Document = TypeVar("_Document")
LOOK = 0.02
"""Seconds between two looks for new blocks."""
GRACE = 10.0
"""Seconds that a script gets to end by itself."""
LONGEST_SOCKET, SOCKET = 100, 35
"""Bytes of a UNIX socket's path (104 to 108, unix(7)), and what multiprocessing adds to the folder."""


class RunningTrial(ABC):
    """A trial that was started, in a process of its own or in this one.

    Attributes:
        hung: it took longer than it may, and was ended.
    """

    def __init__(self, folder: str | Path) -> None:
        self.hung = False
        self._messages = Messages(folder)

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Blocks of timed steps as they end, until the trial does."""

    @abstractmethod
    def finished(self) -> TrialResult:
        """Its own account; it is stopped where it still runs."""

    def last_words(self) -> str:
        """How it ended, where it left no account."""
        return "it ended without an account"

    def wait(self) -> None:
        """Until it has ended, or its timeout has passed."""
        for _ in self.blocks():
            pass

    def document(self, kind: type[_Document]) -> _Document | None:
        """The last `LoopProfile` or `NumericsComparison` that it has written, None without one."""
        return self._messages.latest(kind)


class Running(RunningTrial):
    """A process. Beyond `timeout` seconds it is ended, and `hung` is set.

    Attributes:
        folder: where it writes. status: exit status once it has ended; negative is a signal.
    """

    def __init__(self, process: Process, folder: Path, timeout: float) -> None:
        super().__init__(folder)
        self.process, self.folder, self.timeout = process, folder, timeout
        self.status: int | None = None

    def blocks(self) -> Iterator[Block]:
        while True:
            yield from self._messages.new_blocks()
            if self.process.poll() is not None:
                yield from self._messages.new_blocks()
                return
            if self.process.seconds > self.timeout:
                self.hung = True
                self._end()
                return
            self.process.ends_within(LOOK)

    def stop(self) -> None:
        """Ask it to end after its current step, and end it."""
        if self.process.poll() is None:
            (self.folder / "stop").touch()
            self.process.ends_within(min(GRACE, self.timeout - self.process.seconds))
        self._end()

    def _end(self) -> None:
        self.status = self.process.end(grace=1.0)

    def finished(self) -> TrialResult:
        """The result of the trial, which is stopped; of one that left none, how its process ended."""
        self.stop()
        result = self._messages.latest(TrialResult)
        return result or TrialResult(ended="died", status=self.status or 0, error=self.last_words())

    def output(self) -> str:
        """The end of what the script has printed."""
        return tail(self.folder / "output")

    def last_words(self) -> str:
        """How the process ended: its signal, or its status and the last line of its output."""
        status = self.status or 0
        line = last_line(self.output()) if status >= 0 else ""
        return f"{ending(status)}: {line}" if line else ending(status)


@contextmanager
def start(
    words: list[str], *, python: str, plan: TrialPlan, timeout: float, variables: dict[str, str] | None = None
) -> Iterator[Running]:
    """Start a trial; it is ended, with all of its children, when the block is left."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**(variables or {}), VARIABLE: wire_format.encode(plan), **_temporary(folder)}
    with unwound_by_sigterm(), deferred_signals() as release:
        with (folder / "output").open("wb") as output:
            process = hooked_script.start(
                "laptime.tuning.trial",
                words,
                python=python,
                folder=folder,
                variables=environ,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
            )
        running = Running(process, folder, timeout)
        try:
            release()
            yield running
        finally:
            running._end()


def _temporary(folder: Path) -> dict[str, str]:
    """Where temporary files of a session's trials go: what killed workers and launchers leave goes with it.

    Paths of sockets are short by definition: where one would not fit, they stay in the usual place. So does
    what torch.compile keeps for all programs of this user, headers that take half a minute to precompile.
    """
    place = (folder.parent / "tmp").absolute()
    if len(str(place)) + SOCKET > LONGEST_SOCKET:
        return {}
    place.mkdir(exist_ok=True)
    usual = tempfile.gettempdir()
    for cache in Path(usual).glob("torchinductor_*"):
        with suppress(OSError):  # it is linked already
            (place / cache.name).symlink_to(cache)
    return {"TMPDIR": str(place), TEMPORARY: usual}
