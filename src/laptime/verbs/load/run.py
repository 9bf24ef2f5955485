"""`load`: levels of load, one after another, each from a schedule that was drawn before its first request.

request ── target ── senders (processes) ── level ── case ── checks ...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError, UsageError, UserCodeError
from laptime.launch.sender_process import Senders
from laptime.launch.worker_process import CommandFailed
from laptime.loadgen import arrivals
from laptime.loadgen.messages import Endpoint
from laptime.loadgen.messages import Level as Order
from laptime.probes import machine
from laptime.records.case import Axis, Case, Failure, case_key
from laptime.records.event import Listener, ignore
from laptime.records.load import Level
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.store.live_run import LiveRun
from laptime.verbs.load.level_run import LevelRun
from laptime.verbs.load.request import DURATION, LoadRequest, shown
from laptime.verbs.load.targets import sender_target

LONGEST = 86400.0
"""Seconds that so many requests may take where nobody says how long."""
RECORDED = (
    "rates",
    "concurrency",
    "arrivals",
    "duration",
    "requests",
    "seed",
    "model",
    "prompt",
    "output",
    "shared_prefix",
    "method",
    "timeout",
    "senders",
    "save",
)


def load(request: LoadRequest, emit: Listener = ignore) -> Run:
    """Put load on a target.

    Returns:
        The run, a case a level. After Ctrl-C its status is "interrupted" and it holds what came until then.

    Raises:
        UsageError: the request is impossible, or the target does not answer; nothing was measured.
    """
    request.check()
    target, subject = sender_target(request)
    live, began = LiveRun("load", emit), SystemClock.now()
    live.start(
        name=request.name,
        command=_command(request),
        subjects=[subject],
        environment=machine.environment(),
        plan=_settings(request),
    )
    status = "complete"
    senders: Senders | None = None
    try:
        live.say(f"asking {subject.target}")
        senders = _opened(target, request.senders or 1)
        own: dict[str, Axis] = {} if isinstance(target, Endpoint) else {"server": "own"}
        planned = [*_levels(request, subject.target, own)]
        for at, (case, facts, order) in enumerate(planned):
            share = at / len(planned), (at + 1) / len(planned)
            LevelRun(live, began, case, facts, share=share).carry_out(senders, order)
    except KeyboardInterrupt:
        status = "interrupted"
    except CommandFailed:
        status = "failed"  # the case says why; what came before is kept
    finally:
        if senders is not None:
            senders.close()
    return live.finish(status)


def _opened(target: object, count: int) -> Senders:
    """Senders whose target has answered.

    Raises:
        UsageError: it did not, or not well.
    """
    try:
        senders = Senders(target, count if isinstance(target, Endpoint) else 1)  # type: ignore[arg-type]
    except CommandFailed as error:
        raise _raised(error.failure) from None
    if fault := str(senders.facts.get("error", "")):
        senders.close()
        raise _no_answer(target, fault, str(senders.facts.get("detail", "")))  # type: ignore[arg-type]
    return senders


_NEXT = {
    "refused": "start the server, or look at the port",
    "tls": "http:// instead of https://, or --insecure for a certificate of your own",
    "http 401": "--header 'Authorization: Bearer ...'",
    "http 403": "--header 'Authorization: Bearer ...'",
    "http 404": "look at the path of the address",
    "http 405": "--method POST, or --body x.json",
    "http 429": "the server limits requests: ask later, or with another key",
    "timeout": "--timeout 5m   if it is only slow",
}


def _no_answer(target: Endpoint, fault: str, detail: str) -> UsageError:
    address = target.url.partition("?")[0]
    return UsageError(
        f"{address} did not answer a first request: {fault}",
        why=detail or "it said nothing about it",
        next=_NEXT.get(fault, f"curl -i {address}   shows what it says"),
    )


def _raised(failure: Failure) -> LaptimeError:
    kind = UsageError if failure.kind in ("usage", "target", "unavailable") else UserCodeError
    return kind(failure.what, why=failure.why, next=failure.next)


def _levels(request: LoadRequest, name: str, own: dict[str, Axis]) -> list[tuple[Case, Level, Order]]:
    if request.trace is not None:
        return [_traced(request, name, own)]
    if request.rates:
        return [_open(request, name, rate, own) for rate in request.rates]
    return [_closed(request, name, users, own) for users in request.concurrency]


def _open(request: LoadRequest, name: str, rate: float, own: dict[str, Axis]) -> tuple[Case, Level, Order]:
    seconds = request.duration or DURATION
    due = arrivals.schedule(
        request.arrivals,
        rate,
        seconds=seconds,
        seed=request.seed,
        requests=request.requests,
        shape=request.shape,
    )
    window = float(due[-1]) if request.requests and len(due) else seconds
    limit = request.concurrency[0] if request.concurrency else None
    axes: dict[str, Axis] = {"rate": rate, "arrivals": request.arrivals}
    return _scheduled(request, name, due.tolist(), window, {**axes, **own}, limit, rate)


def _traced(request: LoadRequest, name: str, own: dict[str, Axis]) -> tuple[Case, Level, Order]:
    assert request.trace is not None
    due = arrivals.from_trace(request.trace)
    window = float(due[-1])
    limit = request.concurrency[0] if request.concurrency else None
    rate = (len(due) - 1) / window if window > 0 else None
    return _scheduled(request, name, due.tolist(), window, {"trace": request.trace.name, **own}, limit, rate)


def _scheduled(
    request: LoadRequest,
    name: str,
    due: Sequence[float],
    window: float,
    axes: dict[str, Axis],
    limit: int | None,
    rate: float | None,
) -> tuple[Case, Level, Order]:
    if limit is not None:
        axes["concurrency"] = limit
    facts = Level(
        kind="open",
        asked=_asked(request),
        rate=rate,
        arrivals=str(axes.get("arrivals", "trace")),
        concurrency=limit,
        scheduled=len(due),
        window=window,
    )
    order = Order(
        begin=0.0,
        end=window,
        due=list(due),
        index=list(range(len(due))),
        limit=limit,
        patience=request.timeout + 1,
    )
    return Case(key=case_key(name, axes), target=name, axes=axes), facts, order


def _closed(request: LoadRequest, name: str, users: int, own: dict[str, Axis]) -> tuple[Case, Level, Order]:
    axes: dict[str, Axis] = {"concurrency": users, **own}
    seconds = request.duration or (LONGEST if request.requests else DURATION)
    facts = Level(kind="closed", asked=_asked(request), concurrency=users, window=seconds)
    order = Order(
        begin=0.0, end=seconds, users=users, requests=request.requests, patience=request.timeout + 1
    )
    return Case(key=case_key(name, axes), target=name, axes=axes), facts, order


def _asked(request: LoadRequest) -> tuple[int, int] | None:
    return (request.prompt, request.output) if request.is_language_model else None


def _settings(request: LoadRequest) -> dict[str, Setting]:
    """Effective settings; headers by their names alone, because values may be secret."""
    values = {name: getattr(request, name) for name in RECORDED}
    values |= {"duration": request.duration or DURATION, "headers": [name for name, _ in request.headers]}
    values["body"] = [len(body) for body in request.bodies]
    return {
        name: Setting(
            value=value if value not in ("", [], {}) else None, origin=request.origins.get(name, "default")
        )
        for name, value in values.items()
    }


def _command(request: LoadRequest) -> list[str]:
    """The command line without what may be secret."""
    words, kept = sys.argv[1:], ["laptime"]
    hide = False
    for word in words:
        if hide or (word.startswith(("--header=", "-H")) and word != "-H"):
            kept.append(f"{word.partition(':')[0]}: ...")
        else:
            kept.append(shown(word) if word == request.target else word)
        hide = word in ("--header", "-H")
    return kept
