"""Was the window long enough for an interval at all?"""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check

WIDEST = 0.25


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Warn where the mean has no interval, or one that is wide."""
    if stats is None or stats.balance.grows:
        return None
    mean = stats.latency["mean"]
    if mean.precision is not None and mean.precision <= WIDEST:
        return None
    seconds = 4 * (stats.facts.window or 10.0)
    advice = f"--duration {seconds:.0f}s"
    if mean.precision is None:
        return Check("enough", "warn", f"{mean.n} answers are too few for an interval", advice)
    sentence = f"the mean is known to ±{percent(mean.precision)} only: requests that queue repeat each other"
    return Check("enough", "warn", sentence, advice)
