"""CPU time of everything but the measured program: what the others used while a block was measured.

A sample that waited for a CPU does not say who had it: a program with more threads than CPUs, or with child
processes, waits for itself. The machine's busy time less the program's own tells the two apart.

Other programs that use the CPUs now, sampled over a moment."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from laptime.kit import system_files
from laptime.kit.clock import Clock, SystemClock
from laptime.probes import TimedBlock
from laptime.records.series import Series, read_metrics

METRICS = OTHERS, OF_PROGRAMS = read_metrics("""
disturbance/others 1 lower CPUs used by others
    CPU time of the whole machine less that of the measured process and its children, over the time of the
    sample's block.
    Lies when: It covers CPUs that the process may not use; the kernel counts in ticks of 10 ms, so a
    block of half a second is known to 0.02 of a CPU for each CPU. Children that left the program
    (daemons) count as others, and so do all children if the kernel keeps no list of them.
load/others 1 lower CPUs used by other programs
    CPU time of all other visible programs divided by the time it was sampled over.
    Lies when: A container sees only its own programs; programs shorter than the sample are missed.
""")


def watch(device: str, clock: Clock) -> "OthersWatch | None":
    """CPUs that others use during each block; None on a scripted machine, which has no others."""
    return OthersWatch(clock) if clock is SystemClock else None


class OthersMeter:
    """The machine's busy time since it was made, less that of this process and its children."""

    def __init__(self, clock: Clock = SystemClock) -> None:
        self._clock, self._busy = clock, busy()
        self._cpu, self._now = clock.cpu() + children(), clock.now()

    def cpus(self) -> float | None:
        """The mean number of CPUs that others used; ticks of 10 ms can make it a little negative.

        None if the kernel does not say."""
        busy_now = busy()
        span = self._clock.now() - self._now
        if busy_now is None or self._busy is None or span <= 0:
            return None
        own = self._clock.cpu() + children() - self._cpu
        return (busy_now - self._busy - own) / span


class OthersWatch:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def begin(self) -> None:
        self._meter = OthersMeter(self._clock)

    def end(self, block: TimedBlock) -> list[Series]:
        cpus = self._meter.cpus()
        return [] if cpus is None else [block.beside(OTHERS, round(cpus, 4))]


def children(pid: int | str = "self", root: str = "/") -> float:
    """CPU seconds that the descendants of a process have used so far, those that have ended included."""
    seconds = 0.0
    for each in (pid, *system_files.children(pid, root)):
        with suppress(OSError, ValueError, IndexError):  # it has ended
            seconds += sum(_times(Path(root, "proc", str(each)))[2 if each == pid else 0 :])
    return seconds


def children_run(pid: int | str = "self", root: str = "/") -> bool:
    """Whether a descendant of a process is running, or ready to run, in this moment."""
    for child in system_files.children(pid, root):
        with suppress(OSError, IndexError):
            if Path(root, "proc", str(child), "stat").read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False


def _times(process: Path) -> list[float]:
    """Seconds in user and kernel mode of a process, and the same of its children that have ended."""
    behind_name = (process / "stat").read_text().rpartition(")")[2].split()
    return [int(word) / os.sysconf("SC_CLK_TCK") for word in behind_name[11:15]]


_BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq, softirq of a `cpu` line; what guests of this machine use is in the first two."""
_STOLEN = 7


def busy(root: str = "/") -> float | None:
    """CPU seconds that all programs and the kernel used since boot, on all CPUs; None: it is not told."""
    with suppress(OSError), Path(root, "proc/stat").open("rb") as file:
        return busy_seconds(file.readline())
    return None


def busy_seconds(line: bytes) -> float | None:
    """The same from the first line of /proc/stat."""
    return _seconds(line, _BUSY)


def stolen_seconds(line: bytes) -> float | None:
    """CPU seconds that the hypervisor gave to others since boot, from the same line."""
    return _seconds(line, (_STOLEN,))


def _seconds(line: bytes, places: tuple[int, ...]) -> float | None:
    words = line.split()
    if len(words) < 9 or words[0] != b"cpu" or not all(word.isdigit() for word in words[1:9]):
        return None
    return sum(int(words[1 + place]) for place in places) / os.sysconf("SC_CLK_TCK")


# Which programs they are.


class Other(NamedTuple):
    """Another program."""

    pid: int
    name: str  # its own name, unprintable characters replaced
    cpus: float  # CPUs it used while sampled (0.5 is half of one)
    user: str = ""  # whose it is; "" when that is not told


def programs(seconds: float = 0.3, *, at_least: float = 0.02) -> list[Other]:
    """Other programs that used at least a share of a CPU, the busiest first. This one's children are ours."""
    import psutil

    this = psutil.Process()
    family = {this.pid, *(child.pid for child in this.children(recursive=True))}
    before = _cpu_times()
    started = time.perf_counter()
    time.sleep(seconds)
    after = _cpu_times()
    length = time.perf_counter() - started
    used = {
        pid: (name, (total - before[pid][1]) / length)
        for pid, (name, total) in after.items()
        if pid in before and pid not in family
    }
    busy_programs = [
        Other(pid, name, cpus, _owner(pid)) for pid, (name, cpus) in used.items() if cpus >= at_least
    ]
    return sorted(busy_programs, key=lambda program: -program.cpus)


def _owner(pid: int) -> str:
    import psutil

    with suppress(psutil.Error, KeyError):
        return _printable(psutil.Process(pid).username())
    return ""


def _cpu_times() -> dict[int, tuple[str, float]]:
    """Name and CPU seconds of every process that can be seen."""
    import psutil

    by_pid = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            by_pid[process.pid] = (_printable(process.info["name"] or "?"), times.user + times.system)
    return by_pid


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)


def on_battery() -> bool | None:
    """Whether the machine runs on its battery; None if it has none or does not say."""
    import psutil

    reader = getattr(psutil, "sensors_battery", None)
    battery = reader() if reader else None
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged
