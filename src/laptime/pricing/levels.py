"""The rate at which a level of load was answered, which is what its machine is paid for."""

from __future__ import annotations

from typing import NamedTuple

from laptime.analysis.load.level import LevelStats, level_stats
from laptime.analysis.stat import Stat
from laptime.pricing.promises import Promise, judge
from laptime.records.case import Case
from laptime.records.load import Level, level_of


class Answered(NamedTuple):
    """Requests per second, and the conditions under which they were answered, as in `Speed`."""

    rate: Stat
    at: str
    median: Stat
    tail: float | None = None


def is_level(case: Case) -> bool:
    """Whether a case is a level of `laptime load`."""
    return level_of(case) is not None


def answered(case: Case, wanted: Promise | None) -> tuple[Answered | None, str]:
    """What a level answered; else why that has no price.

    Args:
        wanted: the promise that has to be kept; None takes any level.
    """
    level = level_stats(case)
    if level is None or not level.answered.value:
        return None, "no request was answered"
    median = level.latency["median"]
    if wanted is None:
        return Answered(level.answered, _at(level), median), ""
    if level.balance.grows:
        return None, f"its queue grew: {median.note}"
    stats = {stat.tag: stat for stat in level.latency.values()}
    judged = judge(wanted, stats, level.facts.regime)
    if judged.word != "kept":
        return None, judged.reason
    return Answered(level.answered, wanted.text, median, judged.latency), ""


def _at(level: LevelStats) -> str:
    if level.balance.grows:
        return "saturation"
    return _users(level.facts) if level.facts.kind == "closed" else "a given rate"


def _users(facts: Level) -> str:
    return f"{facts.concurrency} user" + ("" if facts.concurrency == 1 else "s")
