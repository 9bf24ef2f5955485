"""`suite`: one benchmark after the other, each stored as it ends, and what all of them came to.

One benchmark is one `bench`: its own fresh processes, its own run in the store, named `SUITE:BENCHMARK`.
One that fails, hangs or is killed is marked, and the rest goes on."""

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from laptime.analysis.budgets import finding, with_verdicts
from laptime.kit import __version__, redaction
from laptime.kit.clock import utc_now
from laptime.kit.errors import Died, LaptimeError, UsageError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.queue import RunOn, carry_out
from laptime.measure.failures import failure_of
from laptime.probes import machine
from laptime.records import event as events
from laptime.records.case import Case
from laptime.records.check import Finding, Verdict
from laptime.records.event import Event, Listener, ignore
from laptime.records.plan import BenchRequest
from laptime.records.run import Membership, Run, Subject
from laptime.store.folder import new_id
from laptime.store.live_run import LiveRun, record_run
from laptime.suites import Benchmark, Suite, choose, digest, judge_run, regressions, request
from laptime.suites.loading import StoredSuites, load
from laptime.verbs import bench as _bench
from laptime.verbs.bench.case_worker import OpenSession, fresh_process
from laptime.verbs.bench.planning import Plan, plan
from laptime.verbs.compare import compare_runs
from laptime.verbs.history import recent
from laptime.verbs.public_run import Run as PublicRun

OVERHEAD = 6.0  # seconds to start, load and count one variant in one process: a guess until it was measured
FIRST_RUN = "suite/first_run"  # kind of the finding that a benchmark had no baseline yet


class PlannedBenchmark(NamedTuple):
    """One benchmark of a suite, before it is measured."""

    # suite, benchmark: as written
    suite: Suite
    benchmark: Benchmark
    request: BenchRequest  # to `bench`
    plan: Plan | LaptimeError  # how it is measured, or what makes it impossible
    baseline: Run | None  # the stored run that regressions are judged against; None when there is none
    done: Run | None  # the stored run that has its answer; None when it is still to be measured
    seconds: float  # how long it took last time, or about how long it is planned to take
    is_known: bool  # it was measured before

    @property
    def membership(self) -> Membership:
        """Its place in the suite, but for the id of the suite's run."""
        subjects = self.plan.subjects if isinstance(self.plan, Plan) else []
        return Membership(
            id="",
            name=self.suite.name,
            benchmark=self.benchmark.name,
            question=digest(self.request, subjects),
            tags=self.benchmark.tags,
        )


def prepare(
    suites: list[Suite],
    *,
    trials: int | None = None,
    timeout: float | None = None,
    baseline: str = "",
    resume: bool = False,
) -> list[PlannedBenchmark]:
    """Every benchmark with its plan, checked as far as it can be without measuring.
    trials, timeout: for all benchmarks, whatever the suite says. baseline: name of the suite whose runs
    regressions are judged against. resume: take over what the last run of these suites has measured.
    Raises UsageError: a quantity in a suite cannot be read."""
    store = StoredSuites()
    requests = [
        (suite, benchmark, request(suite, benchmark, trials=trials, timeout=timeout))
        for suite in suites
        for benchmark in suite.benchmark
    ]
    stored = store.latest([wanted.name for _, _, wanted in requests]) if resume else {}
    suite_id = next((run.suite.id for run in stored.values() if run.suite), "")
    items = []
    for suite, benchmark, wanted in requests:
        last = store.newest(wanted.name)
        against = f"{baseline or suite.baseline or suite.name}:{benchmark.name}"
        try:
            planned = plan(wanted)
            processes = len(planned.variants) * max(1, len(planned.batches)) * planned.processes
            how: Plan | LaptimeError = planned
            expected = planned.budget + OVERHEAD * processes
        except LaptimeError as error:  # this one fails; the others are measured
            how, expected = error, 0.0
        item = PlannedBenchmark(
            suite=suite,
            benchmark=benchmark,
            request=wanted,
            plan=how,
            baseline=store.newest(against, before=suite_id) if benchmark.regression is not None else None,
            done=None,
            seconds=last.seconds if last else expected,
            is_known=last is not None,
        )
        items.append(item._replace(done=_answer(item, stored.get(wanted.name))))
    return items


def _answer(item: PlannedBenchmark, run: Run | None) -> Run | None:
    """The stored run, if it has the same request and subjects, and nothing in it failed."""
    if run is None or run.suite is None or run.suite.question != item.membership.question:
        return None
    return run if all(case.status == "ok" for case in run.cases) else None


