"""Evidence of disturbance: time that the measured process lost to others, read around samples.

    waited     its threads could run but waited for a CPU        /proc/self/task/*/schedstat, field 2
    stolen     the hypervisor ran someone else on our CPUs       /proc/stat, line cpu, field 8
    missing    the calling thread never slept, and lacks CPU time    its clocks, schedstat and getrusage
    throttled  the container's CPU quota stopped it              cpu.stat of its control groups
    switches   it was taken off a CPU although it could run      getrusage

Files stay open and are read with pread: a few microseconds for all of them."""

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

from laptime.kit import system_files
from laptime.process.channel import out_of_reach
from laptime.records.series import read_metrics

METRICS = WAITED, STOLEN, MISSING, THROTTLED, SWITCHES = read_metrics("""
disturbance/waited s lower waited for a CPU
    Time in which the program's threads were ready to run but had no CPU, summed over threads.
    Lies when: The program has more threads than CPUs: then it waits for itself. Threads that ended
    between two readings are counted up to their last reading only.
disturbance/stolen s lower stolen by the hypervisor
    CPU time of this machine that its hypervisor gave to others, summed over all CPUs.
    Lies when: It counts CPUs that the program did not use, in ticks of 10 ms; some hypervisors do not
    report it (always 0).
disturbance/missing s lower CPU time missing of the calling thread
    Time in which the thread that makes the calls neither ran nor waited for a CPU, although it never went
    to sleep: the hypervisor, or an interrupt, had its CPU.
    Lies when: Only the calling thread is watched, and only while it does not sleep; on hypervisors that
    hide stolen time from their guests it is always 0.
disturbance/throttled s lower stopped by the CPU quota
    Time in which the container's CPU quota kept it from running.
    Lies when: Other processes of the same container used the quota up; version 2 groups sum over CPUs.
disturbance/switches 1 lower involuntary context switches
    How often a thread of the program was taken off its CPU although it wanted to run.
    Lies when: A switch may cost 2 us or a whole time slice; read it together with the waiting time.
""")
NOTICED = 1e-4
"""Seconds. Clocks are read one after another, with microseconds between: less is not counted as missing."""


class Reading(NamedTuple):
    """Totals since the process (for `stolen_s`: the machine) started; only differences mean anything.

    None: this system does not say."""

    waited_s: float | None
    stolen_s: float | None
    throttled_s: float | None
    switches: int | None
    missing_s: float | None = None


