"""The rate at which a level of load was answered, which is what its machine is paid for.

Of a language model whose answers were all counted it is that of output tokens: reading prompts is part of
what they cost. Of anything else, and where an answer was not counted, it is that of requests.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from laptime.analysis.load import LevelStats, level_stats
from laptime.analysis.stat import Stat
from laptime.pricing.promises import Promise, judge
from laptime.records.case import Case
from laptime.records.cost import Unit
from laptime.records.load import Level, level_of


class Answered(NamedTuple):
    """Units per second, and the conditions under which they were answered, as in `Speed`."""

    rate: Stat
    unit: Unit
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
    rate, unit = _rate(level)
    if wanted is None:
        return Answered(rate, unit, _at(level), median), ""
    if level.balance.grows:
        return None, f"its queue grew: {median.note}"
    stats = {stat.tag: stat for stat in level.latency.values()}
    judged = judge(wanted, stats, level.facts.regime)
    if judged.word != "kept":
        return None, judged.reason
    return Answered(rate, unit, wanted.text, median, judged.latency), ""


def _rate(level: LevelStats) -> tuple[Stat, Unit]:
    tokens = level.tokens
    if tokens is None or not tokens.got or level.facts.uncounted:
        return level.answered, "request"
    return structs.replace(level.answered, value=tokens.got), "token"


def _at(level: LevelStats) -> str:
    if level.balance.grows:
        return "saturation"
    return _users(level.facts) if level.facts.kind == "closed" else "a given rate"


def _users(facts: Level) -> str:
    return f"{facts.concurrency} user" + ("" if facts.concurrency == 1 else "s")
