"""The ruler's best on this machine since it was booted: a run may lie within a slow hour as a whole.

A scripted machine, whose clock is another, knows nothing and is not remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from laptime.analysis.evidence import best_of_ruler
from laptime.kit import system_files
from laptime.kit.clock import Clock, SystemClock
from laptime.records.case import Case
from laptime.store import cache

_KIND = "ruler"


def best_known(clock: Clock) -> float | None:
    """Seconds of the known work at its best in all runs since boot; None where there was no such run."""
    seconds = (cache.get(_KIND, boot) or {}).get("seconds") if (boot := _boot(clock)) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def remember(cases: Iterable[Case], clock: Clock) -> None:
    """Keep the best of these cases where it is better than what was known."""
    known, boot = best_known(clock), _boot(clock)
    seen = [best for case in cases if (best := best_of_ruler(case)) is not None]
    if boot and seen and (known is None or min(seen) < known):
        cache.put(_KIND, boot, {"seconds": min(seen)})


def _boot(clock: Clock) -> str | None:
    return None if clock is not SystemClock else system_files.text(Path("/proc/sys/kernel/random/boot_id"))
