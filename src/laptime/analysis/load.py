"""One level of load in numbers: its requests in order of arrival, whether the queue grows, latencies, tokens.

Requests are not independent: one that waits makes those behind it wait, too. Whatever has an interval here
has it from batch means in order of arrival (`batch_means`)."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from laptime.analysis.batch_means import find_needed, mean_interval, quantile_interval, upwards, worth
from laptime.analysis.open_loop import Balance, balance, dead_since
from laptime.analysis.quantiles import LEVEL, Floats, effective_size_of_mean
from laptime.analysis.stat import Stat
from laptime.analysis.steady import WARM_UP_SHARE, settle
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.load import ANSWERED, AT_ONCE, Level
from laptime.records.quantity import Quantity
from laptime.records.requests import GAP, TPOT, TTFT, Requests
from laptime.records.series import Metric

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Rows(NamedTuple):
    """The requests of a level in order of arrival, a column each; all times in seconds."""

    due: Floats  # since the run started
    latency: Floats  # infinite if the request failed
    end: Floats  # when it ended, well or not, since the run started
    # late, turn: nan if it did
    late: Floats
    turn: Floats
    # ttft, tpot: nan if there was none
    ttft: Floats
    tpot: Floats
    turns: Floats  # number in its conversation, from 1 on
    # prompt, output: tokens; nan if the server did not count them
    prompt: Floats
    output: Floats
    gaps: Floats  # seconds between chunks, request by request; it alone has not one value for each

    def since(self, first: int) -> "Rows":
        """Return the rows from this one on; gaps are those of all."""
        cut = {name: column[first:] for name, column in self._asdict().items() if name != "gaps"}
        return self._replace(**cut)


class Tokens(NamedTuple):
    """The tokens of one level, in order of arrival from the first request that counts."""

    # ttft, tpot: by name of the quantile
    ttft: dict[str, Stat]
    tpot: dict[str, Stat]
    gap: dict[str, Stat]  # between chunks; these are tokens if `exact`
    exact: bool  # every chunk held one token, by the server's counts
    # sent, got: tokens per second in and out; None if they were not counted
    sent: float | None
    got: float | None
    # prompt, output: tokens of a request, on average
    prompt: float
    output: float
    per_answer: Quantity | None  # output tokens of an answer; None if one was not counted
    short: float  # share of the answers that are shorter than was asked for
    by_turn: list[Stat]  # median TTFT of each turn of conversations; [] if there are none


class LevelStats(NamedTuple):
    """A level in numbers."""

    facts: Level  # what was asked for and what became of it
    requests: Rows  # all
    steady: int  # index of the first that counts
    balance: Balance  # whether its queue grew; of users it cannot
    answered: Stat  # whole answers per second, with its interval
    # by name (mean, median, p90, p95, p99); without a value if the requests cannot support one, and of a
    # queue that grows
    latency: dict[str, Stat]
    late: float  # seconds behind schedule, 99 of 100 less
    turn: float  # seconds of waiting for a turn, on average
    # 95 of 100 of the requests that came were answered within so many seconds, whatever would come after
    # them; infinite if more failed
    window: float
    tokens: Tokens | None = None  # of a language model
    dead: float | None = None  # when the last answer came, in seconds since the run started, if it died then


def level_stats(case: Case, level: float = LEVEL) -> LevelStats | None:
    """The numbers of a case that is a level of load and has answers; else None. level: of the intervals."""
    facts = case.details.load
    if facts is None or case.requests is None:
        return None
    requests = rows_of(case.requests)
    whole = np.isfinite(requests.latency)
    if not whole.any():
        return None
    at_once = facts.arrivals == AT_ONCE
    start = 0 if at_once else int(np.nonzero(whole)[0][settle(requests.latency[whole]).start])
    start = start if start <= max(10, WARM_UP_SHARE * len(whole)) else 0  # later it is a queue, or a stall
    dead, weighed = dead_since(requests.due, requests.end, whole, facts.users), Balance(False, 0.0)
    if facts.kind == "open" and dead is None:
        weighed = balance(requests.due, requests.end, facts.rate)
    latency = requests.latency[start:]
    finite = latency[np.isfinite(latency)]
    mean, ends = float(finite.mean()), mean_interval(finite, level)
    ends = ends and upwards(mean, ends, effective_size_of_mean(finite) / len(finite), len(finite))
    stats = {"mean": _stat("mean", facts.regime, mean, ends, len(finite))}
    for name, q in QUANTILES.items():
        value = float(np.quantile(latency, q, method="higher"))
        ci95 = quantile_interval(latency, q, level)
        failed = f"{np.isinf(latency).mean():.0%} of the requests failed" if math.isinf(value) else ""
        note = failed or ("" if ci95 else _lacking(name, latency, q, level))
        supported = not note or name == "median"
        stats[name] = _stat(name, facts.regime, value if supported else None, ci95, len(latency), note)
    note = "all are due at once, so that each waits for those before it" if at_once else ""
    if weighed.grows:
        note = f"above capacity: {weighed.growth:.3g} requests/s more came than were answered"
    stats = {name: stat.without(note) for name, stat in stats.items()} if note else stats
    answered = _rate_answers(requests, facts, weighed, dead is None)
    made = tokens(requests, facts, start, answered.value or 0.0)  # a TTFT at once is the place in the queue
    return LevelStats(
        facts=facts,
        requests=requests,
        steady=start,
        balance=weighed,
        answered=answered,
        latency=stats,
        late=float(np.quantile(requests.late[whole], 0.99)),
        turn=float(requests.turn[whole].mean()),
        window=float(np.quantile(requests.latency, 0.95, method="higher")),
        tokens=made if made is None or not at_once else made._replace(ttft={}, by_turn=[]),
        dead=dead,
    )


def rows_of(requests: Requests) -> Rows:
    """A level's requests in order of arrival: by when each was due, then by number."""
    rows = sorted(requests.rows(), key=lambda row: (row.due, row.number))
    times = [(row.due, row.woken, row.sent, row.first, row.end) for row in rows]
    due, woken, sent, first, end = np.asarray(times, dtype=float).reshape(-1, 5).T
    whole = np.asarray([row.is_whole for row in rows], dtype=bool)
    streamed = np.asarray([row.is_streamed for row in rows], dtype=bool)
    counts = [row.usage[:2] if row.usage and row.is_whole else (np.nan, np.nan) for row in rows]
    prompt, output = np.asarray(counts, dtype=float).reshape(-1, 2).T
    return Rows(
        due=due,
        latency=np.where(whole, end - due, np.inf),
        end=end,
        late=np.where(whole, woken - due, np.nan),
        turn=np.where(whole, sent - woken, np.nan),
        ttft=np.where(streamed, first - due, np.nan),
        tpot=np.asarray([np.nan if row.tpot is None else row.tpot for row in rows], dtype=float),
        turns=np.asarray([row.turn + 1 for row in rows], dtype=float),
        prompt=prompt,
        output=output,
        gaps=np.array([b - a for row in rows if row.is_streamed for a, b in pairwise(row.chunks)], float),
    )


