"""Had a sender CPU time to spare? One that has none is what is measured."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check

LIMIT = 0.7


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where a sender used more than 70 % of its time; a program's own process is the program."""
    if stats is None or case.axes.get("server") == "own":
        return None
    used = f"the busiest sender used {percent(stats.facts.cpu)} of a CPU"
    if stats.facts.cpu <= LIMIT:
        return Check("busy_sender", "ok", used)
    advice = f"--senders {2 * stats.facts.senders}"
    return Check("busy_sender", "fail", f"{used}, more than {percent(LIMIT)}: it may be what is slow", advice)
