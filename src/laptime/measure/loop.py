"""The measuring loops, one a regime. Nothing is allocated, printed or decided inside a timed window.

    isolated    sync | t0 call sync t1 | t0 call sync t1 | ...      every call on its own
    saturated   sync | t0 call call call ... sync t1 |              back to back, one sync a block
    paced       wait for the schedule | call sync t1 |              latency from the scheduled time
    device      event call event call event ... sync                times that the device itself noted

Disturbance counters and CPU time are read between samples, at most every `stretch` seconds, so that this
costs below 1 % of the time measured whatever the length of a call; a reading covers all samples since the
last. Between two short calls nothing is read: even a system call outside the timed window slows the call
that follows it by about a microsecond."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from laptime.kit.clock import Clock, SystemClock
from laptime.measure.protocol import Workload
from laptime.probes.ruler import Ruler
from laptime.probes.scheduler import Evidence, Reading

Read = Callable[[], Reading]
BLOCK = 0.03  # seconds of one block of the saturated regime
PATIENCE = 4.0
"""A block ends after this many times its length (at least 1 s), even with fewer calls than asked for."""
PORTION = 256  # calls that the device times in one go
CLOCK_COST = 0.3e-6
"""Reading two clocks around a call costs about this much, in seconds; it is part of every sample."""
CLOCKS = 20  # readings of the clock, from which on they do not show in a call
REPEATED = 1.5 * CLOCKS  # a shorter call is repeated within a sample of LONG_ENOUGH: it may still get faster
LONG_ENOUGH = 60e-6
WARM = 1e-3  # seconds of calls, after which one of them shows how short they are
MAX_OVERHEAD = 0.01  # share of the measured time that reading the disturbance counters may take


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How long a loop runs: about so many seconds, so many calls at least and at most; and what is read."""

    seconds: float
    min_calls: int
    max_calls: int
    evidence: Evidence | None = None
    clock: Clock = SystemClock
    ruler: Ruler | None = None

    def ends(self, begun: float) -> tuple[float, float]:
        """When a loop that begins now has had its time, and when even one with too few calls is given up."""
        return begun + self.seconds, begun + max(1.0, PATIENCE * self.seconds)


class Tape:
    """The records of a loop: columns of equal length, one row a sample."""

    def __init__(self) -> None:
        # seconds on the clock when the sample began (paced: when it was scheduled)
        self.start: list[float] = []
        self.seconds: list[float] = []  # its duration; for blocks of several calls, per call
        self.calls: list[int] = []  # calls in it
        # CPU seconds that the process used, all threads, read around it or its stretch; per call likewise
        self.cpu: list[float] = []
        # seconds lost, likewise; empty when the system does not say
        self.waited: list[float] = []
        self.stolen: list[float] = []
        self.missing: list[float] = []
        self.throttled: list[float] = []
        # seconds of known work on the slowest CPU, just before or after the sample, whichever is longer
        self.ruler: list[float] = []
        self.late: list[float] = []  # paced only: seconds between the scheduled and the real start

    def charge(self, before: Reading, after: Reading, *, cpu: float, span: float) -> None:
        """Spread the CPU seconds and what was lost in a span of the wall clock over the samples since the
        last charge.

        Each sample gets a share proportional to its duration: only the sum is known."""
        fresh = self.seconds[len(self.cpu) :]
        use = cpu / span if span > 0 else 0.0
        self.cpu.extend(seconds * use for seconds in fresh)
        for column, was, now in (
            (self.waited, before.waited_s, after.waited_s),
            (self.stolen, before.stolen_s, after.stolen_s),
            (self.missing, before.missing_s, after.missing_s),
            (self.throttled, before.throttled_s, after.throttled_s),
        ):
            if was is not None and now is not None:
                share = (now - was) / span if span > 0 else 0.0
                column.extend(seconds * share for seconds in fresh)