def _rate_answers(requests: Rows, facts: Level, weighed: Balance, lives: bool) -> Stat:
    """Whole answers per second: of a rate, or a server that died, those to requests of its window, however
    late; of a queue that grows what left it while it was there; of users what they get while they send."""
    whole = np.isfinite(requests.latency)
    ends, begin = np.sort(requests.end[whole]), float(requests.due[0])
    between, count = None, float(len(ends))
    if weighed.grows:
        # From the middle of one half of the answers to that of the other: slots may answer in waves.
        count = float(len(ends) - len(ends) // 2)
        seconds = float(ends[-(len(ends) // 2) :].mean() - ends[: len(ends) // 2].mean())
        between = mean_interval(np.diff(ends))
    elif facts.arrivals == AT_ONCE:
        seconds = float(ends[-1]) - begin
        between = _of_bridge(ends - begin)
    elif facts.kind == "closed" and lives:
        seconds, count = _by_users(requests, facts.users or 1)
        until = float(requests.due.max())
        between = _of_bridge(ends[ends < until] - begin)
    else:
        # Seconds in which requests came; of a level that was cut short as long as it went.
        first, last, n = float(requests.due[0]), float(requests.due[-1]), len(requests.due)
        is_all = facts.window and (n >= facts.scheduled or last - first > 0.9 * facts.window)
        seconds = facts.window if is_all else (last - first) * n / max(1, n - 1)
    value = count / seconds if seconds > 0 else math.nan
    around = None
    if weighed.least < value:
        around = weighed.least, value
    elif between and between[0] > 0 and math.isfinite(value):
        middle = 2 / (between[0] + between[1])
        around = value / middle / between[1], value / middle / between[0]
    quantity = Quantity.of(value, around, len(ends), "1/s") if math.isfinite(value) else None
    return Stat(ANSWERED.tag, "answered", "1/s", quantity, len(ends), better="higher")


def _by_users(requests: Rows, users: int) -> tuple[float, float]:
    """Seconds from when each user had an answer until the last request was sent, and answers in them; of one
    under way the share that is over. If that is most of the level, whole ones from the beginning on."""
    whole = np.isfinite(requests.latency)
    due, took, ends = requests.due[whole], requests.latency[whole], np.sort(requests.end[whole])

    def by(second: float) -> float:
        begun = np.clip((second - due) / np.maximum(took, 1e-9), 0.0, 1.0)
        return float(begun.sum())

    first, last = float(requests.due[0]), float(requests.due.max())
    begin = float(ends[min(users, len(ends)) - 1])
    begin = begin if begin - first < (last - first) / 2 and whole.all() else first
    if last <= begin:
        return float(np.sort(requests.end)[-users:].mean()) - first, float(len(ends))
    return last - begin, by(last) - by(begin) if begin > first else float((ends <= last).sum())


def _of_bridge(ends: Floats) -> tuple[float, float] | None:
    """Interval of the mean time between answers, by how far their times lie from a straight line: answers
    that come in waves are far from it once, not once a wave (Schruben, Confidence Interval Estimation Using
    Standardized Time Series, Operations Research 31, 1983; the Cramer-von Mises estimator has about 5
    degrees of freedom: Goldsman, Kang & Seila, Operations Research 47, 1999)."""
    n = len(ends)
    if n < 3:
        return None
    mean = float(ends[-1]) / n
    bridge = ends - mean * np.arange(1, n + 1)
    half = t_quantile(0.975, 5) * math.sqrt(6 * float((bridge**2).mean())) / n
    return max(0.0, mean - half), mean + half


def _lacking(name: str, values: Floats, q: float, level: float = LEVEL) -> str:
    """Say why a quantile is not shown, and how much longer a level must be to show it."""
    have = max(1, math.floor(worth(values, q)))
    need = find_needed(q, have / len(values), level)
    note = f"{name} needs {need} independent requests, these are worth {have}"
    return f"{note}: about {max(2, math.ceil(1.5 * need / have))} times as long a level shows it"


def _stat(
    name: str, regime: str, value: float | None, ci95: tuple[float, float] | None, n: int, note: str = ""
) -> Stat:
    quantity = None if value is None or math.isinf(value) else Quantity.of(value, ci95, n, "s")
    return Stat(f"latency/{regime}/{name}", f"{name} latency", "s", quantity, n, regime, "lower", note)


def tokens(rows: Rows, facts: Level, steady: int, answered: float) -> Tokens | None:
    """The tokens of a level; None if there are none. rows: in order of arrival. steady: of the first that
    counts. answered: answers per second."""
    if facts.asked is None or np.isnan(rows.ttft).all():
        return None
    prompt, output = _drop_nan(rows.prompt), _drop_nan(rows.output)
    counted = bool(len(output)) and not facts.uncounted
    turns, first = rows.turns[steady:], rows.ttft[steady:]
    several = range(1, facts.turns + 1) if facts.turns > 1 else ()
    made = [_quantiles(_drop_nan(first[turns == turn]), TTFT) for turn in several]
    return Tokens(
        ttft=_quantiles(_drop_nan(rows.ttft[steady:]), TTFT),
        tpot=_quantiles(_drop_nan(rows.tpot[steady:]), TPOT),
        gap=_quantiles(rows.gaps, GAP),
        exact=counted and facts.chunks == int(output.sum()),
        sent=float(prompt.mean()) * answered if counted and prompt.any() else None,
        got=float(output.mean()) * answered if counted else None,
        prompt=float(prompt.mean()) if len(prompt) else 0.0,
        output=float(output.mean()) if len(output) else 0.0,
        per_answer=Quantity.of(float(output.mean()), mean_interval(output), len(output)) if counted else None,
        short=float((output < facts.asked[1]).mean()) if len(output) else 0.0,
        by_turn=[stats["median"] for stats in made if stats],
    )


def _drop_nan(values: Floats) -> Floats:
    known: Floats = values[~np.isnan(values)]
    return known


def _quantiles(values: Floats, metric: Metric) -> dict[str, Stat]:
    stats: dict[str, Stat] = {}
    for name, q in QUANTILES.items() if len(values) else ():
        ci95 = quantile_interval(values, q)
        value = float(np.quantile(values, q)) if ci95 is not None or name == "median" else None
        quantity = None if value is None else Quantity.of(value, ci95, len(values), metric.unit)
        tag, title = f"{metric.tag}/{name}", f"{name} {metric.title}"
        note = "" if ci95 else _lacking(title, values, q)
        stats[name] = Stat(tag, title, metric.unit, quantity, len(values), better="lower", note=note)
    return stats
