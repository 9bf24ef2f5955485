"""Trials of a user's script: a process each, followed while it runs, and ended with all that it has started.

with start(words, python=..., plan=plan, timeout=600) as trial:
    for block in trial.blocks():        # as they end
        ...
    outcome = trial.finish()            # stopped, and how it went

A trial starts in a fresh interpreter, or is forked from one that has imported what trials of the script
import; decision 0020 says where that is sound."""

from __future__ import annotations

import json
import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, TimeoutExpired
from typing import Any, TypeVar

from laptime.kit.text import from_here
from laptime.launch import script
from laptime.process.peer import Gone, Peer, Silent
from laptime.process.program import FileWatch, LastWords, Process, deferred_signals, tail, unwound_by_sigterm
from laptime.tuning import wire_format
from laptime.tuning.patch.files import is_foreign
from laptime.tuning.trial import watched
from laptime.tuning.trial.messages import FILE, TEMPORARY, VARIABLE, Block, Messages, TrialPlan, TrialResult

PREPARED = "laptime.tuning.trial.prepared"
LONGEST_START = 120.0  # seconds that importing may take
ANSWER = 10.0  # seconds that a fork may take
_Document = TypeVar("_Document")
MODULE = "laptime.tuning.trial"  # runs the script
LOOK = 0.02  # seconds between two looks for new blocks, on systems that do not say of them
GRACE = 10.0  # seconds that a script gets to end by itself
LONGEST_SOCKET, SOCKET = 100, 35
"""Bytes of a UNIX socket's path (104 to 108, unix(7)), and what multiprocessing adds to the folder."""
MENDS = {
    "ScalarType BFloat16": "; `.float()` in front of `.numpy()` there would let it run",
    "view size is not": "; `.reshape` in place of `.view` there would let it run",
}
"""What lets a script run that crashes under a change, by what the error says."""
LONGEST_ERROR = 200  # characters of an error that are told: some print a whole tensor


def crash(result: TrialResult) -> str:
    """The error of a script in a line, the user's line that it came from, and what would mend that line."""
    error = " ".join(result.error.split())
    frames = re.findall(r'File "(.+)", line (\d+)', result.traceback)
    own = [f" at {from_here(file)}:{line}" for file, line in frames if not is_foreign(Path(file))]
    mend = next((text for sign, text in MENDS.items() if sign in error), "")
    short = error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]}..."
    return short + (own[-1] if own and error else "") + mend


class RunningTrial(ABC):
    """A trial that was started, in a process of its own or in this one. hung: it took longer than it may, and
    was ended. is_forked: from a prepared interpreter."""

    is_forked = False

    def __init__(self, folder: str | Path) -> None:
        self.hung = False
        self._messages = Messages(folder)

    @property
    def child_trains(self) -> bool:
        """Whether an optimizer has stepped in a process that the script has started; then it was ended."""
        return False

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Blocks of timed steps as they end, until the trial does."""

    @abstractmethod
    def finish(self) -> TrialResult:
        """Return its own result; it is stopped if it still runs."""

    def last_words(self) -> str:
        """Say how it ended, where it left no account."""
        return "it ended without a result"

    def wait(self) -> None:
        """Until it has ended, or its timeout has passed."""
        for _ in self.blocks():
            pass

    def document(self, kind: type[_Document]) -> _Document | None:
        """The last `LoopProfile` or `NumericsComparison` that it has written, None without one."""
        return self._messages.latest(kind)


class Running(RunningTrial):
    """A process. Beyond `timeout` seconds it is ended, and `hung` is set. folder: where it writes. status:
    exit status once it has ended; negative is a signal."""

    def __init__(self, process: Process, folder: Path, timeout: float) -> None:
        super().__init__(folder)
        self.is_forked = isinstance(process, ForkedProcess)
        self.process, self.folder, self.timeout = process, folder, timeout
        self.status: int | None = None
        (folder / FILE).touch()
        self._watch = FileWatch(folder / FILE)

    def blocks(self) -> Iterator[Block]:
        while True:
            self._watch.discard()
            yield from self._messages.new_blocks()
            if self.process.poll() is not None:
                yield from self._messages.new_blocks()
                return
            self.hung = self.process.seconds > self.timeout
            if self.hung or self.child_trains:
                self._end()
                return
            left = self.timeout - self.process.seconds
            self._ends_within(left)

    @property
    def child_trains(self) -> bool:
        return (self.folder / watched.FILE).exists()

    def stop(self) -> None:
        """Ask it to end after its current step, and end it; a single process once its account is there."""
        until = self.process.seconds + min(GRACE, self.timeout - self.process.seconds)
        (self.folder / "stop").touch()
        while (left := until - self.process.seconds) > 0:
            self._watch.discard()
            result = self._messages.latest(TrialResult)
            if (result is not None and result.world == 1) or self._ends_within(left):
                break
        self._end()

    def _ends_within(self, seconds: float) -> bool:
        """Whether it ends within so many seconds; sooner where something may have been written."""
        return self.process.ends_within(
            min(seconds, LOOK) if self._watch.descriptor is None else seconds, self._watch
        )

    def _end(self) -> None:
        self.status = self.process.end(grace=1.0)
        self._watch.close()

    def finish(self) -> TrialResult:
        """The result of the trial, which is stopped; of one that left none, how its process ended."""
        self.stop()
        result = self._messages.latest(TrialResult)
        return result or TrialResult(ended="died", status=self.status or 0, error=self.last_words())

    def last_words(self) -> str:
        """Say how the process ended: its signal, or its status and the last line of its output."""
        return LastWords(self.status or 0, tail(self.folder / "output")).sentence


@contextmanager
def start(
    words: list[str],
    *,
    python: str,
    plan: TrialPlan,
    timeout: float,
    variables: dict[str, str] | None = None,
    prepared: PreparedInterpreter | None = None,
) -> Iterator[Running]:
    """Start a trial; it is ended, with all of its children, when the block is left. prepared: forks it; None:
    a fresh interpreter. Raises NotPrepared: it cannot be forked."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**(variables or {}), VARIABLE: wire_format.encode(plan), **_temporary(folder)}
    with unwound_by_sigterm(), deferred_signals() as release:
        process: Process
        output = folder / "output"
        if prepared is not None:
            process = prepared.fork(words, script.environment(folder, python, MODULE, environ), output)
        else:
            place: Any = {"python": python, "folder": folder, "variables": environ}
            with output.open("wb") as file:
                process = script.start(MODULE, words, **place, stdin=DEVNULL, stdout=file, stderr=STDOUT)
        running = Running(process, folder, timeout)
        try:
            release()
            yield running
        finally:
            running._end()


