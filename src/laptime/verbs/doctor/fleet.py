"""`doctor --on`: which machine is slow, and by how much. Every machine is visited several times, in turns;
with `links` every two of them are, too.

A visit is a fresh process, or one on both machines of a link. Its time is held against the median of the
others of its kind within the same turn, so that what all of them share cancels; the unit of evidence is the
visit. `slow` is wrong for one of `1 - DECISION_LEVEL` fleets of equal machines, or of equal links."""

import math
import os
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, combinations
from statistics import median
from threading import Event as Stop
from typing import Any

from msgspec import Struct, structs

from laptime.analysis.compare import DECISION_LEVEL
from laptime.analysis.evidence import select
from laptime.analysis.paired import MARGIN, Effect, from_pairs
from laptime.analysis.quantiles import quantile
from laptime.analysis.visits import BETWEEN, seconds
from laptime.kit.errors import LaptimeError, UsageError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost, run_on
from laptime.launch.fleet.together import carry_out_together
from laptime.measure.metrics import LATENCY
from laptime.probes import machine as here
from laptime.probes.rendezvous import NETWORK, Rendezvous
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
TURNS, LEAST = 8, 3  # visits of each machine and link; the fewest that give an interval
BUDGET = 3.0  # seconds of measuring in a visit
WIDE = 0.1  # a share by which a machine may be slow, unseen, above which the fleet is undecided
SLOW = "fleet/slow"
_VISIT = BenchRequest(
    targets=list(SPEEDS.values()),
    backends=["null"],
    regimes=[Regime.ISOLATED],
    budget=BUDGET,
    processes=1,
    save=False,
    timing_only=True,
)
_Ends = tuple[Machine, ...]  # what is visited: a machine, or both of a link
_SPEED_OF = {target: speed for speed, target in SPEEDS.items()}


class _Nothing(Exception):
    """A visit without a time: the name of the machine that was lost, "" if it is there, and the failure."""


class _Fleet:
    """Facts by name. hardware: of machines. lost: machines and links that are left out, and why."""

    def __init__(self) -> None:
        self.hardware, self.lost, self.stop = dict[str, str](), dict[str, Failure](), Stop()

    def trouble(self, ends: _Ends) -> Failure | None:
        """Why it is not visited any more: it was lost, or one of its ends was."""
        names = (_name(ends), *(machine.name for machine in ends))
        return next((self.lost[name] for name in names if name in self.lost), None)

    def ask(
        self, machine: Machine, verb: str, request: Struct, emit: Listener = ignore, over: Stop | None = None
    ) -> Run:
        """The run of a verb there. over: ends it. Raises _Nothing."""

        def learn(environment: Environment) -> None:
            self.hardware[machine.name] = environment.hardware

        def stop() -> bool:
            return self.stop.is_set() or (over is not None and over.is_set())

        try:
            return run_on(machine, verb, request, emit, known=learn, stop=stop)
        except Lost as lost:
            what = f"{machine.name} was lost: {lost}"
            raise _Nothing(machine.name, Failure(kind="died", what=what)) from None
        except LaptimeError as error:
            what = f"{machine.name}: {error.what}"
            failure = Failure(kind="unavailable", what=what, why=error.why, next=error.next)
            raise _Nothing("", failure) from None


def examine_fleet(
    machines: Sequence[Machine], emit: Listener = ignore, *, turns: int = TURNS, links: bool = False
) -> Run:
    """Visit all machines in turns, and say which are slow. links: every two of them, too. The run, of verb
    `fleet`: a case for each machine and speed, or link and size of message; comparisons with others of its
    kind. Raises UsageError: one machine has no links."""
    if links and len(machines) < 2:
        why = f"--on and --machines name {machines[0].name} alone"
        raise UsageError("--links needs two machines", why=why, next="--on ssh:HOST,HOST or --on local:2")
    live, dice, fleet = LiveRun("fleet", emit), random.Random(0), _Fleet()  # noqa: S311, an order
    # In one order of names, so that two heads never wait for each other's second machine.
    pairs = combinations(sorted(machines, key=lambda machine: machine.name), 2)
    every: list[_Ends] = [*((machine,) for machine in machines), *(pairs if links else ())]
    live.start(name="", subjects=[], environment=here.environment(), plan={})
    for turn in range(turns):
        if not (left := [ends for ends in every if not fleet.trouble(ends)]):
            break
        live.say(f"turn {turn + 1} of {turns}, {len(left)} machines{' and links' * links}", turn / turns)
        for case in _visit_all(dice.sample(left, len(left)), fleet):
            if turn == 0:
                live(events.CaseAdded(structs.replace(case, series=[])))
            live(events.Measured(case.key, structs.replace(case.series[0], process=[turn], round=[turn])))
    for ends in every:
        if failure := fleet.trouble(ends):
            seen = [case for case in live.run().cases if case.axes["machine"] == _name(ends)]
            for case in seen or [Case(key=_name(ends), target="", axes={"machine": _name(ends)})]:
                live(events.CaseChanged(structs.replace(case, status="failed", failure=failure)))
    comparisons = compare([case for case in live.run().cases if case.status == "ok"])
    kinds = [[each for each in comparisons if (each.metric in SPEEDS) is kind] for kind in (True, False)]
    live(events.ChecksMade([_rule_out(kind) for kind in kinds if kind]))
    for comparison in comparisons:
        live(events.ComparisonAdded(comparison))
        if comparison.word == "slower":
            cases = [case for case in live.run().cases if case.axes["machine"] == comparison.candidate]
            live(events.FindingAdded(_finding(comparison, cases)))
    return live.finish()