class Evidence:
    """Reads the counters of this process. Call it in the thread that makes the calls. cost: seconds that one
    `read` takes, the median of 25 when this object was made. threads: how many threads are being watched."""

    def __init__(self, root: str = "/") -> None:
        self._base = Path(root)
        self._threads: dict[str, int] = {}
        self._last: dict[str, int] = {}  # thread -> its last waiting time, ns
        self._gone = 0  # waiting time of threads that have ended, ns
        # Kernels without scheduler statistics write `0 0 0`, even for a thread that is running.
        words = (system_files.text(self._base / "proc/self/schedstat") or "").split()
        self._waits = len(words) == 3 and words != ["0", "0", "0"]
        self._stat, self._stolen_constant = self._open_stat()
        # Open cpu.stat of every level that has a quota; a level without one stops no process.
        levels = system_files.groups("cpu", root)
        opened = []
        for group in levels:
            if system_files.quota(group) is None:
                continue
            field = (b"throttled_usec ", 1e-6) if group.version == 2 else (b"throttled_time ", 1e-9)
            descriptor = _open(group.folder / "cpu.stat")
            if descriptor is None:
                continue
            if field[0] in os.pread(descriptor, 1024, 0):
                opened.append((descriptor, field))
            else:
                os.close(descriptor)
        self._throttles, self._throttled_constant = opened, 0.0 if levels else None
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")
        self._caller: _CallingThread | None = None
        self._missing = 0.0
        self.refresh_threads()
        durations = []
        for _ in range(25):
            started = time.perf_counter()
            self.read()
            durations.append(time.perf_counter() - started)
        self.cost = sorted(durations)[12]

    @property
    def threads(self) -> int:
        return len(self._threads)

    def refresh_threads(self, apart: frozenset[str] = frozenset()) -> None:
        """Find threads that were born or have ended since, but those `apart`, which are not the program's.
        Call it between blocks, not between samples: the waiting time of a new thread enters the next reading
        as a whole."""
        if not self._waits:
            return
        tasks = self._base / "proc/self/task"
        try:
            alive = {entry.name for entry in tasks.iterdir()} - apart
        except OSError:
            return
        for name in self._threads.keys() - alive:
            self._forget(name)
        for name in alive - self._threads.keys():
            descriptor = _open(tasks / name / "schedstat")
            if descriptor is not None:  # else: it ended in this instant
                self._threads[name] = descriptor
                self._last[name] = 0

    def read(self) -> Reading:
        waited = self._read_waited()
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return Reading(waited, self._read_stolen(), self._read_throttled(), switches, self._read_missing())

    def _read_missing(self) -> float | None:
        """CPU time that the calling thread lacks since its first reading, of the stretches without a sleep.

        A thread that gave its CPU away by itself (a sleep, a lock, a disk, a child) shows a voluntary context
        switch; what such a stretch lacks may be its own, and counts for nothing."""
        waited = self._last.get(str(threading.get_native_id()))
        if waited is None or not _TELLS_THREADS:
            return None
        was, now = self._caller, _CallingThread.read(waited)
        self._caller = now
        if was is not None and was.thread == now.thread and was.sleeps == now.sleeps:
            lost = (now.wall - was.wall) - (now.cpu - was.cpu) - (now.waited - was.waited)
            self._missing += lost if lost > NOTICED else 0.0
        return self._missing

    def _read_waited(self) -> float | None:
        if not self._waits:
            return None
        ended = None
        last = self._last
        for name, descriptor in self._threads.items():
            try:
                last[name] = int(os.pread(descriptor, 96, 0).split(None, 2)[1])
            except (OSError, IndexError):  # ESRCH: the thread has ended; what it had waited stays counted
                ended = [*(ended or ()), name]
        for name in ended or ():
            self._forget(name)
        return (sum(last.values()) + self._gone) * 1e-9

    def _read_stolen(self) -> float | None:
        if self._stat is None:
            return self._stolen_constant
        return int(os.pread(self._stat, 256, 0).split(None, 9)[8]) * self._tick

    def _read_throttled(self) -> float | None:
        if not self._throttles:
            return self._throttled_constant
        total = 0.0
        for descriptor, (name, unit) in self._throttles:
            _, _, after = os.pread(descriptor, 1024, 0).partition(name)
            total += int(after.split(None, 1)[0]) * unit
        return total

    def _forget(self, name: str) -> None:
        os.close(self._threads.pop(name))
        self._gone += self._last.pop(name)

    def _can_be_stolen_from(self) -> bool:
        """Only guests can; on bare metal with many CPUs it takes up to a millisecond to read a 0."""
        try:
            with (self._base / "proc/cpuinfo").open("rb") as file:
                head = file.read(8192)
        except OSError:
            return True
        # Only x86 has the flag; elsewhere its absence says nothing.
        return b"\nflags" not in head or b" hypervisor" in head

    def _open_stat(self) -> tuple[int | None, float | None]:
        """The open file, or else what it would say (0 on bare metal, None if there is no such file)."""
        descriptor = _open(self._base / "proc/stat")
        if descriptor is None:
            return None, None
        words = os.pread(descriptor, 256, 0).split(None, 9)
        tells = len(words) > 8 and words[0] == b"cpu" and words[8].isdigit()
        if tells and self._can_be_stolen_from():
            return descriptor, None
        os.close(descriptor)
        return None, 0.0 if tells else None

    def close(self) -> None:
        """Close the files; reading after that is a mistake."""
        for name in list(self._threads):
            self._forget(name)
        for descriptor, _ in self._throttles:
            os.close(descriptor)
        if self._stat is not None:
            os.close(self._stat)
        self._throttles, self._stat = [], None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class _CallingThread(NamedTuple):
    """Clocks of the thread that makes the calls, in seconds, and how often it went to sleep."""

    thread: int
    sleeps: int
    waited: float
    cpu: float
    wall: float

    @classmethod
    def read(cls, waited: int) -> Self:
        """Now; `waited`: its run delay in nanoseconds, read just before."""
        sleeps = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        return cls(threading.get_native_id(), sleeps, waited * 1e-9, _thread_time(), _now())


_now, _thread_time = time.perf_counter, time.thread_time
"""The clocks that judge a program: what it puts in the place of those of `time` later does not count."""
_TELLS_THREADS = sys.platform == "linux"  # whether the system counts the sleeps of a single thread


def _open(path: Path) -> int | None:
    try:
        return out_of_reach(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None