def prepare(
    folder: Path, *, python: str, modules: Sequence[str], variables: dict[str, str]
) -> PreparedInterpreter:
    """An interpreter that forks the trials of a session whose folder this is."""
    own = folder / "prepared"
    own.mkdir(exist_ok=True)
    environ = script.environment(own, python, MODULE, {**variables, **_temporary(own)})
    return PreparedInterpreter(python, modules, environ)


def _temporary(folder: Path) -> dict[str, str]:
    """Where temporary files of a session's trials go: what killed workers and launchers leave goes with it.

    Paths of sockets are short by definition: if one would not fit, they stay in the usual place. So does
    what torch.compile keeps for all programs of this user, headers that take half a minute to precompile."""
    place = (folder.parent / "tmp").absolute()
    if len(str(place)) + SOCKET > LONGEST_SOCKET:
        return {}
    place.mkdir(exist_ok=True)
    usual = tempfile.gettempdir()
    for cache in Path(usual).glob("torchinductor_*"):
        with suppress(OSError):  # it is linked already
            (place / cache.name).symlink_to(cache)
    return {"TMPDIR": str(place), TEMPORARY: usual}


# Trials that are forked.


class NotPrepared(Exception):
    """No trial can be forked; the text says why."""


class PreparedInterpreter:
    """The interpreter, started at once; `fork` waits until it has imported."""

    def __init__(self, python: str, modules: Sequence[str], environ: dict[str, str]) -> None:
        words = [python, "-m", PREPARED, *modules]
        self._peer = Peer.start(words, keeps_terminal=True, env=environ, stderr=DEVNULL)
        self._is_ready = False
        self._statuses: dict[int, int] = {}

    def fork(self, words: list[str], environ: dict[str, str], output: Path) -> ForkedProcess:
        """Begin a trial.
        Raises NotPrepared: the interpreter is gone, does not answer, or has threads of its own."""
        self.get_ready()
        request = {"words": words, "environ": environ, "output": str(output)}
        try:
            self._peer.send(json.dumps(request).encode(), ANSWER)
        except (Gone, Silent) as error:
            raise NotPrepared(f"the prepared interpreter is gone: {error}") from error
        return ForkedProcess(self._await("pid", ANSWER), self)

    def status(self, pid: int, wait: float) -> int | None:
        """The exit status of a trial; None if it has not ended within so many seconds."""
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
        """Wait until everything is imported. Raises NotPrepared: as of `fork`."""
        if not self._is_ready:
            threads = self._await("threads", LONGEST_START)
            if threads > 1:
                raise NotPrepared(f"{threads} threads run once everything is imported")
            self._is_ready = True

    def _await(self, name: str, seconds: float) -> int:
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
        """The next answer. Raises Gone: it has ended. Silent: none came within so many seconds."""
        answer: dict[str, int] = json.loads(self._peer.receive(seconds))
        if "status" in answer:
            self._statuses[answer["pid"]] = answer["status"]
        return answer


class ForkedProcess(Process):
    """A trial that was forked: its parent is the prepared interpreter, which tells how it ended."""

    def __init__(self, pid: int, interpreter: PreparedInterpreter) -> None:
        self._is_ended, self._mark, self._began = False, "", time.monotonic()
        self._left = list[int]()
        self._interpreter = interpreter
        self.pid, self.returncode = pid, None
        self.stdin = self.stdout = self.stderr = None

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        with suppress(TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when there is one. Raises TimeoutExpired: it still runs."""
        if self.returncode is None:
            self.returncode = self._interpreter.status(self.pid, 1e6 if timeout is None else timeout)
        if self.returncode is None:
            raise TimeoutExpired(f"trial {self.pid}", timeout or 0.0)
        return self.returncode
