"""Did the generator send in time? What it sends late is its own fault, never the server's."""

from __future__ import annotations

import numpy as np

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import percent, show
from laptime.loadgen.checks._shares import worst
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import AT_ONCE, Level

LIMIT = 0.05
"""Lateness that 99 of 100 requests keep, as a share of the smallest headline."""
HUNDRED = 100
"""Of fewer requests a single one would say so: what counts is how much of a figure lateness is."""


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where lateness is more than 5 % of the smallest latency that is told."""
    if stats is None or stats.facts.kind == "closed" or stats.facts.arrivals == AT_ONCE:
        return None
    stated = [*stats.latency.values(), *(stats.tokens.ttft.values() if stats.tokens else ())]
    told = [stat.value for stat in stated if stat.value]
    if not told:
        return None
    late, smallest = stats.late, min(told)
    words = f"99 of 100 requests were sent within {show(late, 's')} of their time"
    if late <= LIMIT * smallest:
        return Check("late", "ok", words)
    share = f"more than {LIMIT:.0%} of the smallest latency told, {show(smallest, 's')}"
    if len(stats.requests.due) < HUNDRED:
        part, name = worst(stats, lambda due, took, late: late)
        latest = float(np.nanmax(stats.requests.late))
        words = (
            f"of {len(stats.requests.due)} requests the latest was sent {show(latest, 's')} after its time"
        )
        if part <= LIMIT:
            return Check("late", "note", f"{words}: all lateness together is {percent(part)} of a figure")
        share = f"and lateness is {percent(part)} of the {name}"
    cause, advice = _cause(stats.facts, LIMIT * smallest)
    return Check("late", "fail", f"the generator was late: {words}, {share}{cause}", advice)


def _cause(facts: Level, limit: float) -> tuple[str, str]:
    """What the self-test says of it, and what to do."""
    alone = facts.alone
    if alone is None:
        return "", "the same again on a machine with nothing else to do"
    on_loopback = f"on loopback, without the server, it was {show(alone.late, 's')}"
    if alone.late > limit:
        return (
            f"; {on_loopback}, too: this machine is busy",
            "the same again on a machine with nothing else to do",
        )
    return (
        f"; {on_loopback} only: beside it the generator lacks a CPU",
        "taskset -c 0 for the server and -c 1 for laptime, or another machine for the generator",
    )
