"""What a session spends: seconds by activity, processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class TimeAccounting:
    """Seconds and processes that a session has used.

    Attributes:
        seconds: by activity: diagnose, race, gate, measure, record, patch, profile, and compile (scripts) or
            build (models), which the others are without. trials: processes that were started.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    trials: int = 0
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