def _name(ends: _Ends) -> str:
    return BETWEEN.join(machine.name for machine in ends)


def _visit_all(left: Sequence[_Ends], fleet: _Fleet) -> list[Case]:
    """Visit each once, in about this order, those side by side that share no place."""
    found, fleet.stop = list[Case](), Stop()
    with ThreadPoolExecutor(max_workers=len(left)) as pool, ExitStack() as stack:
        stack.callback(fleet.stop.set)
        while left:
            batch, busy = list[_Ends](), set[str]()
            for ends in left:
                if busy.isdisjoint(places := {machine.place for machine in ends}):
                    batch.append(ends)
                    busy |= places
            found += chain.from_iterable(pool.map(lambda ends: _visit(ends, fleet), batch))
            left = [ends for ends in left if ends not in batch]
    return found


def _visit(ends: _Ends, fleet: _Fleet) -> list[Case]:
    """A case for each speed or size of message, with the time of a call; none of what is lost."""
    name, found = _name(ends), list[Case]()
    try:
        if failure := fleet.trouble(ends):
            raise _Nothing("", failure)
        run = _exchange(ends, fleet) if ends[1:] else fleet.ask(ends[0], "bench", _VISIT)
        kind = sorted({fleet.hardware[machine.name] for machine in ends})
        for case in run.cases:
            series, speed = case.find("latency", Regime.ISOLATED), _SPEED_OF.get(case.target, case.key)
            if series is None or not series.samples:
                what = case.failure.what if case.failure else f"{case.target} gave no time"
                raise _Nothing("", Failure(kind="died", what=f"{name} was lost: {what}"))
            axes: dict[str, Axis] = {"machine": name, "speed": speed, **(case.axes if ends[1:] else {})}
            axes["hardware"] = " ".join([*kind, *(str(case.axes["backend"]) for _ in ends[1:])])
            time = quantile(select(series).values, 0.5)
            own = Series(metric=LATENCY, samples=[time], regime=Regime.ISOLATED, probe="wall")
            found.append(Case(key=f"{name}/{speed}", target=case.target, axes=axes, series=[own]))
    except _Nothing as nothing:
        fleet.lost[nothing.args[0] or name] = nothing.args[1]
        return []
    return found


def _exchange(ends: _Ends, fleet: _Fleet) -> Run:
    """All-reduces of both ends, as the first has timed them. Raises _Nothing: the end that explains most."""
    asked = Rendezvous(names=[machine.name for machine in ends], network=os.environ.get(NETWORK, ""))

    def ask(number: int, where: dict[str, Any], hear: Listener, over: Stop) -> Run:
        request = structs.replace(asked, number=number, **where)
        return fleet.ask(ends[number], "link", request, hear, over)

    return carry_out_together(len(ends), ask, lambda error: not error.args[0])[0]


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
    """Each machine and link against the others of its kind; nothing for one that is alone, or was seen too
    rarely."""
    kinds = {str(case.axes["machine"]): str(case.axes["hardware"]) for case in cases}
    groups = defaultdict[tuple[str, str], dict[str, list[float]]](dict)
    for name, speeds in seconds(cases).items():
        for speed, values in speeds.items():
            groups[kinds[name], speed][name] = values
    made = []
    for (_, speed), times in sorted(groups.items()):
        lengths = {len(values) for values in times.values()}
        if len(times) > 1 and len(lengths) == 1 and min(lengths) >= LEAST:
            effects = beside_others(times)
            made += [_comparison(name, speed, effect, len(times)) for name, effect in effects.items()]
    return made


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
    """Return how slow a machine, or a link, may be that is not called so."""
    noun = "link" if BETWEEN in found[0].candidate else "machine"
    rest = [each for each in found if each.word != "slower"]
    slowest = max((1 / each.ci95[0] - 1 for each in rest), default=0.0)
    by = f"{slowest:.0%}" if slowest < 1 else f"a factor of {1 + slowest:.1f}"
    if slowest <= WIDE:
        other = "other " * (rest != found)
        sentence = f"no {other}{noun} is slower than the others of its kind by more than {by}"
        return Check(name=f"{noun}s", outcome="ok", sentence=sentence)
    sentence = f"none was shown to be slow, but {found[0].pairs} visits each scatter: one may be, by {by}"
    return Check(name=f"{noun}s", outcome="warn", sentence=sentence, next="laptime doctor")


def _finding(each: Comparison, cases: Sequence[Case]) -> Finding:
    next = "laptime doctor   on that machine shows who else uses it, and what limits it"
    if network := cases[0].axes.get("network"):
        next = f"ethtool {network}   on both machines shows its speed and errors"
    keys = [case.key for case in cases if network or case.axes["speed"] == each.metric]
    seen = {"machine": each.candidate, "speed": each.metric, "ratio": each.speedup, "ci95": [*each.ci95]}
    sentence = f"slow  {each.sentence}"
    return Finding(kind=SLOW, severity="problem", sentence=sentence, evidence=seen, next=next, cases=keys)
