"""Levels of load as they are planned, MLPerf's scenarios among them: a case, its facts, the order for
senders."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs

from laptime.analysis.load import QUANTILES, LevelStats, level_stats
from laptime.analysis.promises import Judged, Promise, level_judged
from laptime.analysis.quantiles import Floats, effective_size, samples_needed
from laptime.analysis.queues import queue_of
from laptime.kit.errors import UsageError, unknown
from laptime.loadgen import arrivals
from laptime.loadgen.messages import Level as Order
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.load import AT_ONCE, Level
from laptime.verbs.load.request import DURATION, LoadRequest

LEAST_AT_ONCE, MOST_AT_ONCE = 100, 20_000  # requests of the scenario Offline
CONNECTIONS = 64  # of these are under way at once if no number is given: some servers refuse more
LONGEST = 86400.0  # seconds that so many requests may take if no time is given
Planned = tuple[Case, Level, Order]


def plan_levels(request: LoadRequest, name: str, own: dict[str, Axis]) -> list[Planned]:
    """All levels of a request that names them, in its order; [] of the scenario Offline, see `at_once`."""
    if request.scenario == "Offline":
        return []
    if request.trace is not None:
        times = arrivals.from_trace(request.trace)
        limit, last = request.concurrency[0] if request.concurrency else None, float(times[-1])
        axes: dict[str, Axis] = {"trace": request.trace.name, **own}
        mean = (len(times) - 1) / last if last > 0 else None
        window = len(times) / mean if mean else 0.0  # with the gap after the last request
        return [_schedule(request, name, times.tolist(), window, axes, limit, mean)]
    if request.rates:
        return [open_level(request, name, rate, own) for rate in request.rates]
    return [closed_level(request, name, users, own) for users in request.concurrency]


def open_level(
    request: LoadRequest, name: str, rate: float, own: dict[str, Axis], seconds: float | None = None
) -> Planned:
    """A level of requests that come at a rate, for so many seconds if the request does not say."""
    seconds = seconds or _seconds(request)
    due = arrivals.schedule(
        request.arrivals,
        rate / request.turns,
        seconds=seconds,
        seed=request.seed,
        requests=_conversations(request),
        shape=request.shape,
    )
    window = len(due) * request.turns / rate
    limit = request.concurrency[0] if request.concurrency else None
    axes: dict[str, Axis] = {"rate": rate, "arrivals": request.arrivals}
    return _schedule(request, name, due.tolist(), window, {**axes, **own}, limit, rate)


def at_once(request: LoadRequest, name: str, own: dict[str, Axis], seconds: float) -> Planned:
    """The level of the scenario Offline: as many requests as one after another would take its time. seconds:
    that one answer took."""
    count = request.requests or min(
        MOST_AT_ONCE, max(LEAST_AT_ONCE, round(_seconds(request) / max(seconds, 1e-6)))
    )
    axes: dict[str, Axis] = {"arrivals": AT_ONCE, **own}
    limit = request.concurrency[0] if request.concurrency else CONNECTIONS
    patient = structs.replace(request, timeout=max(request.timeout, 10 * _seconds(request)))
    return _schedule(patient, name, [0.0] * count, 0.0, axes, None if own else limit, None)


def closed_level(request: LoadRequest, name: str, users: int, own: dict[str, Axis]) -> Planned:
    """A level of users who wait for each answer."""
    seconds = LONGEST if request.requests and not request.duration else _seconds(request)
    return _schedule(request, name, [], seconds, {"concurrency": users, **own}, users, None)


def _schedule(
    request: LoadRequest,
    name: str,
    due: Sequence[float],
    window: float,
    axes: dict[str, Axis],
    limit: int | None,
    rate: float | None,
) -> Planned:
    """A level of requests that are due at these times; without any, of `limit` users."""
    if limit is not None:
        axes["concurrency"] = limit
    facts = Level(
        kind="open" if due else "closed",
        asked=_average(request),
        scenario=request.scenario,
        slo=request.slo,
        usd_per_hour=request.usd_per_hour,
        rate=rate,
        arrivals=str(axes.get("arrivals", "trace")) if due else "",
        concurrency=limit,
        scheduled=len(due) * request.turns,
        turns=request.turns,
        window=window,
    )
    order = Order(
        begin=0.0,
        end=window,
        due=list(due),
        index=list(range(len(due))),
        users=0 if due else limit or 0,
        requests=None if due else _conversations(request),
        limit=limit if due else None,
        turns=request.turns,
        patience=request.timeout + 1,
    )
    return Case(key=case_key(name, axes), target=name, axes=axes), facts, order


def _conversations(request: LoadRequest) -> int | None:
    return -(-request.requests // request.turns) if request.requests else None


def _seconds(request: LoadRequest) -> float:
    return request.budget if request.auto else request.duration or DURATION


def _average(request: LoadRequest) -> tuple[int, int] | None:
    """On average: a later turn of a conversation holds the prompts and answers of those before it."""
    before = (request.turns - 1) / 2
    prompt = round(request.prompt + before * (request.prompt + request.output))
    return (prompt, request.output) if request.is_language_model else None


# MLPerf's scenarios (Reddi et al., MLPerf Inference Benchmark, ISCA 2020, 4.2) as levels of load:
#
# SingleStream    one user, who sends again when the answer is there; its figure is the p90 latency
# Server          requests come at random (poisson) at a rate; the figure is the rate that keeps a promise
# Offline         all requests are there at once; the figure is how many are answered per second

NAMES = ("SingleStream", "Server", "Offline")


def resolve(request: LoadRequest) -> LoadRequest:
    """The request with what its scenario means.
    Raises UsageError: there is no such scenario, or other options say something else."""
    if not request.scenario:
        return request
    known = {name.lower(): name for name in NAMES}
    name = known.get(request.scenario.lower().replace("-", "").replace("_", ""))
    if name is None:
        raise unknown("scenario", request.scenario, NAMES, option="--scenario")
    request = structs.replace(request, scenario=name)
    if name == "Server":
        return _server(request)
    if request.rates or request.trace or request.find_peak:
        raise _refuse(name, "--rate, --trace and --find-peak", "it has no rate: requests come as answers do")
    if name == "Offline":
        return request
    if request.concurrency not in ([], [1]):
        raise _refuse(name, "--concurrency", "it has one user")
    return structs.replace(request, concurrency=[1])


def _server(request: LoadRequest) -> LoadRequest:
    if request.arrivals != "poisson" or request.trace:
        raise _refuse("Server", "--arrivals and --trace", "its requests come at random, --arrivals poisson")
    if not (request.rates or request.find_peak):
        raise UsageError(
            "the scenario Server needs a rate",
            why="its requests come at random, at a given rate",
            next="--scenario Server --rate 8, or --find-peak --slo latency=50ms@p99",
        )
    return request


def _refuse(name: str, options: str, why: str) -> UsageError:
    return UsageError(f"{options} do not go with --scenario {name}", why=why, next="leave one of them out")


# The search for the highest level that keeps a promise.


SHORTEST, FEWEST, MOST = 2.0, 60, 0.05  # seconds and requests of a rough level; its share of the budget
NEAR, PROOF, BACK = 3, 0.3, 0.65
"""Levels at the likely peak; share of the budget for a proof, and of the likely peak: near the edge a tail is
known well enough after hours only."""
SURE = 0.90  # of a two-sided interval, whose upper end is the limit at 95 %: 5 % of claims may be wrong
_FAILED = 1e12  # seconds that a request that failed took
Measure = Callable[[float, float], Case]  # a level of so many requests per second, for so many seconds


class PeakLevel(NamedTuple):
    rate: float | None  # requests per second that certainly keep the promise; None if no rate was proven
    broken: float | None  # the lowest rate that certainly breaks it; None if none did
    case: Case | None  # the level of `rate`
    sentence: str  # of the level that decided
    advice: str = ""  # of the check that made the last level invalid, else ""
    # the likely peak by all levels and the ends between which it lies with 90 %; None if no level broke
    # the promise, or none kept it
    about: tuple[float, float, float] | None = None


def find_peak(measure: Measure, wanted: Sequence[Promise], *, start: float, budget: float) -> PeakLevel:
    """The highest rate that keeps all promises. start: a rate that the server probably can serve. budget:
    seconds of sending, in all."""
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
        """LevelRow that keep the promise and break it, by their points."""
        while self._left > self._budget / 2 and not (self._kept and self._above < math.inf):
            self._try_rate(rate, min(max(SHORTEST, FEWEST / rate), MOST * self._budget))
            rate = 2 * self._kept or self._above / 2

    def near(self, levels: int, left: float) -> None:
        """Levels at the likely peak, for all but so many seconds."""
        seconds = (self._left - left) / levels
        for _ in range(levels):
            if seconds > 0 and (about := self._about()):
                self._try_rate(about[0], seconds)

    def _try_rate(self, rate: float, seconds: float) -> tuple[Case, Judged]:
        """Carry out a level, and keep what it says."""
        self._left -= seconds
        case = self._measure(rate, seconds)
        stats = level_stats(case, SURE)
        verdict = level_judged(self._wanted, stats)
        self._fault = next((check for check in case.checks if check.outcome == "fail"), None)
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

    def _replay(self) -> tuple[float, float, float] | None:
        """The same, by a replay of the server that the levels show, where they show one."""
        about = self._about()
        is_latency = all(each.metric == "latency" for each in self._wanted)
        queue = queue_of(self._seen) if about and is_latency else None
        if queue is None:
            return about
        return min(queue.breaks(each.limit, QUANTILES[each.quantile]) for each in self._wanted)

    def proven(self) -> PeakLevel:
        """The likely peak, and a rate below it if a level of its own proves that."""
        rate = BACK * (self._about() or (self._kept or self._above / 2,))[0]
        needed = max(samples_needed(QUANTILES[each.quantile], SURE) for each in self._wanted)
        sentence, case = f"a proof takes {needed} requests, there is time for {int(rate * self._left)}", None
        if rate * self._left < needed and self._about():
            self.near(1, 0.0)
        else:
            case, verdict = self._try_rate(rate, self._left)
            sentence, case = verdict.sentence, case if verdict.word == "kept" else None
        if self._fault:
            sentence, case = self._fault.sentence, None
        broken = self._broken if self._broken < math.inf and (not case or self._broken > rate) else None
        advice = self._fault.next if self._fault else ""
        return PeakLevel(rate if case else None, broken, case, sentence, advice, self._replay())


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
_MISSED = 0.1  # of an independent request over the limit: levels of seconds see too few long busy spells


def likely(rates: Floats, over: Floats, worth: Floats, tail: float) -> tuple[float, float, float]:
    """The rate at which `tail` of the requests are over the limit: its median and the ends of 90 %.

    A level has a rate, a share of requests over the limit, and is worth so many independent ones. The logit
    of the share, with what was missed, is taken for a line in the logarithm of the rate, above a half no
    further: a posterior over peak and slope, flat in the logarithm of either."""
    peaks = np.geomspace(rates.min() / 2, rates.max() * 2, _STEPS)
    line = math.log(tail / (1 - tail)) + np.multiply.outer(_SLOPES, np.log(rates / peaks[:, None]))
    share, seen = np.clip(1 / (1 + np.exp(-line)), 1e-9, 0.5), np.minimum(over + _MISSED / worth, 0.5)
    each = seen * np.log(share) + (1 - seen) * np.log(1 - share)
    fit = (worth * each).sum(axis=-1)
    mass = np.exp(fit - fit.max()).sum(axis=0).cumsum()
    low, middle, high = (float(peaks[np.searchsorted(mass, q * mass[-1])]) for q in (0.05, 0.5, 0.95))
    return middle, low, high
