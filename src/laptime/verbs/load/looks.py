"""When a level without a fixed length has told enough: looks at it, further and further apart.

The rule is that of Law & Carson (A Sequential Procedure for Determining the Length of a Steady-State
Simulation, Operations Research 27, 1979): go on until the interval by batch means is narrow against the mean.
"""

from __future__ import annotations

from laptime.analysis.load import level_stats
from laptime.analysis.promises import level_judged, promises
from laptime.loadgen.checks import WIDEST, enough
from laptime.records.case import Case

MARGIN = 0.9
"""Of the width that is asked for: answers that come after the look may make the interval a little wider."""
FIRST, FACTOR = 5.0, 1.3
"""Seconds until the first look, and by how much each is later than the one before."""


class Looks:
    """At one level.

    Args:
        slo: promises that have to be decided as well.
    """

    def __init__(self, slo: str) -> None:
        self._slo = slo
        self._next = FIRST
        self._grew = False

    def reason(self, case: Case, seconds: float) -> str:
        """Why the level may end: "precise", "unstable", or "" where it has to go on.

        A queue that grows has to be seen to at two looks in turn: one of many may err.

        Args:
            seconds: since its first request.
        """
        if seconds < self._next:
            return ""
        self._next = max(seconds, self._next) * FACTOR
        stats = level_stats(case)
        if stats is None:
            return ""
        grew, self._grew = self._grew, stats.balance.grows
        if stats.balance.grows:
            return "unstable" if grew else ""
        if enough(case, stats, widest=MARGIN * WIDEST) is not None:
            return ""
        decided = not self._slo or level_judged(promises(self._slo), stats).word != "undecided"
        return "precise" if decided else ""
