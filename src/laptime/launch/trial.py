"""Trials of a user's script: one process each, followed while it runs, never left behind.

with start(words, python=..., plan=plan, timeout=600) as trial:
    for block in trial.blocks():        # as they end
        ...
    found = trial.finished()            # stopped, and how it went
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from laptime.launch.hooked import environment
from laptime.tuning.trial.plan import TEMPORARY, VARIABLE, Plan
from laptime.tuning.trial.result import Block, Trial

LOOK = 0.02
"""Seconds between two looks at what a trial has written."""
GRACE = 10.0
"""Seconds that a script may take to end after it was told to."""
LONGEST_SOCKET, SOCKET = 100, 35
"""Bytes of a UNIX socket's path (104 to 108, unix(7)), and what multiprocessing adds to the folder."""
TAIL = 4000
"""Bytes of a failed script's output that are kept."""


@dataclass
class Running:
    """A trial that was started.

    Attributes:
        folder: where it writes. hung: it was ended for its silence or its length.
        status: exit status once it has ended; negative is a signal.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    timeout: float
    began: float = field(default_factory=time.monotonic)
    hung: bool = False
    status: int | None = None
    _read: int = 0

    def blocks(self) -> Iterator[Block]:
        """Blocks as they end, until the trial does. A trial beyond its timeout is ended, `hung` says so."""
        while True:
            yield from self._new_blocks()
            if self.process.poll() is not None:
                yield from self._new_blocks()
                return
            if time.monotonic() > self.began + self.timeout:
                self.hung = True
                self._end()
                return
            time.sleep(LOOK)

    def _new_blocks(self) -> list[Block]:
        path = self.folder / "rounds.jsonl"
        try:
            with path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [msgspec.json.decode(line, type=Block) for line in whole.splitlines()]

    def wait(self) -> None:
        """Until it has ended, or its timeout has passed."""
        for _ in self.blocks():
            pass

    def stop(self) -> None:
        """Tell it to end at its next boundary, and see to it."""
        if self.process.poll() is None:
            (self.folder / "stop").touch()
            until = min(time.monotonic() + GRACE, self.began + self.timeout)
            while self.process.poll() is None and time.monotonic() < until:
                time.sleep(LOOK)
        self._end()

    def _end(self) -> None:
        """No process of its group is left."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=1.0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.status = self.process.wait()

    def finished(self) -> Trial:
        """How it went; of a process that died without a word, what is known from outside."""
        self.stop()
        try:
            return msgspec.json.decode((self.folder / "trial.json").read_bytes(), type=Trial)
        except (OSError, msgspec.MsgspecError):
            return Trial(ended="died", status=self.status or 0, error=self.last_words())

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON document that it has left, None without."""
        try:
            found: dict[str, Any] = msgspec.json.decode((self.folder / name).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        return found

    def output(self) -> str:
        """The end of what the script has printed."""
        try:
            with (self.folder / "output").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def last_words(self) -> str:
        """What there is to say of a script that ended without a word of ours: its signal, or its last
        line."""
        lines = [line for line in self.output().splitlines() if line.strip()]
        if self.status is not None and self.status < 0:
            with suppress(ValueError):
                return f"ended by {signal.Signals(-self.status).name}"
        return f"status {self.status}: {lines[-1]}" if lines else f"ended with status {self.status}"


@contextmanager
def start(
    words: list[str], *, python: str, plan: Plan, timeout: float, variables: dict[str, str] | None = None
) -> Iterator[Running]:
    """Start a trial; it is ended, with all of its children, when the block is left."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    given = {**(variables or {}), VARIABLE: plan.text(), **_temporary(folder)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [python, "-m", "laptime.tuning.trial", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(folder, python, "laptime.tuning.trial", given),
            process_group=0,
        )
    running = Running(process, folder, timeout)
    with _ended_by_signals():
        try:
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


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM unwinds us as Ctrl-C does, so that no trial outlives a killed session."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, unwind)
    except ValueError:  # not the main thread: its owner has to see to it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
