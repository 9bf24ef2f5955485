"""What was timed of a folder."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Timing:
    """All calls of a folder that were timed, in seconds, and the largest peak of its processes, in bytes."""

    seconds: list[float] = field(default_factory=list)
    peak: int = 0
