"""Promises about answers (SLOs): how they are typed, and whether they are kept.

    50ms    latency=50ms@p99    ttft=300ms@p95,itl=40ms@p95    tpot=20ms@median

The one parser of `--slo`, for load, cost and tune, and the one place that holds quantiles against it."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from laptime.analysis.stat import Stat
from laptime.kit.errors import UsageError, unknown
from laptime.kit.units import seconds, show
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.series import Regime

if TYPE_CHECKING:
    from laptime.analysis.load import LevelStats  # numpy, which reading options does without

METRICS = ("latency", "ttft", "itl", "tpot")
QUANTILES = ("median", "p90", "p95", "p99")
_FORM = re.compile(r"([^@=<]+?)(?:\s*@\s*(\w+))?", re.ASCII)
ONE_BY_ONE = (Regime.PACED, Regime.ISOLATED)
"""Regimes in which a call is timed as somebody who waits for it sees it."""


class Promise(NamedTuple):
    """At most so many seconds, at this quantile of this metric."""

    limit: float
    quantile: str = "p99"
    metric: str = "latency"

    @property
    def text(self) -> str:
        """How it is typed: `latency=50ms@p99`."""
        limit = f"{self.limit:g}s" if self.limit >= 1 else f"{self.limit * 1e3:g}ms"
        return f"{self.metric}={limit}@{self.quantile}"


class Judged(NamedTuple):
    """Whether promises are kept. The sentence names the one that says so; `value`: its seconds."""

    word: Judgement
    sentence: str
    value: float | None = None


def promises(text: str) -> list[Promise]:
    """The promises that a text means, with commas between them; p99 if one names no quantile.
    Raises UsageError: one of them cannot be read."""
    return [_promise(part) for part in text.split(",") if part.strip()]


def promise_of_calls(text: str) -> Promise:
    """Return the one promise about calls made one after the other, which have a latency and nothing else.
    Raises UsageError: it cannot be read, is about something else, or there are several."""
    wanted = promises(text)
    if len(wanted) != 1 or wanted[0].metric != "latency":
        raise UsageError(
            f"{text!r} is not a single limit on latency",
            why="calls made one after another have only a latency; a server's answers have more times",
            next="--slo latency=50ms@p99   or laptime load, which measures answers",
        )
    return wanted[0]


def text(wanted: Sequence[Promise]) -> str:
    """Say how promises are typed, with commas between them."""
    return ",".join(each.text for each in wanted)


def _promise(text: str) -> Promise:
    metric, equals, rest = (part.strip() for part in text.replace("<=", "=").partition("="))
    if equals and metric not in METRICS:
        raise unknown("metric of a promise", metric, METRICS, option="--slo", example="--slo ttft=300ms@p95")
    match = _FORM.fullmatch(rest if equals else text.strip())
    quantile = (match[2] or "p99") if match else ""
    quantile = {"p50": "median"}.get(quantile, quantile)
    if match is None or quantile not in QUANTILES:
        why = f"a promise is a duration, an @ and one of {', '.join(QUANTILES)}"
        raise UsageError(f"{text!r} is not a promise", why=why, next="--slo latency=50ms@p99")
    return Promise(seconds(match[1]), quantile, metric if equals else "latency")


def judge(wanted: Sequence[Promise], found: Callable[[Promise], Stat | None]) -> Judged:
    """Whether all of them are kept: one certainly broken breaks all. found: the statistic that a promise
    is about; None if it was not measured."""
    each = [_judge(promise, found(promise)) for promise in wanted]
    word = Judgement.of_all(one.word for one in each)
    if word is not KEPT:
        return next(one for one in each if one.word is word)
    return Judged(KEPT, "; ".join(one.sentence for one in each), each[0].value if each else None)


def _judge(promise: Promise, stat: Stat | None) -> Judged:
    if stat is None:
        return Judged(UNDECIDED, f"{promise.metric} was not measured")
    if stat.quantity is None:
        # More requests failed than the quantile leaves out: what it would be is known without an interval.
        return Judged(BROKEN if "failed" in stat.note else UNDECIDED, stat.note)
    if stat.ci95 is None:
        return Judged(UNDECIDED, stat.note or f"too few calls for {promise.quantile}", stat.quantity.value)
    word = stat.quantity.judge(promise.limit)
    low, high = (show(end, "s") for end in stat.ci95)
    reach = {KEPT: f"at most {high}", BROKEN: f"at least {low}", UNDECIDED: f"its interval reaches {high}"}
    text = f"{promise.quantile} {promise.metric} {stat.text}, {reach[word]}"
    return Judged(word, text, stat.quantity.value)


def calls_judged(wanted: Sequence[Promise], stats: dict[str, Stat], regime: str) -> Judged:
    """Whether the calls of a regime keep them."""
    return judge(wanted, lambda each: stats.get(f"{each.metric}/{regime}/{each.quantile}"))


def level_judged(wanted: Sequence[Promise], stats: "LevelStats | None") -> Judged:
    """Whether a level of load keeps them; one above capacity keeps none."""
    if stats is None:
        return Judged(BROKEN, "no request was answered")
    if stats.balance.grows:
        return Judged(BROKEN, "its queue grows: above capacity")
    tokens = stats.tokens
    by_metric = {"latency": stats.latency}
    if tokens is not None:
        by_metric |= {"ttft": tokens.ttft, "tpot": tokens.tpot, "itl": tokens.gap}
        if not tokens.exact and any(each.metric == "itl" for each in wanted):
            return Judged(UNDECIDED, "itl is not known: chunks are not single tokens; --slo tpot=... is")
    return judge(wanted, lambda each: by_metric.get(each.metric, {}).get(each.quantile))
