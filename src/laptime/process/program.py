"""Programs that laptime starts: each leads a process group of its own, which ends as a whole."""

import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

from laptime.kit.system_files import children

MARK = "LAPTIME_MARK_"  # environment variables begin so by which programs outside their group are found
TAIL = 4000  # bytes of a program's output that are kept of one that failed


class Process(subprocess.Popen[bytes]):
    """A program in a process group of its own: Ctrl-C is for laptime, which ends its programs in order. No
    shell reads its words; options are those of `subprocess.Popen`.

    keeps_terminal: the program may use laptime's terminal; else it has none. marked: what it starts ends with
    it even if it has left the group: all of them carry a mark in their environment."""

    def __init__(
        self, words: Sequence[str], *, keeps_terminal: bool = False, marked: bool = False, **options: Any
    ) -> None:
        self._is_ended, self._left = False, list[int]()
        self._began = time.monotonic()
        self._mark = f"{MARK}{secrets.token_hex(8).upper()}" if marked else ""
        if self._mark:
            options["env"] = {**(options.get("env") or os.environ), self._mark: "1"}
        group: dict[str, Any] = {"process_group": 0} if keeps_terminal else {"start_new_session": True}
        super().__init__(words, **group, **options)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def ends_within(self, seconds: float, watch: "FileWatch | None" = None) -> bool:
        """Whether it ends within so many seconds; blocks, where `Popen.wait` looks twenty times a second.
        watch: waiting ends when it has something to tell, too."""
        if self.poll() is not None:  # its number may be somebody else's by now
            return True
        seconds = max(0.0, seconds)
        if (descriptor := self.descriptor()) is None:
            with suppress(subprocess.TimeoutExpired):
                self.wait(seconds)
        else:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if watch is not None and watch.descriptor is not None:
                poll.register(watch.descriptor, select.POLLIN)
            try:
                poll.poll(seconds * 1000)
            finally:
                os.close(descriptor)
        return self.poll() is not None

    def descriptor(self) -> int | None:
        """A descriptor that can be read from once it has ended; None on systems that have none."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # no Linux, an old one, or another thread has waited for it
            return None

    def send(self, number: int) -> None:
        """Send a signal to the whole group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def pause(self) -> list[int]:
        """Make it stand still with all that it has started, until `resume`; those that left its group."""
        self.send(signal.SIGSTOP)
        for pid in children(self.pid):
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, signal.SIGSTOP)
                    self._left.append(pid)
        return self._left

    def resume(self) -> None:
        """Let it go on after a `pause`."""
        self._to_those_that_left(signal.SIGCONT)
        if self.poll() is None:
            self.send(signal.SIGCONT)

    def _to_those_that_left(self, number: int) -> None:
        """A signal to those outside the group that stand still: no other program has got their numbers."""
        for pid in self._left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        self._left.clear()

    def end(self, *, grace: float = 0.0, first: int = signal.SIGTERM) -> int:
        """Kill the whole group; the exit status. Safe to call twice. grace: seconds that the program gets to
        end by itself after the signal `first`.

        The group outlives the program that leads it: loaders and servers that it has left end here, too."""
        try:
            if grace and self.poll() is None:
                self.send(first)
                self.send(signal.SIGCONT)  # one that stands still hears nothing else
                self.ends_within(grace)
        finally:
            if not self._is_ended:  # once: the group's number may be somebody else's later
                self._is_ended = True
                self.send(signal.SIGKILL)
                self._to_those_that_left(signal.SIGKILL)
            status = self.wait()
            if self._mark:
                _end_marked(self._mark)
                self._mark = ""
        return status


def _end_marked(mark: str) -> None:
    """Kill all programs with a mark in their environment; again, if one was just about to start another.

    One that empties its environment when it starts a program is out of reach."""
    import psutil

    for _ in range(3):
        marked = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if mark in process.environ():
                    process.kill()
                    marked.append(process)
        if not marked:
            return
        psutil.wait_procs(marked, timeout=0.2)


class Guard:
    """Kills programs once this process is gone, however it went: those that stand still notice nothing.

    A process of its own that nobody stops; it waits for the end of a pipe."""

    _WORDS = 'while read -r it; do all="$all $it"; done; kill -s KILL -- $all'

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", self._WORDS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def add(self, *pids: int) -> None:
        """Guard processes; a negative number is a group."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("".join(f"{pid}\n" for pid in pids).encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """They have ended in order. Safe to call twice."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


class FileWatch:
    """Wakes whoever waits when a file grows, or another one is made in its folder (inotify, Linux).
    descriptor: can be read from when that has happened since `discard`; None: this system does not say."""

    _MODIFIED, _CREATED = 0x2, 0x100  # inotify(7)

    def __init__(self, path: Path) -> None:
        import ctypes

        self.descriptor: int | None = None
        try:
            library = ctypes.CDLL(None)
            descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (AttributeError, OSError):
            return
        watched = ((path, self._MODIFIED), (path.parent, self._CREATED))
        if descriptor >= 0:
            self.descriptor = descriptor
            if any(
                library.inotify_add_watch(descriptor, os.fsencode(of), event) < 0 for of, event in watched
            ):
                self.close()

    def discard(self) -> None:
        """Discard signals that have arrived so far."""
        if self.descriptor is not None:
            with suppress(BlockingIOError):
                while os.read(self.descriptor, 1 << 16):
                    pass

    def close(self) -> None:
        """Watch no longer. Safe to call twice."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class LastWords(NamedTuple):
    """How a program ended. status: exit status; negative is a signal; None: it is no program that was started
    here. output: the end of what it has printed. note: what it did, if we had to end it."""

    status: int | None
    output: str
    note: str = ""

    @property
    def how(self) -> str:
        """`was ended by SIGKILL` or `ended with status 3`."""
        return self.note or ending(self.status or 0)

    @property
    def line(self) -> str:
        """The last line that it has printed, "" without."""
        return last_line(self.output)

    @property
    def signal(self) -> str:
        """The signal that ended it; "" if none did, or if it was ours."""
        return "" if self.note else signal_name(self.status or 0)

    @property
    def sentence(self) -> str:
        """How it ended; the last line of one that was not killed."""
        return f"{self.how}: {self.line}" if self.line and not self.signal else self.how


def tail(output: Path | IO[bytes], size: int = TAIL) -> str:
    """The last `size` bytes of what a program has printed into a file; "" if it cannot be read."""
    if isinstance(output, Path):
        with suppress(OSError), output.open("rb") as file:
            return tail(file, size)
    elif not output.closed:
        output.seek(max(0, output.seek(0, os.SEEK_END) - size))
        return output.read().decode(errors="replace")
    return ""


def last_line(output: str) -> str:
    """The last line that is not empty, "" without."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")


def signal_name(status: int) -> str:
    """The signal that ended a program, by its exit status; "" if none did."""
    if status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def ending(status: int) -> str:
    """Say how a program ended: `was ended by SIGKILL` or `ended with status 3`."""
    name = signal_name(status)
    return f"was ended by {name}" if name else f"ended with status {status}"


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does, so that no program outlives a killed laptime."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, unwind)
    except ValueError:  # not the main thread, which alone may set handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def deferred_signals() -> Iterator[Callable[[], None]]:
    """Ctrl-C and SIGTERM wait until the function that this gives is called, or the block is left.

    A program that was just started is nobody's until somebody holds it in a `try`: in between, they would
    leave it behind."""
    came: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        came.append(number)

    try:
        before = {number: signal.signal(number, later) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, which alone may set handlers
        yield lambda: None
        return

    def release() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        before.clear()
        if came:
            signal.raise_signal(came.pop())

    try:
        yield release
    finally:
        release()
