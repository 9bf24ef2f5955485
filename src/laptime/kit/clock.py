"""The only door to clocks, so that tests and the scripted machine can move time.

All readings are in seconds. `now` is monotonic, with the resolution of `time.perf_counter`."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock and a way to wait on it."""

    def now(self) -> float:
        """Seconds on a monotonic clock; only differences mean anything."""

    def cpu(self) -> float:
        """Seconds of CPU time that this process, all threads, has used."""

    def sleep(self, seconds: float) -> None:
        """Give the CPU away for so many seconds."""


class SystemClock:
    """The machine's own clocks. Attributes are the C functions themselves: no wrapper in hot loops."""

    now = staticmethod(time.perf_counter)
    cpu = staticmethod(time.process_time)
    sleep = staticmethod(time.sleep)


def moment(text: str) -> datetime:
    """The time that ISO 8601 text names, in UTC if it has no zone. Raises ValueError: it names none."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def utc_now() -> str:
    """The time of day as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
