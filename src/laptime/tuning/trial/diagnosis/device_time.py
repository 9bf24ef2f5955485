"""How long the device works in a step: recorded by torch's profiler for a few steps of a diagnosis.

Kernels and copies are as long under a profiler as without one; the step is not, so its time is taken from
steps that nobody recorded. Their quotient is what TensorBoard's profiler calls GPU utilisation: the share of
time in which something runs on the device, whatever part of it that keeps busy.
Lies when: several processes share the device; only this one's kernels are seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any


class DeviceTime:
    """A record of a few steps.

    Attributes:
        steps: that it has seen. seconds: of them in which the device worked; None where nothing was recorded.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.seconds: float | None = None
        self._profiler: Any = None

    def enter(self, kind: str) -> None:
        """A step begins; kind: cuda or xpu."""
        self.steps += 1
        if self._profiler is not None:
            return
        import torch

        activity = getattr(torch.profiler.ProfilerActivity, kind.upper(), None)
        with suppress(Exception):  # the script has a profiler of its own, the driver allows none
            if activity is not None:
                profiler = torch.profiler.profile(activities=[activity])
                profiler.__enter__()  # type: ignore[no-untyped-call]
                self._profiler = profiler

    def leave(self) -> None:
        """All steps have ended, and the device was waited for. Safe to call at any time."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        with suppress(Exception):
            profiler.__exit__(None, None, None)
            self.seconds = covered(_intervals(profiler.events())) or None

    @property
    def per_step(self) -> float | None:
        """Seconds in a step that the device works."""
        return self.seconds / self.steps if self.seconds is not None and self.steps else None


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (begin, end): streams that work at the same time count once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _intervals(events: Any) -> Iterable[tuple[float, float]]:
    """Seconds at which something ran on the device; torch tells microseconds."""
    return [
        (each.time_range.start / 1e6, each.time_range.end / 1e6)
        for each in events or ()
        if each.device_type.name != "CPU" and not getattr(each, "is_user_annotation", False)
    ]
