"""When Python's garbage collector ran, so that samples can be labelled afterwards at no cost per sample."""

import gc
from bisect import bisect_left
from collections.abc import Sequence

from laptime.kit.clock import Clock, SystemClock
from laptime.probes import TimedBlock
from laptime.records.series import Label, Series, read_metrics

METRICS = read_metrics("""
disturbance/garbage s lower garbage collection
    Time that Python's cyclic garbage collector ran inside a sample.
    Lies when: Memory is freed by reference counts most of the time; that is not in it.
""")


def watch(device: str, clock: Clock) -> "GarbageWatch":
    """Labels the samples in which the collector ran."""
    return GarbageWatch(clock)


class GarbageWatch:
    """Records every collection of a block. starts, stops: seconds on the clock, one entry for each finished
    collection, ascending."""

    def __init__(self, clock: Clock = SystemClock) -> None:
        self._now = clock.now
        self._began: float | None = None
        self.starts: list[float] = []
        self.stops: list[float] = []

    def begin(self) -> None:
        """Forget earlier collections and listen to the collector."""
        self.starts, self.stops = [], []
        gc.callbacks.append(self._note_phase)

    def end(self, block: TimedBlock) -> list[Series]:
        """Label the samples. The seconds themselves are not stored: the collector is the program's own."""
        gc.callbacks.remove(self._note_phase)
        for index, seconds in enumerate(self.inside(block.start, block.seconds)):
            if seconds > 0:
                block.label[index] |= Label.GC
        return []

    def _note_phase(self, phase: str, _info: dict[str, int]) -> None:
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
