"""Levels of load as they are planned, MLPerf's scenarios among them: a case, its facts, the order for
senders."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from laptime.kit.errors import UsageError, unknown
from laptime.loadgen import arrivals
from laptime.loadgen.messages import Level as Order
from laptime.records.case import Axis, Case, case_key
from laptime.records.load import AT_ONCE, Level
from laptime.verbs.load.request import DURATION, LoadRequest

LEAST_AT_ONCE, MOST_AT_ONCE = 100, 20_000  # requests of the scenario Offline
CONNECTIONS = 64
"""Of these are under way at once where nobody says how many: more are refused by some servers."""
LONGEST = 86400.0  # seconds that so many requests may take where nobody says how long
Planned = tuple[Case, Level, Order]


def planned(request: LoadRequest, name: str, own: dict[str, Axis]) -> list[Planned]:
    """All levels of a request that names them, in its order; [] of the scenario Offline, see `at_once`."""
    if request.scenario == "Offline":
        return []
    if request.trace is not None:
        return [_traced(request, name, own)]
    if request.rates:
        return [open_level(request, name, rate, own) for rate in request.rates]
    return [closed_level(request, name, users, own) for users in request.concurrency]


def open_level(
    request: LoadRequest, name: str, rate: float, own: dict[str, Axis], seconds: float | None = None
) -> Planned:
    """A level of requests that come at a rate, for so many seconds where the request does not say."""
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
    return _scheduled(request, name, due.tolist(), window, {**axes, **own}, limit, rate)


def _traced(request: LoadRequest, name: str, own: dict[str, Axis]) -> Planned:
    assert request.trace is not None
    due = arrivals.from_trace(request.trace)
    window = float(due[-1])
    limit = request.concurrency[0] if request.concurrency else None
    rate = (len(due) - 1) / window if window > 0 else None
    return _scheduled(request, name, due.tolist(), window, {"trace": request.trace.name, **own}, limit, rate)


def at_once(request: LoadRequest, name: str, own: dict[str, Axis], seconds: float) -> Planned:
    """The level of the scenario Offline: as many requests as one after another would take its time. seconds:
    that one answer took."""
    count = request.requests or min(
        MOST_AT_ONCE, max(LEAST_AT_ONCE, round(_seconds(request) / max(seconds, 1e-6)))
    )
    axes: dict[str, Axis] = {"arrivals": AT_ONCE, **own}
    limit = request.concurrency[0] if request.concurrency else CONNECTIONS
    patient = structs.replace(request, timeout=max(request.timeout, 10 * _seconds(request)))
    return _scheduled(patient, name, [0.0] * count, 0.0, axes, None if own else limit, None)


def closed_level(request: LoadRequest, name: str, users: int, own: dict[str, Axis]) -> Planned:
    """A level of users who wait for each answer."""
    seconds = LONGEST if request.requests and not request.duration else _seconds(request)
    return _scheduled(request, name, [], seconds, {"concurrency": users, **own}, users, None)


def _scheduled(
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
        asked=_asked(request),
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


def _asked(request: LoadRequest) -> tuple[int, int] | None:
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


def applied(request: LoadRequest) -> LoadRequest:
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
        raise _refused(name, "--rate, --trace and --find-peak", "it has no rate: requests come as answers do")
    if name == "Offline":
        return request
    if request.concurrency not in ([], [1]):
        raise _refused(name, "--concurrency", "it has one user")
    return structs.replace(request, concurrency=[1])


def _server(request: LoadRequest) -> LoadRequest:
    if request.arrivals != "poisson" or request.trace:
        raise _refused("Server", "--arrivals and --trace", "its requests come at random, --arrivals poisson")
    if not (request.rates or request.find_peak):
        raise UsageError(
            "the scenario Server needs a rate",
            why="its requests come at random, at a given rate",
            next="--scenario Server --rate 8, or --find-peak --slo latency=50ms@p99",
        )
    return request


def _refused(name: str, options: str, why: str) -> UsageError:
    return UsageError(f"{options} do not go with --scenario {name}", why=why, next="leave one of them out")
