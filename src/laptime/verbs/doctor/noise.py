"""The noise floor: a program against itself, measured as `bench` measures any two programs.

The smallest difference that can be shown follows from the same error that comparisons use
(`analysis.compare`): a true difference d is called `faster` when its estimate lies beyond the margin by the
half-width of the 99 % interval, and the estimate itself scatters with the standard error. For 4 in 5

    log(1 + d) = log(1 + margin) + (t_0.995 + t_0.80) x standard error
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec

import msgspec

from laptime.analysis.compare import DECISION_LEVEL, effect, judge, thin_evidence
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.student_t import t_quantile
from laptime.kit.clock import Clock, SystemClock
from laptime.kit.errors import LaptimeError
from laptime.records.environment import NoiseFloor
from laptime.records.event import Event
from laptime.records.plan import BenchRequest
from laptime.records.series import Regime
from laptime.verbs.bench import bench
from laptime.verbs.bench.case_worker import OpenSession, fresh_process

POWER = 0.8  # probability of finding a difference of the size named
_NETWORK = "laptime.probes.ruler:network"
_PRODUCTS = "laptime.probes.ruler:products"


def noise_floor(
    *,
    quick: bool = False,
    emit: Callable[[Event], None] | None = None,
    open_session: OpenSession = fresh_process,
    clock: Clock = SystemClock,
) -> NoiseFloor:
    """Measure a small program against itself, on the device that `bench` would take.

    Args:
        open_session, clock: as in `bench`.
        quick: without torch, three processes instead of five, and a third of the time. What lies between
            processes is part of the error: from two of them it is hardly known, and the floor is then wide.

    Raises:
        LaptimeError: the program could not be measured; why is in the error.
    """
    has_torch = find_spec("torch") is not None and not quick
    request = BenchRequest(
        targets=[_NETWORK if has_torch else _PRODUCTS] * 2,
        backends=["torch" if has_torch else "null"],
        regimes=[Regime.ISOLATED],
        processes=3 if quick else 5,
        budget=3.0 if quick else 9.0,
        precision=1e-4,  # use the whole budget: the question is how good it gets
        save=False,
        timing_only=True,
    )
    started = clock.now()
    run = bench(request, emit or (lambda event: None), open_session=open_session, clock=clock)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    seconds = clock.now() - started
    failed = next((case.failure for case in run.cases if case.failure is not None), None)
    if failed is not None:
        raise LaptimeError(failed.what, why=failed.why, next=failed.next)
    if len(run.cases) != 2:
        raise LaptimeError(f"the same program twice gave {len(run.cases)} cases")
    first, second = run.cases[0], run.cases[1]
    left, right = first.find("latency", Regime.ISOLATED), second.find("latency", Regime.ISOLATED)
    measured = effect(left, right) if left is not None and right is not None else None
    if measured is None:
        raise LaptimeError("too few blocks of the same program were measured to know the noise floor")
    what = "a small network" if has_torch else "matrix products"
    floor = floor_of(measured, device=str(first.axes.get("device", "cpu")), workload=what, seconds=seconds)
    # A comparison would not say a word on thin evidence, so neither does the floor.
    thin = left is not None and right is not None and thin_evidence(left, right, measured)
    return msgspec.structs.replace(floor, word="unclear") if thin else floor


def floor_of(measured: Effect, *, device: str, workload: str, seconds: float) -> NoiseFloor:
    """The noise floor that an A/A comparison with this effect shows."""
    reach = t_quantile((1 + DECISION_LEVEL) / 2, measured.df) + t_quantile(POWER, measured.df)
    word, (low, high) = judge(measured)
    # The error moderated by what is expected between processes (see analysis.compare).
    return NoiseFloor(
        device=device,
        workload=workload,
        smallest=math.expm1(math.log1p(MARGIN) + reach * measured.error),
        half_width=(high - low) / 2,
        seen=math.expm1(-measured.mean),
        between=measured.error * math.sqrt(measured.processes) if measured.processes > 1 else None,
        word=word,
        pairs=measured.rounds,
        processes=measured.processes,
        seconds=seconds,
    )
