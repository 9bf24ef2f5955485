"""Did the generator stand still while answers came? Then it read the clock too late."""

from __future__ import annotations

import numpy as np

from laptime.analysis.load.level import LevelStats
from laptime.analysis.quantiles import Floats
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.loadgen.checks._shares import ZERO, worst
from laptime.loadgen.checks.late import LIMIT
from laptime.records.case import Case
from laptime.records.check import Check

ALONE = "the same again on a machine with nothing else to do"
BESIDE = "taskset -c 0 for the server and -c 1 for laptime, or a machine with nothing else to do"
"""Where the generator kept up on loopback before: the server took its CPU, or another program."""


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where stalls may make up more than 5 % of a figure that is told."""
    if stats is None or not stats.facts.stalls:
        return None
    stalls = stats.facts.stalls

    def lost(due: Floats, took: Floats, late: Floats) -> Floats:
        """What is read late is late by one stall, at most by all of it that it was under way in."""
        most = np.zeros(len(due))
        for begin, seconds in stalls:
            overlap = np.minimum(due + took, begin + seconds) - np.maximum(due, begin)
            most = np.maximum(most, overlap)
        return most

    share, name = worst(stats, lost)
    if share <= ZERO:
        return None
    longest = show(max(seconds for _, seconds in stalls), "s")
    stood = f"the generator stood still {count(len(stalls), 'time')}, {longest} at the longest"
    if share <= LIMIT:
        return Check("stalled", "note", f"{stood}: at most {percent(share)} of a figure")
    words = f"{stood}: that may be {percent(share)} of the {name}. It was late, not the server"
    return Check("stalled", "fail", words, BESIDE if stats.facts.alone else ALONE)
