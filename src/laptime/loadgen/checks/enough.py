"""Was the window long enough for an interval at all?"""

from __future__ import annotations

import math

import numpy as np

from laptime.analysis.load.level import LevelStats
from laptime.analysis.quantiles import effective_size_of_mean
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import AT_ONCE

WIDEST = 0.05
"""As of a benchmark (`measure/checks/precision.py`): beyond it a number is `noisy`."""
FEWEST = 30
"""Independent requests: fewer show too little of the queue's memory for an interval to cover as it says."""


ALIKE = 0.5
"""Of the requests that are worth as independent ones: below it they are plainly alike."""


def check(case: Case, stats: LevelStats | None, widest: float = WIDEST) -> Check | None:
    """Warn where the mean has no interval, or one that is wide."""
    if stats is None or stats.balance.grows:
        return None
    if stats.facts.arrivals == AT_ONCE:
        return _of_answers(stats)
    mean = stats.latency["mean"]
    latency = stats.requests.latency[stats.steady :]
    independent = effective_size_of_mean(latency[np.isfinite(latency)])
    if mean.precision is not None and mean.precision <= widest and independent >= FEWEST:
        return None
    short = max(4.0, ((mean.precision or 0.0) / widest) ** 2)  # an interval narrows with the root of the time
    advice = f"--duration {_round_up(short * (stats.facts.window or 10.0))}s"
    if stats.facts.arrivals == "trace":
        advice = "a longer trace"
    if mean.precision is None:
        return Check("enough", "warn", f"{mean.n} answers are too few for an interval", advice)
    if mean.precision <= widest:
        sentence = f"{mean.n} requests are worth {independent:.0f} independent ones: intervals may be short"
        return Check("enough", "warn", sentence, advice)
    alike = ": requests that queue repeat each other" if independent < ALIKE * mean.n else ""
    return Check("enough", "warn", f"the mean is known to ±{percent(mean.precision)} only{alike}", advice)


def _round_up(seconds: float) -> int:
    """To two digits: how long is enough is not known to the second."""
    step: int = 10 ** max(0, int(math.log10(max(seconds, 1.0))) - 1)
    return math.ceil(seconds / step) * step


def _of_answers(stats: LevelStats) -> Check | None:
    """Where all requests are due at once the figure is how many are answered per second."""
    known = stats.answered.precision
    if known is not None and known <= WIDEST:
        return None
    sentence = (
        "too few answers for an interval"
        if known is None
        else f"answered/s is known to ±{percent(known)} only"
    )
    short = max(4.0, ((known or 0.0) / WIDEST) ** 2)
    return Check("enough", "warn", sentence, f"--requests {short * stats.answered.n:.0f}")
