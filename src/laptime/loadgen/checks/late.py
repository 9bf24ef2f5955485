"""Did the generator send in time? What it sends late is its own fault, never the server's."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import show
from laptime.records.case import Case
from laptime.records.check import Check

LIMIT = 0.05
"""Lateness that 99 of 100 requests keep, as a share of the smallest headline."""


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where lateness is more than 5 % of the smallest latency that is told."""
    if stats is None or stats.facts.kind == "closed":
        return None
    told = [stat.value for stat in stats.latency.values() if stat.value]
    if not told:
        return None
    late, smallest = stats.late, min(told)
    words = f"99 of 100 requests were sent within {show(late, 's')} of their time"
    if late <= LIMIT * smallest:
        return Check("late", "ok", words)
    share = f"more than {LIMIT:.0%} of the smallest latency told, {show(smallest, 's')}"
    advice = "the same again on a machine with nothing else to do"
    if case.axes.get("server") != "own":
        advice = f"--senders {2 * stats.facts.senders}, or another machine for the generator"
    return Check("late", "fail", f"the generator was late: {words}, {share}", advice)
