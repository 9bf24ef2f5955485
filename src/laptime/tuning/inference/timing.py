"""What was timed of a folder."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Timing:
    """All calls of a folder that were timed.

    Attributes:
        seconds: of each call. peak: the largest of its processes, in bytes.
        joules: of all covered devices, gross, in windows of `metered` calls together.
    """

    seconds: list[float] = field(default_factory=list)
    peak: int = 0
    joules: float = 0.0
    metered: int = 0

    def add_energy(self, joules: float | None, calls: int) -> None:
        """A window of so many calls; without a reading it does not count."""
        if joules is not None:
            self.joules += joules
            self.metered += calls

    @property
    def joules_per_call(self) -> float | None:
        """None where no meter gave a reading."""
        return self.joules / self.metered if self.metered else None
