"""A fixed number of rounds (`pedantic`), each after a set-up that is not timed."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from laptime.kit.clock import SystemClock
from laptime.kit.errors import UsageError
from laptime.measure import first_call
from laptime.measure.metrics import LATENCY
from laptime.probes import machine
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.event import ignore
from laptime.records.run import Subject
from laptime.records.series import Label, Regime, Series
from laptime.store.live_run import LiveRun
from laptime.verbs.api import add_wait
from laptime.verbs.public_run import Run


class Plan(NamedTuple):
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    setup: Callable[[], Any] | None
    iterations: int


def measure(plan: Plan, *, rounds: int, warm_up: int) -> tuple[Run, Any]:
    """The run of so many rounds, and the last result.
    Raises UsageError: counts below 1, or iterations beside a setup."""
    if min(rounds, plan.iterations) < 1 or warm_up < 0:
        raise UsageError("rounds and iterations must be 1 or more", why="nothing would be measured")
    if plan.setup is not None and plan.iterations > 1:
        raise UsageError(
            "iterations must be 1 with a setup", why="it prepares one call", next="rounds= makes more calls"
        )
    name = getattr(plan.target, "__name__", type(plan.target).__name__)
    live = LiveRun("bench", ignore)
    began = time.perf_counter()
    times = [_round(plan) for _ in range(warm_up + rounds)]
    series = Series(
        metric=LATENCY,
        regime=Regime.ISOLATED,
        samples=[seconds for _, seconds, _ in times],
        at=[start - began for start, _, _ in times],
        process=[0] * len(times),
        label=[int(Label.WARM_UP)] * warm_up + [int(Label.NONE)] * rounds,
        probe="wall",
        clock="perf_counter",
    )
    axes: dict[str, Axis] = {"batch": 1, "dtype": "auto", "device": "cpu", "backend": "null"}
    case = Case(
        key=case_key(name, axes),
        target=name,
        axes=axes,
        series=[series],
        checks=[_warn_unwatched(rounds)],
        details=Details(in_process=True),
    )
    live.start(subjects=[Subject(target=name)], environment=machine.environment(), cases=[case])
    return Run.of(live.run()), times[-1][2]


def _round(plan: Plan) -> tuple[float, float, Any]:
    """Start, seconds of a call, and the last call's result; of a lazy one, all of it."""
    args, kwargs = plan.args, plan.kwargs
    prepared = plan.setup() if plan.setup is not None else None
    if prepared is not None:
        args, kwargs = prepared
    call = add_wait(lambda: plan.target(*args, **kwargs))
    start = SystemClock.now()
    result = call()
    looked = SystemClock.now()
    if first_call.kind(result):
        call, result = partial(_whole, call), first_call.whole(result)
    else:
        start += SystemClock.now() - looked  # looking is not part of the round
    for _ in range(plan.iterations - 1):
        result = call()
    return start, (SystemClock.now() - start) / plan.iterations, result


def _whole(late: Callable[[], Any]) -> Any:
    return first_call.whole(late())


def _warn_unwatched(rounds: int) -> Check:
    return Check(
        "rounds",
        "warn",
        f"a fixed number of rounds, {rounds}: laptime did not check whether neighbours disturbed them, or "
        "whether the level had settled",
        "laptime(function, ...) instead of laptime.pedantic",
    )
