"""Other programs that use the CPUs now, sampled over a moment."""

from __future__ import annotations

import time
from typing import NamedTuple

from laptime.records.series import Metric

METRICS = (
    Metric(
        tag="load/others",
        unit="1",
        title="CPUs used by other programs",
        better="lower",
        meaning="CPU time of all other visible programs divided by the time it was sampled over.",
        lies_when="A container sees only its own programs; programs shorter than the sample are missed.",
    ),
)


class Program(NamedTuple):
    """Another program.

    Attributes:
        cpus: CPUs it used while sampled (0.5 is half of one).
        name: its own name, unprintable characters replaced.
        user: whose it is; "" when that is not told.
    """

    pid: int
    name: str
    cpus: float
    user: str = ""


def programs(seconds: float = 0.3, *, at_least: float = 0.02) -> list[Program]:
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
        Program(pid, name, cpus, _owner(pid)) for pid, (name, cpus) in used.items() if cpus >= at_least
    ]
    return sorted(busy_programs, key=lambda program: -program.cpus)


def _owner(pid: int) -> str:
    import psutil

    try:
        return _printable(psutil.Process(pid).username())
    except (psutil.Error, KeyError):
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
    """Whether the machine runs on its battery; None where it has none or does not tell."""
    import psutil

    reader = getattr(psutil, "sensors_battery", None)
    battery = reader() if reader else None
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged
