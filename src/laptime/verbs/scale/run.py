"""`scale`: how a training script's speed grows with its ranks, the script itself unedited.

request ── a job of N ranks (`job`), in random order, again and again ── a rate a job ── Run
                  └── the first job of each N is traced: what its ranks exchange, who is late"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from statistics import fmean
from threading import Event as Stop
from typing import Any, NamedTuple

from msgspec import convert, structs, to_builtins

from laptime.experiment.turns import orders
from laptime.instrument.messages import Observed
from laptime.instrument.step_observer import FEWEST
from laptime.kit.errors import Died, LaptimeError, UsageError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost, run_on
from laptime.launch.fleet.together import carry_out_together
from laptime.launch.script import Program
from laptime.measure.failures import failure_of
from laptime.probes.rendezvous import NETWORK, Rendezvous
from laptime.records import event as events
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.environment import Environment
from laptime.records.event import Listener, ignore
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.scale import RATE, Exchange, OnRanks
from laptime.records.series import Series
from laptime.store.live_run import LiveRun
from laptime.trace.ranks import RankShare, combine
from laptime.verbs.profile.reconcile import STEP
from laptime.verbs.scale.job import PART, JobRequest, Part, program_of, ranks
from laptime.verbs.scale.judged import alike, checks, crowd, findings, price
from laptime.verbs.scale.request import ScaleRequest

MISSED = ("onnection closed", "onnection reset", "onnection refused", "Broken pipe", "TCPStore", "NCCL")
"""What ranks say that miss another one: its own error explains more."""
_PLANNED = ("ranks", "scaling", "jobs", "steps", "warmup", "batch", "target")


class Point(NamedTuple):
    """A number of ranks, and whether they share a batch (strong)."""

    ranks: int
    scaling: str


def scale(request: ScaleRequest, emit: Listener = ignore, machines: Sequence[Machine] = ()) -> Run:
    """Measure each number of ranks in fresh jobs. The run: a case each, `scaling` is weak or strong; one that
    could not be measured is failed, the others go on. machines: that share the ranks, each as many as it has
    of the most, one filled after the other; none: this one.
    Raises UsageError: there is no such script, or it is no training of several ranks. UserCodeError: it
    failed in its first job. Died: a machine was lost in it."""
    program = program_of(structs.replace(request, python="") if machines else request)
    session = _Session(request, program, LiveRun("scale", emit), machines)
    status = "complete"
    try:
        for at, point in session.plan():
            session.visit(point, at)
    except KeyboardInterrupt:
        if not session.cases:
            raise
        status = "interrupted"
    return session.finish(status)


class _Session:
    """The jobs of one run. cases: keys of those with a rate. shares: whether ranks can share a batch."""

    def __init__(
        self, request: ScaleRequest, program: Program, live: LiveRun, machines: Sequence[Machine]
    ) -> None:
        self.cases: dict[Point, str] = {}
        self.shares = True
        self._request, self._program, self._live, self._machines = request, program, live, machines
        # The same for any number of ranks: torchrun would give all CPUs to one rank, and one to each of two.
        own = os.environ.get("OMP_NUM_THREADS", "")
        self._threads = int(own) if own.isdecimal() else 0
        self._failed: dict[Point, LaptimeError] = {}
        self._where: dict[str, Environment] = {}
        self._others: list[float] = []

    def plan(self) -> Iterator[tuple[int, Point]]:
        """Every point once a round; the first job is one that tells whether ranks train together."""
        least, *more = sorted(self._request.ranks)
        kinds = ("weak", "strong") if self._request.scaling == "both" else (self._request.scaling,)
        points = [Point(least, kinds[0]), *(Point(ranks, kind) for ranks in more for kind in kinds)]
        first = [*points[1:2], *points[:1], *points[2:]]
        for at, order in enumerate(islice(chain([first], orders(points, 0)), self._request.jobs)):
            for done, point in enumerate(order):
                if point not in self._failed and (self.shares or point.scaling == "weak"):
                    share = (at + done / len(order)) / self._request.jobs
                    self._live.say(f"{point.ranks} ranks, {point.scaling}, job {at + 1}", share)
                    yield at, point

    def visit(self, point: Point, at: int) -> None:
        """Carry out one job. Raises LaptimeError: it failed, and no other has given anything yet."""
        try:
            parts, ranks = self._run(point, traced=at == 0 and point.ranks > 1)
        except LaptimeError as error:
            if not self.cases:
                raise
            self._failed[point] = error
            return
        if point.scaling == "strong" and point.ranks > 1 and not ranks[0].batches and self.cases:
            self.shares = False  # no loader makes the batches
            return
        own = self._request.batch and self._request.batch / (point.ranks if point.scaling == "strong" else 1)
        each = [(own or seen.samples, fmean(step.wall for step in seen.untraced) / 1e9) for seen in ranks]
        if point not in self.cases:
            exchange = _exchange([share for part in parts for share in part.shares])
            self._add(point, ranks[0], parts[0].threads, sum(samples for samples, _ in each), exchange)
        others = [part.others for part in parts if part.others is not None]
        if others and len(self._places(point.ranks)) == len(parts):  # else it is ranks of other parts
            self._others.append(max(others))
        rate, walls = sum(samples / time for samples, time in each), [s.wall / 1e9 for s in ranks[0].untraced]
        for metric, values in ((RATE, [rate]), (STEP, walls)):
            numbers, clock = [at] * len(values), ranks[0].clock
            made = Series(metric=metric, samples=values, process=numbers, round=numbers, clock=clock)
            self._live(events.Measured(self.cases[point], structs.replace(made, probe="hooks")))

    def _add(
        self, point: Point, first: Observed, threads: int, samples: float, exchange: Exchange | None
    ) -> None:
        request, subject, places = self._request, self._program.subject, self._places(point.ranks)
        if not self.cases:
            named = {name: getattr(request, name) for name in _PLANNED}
            plan = {k: Setting(value=v, origin=request.origins.get(k, "default")) for k, v in named.items()}
            where = next(iter(self._where.values()))
            self._live.start(name=request.name, subjects=[subject], environment=where, plan=plan)
        device = first.devices[0]["name"].partition(":")[0] if first.devices else "cpu"
        axes: dict[str, Axis] = {**point._asdict(), "threads": threads, "device": device}
        axes |= {"machines": len(self._spread(point.ranks))} if self._machines else {}
        self.cases[point] = case_key(subject.target, axes)
        known = OnRanks(samples=samples, epoch=first.batches * samples or None, exchange=exchange)
        known = structs.replace(known, machines=len(places), crowd=max(places.values()))
        details = Details(ranks=known, unit="sample", steps_found_by=first.source, notes=first.notes)
        case = Case(key=self.cases[point], target=subject.target, axes=axes, details=details)
        self._live(events.CaseAdded(case))

    def _spread(self, ranks: int) -> list[int]:
        """How many ranks of a job each machine has."""
        most = math.ceil(max(self._request.ranks) / max(1, len(self._machines)))
        return [min(most, ranks - at) for at in range(0, ranks, most)]

    def _places(self, ranks: int) -> Counter[str]:
        """How many ranks of a job share the CPUs of each real machine."""
        places, spread = [each.place for each in self._machines] or [""], self._spread(ranks)
        return Counter(place for place, own in zip(places, spread, strict=False) for _ in range(own))

    def _run(self, point: Point, *, traced: bool) -> tuple[list[Part], list[Observed]]:
        """The parts of a job, and its ranks. Raises LaptimeError: it is not one training on so many ranks."""
        names, spread = [each.name for each in self._machines] or [""], self._spread(point.ranks)
        meeting = Rendezvous(names=names[: len(spread)], network=os.environ.get(NETWORK, ""))
        job = JobRequest(
            **structs.asdict(self._request),
            meeting=meeting,
            spread=spread,
            threads=self._threads,
            crowd=max(self._places(max(self._request.ranks)).values()),
            traced=traced,
            shares_batch=point.scaling == "strong",
        )
        runs = self._on_machines(job) if self._machines else [ranks(job)]
        self._where |= {name: run.environment for name, run in zip(names, runs, strict=False)}
        parts = [convert(run.plan[PART].value, Part) for run in runs]
        seen = sorted((each for part in parts for each in part.observed), key=lambda each: each.rank)
        if error := self._trouble(point.ranks, seen):
            raise error
        return parts, seen

    def _on_machines(self, job: JobRequest) -> list[Run]:
        def ask(number: int, where: dict[str, Any], hear: Listener, over: Stop) -> Run:
            machine, meeting = self._machines[number], structs.replace(job.meeting, number=number, **where)
            part = structs.replace(job, meeting=meeting)
            try:
                return run_on(machine, "ranks", part, hear, stop=over.is_set)
            except Lost as lost:
                next = "laptime doctor --on   visits each machine"
                raise Died(f"{machine.name} was lost", why=str(lost), next=next) from None

        def says_little(error: LaptimeError) -> tuple[bool, bool]:
            return not isinstance(error, Died), any(word in error.why for word in MISSED)

        return carry_out_together(len(job.spread), ask, says_little)

    def _trouble(self, started: int, ranks: Sequence[Observed]) -> LaptimeError | None:
        """Return what keeps a job from being one training on so many ranks, None if nothing does."""
        name = self._program.subject.target
        timed = min(len(each.untraced) for each in ranks)
        if started > 1 and not any(each.joined for each in ranks):
            what = f"{name} trains {started} copies of its model, not one model on {started} ranks"
            why = "no rank joins a process group: RANK and WORLD_SIZE, which torchrun sets, go unread"
            next = "dist.init_process_group(), DistributedDataParallel(model), DistributedSampler(data)"
        elif len(ranks) != started or any(each.world != started for each in ranks):
            what = f"{name} does not train on the {started} ranks that were started"
            why = f"{len(ranks)} processes have steps, in a group of {ranks[0].world}"
            next = "let torchrun start the ranks: read RANK, LOCAL_RANK and WORLD_SIZE, and spawn none"
        elif timed < FEWEST:
            what, next = (
                f"{name} ended before {FEWEST} steps were timed",
                "let it train longer, or --warmup 2",
            )
            why = f"{timed} of {self._request.steps} came after {ranks[0].settled} that warm up"
        elif not self._request.batch and not all(each.samples for each in ranks):
            what, next = f"the samples in a step of {name} are not known", "--batch 32   if a rank has 32"
            why = "its batches come from no DataLoader, and its model gets no tensor"
        else:
            return None
        return UsageError(what, why=why, next=next)

    def finish(self, status: str) -> Run:
        """Judge what was measured, and price it."""
        live, target = self._live, self._program.subject.target
        for point, error in self._failed.items():
            failure, axes = structs.replace(failure_of(error), traceback=""), point._asdict()
            new = Case(key=case_key(target, axes), target=target, axes=axes)
            case = live.case(self.cases[point]) if point in self.cases else new
            live(events.CaseChanged(structs.replace(case, status="failed", failure=failure)))
        for case in live.run().cases:
            if case.status == "ok":
                live(events.CaseChanged(structs.replace(case, checks=checks(case, live.run()))))
        priced, notes = price(live.run(), self._request.usd_per_hour)
        for case in priced:
            live(events.CaseChanged(case))
        alone = "strong scaling was not measured: no DataLoader makes batches that ranks could share"
        notes += [] if self.shares else [Check("batch", "note", alone)]
        if self._machines:
            machines = Setting(value=to_builtins(self._where), origin="machine")
            live(events.PlanChanged({**live.run().plan, "machines": machines}))
        live(events.ChecksMade([*notes, *alike(self._where), *crowd(self._others, live.run())]))
        for finding in findings(live.run()):
            live(events.FindingAdded(finding))
        return live.finish(status)


def _exchange(shares: Sequence[RankShare]) -> Exchange | None:
    """Combine the shares of the ranks' traces; None if there are none."""
    if not shares:
        return None
    rows, collectives, stragglers = combine(shares)
    waiting = sum(row.waiting_ns or 0 for row in rows)
    talking = waiting + sum(row.transfer_ns or 0 for row in rows)
    return Exchange(
        step_ns=fmean(row.step_ns for row in rows),
        exposed_ns=sum(row.exposed_communication_ns for row in rows) / sum(row.steps for row in rows),
        collectives=len(collectives),
        waiting=waiting / talking if talking else None,
        stragglers=stragglers,
    )
