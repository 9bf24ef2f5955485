"""`scale`: how a training script's speed grows with its ranks, the script itself unedited.

request ── torchrun with N ranks under hooks, in random order, again and again ── a rate a job ── Run
                  └── the first job of each N is traced: what its ranks exchange, who is late"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from msgspec import structs

from laptime.experiment.turns import orders
from laptime.instrument.messages import Observed, Settings
from laptime.instrument.step_observer import FEWEST
from laptime.kit.errors import LaptimeError, UsageError
from laptime.launch.script import TARGET_LOOP, Outcome, Program, execute, resolve
from laptime.records import event as events
from laptime.records.case import Axis, Case, Failure, case_key
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.event import Listener, ignore
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.scale import RATE, Exchange, OnRanks
from laptime.records.series import Series
from laptime.store.live_run import LiveRun
from laptime.trace.ranks import combine, share_of, shares
from laptime.verbs.profile.reconcile import STEP
from laptime.verbs.profile.run import environment, failure_of, no_step
from laptime.verbs.scale.judged import checks, crowd, findings, price
from laptime.verbs.scale.request import ScaleRequest

TRACED = {"steps": 5, "warmup": 2}  # of a job of the first round
UNTRACED = {"steps": 0, "warmup": 0, "stack": False, "memory": False, "primitives": False, "quiet": True}
_PLANNED = ("ranks", "scaling", "jobs", "steps", "warmup", "batch", "target")


class Point(NamedTuple):
    """A number of ranks, and whether they share a batch (strong)."""

    ranks: int
    scaling: str


def scale(request: ScaleRequest, emit: Listener = ignore) -> Run:
    """Measure each number of ranks in fresh jobs. The run: a case each, `scaling` is weak or strong; one that
    could not be measured is failed, the others go on.
    Raises UsageError: there is no such script, or it is no training of several ranks. UserCodeError: it
    failed in its first job."""
    module, python = request.module, request.python
    program = resolve(request.program, request.arguments, is_module=module, python=python, verb="scale")
    if TARGET_LOOP in program.words or Path(request.program).name == "torchrun":
        why = "it takes a training script, and starts its ranks by torchrun itself"
        next = "laptime scale --ranks 1,2 train.py"
        raise UsageError(f"{request.program} cannot be started on ranks", why=why, next=next)
    session = _Session(request, program, LiveRun("scale", emit))
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

    def __init__(self, request: ScaleRequest, program: Program, live: LiveRun) -> None:
        self.cases: dict[Point, str] = {}
        self.shares = True
        self._request, self._program, self._live = request, program, live
        own = os.environ.get("OMP_NUM_THREADS", "")
        # The same for any number of ranks: torchrun would give all CPUs to one rank, and one to each of two.
        cpus = len(os.sched_getaffinity(0)) // max(request.ranks)
        self._threads = int(own) if own.isdecimal() and int(own) else max(1, cpus)
        self._failed: dict[Point, LaptimeError] = {}
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
        with tempfile.TemporaryDirectory(prefix="laptime-scale-") as folder:
            try:
                outcome, ranks = self._run(point, folder, traced=at == 0)
            except LaptimeError as error:
                if not self.cases:
                    raise
                self._failed[point] = error
                return
            exchange = _exchange([Path(folder) / each.traces[-1] for each in ranks if each.traces])
        if point.scaling == "strong" and point.ranks > 1 and not ranks[0].batches and self.cases:
            self.shares = False  # no loader makes the batches
            return
        own = self._request.batch and self._request.batch / (point.ranks if point.scaling == "strong" else 1)
        each = [(own or seen.samples, fmean(step.wall for step in seen.untraced) / 1e9) for seen in ranks]
        if point not in self.cases:
            self._add(point, ranks[0], sum(samples for samples, _ in each), exchange)
        self._others += [outcome.others] if outcome.others is not None else []
        rate, walls = sum(samples / time for samples, time in each), [s.wall / 1e9 for s in ranks[0].untraced]
        for metric, values in ((RATE, [rate]), (STEP, walls)):
            numbers, clock = [at] * len(values), ranks[0].clock
            made = Series(metric=metric, samples=values, process=numbers, round=numbers, clock=clock)
            self._live(events.Measured(self.cases[point], structs.replace(made, probe="hooks")))

    def _add(self, point: Point, first: Observed, samples: float, exchange: Exchange | None) -> None:
        request, subject = self._request, self._program.subject
        if not self.cases:
            named = {name: getattr(request, name) for name in _PLANNED}
            plan = {k: Setting(value=v, origin=request.origins.get(k, "default")) for k, v in named.items()}
            where = environment(first)
            self._live.start(name=request.name, subjects=[subject], environment=where, plan=plan)
        device = first.devices[0]["name"].partition(":")[0] if first.devices else "cpu"
        axes: dict[str, Axis] = {**point._asdict(), "threads": self._threads, "device": device}
        self.cases[point] = case_key(subject.target, axes)
        known = OnRanks(samples=samples, epoch=first.batches * samples or None, exchange=exchange)
        details = Details(ranks=known, unit="sample", steps_found_by=first.source, notes=first.notes)
        case = Case(key=self.cases[point], target=subject.target, axes=axes, details=details)
        self._live(events.CaseAdded(case))

    def _run(self, point: Point, folder: str, *, traced: bool) -> tuple[Outcome, list[Observed]]:
        """How a job ran, and its ranks. Raises LaptimeError: it is not one training on so many ranks."""
        request = self._request
        options: dict[str, Any] = UNTRACED | (TRACED if traced and point.ranks > 1 else {})
        options |= {"timed": request.steps, "exactly": request.steps, "wait": request.warmup}
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={point.ranks}"]
        outcome = execute(
            replace(self._program, words=[*launcher, *self._program.words]),
            settings=Settings(folder=folder, shares_batch=point.scaling == "strong", **options),
            timeout=request.timeout,
            output_to_stderr=True,
            output=Path(folder) / "output.txt",
            variables={"OMP_NUM_THREADS": str(self._threads)},
        )
        if outcome.interrupted:
            raise KeyboardInterrupt
        ranks = [each for each in outcome.observed if each.source]
        if error := self._trouble(point.ranks, outcome, ranks):
            raise error
        return outcome, ranks

    def _trouble(self, started: int, outcome: Outcome, ranks: Sequence[Observed]) -> LaptimeError | None:
        """Return what keeps a job from being one training on so many ranks, None if nothing does."""
        name = self._program.subject.target
        # The launcher fails because a rank did.
        of_ranks = [each for each in outcome.ended if "ChildFailedError" not in each.error]
        if error := failure_of(self._program, replace(outcome, ended=of_ranks or outcome.ended)):
            again = ["torchrun", f"--nproc-per-node={started}", *self._program.words]
            error.next = f"without laptime: {shlex.join(again)}"
            return error
        if not ranks:
            return no_step(self._program, outcome)
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
            failure = Failure(kind="user_code", what=error.what, why=error.why, next=error.next)
            key, axes = case_key(target, point._asdict()), point._asdict()
            case = (
                live.case(self.cases[point])
                if point in self.cases
                else Case(key=key, target=target, axes=axes)
            )
            live(events.CaseChanged(structs.replace(case, status="failed", failure=failure)))
        for case in live.run().cases:
            if case.status == "ok":
                live(events.CaseChanged(structs.replace(case, checks=checks(case, live.run()))))
        priced, notes = price(live.run(), self._request.usd_per_hour)
        for case in priced:
            live(events.CaseChanged(case))
        alone = "strong scaling was not measured: no DataLoader makes batches that ranks could share"
        notes += [] if self.shares else [Check("batch", "note", alone)]
        live(events.ChecksMade([*notes, *crowd(self._others, live.run())]))
        for finding in findings(live.run()):
            live(events.FindingAdded(finding))
        return live.finish(status)


def _exchange(paths: Sequence[Path]) -> Exchange | None:
    """Read the ranks' traces together; None if none can be read."""
    with suppress(LaptimeError, IndexError):
        own = share_of(paths[0])
        rows, collectives, stragglers = combine([own, *shares(paths[1:], own).shares])
        waiting = sum(row.waiting_ns or 0 for row in rows)
        talking = waiting + sum(row.transfer_ns or 0 for row in rows)
        return Exchange(
            step_ns=fmean(row.step_ns for row in rows),
            exposed_ns=sum(row.exposed_communication_ns for row in rows) / sum(row.steps for row in rows),
            collectives=len(collectives),
            waiting=waiting / talking if talking else None,
            stragglers=stragglers,
        )
    return None
