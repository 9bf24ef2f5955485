"""The highest rate that keeps a promise: roughly found with short levels, then proven with a long one.

rough     double until the promise breaks, then halve the distance on a logarithmic scale; point estimates
proof     a level of its own below that rate, judged by the upper end of its interval; lower, if it fails

What is claimed was proven by requests that had no part in choosing it: a search that keeps the best of many
short levels claims too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from laptime.analysis.load import QUANTILES, LevelStats, level_stats
from laptime.analysis.promises import Promise, level_judged
from laptime.records.case import Case

CLOSE = 1.06
"""Ratio of two rates between which the rough search stops."""
PROOFS = 2
BACK = 0.75
"""Of the rate found, the first proof: at the very edge a tail is known well enough after hours only. One that
fails is tried again so much lower."""
SURE = 0.90
"""Of a two-sided interval, whose upper end is the upper limit at 95 %: 5 % of the claims may be wrong."""
SHORTEST, FEWEST = 2.0, 200
"""Seconds and requests of a rough level."""

Measure = Callable[[float, float], Case]
"""Carries out a level of so many requests per second, for so many seconds."""


class Peak(NamedTuple):
    """Result.

    Attributes:
        rate: requests per second that surely keep the promise; None where no rate was proven.
        broken: the lowest rate that surely breaks it; None where none did.
        case: the level that proves `rate`.
        sentence: of the level that decided.
        advice: what the check says to do that made the last level invalid; empty where none did.
    """

    rate: float | None
    broken: float | None
    case: Case | None
    sentence: str
    advice: str = ""


def find_peak(measure: Measure, wanted: Sequence[Promise], *, start: float, budget: float) -> Peak:
    """The highest rate that keeps all promises.

    Args:
        start: a rate that the server probably can serve.
        budget: seconds of sending, in all: at least half of them for proofs.
    """
    search = _Search(measure, list(wanted), budget)
    rate = search.rough(start)
    return search.proven(rate)


class _Search:
    def __init__(self, measure: Measure, wanted: list[Promise], budget: float) -> None:
        self._measure, self._wanted, self._budget = measure, wanted, budget
        self._left = budget / 2
        self._broken: float | None = None
        self._sentence = ""

    def rough(self, rate: float) -> float:
        """A rate that about keeps the promise, and hardly a higher one does."""
        kept, broken = 0.0, math.inf
        while self._left > 0 and (broken == math.inf or not kept or broken / kept > CLOSE):
            seconds = min(max(SHORTEST, FEWEST / rate), self._budget / 10)
            self._left -= seconds
            if self._about_keeps(rate, seconds):
                kept = rate
                rate = 2 * rate if broken == math.inf else math.sqrt(kept * broken)
            else:
                broken = rate
                rate = rate / 2 if not kept else math.sqrt(kept * broken)
        return kept or rate

    def _about_keeps(self, rate: float, seconds: float) -> bool:
        case = self._measure(rate, seconds)
        stats = level_stats(case, SURE)
        verdict = level_judged(self._wanted, stats)
        if verdict.word == "broken":
            self._broken = min(self._broken or math.inf, rate)
        return (
            stats is not None
            and verdict.word != "broken"
            and all(_point(promise, stats) <= promise.limit for promise in self._wanted)
        )

    def proven(self, rate: float) -> Peak:
        """The rate, or the next lower one that a level of its own proves."""
        sentence = advice = ""
        rate *= BACK
        seconds = (self._budget / 2 + max(0.0, self._left)) / PROOFS
        for _ in range(PROOFS):
            case = self._measure(rate, seconds)
            verdict = level_judged(self._wanted, level_stats(case, SURE))
            fault = next((each for each in case.checks if each.outcome == "fail"), None)
            sentence, advice = (fault.sentence, fault.next) if fault else (verdict.sentence, "")
            if case.trust == "invalid":
                continue  # the generator's fault: the same rate again
            if verdict.word == "kept":
                above = self._broken if self._broken is not None and self._broken > rate else None
                return Peak(rate, above, case, sentence)
            if verdict.word == "broken":
                self._broken = min(self._broken or math.inf, rate)
            rate *= BACK
        return Peak(None, self._broken, None, sentence, advice)


def _point(promise: Promise, stats: LevelStats) -> float:
    """The quantile as the requests have it, whether or not they are enough for an interval."""
    q = QUANTILES[promise.quantile]
    rows = stats.requests
    if promise.metric == "latency":
        return float(np.quantile(rows.latency[stats.steady :], q, method="higher"))
    own = {"ttft": rows.ttft, "tpot": rows.tpot, "itl": rows.gaps}[promise.metric]
    known = own[~np.isnan(own)]
    return float(np.quantile(known, q)) if len(known) else math.inf
