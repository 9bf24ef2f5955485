"""The rate at which a level of load was answered, which is what its machine is paid for.

Of a language model whose answers were all counted it is that of output tokens: reading prompts is part of
what they cost. Of anything else, and where an answer was not counted, it is that of requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from laptime.analysis.load import LevelStats, level_stats
from laptime.analysis.promises import Promise, level_judged, text
from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.cost import Unit
from laptime.records.load import Level


class Answered(NamedTuple):
    """Units per second, and the conditions under which they were answered, as in `Speed`."""

    rate: Stat
    unit: Unit
    at: str
    median: Stat
    tail: float | None = None


def is_level(case: Case) -> bool:
    """Whether a case is a level of `laptime load`."""
    return case.details.load is not None


def answered(case: Case, wanted: Sequence[Promise]) -> tuple[Answered | None, str]:
    """What a level answered; else why that has no price.

    Args:
        wanted: promises that have to be kept; none takes any level.
    """
    level = level_stats(case)
    if level is None or not level.answered.value:
        return None, "no request was answered"
    median = level.latency["median"]
    rate, unit = _rate(level)
    if not wanted:
        return Answered(rate, unit, _at(level), median), ""
    judged = level_judged(wanted, level)
    if judged.word != "kept":
        return None, judged.sentence
    return Answered(rate, unit, text(wanted), median, judged.value), ""


def _rate(level: LevelStats) -> tuple[Stat, Unit]:
    per_answer = level.tokens.per_answer if level.tokens else None
    if level.answered.quantity is None or per_answer is None or not per_answer.value:
        return level.answered, "request"
    rate = level.answered.quantity.divided(per_answer.inverted(), "1/s")
    return structs.replace(level.answered, quantity=rate), "token"


def _at(level: LevelStats) -> str:
    if level.balance.grows:
        return "saturation"
    return _users(level.facts) if level.facts.kind == "closed" else "a given rate"


def _users(facts: Level) -> str:
    return f"{facts.concurrency} user" + ("" if facts.concurrency == 1 else "s")
