"""What a server promises (an SLO), judged by the upper end of the interval: what may be broken is not kept.

latency=50ms@p99    ttft=300ms@p95,itl=40ms@p95    tpot=20ms@median
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from laptime.analysis.batch_means import mean_interval
from laptime.analysis.load import LevelStats
from laptime.analysis.quantiles import effective_size_of_mean
from laptime.analysis.stat import Stat
from laptime.kit.errors import unknown
from laptime.kit.units import show
from laptime.pricing import promises as pricing

METRICS = ("latency", "ttft", "itl", "tpot")

Word = Literal["kept", "broken", "undecided"]


class Promise(NamedTuple):
    """So many seconds, at this quantile of this metric."""

    metric: str
    limit: float
    quantile: str

    @property
    def text(self) -> str:
        """How it is typed: `latency=50ms@p99`."""
        limit = f"{self.limit:g}s" if self.limit >= 1 else f"{self.limit * 1e3:g}ms"
        return f"{self.metric}={limit}@{self.quantile}"


class Judged(NamedTuple):
    """Whether a level kept all promises; the sentence names the one that says so."""

    word: Word
    sentence: str


def promises(text: str) -> list[Promise]:
    """The promises that a text means, with commas between them; p99 where one names no quantile.

    Raises:
        UsageError: one is none.
    """
    return [_promise(part) for part in text.split(",") if part.strip()]


def _promise(text: str) -> Promise:
    metric, equals, rest = (part.strip() for part in text.replace("<=", "=").partition("="))
    if equals and metric not in METRICS:
        raise unknown("metric of a promise", metric, METRICS, option="--slo", example="--slo ttft=300ms@p95")
    one = pricing.promise(rest if equals else text)
    return Promise(metric if equals else "latency", one.limit, one.quantile)


def judged(wanted: list[Promise], stats: LevelStats | None) -> Judged:
    """Whether a level kept all of them: broken where one surely is, kept where all surely are."""
    if stats is None:
        return Judged("broken", "no request was answered")
    if stats.balance.grows:
        return Judged("broken", "its queue grows: above capacity")
    words = [_judged(promise, stats) for promise in wanted]
    for word in ("broken", "undecided"):
        if found := [each for each in words if each.word == word]:
            return found[0]
    return Judged("kept", "; ".join(each.sentence for each in words))


def _judged(promise: Promise, stats: LevelStats) -> Judged:
    stat = _stat(promise, stats)
    if stat is None:
        return Judged("undecided", f"{promise.metric} was not measured")
    if stat.note and stat.value is None and "failed" in stat.note:
        return Judged("broken", stat.note)
    if stat.value is None or stat.ci95 is None:
        return Judged("undecided", stat.note or f"too few requests for {promise.quantile}")
    low, high = stat.ci95
    known = f"{promise.quantile} {promise.metric} {show(stat.value, 's', stat.ci95)}"
    if high <= promise.limit:
        return Judged("kept", f"{known}, at most {show(high, 's')}")
    if low > promise.limit:
        return Judged("broken", f"{known}, at least {show(low, 's')}")
    return Judged("undecided", f"{known}, its interval reaches {show(high, 's')}")


def _stat(promise: Promise, stats: LevelStats) -> Stat | None:
    if promise.metric == "latency":
        return stats.latency.get(promise.quantile)
    if stats.tokens is None:
        return None
    series = {"ttft": stats.tokens.ttft, "tpot": stats.tokens.tpot, "itl": stats.tokens.gap}
    return series[promise.metric].get(promise.quantile)


def goodput(wanted: list[Promise], stats: LevelStats) -> tuple[float, float, float] | None:
    """Requests per second whose own times kept every limit, and its interval; None of a queue that grows.

    The ITL of a request is its TPOT. One that failed keeps nothing; one without a time between tokens breaks
    no limit on it.
    """
    rate = stats.answered.value
    if stats.balance.grows or rate is None:
        return None
    rows = stats.requests.since(stats.steady)
    keeps = np.isfinite(rows.latency)
    per_answer = rate / float(keeps.mean())
    for promise in wanted:
        own = {"latency": rows.latency, "ttft": rows.ttft}.get(promise.metric, rows.tpot)
        keeps &= ~(own > promise.limit)
    share = float(keeps.mean())
    around = mean_interval(keeps.astype(float))
    if around is None:
        return None
    # Where all are alike their spread says nothing: three requests more or less could have gone otherwise.
    doubt = 3 / effective_size_of_mean(rows.latency[np.isfinite(rows.latency)])
    low = around[0] if share < 1 else max(0.0, 1 - doubt)
    high = min(1.0, around[1]) if share > 0 else min(1.0, doubt)
    return share * per_answer, low * per_answer, high * per_answer