class _Meter:
    """Reads the counters at the ends of a stretch and charges the difference to the samples in it.

    The ruler takes longer than the counters and is read more seldom, so that it, too, costs below 1 %.

    stretch: seconds after which the counters are read again. cost: seconds that the end of a stretch takes at
    most."""

    def __init__(self, tape: Tape, terms: Terms) -> None:
        evidence, ruler = terms.evidence, terms.ruler
        self._tape, self._now, self._cpu = tape, terms.clock.now, terms.clock.cpu
        nothing = Reading(None, None, None, None)
        self._read: Read = (lambda: nothing) if evidence is None else evidence.read
        self.stretch = float("inf") if evidence is None else evidence.cost / MAX_OVERHEAD
        self.cost = (evidence.cost if evidence else 0.0) + (ruler.cost if ruler else 0.0)
        self._ruler = ruler
        self._known = 0.0
        self._rule()
        self._before = self._read()
        self.begin()

    def begin(self) -> float:
        self._cpu_then = self._cpu()
        self._then = self._now()
        return self._then + self.stretch

    def end(self) -> float:
        """The stretch ends here, the next one begins; returns when that should end."""
        span = self._now() - self._then
        cpu = self._cpu() - self._cpu_then
        after = self._read()
        self._tape.charge(self._before, after, cpu=cpu, span=span)
        self._before = after
        if self._then + span > self._next_rule:
            self._rule()
            self._before = self._read()  # the calling thread slept while the ruler was read
        return self.begin()

    def finish(self) -> None:
        self._next_rule = -math.inf
        self.end()

    def _rule(self) -> None:
        """Read the ruler; the samples since its last reading lie between two readings."""
        if self._ruler is None:
            self._next_rule = math.inf
            return
        before, self._known = self._known, self._ruler.read()
        fresh = len(self._tape.seconds) - len(self._tape.ruler)
        self._tape.ruler.extend([max(before, self._known)] * fresh)
        self._next_rule = self._now() + self._ruler.cost / MAX_OVERHEAD


def time_isolated(work: Workload, terms: Terms, *, inside: int = 1) -> Tape:
    """Time every call on its own: sync, call, sync. inside: calls in a sample, if one is too short for
    the clock; the sample is their mean, as in `timeit`."""
    tape = Tape()
    (lay, call), now = call_of(work), terms.clock.now
    start, took = tape.start.append, tape.seconds.append
    work.sync()
    meter = _Meter(tape, terms)
    next_read = meter.begin()
    t1 = now()
    end, patience = terms.ends(t1)
    done = 0
    while done < terms.max_calls and (t1 < end or (done < terms.min_calls and t1 < patience)):
        if lay is not None:
            lay()
        t0 = now()
        if inside == 1:
            call()
        else:
            for _ in repeat(None, inside):
                call()
        t1 = now()
        start(t0)
        took((t1 - t0) / inside)
        done += 1
        if t1 >= next_read:
            next_read = meter.end()
    meter.finish()
    tape.calls = [inside] * len(tape.seconds)
    return tape


def calls_inside(work: Workload, clock: Clock = SystemClock) -> int:
    """Calls that a sample takes so that the clock does not show in it: 1 from 9 us on."""
    if getattr(work, "apart", None) or not work.synchronous:
        return 1
    times: list[float] = []
    while len(times) < 5 or (len(times) < 100 and sum(times) < WARM):  # the first ones may be far longer
        began = clock.now()
        work.call()
        times.append(clock.now() - began)
    quickest = max(min(times), CLOCK_COST)
    return 1 if quickest > REPEATED * CLOCK_COST else math.ceil(LONG_ENOUGH / quickest)


def seconds_of(work: Workload, clock: Clock = SystemClock) -> float:
    """Seconds of one call until it is done."""
    began = clock.now()
    work.call()
    work.sync()
    return clock.now() - began


