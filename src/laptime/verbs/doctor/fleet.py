"""`doctor --on`: which machine is slow, and by how much. Every machine is visited several times, in turns.

A visit is a fresh process that measures small programs. A machine's time is held against the median of the
others of its kind within the same turn, so that what all of them share cancels; the unit of evidence is the
visit. `slow` is wrong for one of `1 - DECISION_LEVEL` fleets of equal machines, however many there are."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from statistics import median
from threading import Event as Stop

from msgspec import structs

from laptime.analysis.compare import DECISION_LEVEL
from laptime.analysis.evidence import select
from laptime.analysis.paired import MARGIN, Effect, from_pairs
from laptime.analysis.quantiles import quantile
from laptime.kit.errors import LaptimeError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost, run_on
from laptime.measure.metrics import LATENCY
from laptime.probes import machine as here
from laptime.records import event as events
from laptime.records.case import Axis, Case, Failure
from laptime.records.check import Check, Finding
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.event import Listener, ignore
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.records.series import Regime, Series
from laptime.store.live_run import LiveRun

SPEEDS = {"compute": "laptime.probes.ruler:products", "memory": "laptime.probes.ruler:copies"}
"""What is measured of a machine, by what it shows."""
TURNS, LEAST = 8, 3  # visits of each machine; the fewest that give an interval
BUDGET = 3.0  # seconds of measuring in a visit
WIDE = 0.1  # a share by which a machine may be slow, unseen, above which the fleet is undecided
SLOW = "fleet/slow"
_Visits = list[tuple[Machine, dict[str, float] | str]]  # seconds by speed, or why there are none


def examine_fleet(machines: Sequence[Machine], emit: Listener = ignore, *, turns: int = TURNS) -> Run:
    """Visit all machines in turns, and say which are slow. The run, of verb `fleet`: a case for each machine
    and speed, a comparison with the others of its kind."""
    live, dice, lost = LiveRun("fleet", emit), random.Random(0), dict[str, str]()  # noqa: S311, an order
    environments: dict[str, Environment] = {}
    live.start(name="", subjects=[], environment=here.environment(), plan={})
    for turn in range(turns):
        if not (left := [machine for machine in machines if machine.name not in lost]):
            break
        live.say(f"turn {turn + 1} of {turns}, {len(left)} machines", turn / turns)
        for machine, found in _visit_all(dice.sample(left, len(left)), environments):
            if isinstance(found, str):
                lost[machine.name] = found
                continue
            for speed, seconds in found.items():
                key = f"{machine.name}/{speed}"
                if turn == 0:
                    hardware = environments[machine.name].hardware
                    axes: dict[str, Axis] = {"machine": machine.name, "speed": speed, "hardware": hardware}
                    live(events.CaseAdded(Case(key=key, target=SPEEDS[speed], axes=axes)))
                live(events.Measured(key, _sample(seconds, turn)))
    cases = {(str(case.axes["machine"]), str(case.axes["speed"])): case for case in live.run().cases}
    for name, why in lost.items():
        failure = Failure(kind="died", what=f"{name} was lost: {why}")
        for speed, key in ((speed, f"{name}/{speed}") for speed in SPEEDS):
            if (name, speed) not in cases:
                axes = {"machine": name, "speed": speed}
                live(events.CaseAdded(Case(key=key, target=SPEEDS[speed], axes=axes)))
            live(events.CaseChanged(structs.replace(live.case(key), status="failed", failure=failure)))
    comparisons = compare([case for case in cases.values() if case.axes["machine"] not in lost])
    live(events.ChecksMade([_rule_out(comparisons)] if comparisons else []))
    for comparison in comparisons:
        live(events.ComparisonAdded(comparison))
        if comparison.word == "slower":
            live(events.FindingAdded(_finding(comparison)))
    return live.finish()


def _sample(seconds: float, turn: int) -> Series:
    return Series(
        metric=LATENCY, samples=[seconds], regime=Regime.ISOLATED, process=[turn], round=[turn], probe="wall"
    )


def _visit_all(machines: Sequence[Machine], environments: dict[str, Environment]) -> _Visits:
    """Visit each machine once: those of one place in this order, places side by side."""
    stop = Stop()

    def visits(of_place: list[Machine]) -> _Visits:
        return [(machine, _visit(machine, environments, stop)) for machine in of_place]

    ordered = sorted(machines, key=lambda machine: machine.place)
    places = [list(of_place) for _, of_place in groupby(ordered, key=lambda machine: machine.place)]
    with ThreadPoolExecutor(max_workers=len(places)) as pool, ExitStack() as stack:
        stack.callback(stop.set)
        return [visit for found in pool.map(visits, places) for visit in found]


def _visit(machine: Machine, environments: dict[str, Environment], stop: Stop) -> dict[str, float] | str:
    """Seconds of a call by speed, or why there are none."""
    request = BenchRequest(
        targets=list(SPEEDS.values()),
        backends=["null"],
        regimes=[Regime.ISOLATED],
        budget=BUDGET,
        processes=1,
        save=False,
        timing_only=True,
    )
    known = partial(environments.setdefault, machine.name)
    try:
        run = run_on(machine, "bench", request, known=known, stop=stop)
    except Lost as lost:
        return str(lost)
    except LaptimeError as error:
        return error.what
    found = {}
    for (speed, target), case in zip(SPEEDS.items(), run.cases, strict=True):
        series = case.find("latency", Regime.ISOLATED)
        if series is None or not series.samples:
            return case.failure.what if case.failure else f"{target} gave no time"
        found[speed] = quantile(select(series).values, 0.5)
    return found


def beside_others(times: Mapping[str, Sequence[float]]) -> dict[str, Effect]:
    """How much longer each machine takes than the median of the others: the log ratio. times: seconds of a
    machine in each turn, all machines of one kind, the same number of each."""
    logs = {name: [math.log(value) for value in values] for name, values in times.items()}
    apart = {
        name: [
            own - median(values[turn] for other, values in logs.items() if other != name)
            for turn, own in enumerate(mine)
        ]
        for name, mine in logs.items()
    }
    return {name: from_pairs(values) for name, values in apart.items()}


def compare(cases: Sequence[Case]) -> list[Comparison]:
    """Each machine against the others of its kind; nothing for one that is alone, or was seen too rarely."""
    made = []
    by_kind = sorted(cases, key=lambda case: (str(case.axes["hardware"]), str(case.axes["speed"])))
    for (_, speed), group in groupby(by_kind, key=lambda case: (case.axes["hardware"], case.axes["speed"])):
        times = {str(case.axes["machine"]): _seconds(case) for case in group}
        lengths = {len(values) for values in times.values()}
        if len(times) < 2 or len(lengths) > 1 or min(lengths) < LEAST:
            continue
        for name, effect in beside_others(times).items():
            made.append(_comparison(name, str(speed), effect, len(times)))
    return made


def _seconds(case: Case) -> list[float]:
    series = case.find("latency", Regime.ISOLATED)
    return series.samples if series else []


def _comparison(name: str, speed: str, effect: Effect, machines: int) -> Comparison:
    alpha = (1 - DECISION_LEVEL) / 2 / machines / len(SPEEDS)  # Bonferroni: each of them may be wrong
    is_slow = effect.lower(alpha) > math.log1p(MARGIN)
    low, high = effect.ci95
    others = "the other one" if machines == 2 else f"the {machines - 1} others"
    return Comparison(
        baseline=others,
        candidate=name,
        metric=speed,
        speedup=effect.speedup,
        ci95=effect.ci95,
        word="slower" if is_slow else "unclear",
        margin=MARGIN,
        pairs=effect.rounds,
        processes=effect.rounds,
        sentence=f"{name}: {speed} at {effect.speedup:.2f}x [{low:.2f}, {high:.2f}] of {others} of its kind",
    )


def _rule_out(found: Sequence[Comparison]) -> Check:
    """Return how slow a machine may be that is not called so."""
    rest = [each for each in found if each.word != "slower"]
    slowest = max((1 / each.ci95[0] - 1 for each in rest), default=0.0)
    by = f"{slowest:.0%}" if slowest < 1 else f"a factor of {1 + slowest:.1f}"
    if slowest <= WIDE:
        other = "other " * (rest != found)
        sentence = f"no {other}machine is slower than the others of its kind by more than {by}"
        return Check(name="visits", outcome="ok", sentence=sentence)
    sentence = f"none was shown to be slow, but {found[0].pairs} visits each scatter: one may be, by {by}"
    return Check(name="visits", outcome="warn", sentence=sentence, next="laptime doctor")


def _finding(each: Comparison) -> Finding:
    return Finding(
        kind=SLOW,
        severity="problem",
        sentence=f"slow  {each.sentence}",
        evidence={
            "machine": each.candidate,
            "speed": each.metric,
            "ratio": each.speedup,
            "ci95": list(each.ci95),
        },
        next="laptime doctor   on that machine shows who else uses it, and what limits it",
        cases=[f"{each.candidate}/{each.metric}"],
    )
