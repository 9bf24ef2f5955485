"""The measuring loops, one a regime. Nothing is allocated, printed or decided inside a timed window.

    isolated    sync | t0 call sync t1 | t0 call sync t1 | ...      every call on its own
    saturated   sync | t0 call call call ... sync t1 |              back to back, one sync a block
    paced       wait for the schedule | call sync t1 |              latency from the scheduled time

Disturbance counters are read between samples, at most every `stretch` seconds, so that reading them costs
below 1 % of the time measured whatever the length of a call; a reading covers all samples since the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.kit.clock import Clock, SystemClock
from laptime.measure.protocol import Workload
from laptime.probes.scheduler import Evidence, Reading

Read = Callable[[], Reading]

BLOCK = 0.03
"""Seconds of one block of the saturated regime."""

PATIENCE = 4.0
"""A block ends after so many times its seconds (1 s at least), even if it has fewer calls than wished for."""

MAX_OVERHEAD = 0.01
"""Share of the measured time that reading the disturbance counters may take."""


class Tape:
    """What a loop records: columns of equal length, one row a sample.

    Attributes:
        start: seconds on the clock when the sample began (paced: when it was scheduled).
        seconds: its duration; for blocks of several calls, per call.
        cpu: CPU seconds that the process used in it, all threads; per call likewise.
        calls: calls in it.
        waited, stolen, throttled: seconds lost, read around it or its stretch; per call likewise.
            Empty when the system does not tell.
        late: paced only: seconds between the scheduled and the real start.
    """

    def __init__(self) -> None:
        self.start: list[float] = []
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.calls: list[int] = []
        self.waited: list[float] = []
        self.stolen: list[float] = []
        self.throttled: list[float] = []
        self.late: list[float] = []

    def charge(self, before: Reading, after: Reading) -> None:
        """Spread what was lost between two readings over the samples since the last charge.

        Each gets a share proportional to its duration: the share of time lost is what is known of it.
        """
        for column, was, now in (
            (self.waited, before.waited_s, after.waited_s),
            (self.stolen, before.stolen_s, after.stolen_s),
            (self.throttled, before.throttled_s, after.throttled_s),
        ):
            if was is None or now is None:
                continue
            fresh = self.seconds[len(column) :]
            if len(fresh) == 1:
                column.append((now - was) / self.calls[-1])
                continue
            total = sum(s * c for s, c in zip(fresh, self.calls[len(column) :], strict=True))
            share = (now - was) / total if total > 0 else 0.0
            column.extend(seconds * share for seconds in fresh)


def isolated(
    work: Workload,
    *,
    seconds: float,
    min_calls: int,
    max_calls: int,
    evidence: Evidence | None = None,
    clock: type[SystemClock] | Clock = SystemClock,
) -> Tape:
    """Time every call on its own: sync, call, sync."""
    tape = Tape()
    call, sync, now, cpu = _call(work), work.sync, clock.now, clock.cpu
    start, took, used, calls = (
        tape.start.append,
        tape.seconds.append,
        tape.cpu.append,
        tape.calls.append,
    )
    read, stretch = _reader(evidence)
    sync()
    before = read()
    done = 0
    t1 = now()
    end = t1 + seconds
    patience = t1 + max(1.0, PATIENCE * seconds)
    next_read = t1 + stretch
    while done < max_calls and (t1 < end or (done < min_calls and t1 < patience)):
        c0 = cpu()
        t0 = now()
        call()
        t1 = now()
        c1 = cpu()
        start(t0)
        took(t1 - t0)
        used(c1 - c0)
        calls(1)
        done += 1
        if t1 >= next_read:
            after = read()
            tape.charge(before, after)
            before = after
            next_read = now() + stretch
    tape.charge(before, read())
    return tape


def saturated(
    work: Workload,
    *,
    seconds: float,
    min_calls: int,
    max_calls: int,
    evidence: Evidence | None = None,
    clock: type[SystemClock] | Clock = SystemClock,
    estimate: float | None = None,
) -> Tape:
    """Time blocks of calls made back to back, synchronised once at the end of each block.

    A block lasts about `BLOCK` seconds. On a device it has at least three calls, so that the host can run
    ahead; where a call returns with its result there is nothing to run ahead of, and one is enough.

    Args:
        estimate: seconds of one call; measured by one more call when unknown.
    """
    tape = Tape()
    call, sync, now, cpu = work.call, work.sync, clock.now, clock.cpu
    read, _ = _reader(evidence)
    sync()
    if estimate is None:
        t0 = now()
        call()
        sync()
        estimate = now() - t0
    fewest = 1 if work.synchronous else 3
    size = int(max(1, min(max(fewest, BLOCK / max(estimate, 1e-7)), max_calls)))
    t1 = now()
    end = t1 + seconds
    patience = t1 + max(1.0, PATIENCE * seconds)
    done = 0
    while done < max_calls and (t1 < end or (done < min_calls and t1 < patience)):
        before = read()
        c0 = cpu()
        t0 = now()
        for _ in range(size):
            call()
        sync()
        t1 = now()
        c1 = cpu()
        tape.start.append(t0)
        tape.seconds.append((t1 - t0) / size)
        tape.cpu.append((c1 - c0) / size)
        tape.calls.append(size)
        tape.charge(before, read())
        done += size
    return tape


def paced(
    work: Workload,
    *,
    rate: float,
    seconds: float,
    min_calls: int,
    max_calls: int,
    evidence: Evidence | None = None,
    clock: type[SystemClock] | Clock = SystemClock,
) -> Tape:
    """Make calls at a constant rate (1/s); latency counts from the scheduled time.

    A call that the one before it delayed is late, and its waiting is part of its latency: leaving it out
    would be coordinated omission (MLPerf LoadGen counts the same way). The wait is a sleep, then a short
    spin, because a sleep alone wakes up to a millisecond late.
    """
    tape = Tape()
    call, now, cpu = _call(work), clock.now, clock.cpu
    read, _ = _reader(evidence)
    work.sync()
    before = read()
    period = 1.0 / rate
    first = now() + min(period, 0.01)
    total = max(min_calls, min(max_calls, int(seconds * rate)))
    for index in range(total):
        due = first + index * period
        _wait_until(due, clock)
        c0 = cpu()
        t0 = now()
        call()
        t1 = now()
        tape.start.append(due)
        tape.seconds.append(t1 - due)
        tape.cpu.append(cpu() - c0)
        tape.calls.append(1)
        tape.late.append(t0 - due)
        if due + period - now() > 5 * (evidence.cost if evidence else 0.0):
            after = read()
            tape.charge(before, after)
            before = after
    tape.charge(before, read())
    return tape


def _wait_until(due: float, clock: type[SystemClock] | Clock) -> None:
    spin = 0.0005
    while (left := due - clock.now()) > 0:
        if left > spin:
            clock.sleep(left - spin)


def _call(work: Workload) -> Callable[[], Any]:
    """One call that returns when its result is there."""
    if work.synchronous:
        return work.call
    run, sync = work.call, work.sync

    def call_and_sync() -> None:
        run()
        sync()

    return call_and_sync


def _reader(evidence: Evidence | None) -> tuple[Read, float]:
    if evidence is None:
        nothing = Reading(None, None, None, None)
        return lambda: nothing, float("inf")
    return evidence.read, evidence.cost / MAX_OVERHEAD
