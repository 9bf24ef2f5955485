"""The spending of a session: seconds by activity, processes."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median_low

from laptime.tuning.trial.messages import TrialResult

NEWEST = 4  # trials whose start says how fast the machine is now: two pairs
OWN = 2.0
"""Seconds that starts may differ by on a machine that nobody else uses: the other side of a pair, or what is
compiled, holds up a fork, which has little but its first step (0.5 to 7.7 s in one public script)."""


@dataclass
class TimeAccounting:
    """Seconds and processes that a session has used."""

    # by activity: diagnose, race, gate, measure, record, patch, profile, and compile (scripts) or build
    # (models), which the others are without
    seconds: dict[str, float] = field(default_factory=dict)
    trials: int = 0  # processes that were started
    _apart: float = 0.0
    _is_inside: bool = False

    @contextmanager
    def spent_on(self, activity: str) -> Iterator[None]:
        """Add the time of the block to this activity; inside another one, nothing is added."""
        if self._is_inside:
            yield
            return
        self._is_inside = True
        began, apart = time.monotonic(), self._apart
        try:
            yield
        finally:
            self._is_inside = False
            self._add(activity, max(0.0, time.monotonic() - began - (self._apart - apart)))

    @contextmanager
    def spent_apart_on(self, activity: str) -> Iterator[None]:
        """Add the time of the block to this activity; one that is around it is without it."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add_apart(activity, time.monotonic() - began)

    def add_apart(self, activity: str, seconds: float) -> None:
        """Add seconds to an activity; one that is around it is without them."""
        self._apart += seconds
        self._add(activity, seconds)

    def _add(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


@dataclass
class TrialAccounting(TimeAccounting):
    """Seconds and processes of trials."""

    # seconds from the start of a fresh interpreter to the end of its first step, in the quickest: two that
    # start at once are slower; None before one ended
    first_step: float | None = None
    forked_step: float | None = None  # the same of a fork
    forks: int = 0  # that had a first step; before one had, it is expected
    longest_compile: float | None = None  # seconds of torch.compile in one process; None before one compiled
    # seconds of torch.compile in one process, the most, by label of the change
    compiled_by: dict[str, float] = field(default_factory=dict)
    # the same in the last process, which finds what others have compiled
    compiled_last: dict[str, float] = field(default_factory=dict)
    ending: float = 0.0  # seconds from the last block of a trial until it had ended, of the newest
    gate_trial: float | None = None  # seconds of a trial of a gate, of the newest; None before one ended
    # how many times longer each of the newest took to its first step than the quickest of its kind
    slower: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))

    @property
    def pace(self) -> float:
        """How many times longer a trial takes now than at the machine's best: others use it, too."""
        return max(1.0, median_low(self.slower)) if len(self.slower) == NEWEST else 1.0

    def add_trial(self, result: TrialResult, *, is_forked: bool = False) -> None:
        """Take the start and the compile time of a trial that has ended."""
        if result.compile_seconds:
            self.longest_compile = max(self.longest_compile or 0.0, result.compile_seconds)
            self.add_apart("compile", result.compile_seconds)
        elif result.first is not None and is_forked:
            self.forked_step = min(result.first, self.forked_step or math.inf) if self.forks else result.first
            self.forks += 1
            self.slower.append((result.first + OWN) / (self.forked_step + OWN))
        elif result.first is not None:
            self.first_step = min(result.first, self.first_step or math.inf)
            self.slower.append((result.first + OWN) / (self.first_step + OWN))

    def add_compile(self, change: str, seconds: float) -> None:
        """Take the compile time of a change; of several the longest, as later trials find its cache."""
        self.compiled_by[change] = max(seconds, self.compiled_by.get(change, 0.0))
        self.compiled_last[change] = seconds