def measure(
    items: list[PlannedBenchmark],
    *,
    watch: Callable[[PlannedBenchmark], AbstractContextManager[Listener]] = lambda item: nullcontext(ignore),
    ended: Callable[[PlannedBenchmark, Run], None] = lambda item, run: None,
    complain: Callable[[LaptimeError], object] = lambda error: None,
    save: bool = True,
    open_session: OpenSession = fresh_process,
    machines: Sequence[Machine] = (),
) -> Run:
    """Measure what is not done yet, benchmark by benchmark; all of them as one run.
    watch: gives a listener for the events of one benchmark, with progress of the whole suite. ended: called
    with each benchmark as it ends. complain: called when a run could not be stored where it belongs.
    machines: that share the work, a benchmark at a time each; none: this one."""
    suite_id = next((item.done.suite.id for item in items if item.done and item.done.suite), new_id())
    done: list[tuple[PlannedBenchmark, Run]] = []
    status = "complete"
    if machines:
        runs = _measure_on(machines, items, suite_id, ended, complain, save)
        return combine([(items[number], runs[number]) for number in sorted(runs)], suite_id)
    bench = partial(_bench.bench, open_session=open_session)
    total = sum(item.seconds for item in items if item.done is None) or 1.0
    spent = 0.0
    for number, item in enumerate(items, start=1):
        if item.done is not None:
            run = _rejudge(item, item.done)
        else:
            place = f"{number} of {len(items)}, {item.benchmark.name}"
            try:
                with watch(item) as listener:
                    hear = _of_suite(listener, place, before=spent, own=item.seconds, total=total)
                    run = _one(item, suite_id, hear, complain, save, bench)
            except KeyboardInterrupt:
                status = "interrupted"
                break
            spent += item.seconds
        done.append((item, run))
        ended(item, run)
        if run.status == "interrupted":
            status = "interrupted"
            break
    return combine(done, suite_id, status=status)


def suite(
    where: str | Path,
    *,
    match: Sequence[str] = (),
    quick: bool = False,
    trials: int | None = None,
    timeout: float | None = None,
    resume: bool = False,
    baseline: str = "",
    save: bool = False,
) -> PublicRun:
    """Run the benchmarks of a suite, as `laptime suite run` does: one run, whose `verdicts` are the budgets.

    Args:
        where: a file, a folder, or the name of a suite that ships.
        match: names (regular expressions) or tags; all benchmarks without any.
        quick: the smallest batch size with preset quick, none tagged large.
        trials: new processes for each variant. timeout: seconds that a step may take.
        resume: skip benchmarks that the last run of this suite finished.
        baseline: suite whose stored runs regressions are judged against.

    Raises:
        UsageError: there is no such suite, or nothing in it matches.
    """
    suites = [choose(each, match, quick=quick) for each in load(str(where))]
    items = prepare(suites, trials=trials, timeout=timeout, baseline=baseline, resume=resume)
    if not items:
        raise UsageError(
            f"no benchmark of {where} matches", why=", ".join(match), next=f"laptime suite list {where}"
        )
    return PublicRun.of(
        measure(items, complain=lambda error: warnings.warn(str(error), stacklevel=2), save=save)
    )


def _measure_on(
    machines: Sequence[Machine],
    items: list[PlannedBenchmark],
    suite_id: str,
    ended: Callable[[PlannedBenchmark, Run], None],
    complain: Callable[[LaptimeError], object],
    save: bool,
) -> dict[int, Run]:
    """The run of each benchmark by its number; a benchmark whose machine is lost goes to one of its kind."""
    runs = {number: _rejudge(item, item.done) for number, item in enumerate(items) if item.done is not None}

    def do(number: int, run: RunOn) -> Run:
        return _one(items[number], suite_id, ignore, complain, save, partial(run, "bench"))

    def finish(at: int, result: Run | str) -> None:
        number = left[at]
        if isinstance(result, str):
            membership = structs.replace(items[number].membership, id=suite_id)
            result = _impossible(items[number], Died(f"{items[number].request.name}: {result}"), membership)
        runs[number] = result
        ended(items[number], result)

    left = [number for number in range(len(items)) if number not in runs]
    carry_out(left, machines, do, done=finish)
    return runs


def _of_suite(listener: Listener, place: str, *, before: float, own: float, total: float) -> Listener:
    """A listener that hears of the suite's progress if a benchmark tells of its own; times in seconds."""

    def hear(event: Event) -> None:
        if isinstance(event, events.Progress):
            after = total - before - own
            event = events.Progress(
                done=min(1.0, (before + event.done * own) / total),
                remaining=max(event.remaining, (1 - event.done) * own) + max(0.0, after),
                text=f"{place}: {event.text}",
            )
        listener(event)

    return hear


