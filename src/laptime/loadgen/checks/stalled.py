"""Did the generator stand still while answers were under way? Then it read the clock too late."""

from __future__ import annotations

import numpy as np

from laptime.analysis.load.level import LevelStats
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.loadgen.checks.late import LIMIT
from laptime.records.case import Case
from laptime.records.check import Check

MANY = 0.01
"""Share of the requests from which stalls are in the percentiles."""


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where a stall is in more than 1 % of the requests and more than 5 % of their latency."""
    if stats is None or not stats.facts.stalls:
        return None
    requests = stats.requests
    lost = np.zeros(len(requests.due))
    for begin, seconds in stats.facts.stalls:
        overlap = np.minimum(requests.end, begin + seconds) - np.maximum(requests.due, begin)
        lost = np.maximum(lost, overlap)
    hit = int((lost > LIMIT * np.maximum(requests.end - requests.due, 1e-9)).sum())
    worst = max(seconds for _, seconds in stats.facts.stalls)
    words = (
        f"the generator stood still, {show(worst, 's')} at the longest, while "
        f"{count(hit, 'request')} of {len(lost)} were under way: it was late, not the server"
    )
    if hit <= MANY * len(lost):
        return None if not hit else Check("stalled", "note", words)
    return Check("stalled", "fail", words, "the same again on a machine with nothing else to do")