def time_saturated(work: Workload, terms: Terms, *, estimate: float | None = None) -> Tape:
    """Time blocks of calls made back to back, synchronised once at the end of each block. estimate: seconds
    of one call; measured by one more call when unknown.

    A block lasts about `BLOCK` seconds. On a device it has at least three calls, so that the host can run
    ahead; if a call returns with its result there is nothing to run ahead of, and one is enough."""
    tape = Tape()
    sync, now = work.sync, terms.clock.now
    lay, call = getattr(work, "apart", None) or (None, work.call)
    sync()
    if estimate is None:
        estimate = seconds_of(work, terms.clock)
    fewest = 1 if work.synchronous else 3
    size = int(max(1, min(max(fewest, BLOCK / max(estimate, 1e-7)), terms.max_calls))) if lay is None else 1
    meter = _Meter(tape, terms)
    t1 = now()
    end, patience = terms.ends(t1)
    done = 0
    while done < terms.max_calls and (t1 < end or (done < terms.min_calls and t1 < patience)):
        if lay is not None:
            lay()
            sync()
        meter.begin()
        t0 = now()
        for _ in range(size):
            call()
        sync()
        t1 = now()
        tape.start.append(t0)
        tape.seconds.append((t1 - t0) / size)
        tape.calls.append(size)
        meter.end()
        done += size
    meter.finish()
    return tape


def time_paced(work: Workload, terms: Terms, *, rate: float) -> Tape:
    """Make calls at a constant rate (1/s); latency counts from the scheduled time.

    A call that the one before it delayed is late, and its waiting is part of its latency: leaving it out
    would be coordinated omission (MLPerf LoadGen counts the same way). The wait is a sleep, then a short
    spin, because a sleep alone wakes up to a millisecond late. Calls that come faster than they can be served
    are given up after twice the time: how fast they are served is known by then."""
    tape = Tape()
    (lay, call), clock, seconds = call_of(work), terms.clock, terms.seconds
    now = clock.now
    work.sync()
    meter = _Meter(tape, terms)
    period = 1.0 / rate
    first = now() + min(period, 0.01)
    # At a slow rate the calls wished for would take longer than anybody waits.
    fewest = min(terms.min_calls, 1 + int(max(1.0, PATIENCE * seconds) * rate))
    total = max(fewest, min(terms.max_calls, int(seconds * rate)))
    open_stretch = False
    patience = first + max(1.0, 2 * seconds)
    for index in range(total):
        due = first + index * period
        if index >= fewest and clock.now() > patience:
            break
        if lay is not None:
            lay()
        spin = 0.0005
        while (left := due - clock.now()) > 0:
            if left > spin:
                clock.sleep(left - spin)
        if not open_stretch:
            meter.begin()
            open_stretch = True
        t0 = now()
        call()
        t1 = now()
        tape.start.append(due)
        tape.seconds.append(t1 - due)
        tape.calls.append(1)
        tape.late.append(t0 - due)
        # Reading must not make the next call late.
        if due + period - t1 > 10 * meter.cost:
            meter.end()
            open_stretch = False
    meter.finish()
    return tape


def on_device(work: Workload, terms: Terms, device_times: Callable[[int], list[float]]) -> Tape:
    """Let the device time calls on its own stream. device_times: makes so many calls and returns the seconds
    of each. A stream's queue is finite, so it is asked for portions that the queue can hold."""
    tape = Tape()
    one = max(seconds_of(work, terms.clock), 1e-7)
    calls = max(terms.min_calls, min(terms.max_calls, int(terms.seconds / one)))
    while len(tape.seconds) < calls:
        began = terms.clock.now()
        times = device_times(min(PORTION, calls - len(tape.seconds)))
        tape.start += [began + sum(times[:index]) for index in range(len(times))]
        tape.seconds += times
    tape.calls = [1] * len(tape.seconds)
    return tape


def call_of(work: Workload) -> tuple[Callable[[], None] | None, Callable[[], Any]]:
    """Return the untimed preparation of each call, if there is any, and the call until it is done."""
    lay, run = getattr(work, "apart", None) or (None, work.call)
    if work.synchronous:
        return lay, run
    sync = work.sync

    def and_sync(work: Callable[[], Any]) -> Callable[[], None]:
        def both() -> None:
            work()
            sync()

        return both

    return and_sync(lay) if lay is not None else None, and_sync(run)