def _one(
    item: PlannedBenchmark,
    suite_id: str,
    listener: Listener,
    complain: Callable[[LaptimeError], object],
    save: bool,
    bench: Callable[[BenchRequest, Listener], Run],
) -> Run:
    membership = structs.replace(item.membership, id=suite_id)
    if isinstance(item.plan, LaptimeError):
        return _impossible(item, item.plan, membership)

    def run_judged(emit: Listener) -> Run:
        def hear(event: Event) -> None:
            if isinstance(event, events.RunStarted):
                event = events.RunStarted(structs.replace(event.run, suite=membership))
            if not isinstance(event, events.RunFinished):  # the verdicts come before it
                emit(event)

        run = bench(item.request, hear)
        run = _rejudge(item, structs.replace(run, suite=membership))
        emit(events.VerdictsReached(run.verdicts))
        for verdict in run.verdicts:
            emit(events.FindingAdded(finding(verdict)))
        emit(events.RunFinished(run.status, run.seconds))
        return run

    try:
        run, complaint = record_run(run_judged, listener, save=save)
    except LaptimeError as error:  # a file that was there a minute ago; the others are measured
        return _impossible(item, error, membership)
    if complaint is not None:
        complain(complaint)
    return run


def _impossible(item: PlannedBenchmark, error: LaptimeError, membership: Membership) -> Run:
    """The run of a benchmark that cannot even begin: its cases failed."""
    failure, targets = failure_of(error), item.benchmark.measured
    live = LiveRun("bench", ignore)
    live.start(
        name=item.request.name,
        subjects=[Subject(target=target) for target in targets],
        environment=machine.environment(),
        cases=[Case(key=name, target=name, axes={}, status="failed", failure=failure) for name in targets],
        suite=membership,
    )
    return live.finish("failed")


def _rejudge(item: PlannedBenchmark, run: Run) -> Run:
    """The run with the verdicts on its budgets."""
    verdicts = judge_run(item.benchmark, run)
    plain = [finding for finding in run.findings if not finding.kind.startswith(("check/", FIRST_RUN))]
    if item.benchmark.regression is not None and item.baseline is None:
        # No baseline is no fault: a new job in CI begins green, and says why.
        sentence = (
            f"{item.benchmark.name}: no run was stored before, so no regression was looked for; "
            "the next run is judged against this one"
        )
        cases = [case.key for case in run.cases]
        plain.append(Finding(kind=FIRST_RUN, severity="info", sentence=sentence, cases=cases))
    elif item.benchmark.regression is not None:
        verdicts += regressions(item.benchmark, run, _against(item, run))
    return with_verdicts(structs.replace(run, findings=plain), verdicts)


def _against(item: PlannedBenchmark, run: Run) -> Any:
    assert item.baseline is not None
    try:
        return compare_runs(item.baseline, run, earlier=recent())
    except UsageError as error:
        return f"{error.what}: {error.why}"


def combine(done: list[tuple[PlannedBenchmark, Run]], suite_id: str, *, status: str = "complete") -> Run:
    """All benchmarks as one run: every case with the axis `benchmark`, and all verdicts.

    It is not stored: the runs of its benchmarks are, and `--resume` puts them together again."""
    several = len({item.suite.name for item, _ in done}) > 1
    cases: list[Case] = []
    verdicts: list[Verdict] = []
    for item, run in done:
        label = run.name if several else item.benchmark.name
        keys = {case.key: f"{label}/{case.key}" for case in run.cases}
        for case in run.cases:
            axes = {"benchmark": label, **case.axes}
            cases.append(structs.replace(case, key=keys[case.key], axes=axes))
        verdicts += [structs.replace(each, case=keys.get(each.case, each.case)) for each in run.verdicts]
    runs = [run for _, run in done]
    environment = runs[0].environment if runs else machine.environment()
    for run in runs[1:]:
        environment = environment.extend((), run.environment.libraries, run.environment.knobs)
    return with_verdicts(
        Run(
            id=suite_id,
            verb="suite",
            name=", ".join(dict.fromkeys(item.suite.name for item, _ in done)),
            started=min((run.started for run in runs), default=utc_now()),
            seconds=sum(run.seconds for run in runs),
            laptime=__version__,
            command=redaction.line(["laptime", *sys.argv[1:]]),
            status=status,  # type: ignore[arg-type]
            subjects=list(dict.fromkeys(subject for run in runs for subject in run.subjects)),
            environment=environment,
            cases=cases,
            findings=[finding for run in runs for finding in run.findings if finding.kind == FIRST_RUN],
        ),
        verdicts,
    )
