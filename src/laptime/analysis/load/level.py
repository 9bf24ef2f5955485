"""One level of load in numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from msgspec import structs

from laptime.analysis.load.balance import Balance, balance
from laptime.analysis.load.batch_means import mean_interval, quantile_interval, worth
from laptime.analysis.load.tokens import Tokens, tokens
from laptime.analysis.quantiles import LEVEL, Floats, samples_needed
from laptime.analysis.stat import Stat
from laptime.analysis.steady import settle
from laptime.records.case import Case
from laptime.records.load import ANSWERED, AT_ONCE, FAILED, LATE, TURN, Level, level_of

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Requests(NamedTuple):
    """The requests of a level in order of arrival; all times in seconds.

    Attributes:
        due: since the run started. latency: infinite where the request failed. late, turn: nan where it did.
        end: when it ended, well or not, since the run started.
    """

    due: Floats
    latency: Floats
    end: Floats
    late: Floats
    turn: Floats


class LevelStats(NamedTuple):
    """A level in numbers.

    Attributes:
        facts: what was asked for and what became of it.
        requests: all. steady: index of the first that counts.
        balance: whether its queue grew; of users it cannot.
        answered: whole answers per second, with its interval.
        latency: by name (mean, median, p90, p95, p99); without a value where the requests cannot support one,
            and of a queue that grows.
        late: seconds behind schedule, 99 of 100 less. turn: seconds of waiting for a turn, on average.
        window: 95 of 100 of the requests that came were answered within so many seconds, whatever would come
            after them; infinite where more failed.
        tokens: of a language model.
    """

    facts: Level
    requests: Requests
    steady: int
    balance: Balance
    answered: Stat
    latency: dict[str, Stat]
    late: float
    turn: float
    window: float
    tokens: Tokens | None = None


def requests_of(case: Case, facts: Level) -> Requests:
    """All requests of a level, in order of arrival."""
    answered, failed = case.find("latency", facts.regime), case.find(FAILED.tag, facts.regime)
    late, turn = (case.find(metric.tag, facts.regime) for metric in (LATE, TURN))
    good = np.asarray(answered.samples if answered else [])
    bad = np.asarray(failed.samples if failed else [])
    due = np.concatenate([answered.at if answered else [], failed.at if failed else []])
    order = np.argsort(due, kind="stable")
    nothing = np.full(len(bad), np.nan)
    return Requests(
        due=due[order],
        latency=np.concatenate([good, np.full(len(bad), np.inf)])[order],
        end=(due + np.concatenate([good, bad]))[order],
        late=np.concatenate([late.samples if late else np.zeros(len(good)), nothing])[order],
        turn=np.concatenate([turn.samples if turn else np.zeros(len(good)), nothing])[order],
    )


def level_stats(case: Case, level: float = LEVEL) -> LevelStats | None:
    """The numbers of a case that is a level of load and has answers; else None.

    Args:
        level: of the intervals.
    """
    facts = level_of(case)
    if facts is None:
        return None
    requests = requests_of(case, facts)
    whole = np.isfinite(requests.latency)
    if not whole.any():
        return None
    at_once = facts.arrivals == AT_ONCE
    start = 0 if at_once else int(np.nonzero(whole)[0][settle(requests.latency[whole]).start])
    weighed = balance(requests.due, requests.end) if facts.kind == "open" else Balance(False, 0.0, 0)
    latency = requests.latency[start:]
    stats = _latency(latency, facts.regime, weighed, level)
    answered = _answered(requests, start, weighed, by_answers=at_once or facts.kind == "closed")
    return LevelStats(
        facts=facts,
        requests=requests,
        steady=start,
        balance=weighed,
        answered=answered,
        latency=_untold(stats, "all are due at once, so that each waits for those before it")
        if at_once
        else stats,
        late=float(np.quantile(requests.late[whole], 0.99)),
        turn=float(requests.turn[whole].mean()),
        window=float(np.quantile(requests.latency, 0.95, method="higher")),
        tokens=_tokens(case, facts, float(requests.due[start]), answered.value or 0.0),
    )


def _tokens(case: Case, facts: Level, steady: float, answered: float) -> Tokens | None:
    """Where all requests are due at once a TTFT is the place in the queue."""
    made = tokens(case, facts, steady, answered)
    return made._replace(ttft={}, by_turn=[]) if made and facts.arrivals == AT_ONCE else made


def _answered(requests: Requests, start: int, weighed: Balance, *, by_answers: bool) -> Stat:
    """Whole answers per second while requests came.

    Args:
        by_answers: requests come as answers go, so that the times between answers say how well it is known.
    """
    whole = np.isfinite(requests.latency)
    begin, last = float(requests.due[start]), float(requests.due[-1])
    ends = np.sort(requests.end[whole])
    ends = ends[ends >= begin]
    # Users send until the end; a queue that grows is emptied after it, which is not the rate of the window.
    inside = ends[ends <= last] if weighed.grows else ends
    seconds = (last if weighed.grows else float(ends[-1])) - begin
    value = len(inside) / seconds if seconds > 0 else math.nan
    between = mean_interval(np.diff(ends, prepend=begin)) if by_answers else None
    return Stat(
        tag=ANSWERED.tag,
        title="answered",
        unit="1/s",
        value=value if math.isfinite(value) else None,
        ci95=(1 / between[1], 1 / between[0]) if between and between[0] > 0 else None,
        n=len(inside),
        better="higher",
    )


def _latency(latency: Floats, regime: str, weighed: Balance, level: float) -> dict[str, Stat]:
    finite = latency[np.isfinite(latency)]
    stats = {"mean": _stat("mean", regime, float(finite.mean()), mean_interval(finite, level), len(finite))}
    for name, q in QUANTILES.items():
        value = float(np.quantile(latency, q, method="higher"))
        ci95 = quantile_interval(latency, q, level)
        note = ""
        if math.isinf(value):
            note = f"{np.isinf(latency).mean():.0%} of the requests failed"
        elif ci95 is None:
            have = math.floor(worth(latency, q))
            note = f"{name} needs {samples_needed(q, level)} independent requests, these are worth {have}"
        supported = not note or name == "median"
        stats[name] = _stat(name, regime, value if supported else None, ci95, len(latency), note)
    if weighed.grows:
        note = f"above capacity: {weighed.growth:.3g} requests/s more came than were answered"
        return _untold(stats, note)
    return stats


def _untold(stats: dict[str, Stat], note: str) -> dict[str, Stat]:
    return {name: structs.replace(stat, value=None, ci95=None, note=note) for name, stat in stats.items()}


def _stat(
    name: str, regime: str, value: float | None, ci95: tuple[float, float] | None, n: int, note: str = ""
) -> Stat:
    return Stat(
        tag=f"latency/{regime}/{name}",
        title=f"{name} latency",
        unit="s",
        value=None if value is None or math.isinf(value) else value,
        ci95=ci95,
        n=n,
        regime=regime,
        better="lower",
        note=note,
    )
