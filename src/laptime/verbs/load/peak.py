"""The highest rate that keeps a promise: found with short levels, then proven with long ones.

rough     double until the promise breaks, or halve until it holds
near      levels at the rate that all levels so far make the likely peak
proof     a level of its own below that rate, judged by the upper end of its interval

What is claimed was proven by requests that had no part in choosing it: a search that keeps the best of many
short levels claims too much. What all levels say together is an estimate: on a slow server it is known long
before any rate is proven. Where the levels are those of slots with one queue, the estimate is a replay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from laptime.analysis.load import QUANTILES, LevelStats, level_stats
from laptime.analysis.promises import Judged, Promise, level_judged
from laptime.analysis.quantiles import Floats, effective_size, samples_needed
from laptime.analysis.queues import queue_of
from laptime.records.case import Case
from laptime.records.check import Check

SHORTEST, FEWEST, MOST = 2.0, 60, 0.05
"""Seconds and requests of a rough level, and the share of the budget that it may take."""
NEAR, PROOF, BACK = 3, 0.3, 0.65
"""Levels at the likely peak; share of the budget for a proof, and of the likely peak: near the edge a tail is
known well enough after hours only."""
SURE = 0.90
"""Of a two-sided interval, whose upper end is the upper limit at 95 %: 5 % of the claims may be wrong."""
_FAILED = 1e12  # seconds that a request that failed took
Measure = Callable[[float, float], Case]  # a level of so many requests per second, for so many seconds


class Peak(NamedTuple):
    """Result.

    Attributes:
        rate: requests per second that surely keep the promise; None where no rate was proven.
        broken: the lowest rate that surely breaks it; None where none did. case: the level of `rate`.
        sentence: of the level that decided. advice: of the check that made the last level invalid, else "".
        about: the likely peak by all levels and the ends between which it lies with 90 %; None where no
            level broke the promise, or none kept it.
    """

    rate: float | None
    broken: float | None
    case: Case | None
    sentence: str
    advice: str = ""
    about: tuple[float, float, float] | None = None


def find_peak(measure: Measure, wanted: Sequence[Promise], *, start: float, budget: float) -> Peak:
    """The highest rate that keeps all promises.

    Args:
        start: a rate that the server probably can serve.
        budget: seconds of sending, in all.
    """
    search = _Search(measure, list(wanted), budget)
    search.rough(start)
    search.near(NEAR, PROOF * budget)
    return search.proven()


class _Search:
    def __init__(self, measure: Measure, wanted: list[Promise], budget: float) -> None:
        self._measure, self._wanted, self._budget = measure, wanted, budget
        self._left, self._tails = budget, [1 - QUANTILES[promise.quantile] for promise in wanted]
        self._levels: list[tuple[float, list[float], list[float]]] = []  # rate; of each promise, see `_over`
        self._kept, self._above, self._broken = 0.0, math.inf, math.inf
        self._fault: Check | None = None
        self._seen: list[tuple[Floats, Floats]] = []  # of each level: seconds when requests came, and took

    def rough(self, rate: float) -> None:
        """Rates that keep the promise and break it, by their points."""
        while self._left > self._budget / 2 and not (self._kept and self._above < math.inf):
            self._judged(rate, min(max(SHORTEST, FEWEST / rate), MOST * self._budget))
            rate = 2 * self._kept or self._above / 2

    def near(self, levels: int, left: float) -> None:
        """Levels at the likely peak, for all but so many seconds."""
        seconds = (self._left - left) / levels
        for _ in range(levels):
            if seconds > 0 and (about := self._about()):
                self._judged(about[0], seconds)

    def _judged(self, rate: float, seconds: float) -> tuple[Case, Judged]:
        """Carry out a level, and keep what it says."""
        self._left -= seconds
        case = self._measure(rate, seconds)
        stats = level_stats(case, SURE)
        verdict = level_judged(self._wanted, stats)
        self._fault = next((each for each in case.checks if each.outcome == "fail"), None)
        over, worth = zip(*(_over(promise, stats) for promise in self._wanted), strict=True)
        if stats is not None:
            self._seen.append((stats.requests.due, stats.requests.latency))
        if verdict.word == "broken" or max(over) == 1:
            self._broken, self._above = min(self._broken, rate), min(self._above, rate)
        elif any(share > tail for share, tail in zip(over, self._tails, strict=True)):
            self._above = min(self._above, rate)
        else:
            self._kept = max(self._kept, rate)
        self._levels.append((rate, [*over], [*worth]))
        return case, verdict

    def _about(self) -> tuple[float, float, float] | None:
        """The likely peak of the promise that breaks first."""
        if not self._kept or self._above == math.inf:
            return None
        rates, over, worth = (np.array(column) for column in zip(*self._levels, strict=True))
        return min(likely(rates, over[:, at], worth[:, at], tail) for at, tail in enumerate(self._tails))

    def _replayed(self) -> tuple[float, float, float] | None:
        """The same, by a replay of the server that the levels show, where they show one."""
        about = self._about()
        is_latency = all(each.metric == "latency" for each in self._wanted)
        queue = queue_of(self._seen) if about and is_latency else None
        if queue is None:
            return about
        return min(queue.breaks(each.limit, QUANTILES[each.quantile]) for each in self._wanted)

    def proven(self) -> Peak:
        """The likely peak, and a rate below it where a level of its own proves that."""
        rate = BACK * (self._about() or (self._kept or self._above / 2,))[0]
        needed = max(samples_needed(QUANTILES[each.quantile], SURE) for each in self._wanted)
        sentence, case = f"a proof takes {needed} requests, there is time for {int(rate * self._left)}", None
        if rate * self._left < needed and self._about():
            self.near(1, 0.0)
        else:
            case, verdict = self._judged(rate, self._left)
            sentence, case = verdict.sentence, case if verdict.word == "kept" else None
        if self._fault:
            sentence, case = self._fault.sentence, None
        broken = self._broken if self._broken < math.inf and (not case or self._broken > rate) else None
        advice = self._fault.next if self._fault else ""
        return Peak(rate if case else None, broken, case, sentence, advice, self._replayed())


def _over(promise: Promise, stats: LevelStats | None) -> tuple[float, float]:
    """Share of all requests over the limit, and how many independent ones that is worth. The share is 1 where
    the queue grows, or the median breaks the promise: then every quantile does."""
    if stats is None:
        return 1.0, 1.0
    rows = stats.requests
    own = {"latency": rows.latency, "ttft": rows.ttft, "tpot": rows.tpot, "itl": rows.gaps}[promise.metric]
    known = own[~np.isnan(own)]
    share = float((known > promise.limit).mean()) if len(known) else 1.0
    if stats.balance.grows or share > 0.5:
        return 1.0, float(len(known))
    return share, effective_size(np.minimum(known, _FAILED), QUANTILES[promise.quantile])


_SLOPES, _STEPS = np.geomspace(4.0, 16.0, 9), 400
"""Of the logit of a share in the logarithm of the rate: 5 to 12 for M/M/1 and M/D/3 near their peak."""
_MISSED = 0.1
"""Of an independent request over the limit: levels of seconds see fewer long busy spells than there are."""


def likely(rates: Floats, over: Floats, worth: Floats, tail: float) -> tuple[float, float, float]:
    """The rate at which `tail` of the requests are over the limit: its median and the ends of 90 %.

    A level has a rate, a share of requests over the limit, and is worth so many independent ones. The logit
    of the share, with what was missed, is taken for a line in the logarithm of the rate, above a half no
    further: a posterior over peak and slope, flat in the logarithm of either.
    """
    peaks = np.geomspace(rates.min() / 2, rates.max() * 2, _STEPS)
    line = math.log(tail / (1 - tail)) + np.multiply.outer(_SLOPES, np.log(rates / peaks[:, None]))
    share, seen = np.clip(1 / (1 + np.exp(-line)), 1e-9, 0.5), np.minimum(over + _MISSED / worth, 0.5)
    each = seen * np.log(share) + (1 - seen) * np.log(1 - share)
    fit = (worth * each).sum(axis=-1)
    mass = np.exp(fit - fit.max()).sum(axis=0).cumsum()
    low, middle, high = (float(peaks[np.searchsorted(mass, q * mass[-1])]) for q in (0.05, 0.5, 0.95))
    return middle, low, high
