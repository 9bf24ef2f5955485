"""A clock that only programs move, and programs that move it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from laptime.probes.scheduler import Reading


class Clock:
    """Time passes when somebody calls `spend` or `sleep`; every look at it costs `tick` seconds."""

    def __init__(self, *, tick: float = 1e-7) -> None:
        self.time = 100.0
        self.used = 5.0
        self.tick = tick

    def now(self) -> float:
        self.time += self.tick
        return self.time

    def cpu(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def spend(self, seconds: float, *, cpu: float | None = None) -> None:
        self.time += seconds
        self.used += seconds if cpu is None else cpu


class Program:
    """A workload whose n-th call takes `seconds[n]`, the last for ever; a device takes it in `sync`."""

    def __init__(
        self,
        clock: Clock,
        seconds: float | Sequence[float],
        *,
        batch: int = 1,
        synchronous: bool = True,
        before: Callable[[int], Any] = lambda number: None,
    ) -> None:
        self._clock = clock
        self._seconds = [seconds] if isinstance(seconds, float) else list(seconds)
        self._before = before
        self._queued = 0.0
        self.batch = batch
        self.synchronous = synchronous
        self.calls = 0
        self.syncs: list[int] = []

    def call(self) -> None:
        self._before(self.calls)
        seconds = self._seconds[min(self.calls, len(self._seconds) - 1)]
        self.calls += 1
        if self.synchronous:
            self._clock.spend(seconds)
        else:
            self._queued += seconds

    def sync(self) -> None:
        self.syncs.append(self.calls)
        self._clock.spend(self._queued)
        self._queued = 0.0


class Counters:
    """Disturbance counters that are set by hand."""

    def __init__(self, *, cost: float = 1e-6) -> None:
        self.cost = cost
        self.waited: float | None = 0.0
        self.stolen: float | None = 0.0
        self.throttled: float | None = None
        self.reads = 0

    def read(self) -> Reading:
        self.reads += 1
        return Reading(self.waited, self.stolen, self.throttled, 0)


class Ruler:
    """A ruler that is set by hand."""

    threads = frozenset[str]()

    def __init__(self, clock: Clock, *, cost: float = 1e-4) -> None:
        self._clock = clock
        self.cost = cost
        self.seconds = 1.0
        self.reads = 0

    def read(self) -> float:
        self.reads += 1
        self._clock.time += self.cost
        return self.seconds

    def close(self) -> None:
        """Nothing to do."""


@pytest.fixture
def ruler(clock: Clock) -> Ruler:
    """A ruler that reads 1 s."""
    return Ruler(clock)


@pytest.fixture
def clock() -> Clock:
    """A clock at 100 s."""
    return Clock()


@pytest.fixture
def counters() -> Counters:
    """Counters at 0."""
    return Counters()


@pytest.fixture
def program(clock: Clock) -> Callable[..., Program]:
    """Makes programs that move the clock of the test."""
    return partial(Program, clock)
