"""When Python's garbage collector ran, so that samples can be labelled afterwards at no cost per sample."""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from laptime.kit.clock import Clock, SystemClock
from laptime.probes import TimedBlock
from laptime.records.metric import Metric
from laptime.records.series import Label, Series

METRICS = (
    Metric(
        tag="disturbance/garbage",
        unit="s",
        title="garbage collection",
        better="lower",
        meaning="Time that Python's cyclic garbage collector ran inside a sample.",
        lies_when="Memory is freed by reference counts most of the time; that is not in it.",
    ),
)


def watch(device: str, clock: Clock) -> GarbageWatch:
    """Labels the samples in which the collector ran."""
    return GarbageWatch(clock)


class GarbageWatch:
    """Records every collection of a block."""

    def __init__(self, clock: Clock) -> None:
        self._collections = Collections(clock)

    def begin(self) -> None:
        """Listen to the collector from now on."""
        self._collections.clear()
        self._collections.__enter__()

    def end(self, block: TimedBlock) -> list[Series]:
        """Label the samples. The seconds themselves are not kept: the collector is the program's own."""
        self._collections.__exit__(None, None, None)
        for index, seconds in enumerate(self._collections.inside(block.start, block.seconds)):
            if seconds > 0:
                block.label[index] |= Label.GC
        return []


class Collections:
    """Records start and end of every collection while it is entered.

    Attributes:
        starts, stops: seconds on the clock, one entry for each finished collection, ascending.
    """

    def __init__(self, clock: Clock = SystemClock) -> None:
        self._now = clock.now
        self._began: float | None = None
        self.starts: list[float] = []
        self.stops: list[float] = []

    def _heard(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began = self._now()
        elif self._began is not None:
            self.starts.append(self._began)
            self.stops.append(self._now())
            self._began = None

    def inside(self, starts: Sequence[float], seconds: Sequence[float]) -> list[float]:
        """Seconds of collection inside each sample, given the samples' starts (same clock) and lengths."""
        totals = []
        for start, length in zip(starts, seconds, strict=True):
            end, total = start + length, 0.0
            index = bisect_left(self.stops, start)
            while index < len(self.starts) and self.starts[index] < end:
                total += min(end, self.stops[index]) - max(start, self.starts[index])
                index += 1
            totals.append(total)
        return totals

    def clear(self) -> None:
        """Forget what was recorded so far."""
        self.starts.clear()
        self.stops.clear()

    def __enter__(self) -> Self:
        gc.callbacks.append(self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._heard)
