"""What a session of a model spent, and what it timed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Accounting:
    """What a session spent: seconds by activity, processes."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    trials: int = 0

    @contextmanager
    def spent_on(self, activity: str) -> Iterator[None]:
        """Count the time of the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[activity] += time.perf_counter() - began


@dataclass
class Timing:
    """All calls of a folder that were timed, and the largest peak of its processes."""

    seconds: list[float] = field(default_factory=list)
    peak: int = 0
