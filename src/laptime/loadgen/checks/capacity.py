"""Could the server keep up? A queue that grows has no latency but the length of the window."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import show
from laptime.records.case import Case
from laptime.records.check import Check


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Warn where more came than was answered, all through the window."""
    if stats is None or not stats.balance.grows:
        return None
    rate = stats.answered.value or 0.0
    sentence = (
        f"unstable: above capacity. About {show(rate, '1/s')} were answered, "
        f"{show(stats.balance.growth, '1/s')} more came; in this window p95 is "
        f"{show(stats.window, 's')}, and later requests would wait longer"
    )
    return Check("capacity", "warn", sentence, f"--rate {0.7 * rate:.3g}")
