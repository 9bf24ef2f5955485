"""What a session spends its time on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from laptime.tuning.trial.messages import TrialResult


@dataclass
class TimeAccounting:
    """Seconds and processes that a session has used.

    Attributes:
        seconds: by activity: diagnose, race, gate, measure, patch, profile, and compile, which the others
            are without. trials: processes that were started.
        first_step: seconds from the start of a process to the end of its first step; None before one ended.
        longest_compile: seconds of torch.compile in one process; None before one compiled.
        compile_seconds: of torch.compile in all processes. compiled_by: the longest, by label of the change.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    trials: int = 0
    first_step: float | None = None
    longest_compile: float | None = None
    compile_seconds: float = 0.0
    compiled_by: dict[str, float] = field(default_factory=dict)
    _is_inside: bool = False

    @contextmanager
    def spent_on(self, activity: str) -> Iterator[None]:
        """Add the time of the block to this activity; inside another one, nothing is added."""
        if self._is_inside:
            yield
            return
        self._is_inside = True
        began, compiled = time.monotonic(), self.compile_seconds
        try:
            yield
        finally:
            self._is_inside = False
            compiling = self.compile_seconds - compiled
            self._add(activity, max(0.0, time.monotonic() - began - compiling))
            self._add("compile", compiling)

    def _add(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    def add_trial(self, result: TrialResult) -> None:
        """Take the start and the compile time of a trial that has ended."""
        if result.compile_seconds:
            self.longest_compile = max(self.longest_compile or 0.0, result.compile_seconds)
            self.compile_seconds += result.compile_seconds
        elif result.first is not None:
            self.first_step = result.first

    def add_compile(self, change: str, seconds: float) -> None:
        """Take the compile time of a change; of several the longest, as later trials find its cache."""
        self.compiled_by[change] = max(seconds, self.compiled_by.get(change, 0.0))
