"""The clocks themselves: the smallest step they make and what one reading costs, both measured."""

import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from laptime.kit import system_files
from laptime.records.series import read_metrics

METRICS = read_metrics("""
timer/step s lower timer step
    Smallest difference between two readings of a clock.
    Lies when: Reading takes longer than the clock's own step: then it is the time of a reading.
timer/cost s lower timer cost
    Time that one reading of a clock takes, called from Python.
    Lies when: Another process held the CPU; the best of several loops is taken against that.
""")


class Timer(NamedTuple):
    """One clock of this machine, in seconds."""

    name: str  # perf_counter (wall time) or process_time (CPU time of the process)
    step: float  # smallest difference seen between two successive readings
    cost: float  # one reading, called from a Python loop


def timers() -> list[Timer]:
    """Step and cost of the wall and CPU clocks; takes about 10 ms."""
    clocks = {"perf_counter": time.perf_counter, "process_time": time.process_time}
    return [Timer(name, step_of(clock), cost_of(clock)) for name, clock in clocks.items()]


def step_of(clock: Callable[[], float], tries: int = 2000) -> float:
    """Seconds of the smallest step in `tries` readings; of the first step when it takes more of them."""
    smallest = float("inf")
    for _ in range(tries):
        before, after = clock(), clock()  # nothing between the two readings
        if after > before:
            smallest = min(smallest, after - before)
    before = clock()
    while smallest == float("inf"):  # a clock coarser than all the pairs
        smallest = (clock() - before) or smallest
    return smallest


def cost_of(clock: Callable[[], float], calls: int = 1000) -> float:
    """Seconds of one reading from a Python loop, the loop included; best of five."""

    def once() -> float:
        started = time.perf_counter()
        for _ in repeat(None, calls):
            clock()
        return (time.perf_counter() - started) / calls

    return min(once() for _ in range(5))


def clock_source(root: str = "/") -> str | None:
    """Hardware behind the kernel's clock: tsc, kvm-clock, arch_sys_counter, hpet ...; None when hidden."""
    return system_files.text(Path(root) / "sys/devices/system/clocksource/clocksource0/current_clocksource")
