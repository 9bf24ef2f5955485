"""A process that runs a benchmark, from outside: started, sampled, timed, ended with its children.

What it prints goes through a pipe to a file that keeps its beginning and its end, however much it is; what
it tells (child.py) is read from its events, which a crash does not take away."""

import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import IO, Any, NamedTuple

from msgspec import Struct

from laptime.edges.perfzero import child
from laptime.probes.scheduler import Evidence
from laptime.process.program import Process

PERIOD = 0.5
"""Seconds between two looks at the process. CPU time is counted in ticks of 10 ms: 2 % of such a window."""
KEEP = 2_000_000  # bytes of output kept from the beginning, and as many from the end
GRACE = 5.0
Event = dict[str, Any]


class Look(Struct, frozen=True, array_like=True):
    """The process and its children at one moment."""

    unix: float  # time of day
    # rss, vms: bytes, resident and virtual. Pages that processes share count once for each.
    rss: int
    vms: int
    cpu: float  # percent of one CPU used since the look before
    used: float = 0.0  # CPU seconds used since the first look
    waited: float = 0.0  # seconds since the first look that its threads could run, but had no CPU


class Ended(Struct, frozen=True, kw_only=True):
    """How a process went."""

    status: int | None  # exit status; negative is a signal; None when it was ended by us
    hung: bool  # it was ended because its time was over
    events: list[Event]  # what it told, by name, each with the time of day
    looks: list[Look]  # seen from outside, every half second
    printed: int  # bytes of output, of which the log keeps what there is room for
    seconds: float  # from start to end
    # seconds in between in which the container's CPU quota stopped it; None: it is not told
    throttled: float | None = None

    def event(self, name: str) -> Event | None:
        """The first event of this name."""
        return next((event for event in self.events if event.get("event") == name), None)

    @property
    def span(self) -> tuple[Event | None, Event | None]:
        """The events of the method's begin and of its end, whether it raised or not."""
        return self.event("started"), self.event("ended") or self.event("raised")


def run(
    request: dict[str, Any],
    folder: Path,
    *,
    python: str,
    timeout: float,
    environ: dict[str, str] | None = None,
    echo: bool = False,
    log: str = "perfzero.log",
    tick: Callable[[float], None] = lambda seconds: None,
) -> Ended:
    """Carry out one request (see child.py) in a fresh process; its output goes to `folder/log`.
    echo: pass the output through to standard error as well. tick: called at every look with the seconds since
    the start."""
    request_file, events_file = folder / ".request.json", folder / ".events.jsonl"
    events_file.unlink(missing_ok=True)
    request_file.write_text(json.dumps({**request, "events": str(events_file.resolve())}))
    throttled_before = _read_throttled()
    process = Process(
        [python or sys.executable, child.__file__, str(request_file.resolve())],
        marked=True,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(environ or {})},
    )
    assert process.stdout is not None
    output = _Output(process.stdout, folder / log, echo=echo)
    watch = _Watch(process.pid)
    hung = False
    try:
        while not process.ends_within(min(PERIOD, left := timeout - process.seconds)):
            if hung := left <= 0:
                break
            watch.look()
            tick(process.seconds)
    finally:
        seconds = process.seconds
        if hung and hasattr(signal, "SIGUSR1"):
            process.send_signal(signal.SIGUSR1)  # faulthandler writes all stacks to the log
            process.ends_within(0.5)
        process.end(grace=GRACE)
        printed = output.close()
        events = _events(events_file)
        for path in (request_file, events_file):
            path.unlink(missing_ok=True)
    return Ended(
        status=None if hung else process.returncode,
        hung=hung,
        events=events,
        looks=watch.looks,
        printed=printed,
        seconds=seconds,
        throttled=None if throttled_before is None else (_read_throttled() or 0.0) - throttled_before,
    )


def _events(file: Path) -> list[Event]:
    events = []
    with suppress(OSError):
        for line in file.read_bytes().splitlines():
            with suppress(ValueError):  # the last line of a killed process may be cut
                event = json.loads(line)
                if isinstance(event, dict):
                    events.append(event)
    return events


def _read_throttled() -> float | None:
    """Seconds in which the CPU quota has stopped this container so far."""
    with Evidence() as evidence:
        return evidence.read().throttled_s


class _Seen(NamedTuple):
    """CPU seconds of a process when it was last looked at; the look began at `at`."""

    at: float
    cpu: float


class _Watch:
    """Looks at a process and its children."""

    def __init__(self, pid: int) -> None:
        self.looks: list[Look] = []
        self._pid = pid
        self._seen: dict[Any, _Seen] = {}
        self._waits: dict[tuple[int, str], int] = {}
        self._at = time.monotonic()
        self._used = self._waited = 0.0

    def look(self) -> None:
        """One look; nothing is noted when the process is gone."""
        import psutil

        began = time.monotonic()
        try:
            first = psutil.Process(self._pid)
            family = [first, *first.children(recursive=True)]
        except psutil.Error:
            return
        rss = vms = 0
        percent = 0.0
        for each in family:
            with suppress(psutil.Error):
                at = time.monotonic()
                memory, times = each.memory_info(), each.cpu_times()
                rss, vms = rss + memory.rss, vms + memory.vms
                now = _Seen(at, float(times.user + times.system))
                before = self._seen.get(each, _Seen(self._at, 0.0))
                self._seen[each] = now
                used = max(0.0, now.cpu - before.cpu)
                self._used += used
                percent += 100.0 * used / max(time.monotonic() - before.at, 1e-3)
            self._wait(each.pid)
        # Ticks of 10 ms can make it a little more than there is.
        percent = min(percent, 100.0 * (os.cpu_count() or 1))
        self.looks.append(Look(time.time(), rss, vms, percent, self._used, self._waited * 1e-9))
        self._at = began

    def _wait(self, pid: int) -> None:
        """Add what the threads of a process have waited since the look before (Linux)."""
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    waited = int((thread / "schedstat").read_text().split()[1])
                    self._waited += max(0, waited - self._waits.get((pid, thread.name), 0))
                    self._waits[pid, thread.name] = waited


class _Output:
    """A thread that empties the pipe: the file gets the first bytes, and at the end the last ones."""

    def __init__(self, pipe: IO[bytes], path: Path, *, echo: bool) -> None:
        self._pipe, self._path, self._echo = pipe, path, echo
        self._size = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._thread = threading.Thread(target=self._empty, name="laptime-output", daemon=True)
        self._thread.start()

    def close(self) -> int:
        """Wait for the rest; bytes that came. A grandchild that holds the pipe open is not waited for."""
        self._thread.join(GRACE)
        return self._size

    def _empty(self) -> None:
        descriptor = self._pipe.fileno()
        with self._path.open("wb", buffering=0) as file:
            while part := os.read(descriptor, 1 << 16):
                room = max(0, KEEP - self._size)
                self._size += len(part)
                self._write(file, part[:room])
                if tail := part[room:]:
                    self._tail.append(tail)
                    self._tail_size += len(tail)
                    while self._tail_size - len(self._tail[0]) >= KEEP:
                        self._tail_size -= len(self._tail.popleft())
                if self._echo:
                    sys.stderr.write(part.decode("utf-8", "replace"))
            skipped = self._size - KEEP - self._tail_size
            if skipped > 0:
                self._write(file, f"\n... {skipped:,} bytes left out ...\n".encode())
            self._write(file, b"".join(self._tail))
        self._pipe.close()

    def _write(self, file: Any, data: bytes) -> None:
        with suppress(OSError):  # a full disk: the pipe is emptied all the same, or the benchmark would wait
            file.write(data)
