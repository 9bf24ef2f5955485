"""`bench`: how fast a model runs, with an interval and a verdict.

plan ── generation 0 ─────────────────────────────────────────── generation 1 ...
        start workers ── load ── first calls ── rounds ── close
                                                │  every case a block, in random order,
                                                │  mirrored every second round; look now
                                                └─ and then whether it is enough
then, in the last generation: separate passes (outputs, FLOPs, memory, copies, energy)
then: labels, checks, comparisons, findings
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from laptime.analysis.compare import MIN_PAIRS
from laptime.kit.clock import Clock, SystemClock
from laptime.measure import passes
from laptime.measure.labels import relabel
from laptime.measure.schedule import looks, rounds
from laptime.measure.stop import reached
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.event import (
    CaseChanged,
    ComparisonAdded,
    EnvironmentChanged,
    FindingAdded,
    Listener,
    PlanChanged,
    Progress,
    ignore,
)
from laptime.records.plan import BenchRequest, Setting
from laptime.records.regime import Regime
from laptime.records.run import Run
from laptime.store.live_run import LiveRun
from laptime.verbs.bench import batch_search
from laptime.verbs.bench.case_worker import CaseWorker, OpenSession, fresh_process
from laptime.verbs.bench.planning import Plan, plan
from laptime.verbs.bench.postprocess import comparisons, completed, findings

MIN_ROUNDS = 2
MIN_COMPARED_ROUNDS = 5
SEPARATE = 4
"""Up to this many batch sizes, each gets a process of its own."""
CURVE_SHARE = 0.6
"""Share of a case's usual measuring time that each case of a searched curve gets."""
OVERTIME = 2.0
"""The fewest rounds may take this many budgets; on a very slow machine even they are cut short."""


def bench(
    request: BenchRequest,
    emit: Listener = ignore,
    *,
    open_session: OpenSession = fresh_process,
    in_memory: bool = False,
    clock: Clock = SystemClock,
) -> Run:
    """Measure what was asked for.

    Args:
        request: targets, axes and wishes.
        emit: is called with every event as it happens.
        open_session: how a variant's worker is started.
        in_memory: the target is an object of this process; its name is a label, not a place to look.
        clock: tells the time for the budget; a scripted machine brings its own.

    Returns:
        The run. After Ctrl-C its status is "interrupted" and it holds what was measured until then.

    Raises:
        UsageError: the request is impossible; nothing was measured.
    """
    planned = plan(request, in_memory=in_memory)
    return _Bench(request, planned, emit, open_session, clock, in_memory=in_memory).run()


class _Bench:
    def __init__(
        self,
        request: BenchRequest,
        planned: Plan,
        emit: Listener,
        open_session: OpenSession,
        clock: Clock,
        *,
        in_memory: bool,
    ) -> None:
        self._request = request
        self._plan = planned
        self._live = LiveRun("bench", emit)
        self._open = open_session
        self._workers: list[CaseWorker] = []
        self._in_memory = in_memory
        self._batches = list(planned.batches)
        self._is_comparison = len(planned.variants) > 1
        self._now = clock.now
        self._started = clock.now()
        self._round = 0
        self._done = 0.0
        self._last: tuple[CaseWorker, int] | None = None

    def run(self) -> Run:
        environment = machine.environment()
        self._live.start(
            name=self._request.name,
            subjects=self._plan.subjects,
            environment=environment,
            plan=self._plan.settings,
        )
        for note in self._plan.notes:
            self._live(FindingAdded(note))
        status = "complete"
        try:
            if not self._batches:
                self._search_batches()
            self._workers = self._case_workers()
            for generation in range(self._plan.processes):
                self._generation(generation)
        except KeyboardInterrupt:
            status = "interrupted"
        finally:
            for worker in self._workers:
                worker.close()
        self._finish(status)
        return self._live.run()

    def _search_batches(self) -> None:
        """Replace `auto` by the batch sizes worth measuring, and say what the search found."""
        result = batch_search.search(
            self._plan.variants[0],
            linear=self._request.batch == "auto:linear",
            timeout=self._request.timeout,
            open_session=self._open,
            progress=self._say,
        )
        self._batches = result.batches
        for finding in result.findings:
            self._live(FindingAdded(finding))
        settings = {**self._plan.settings, "batch": Setting(value=self._batches, origin="machine")}
        if self._request.budget is None:
            # Planned for one case each; the curve needs less of each than a headline does.
            budget = self._plan.budget * len(self._batches) * CURVE_SHARE
            settings["budget"] = Setting(value=budget, origin="preset")
            self._plan = self._plan._replace(budget=budget)
        self._live(PlanChanged(settings))

    # One generation: a fresh process of every variant.

    def _generation(self, generation: int) -> None:
        self._load(generation)
        self._measure(generation)
        if generation == self._plan.processes - 1 and not self._request.timing_only:
            self._passes()
        for worker in self._workers:
            worker.close()

    def _case_workers(self) -> list[CaseWorker]:
        """One worker for every case: memory left behind by another batch size would change its speed.

        The cases of a long curve and of an object in this process share one worker, and their details say so.
        """
        alone = not self._in_memory and self._plan.batches and len(self._plan.batches) <= SEPARATE
        groups: list[list[int] | None] = [[batch] for batch in self._batches] if alone else [self._batches]
        if self._request.batch is None:
            groups = [None]  # each takes the batch that its inputs have
        workers = []
        for variant in self._plan.variants:
            for batches in groups:
                workers.append(
                    CaseWorker(
                        variant,
                        batches,
                        emit=self._live,
                        timeout=self._request.timeout,
                        open_session=self._open,
                    )
                )
        return workers

    def _load(self, generation: int) -> None:
        # What has failed with every batch size is not waited for again.
        workers = [worker for worker in self._workers if worker.active]
        if generation > 0:
            self._open_together(workers)
            for worker in workers:
                worker.prepare()
            return
        for variant in self._plan.variants:
            self._say(f"loading {variant.target}")
            self._load_first([worker for worker in workers if worker.variant is variant])
        self._complete_environment()
        self._complete_cases()

    def _load_first(self, workers: list[CaseWorker]) -> None:
        """Load the workers of one variant for the first time, which gives import and load times.

        Variants load one after another, so that they do not disturb each other. The workers of one variant
        load together (with --preset strict one after another), and a note on their times says so.
        """
        together = [[worker] for worker in workers] if self._request.preset == "strict" else [workers]
        for group in together:
            self._open_together(group)
            note = f"beside {len(group) - 1} other processes that loaded, too" if len(group) > 1 else ""
            for worker in group:
                worker.prepare(note.replace("1 other processes", "1 other process"))

    def _open_together(self, workers: list[CaseWorker]) -> None:
        for worker in workers:
            worker.start()
        with ThreadPoolExecutor(max(1, len(workers))) as pool:
            try:
                list(pool.map(lambda worker: worker.open(), workers))
            except KeyboardInterrupt:
                for worker in workers:  # else the pool waits until all of them have loaded
                    worker.abandon()
                raise

    def _complete_environment(self) -> None:
        """Add the workers' frameworks, devices and knobs to the environment."""
        environment = self._live.run().environment
        for worker in self._workers:
            if (loaded := worker.loaded) is not None:
                environment = environment.extended(loaded.devices, loaded.libraries, worker.knobs())
        self._live(EnvironmentChanged(environment))

    def _complete_cases(self) -> None:
        """Add to every case what its calls get, and to the plan the batch where none was asked for."""
        for worker in self._workers:
            for batch, inputs in worker.inputs.items():
                if not inputs:
                    continue
                case = self._case(worker, batch)
                details = {**case.details, "inputs": inputs}
                self._live(CaseChanged(msgspec.structs.replace(case, details=details)))
        if self._request.batch is None:
            sizes = {case.axes["batch"]: None for case in self._live.run().cases}
            settings = {**self._plan.settings, "batch": Setting(value=[*sizes], origin="machine")}
            if [*sizes] != [1]:
                self._live(PlanChanged(settings))

    def _active(self) -> list[tuple[CaseWorker, int]]:
        return [(worker, batch) for worker in self._workers for batch in worker.active]

    def _measure(self, generation: int) -> None:
        active = self._active()
        if not active:
            return
        budget = self._plan.budget / self._plan.processes
        # Comparisons take many short blocks: the closer two cases are in time, the more drift they share.
        portions, longest = (24, 0.25) if self._is_comparison else (5, 1.0)
        block = min(longest, max(0.02, budget / len(active) / portions))
        fewest = MIN_COMPARED_ROUNDS if self._is_comparison else MIN_ROUNDS
        begun = self._now()
        look = looks()
        next_look = next(look)
        satisfied: set[tuple[CaseWorker, int]] = set()
        for number, order in enumerate(rounds(active, self._request.seed + generation), start=1):
            self._round += 1
            for worker, batch in order:
                if (worker, batch) in satisfied:
                    continue
                for regime, share in self._regimes_of(worker, number):
                    self._block(worker, batch, regime, share * block)
            active = self._active()
            spent = self._now() - begun
            self._progress(generation, spent / budget, budget - spent)
            if not active or spent >= (budget if number >= fewest else OVERTIME * budget):
                return
            while next_look < number:
                next_look = next(look)
            if number >= fewest and number == next_look:
                enough = {case for case in active if self._is_precise(*case, generation)}
                if len(enough) == len(active) and self._are_comparisons_precise(active, generation):
                    return
                # Sides of a comparison stay together; lone cases leave their time to the others.
                satisfied = set() if self._is_comparison else enough

    def _block(self, worker: CaseWorker, batch: int, regime: Regime, seconds: float) -> None:
        resumed = self._last not in (None, (worker, batch))
        self._last = (worker, batch)
        worker.measure(
            batch,
            regime=regime,
            seconds=seconds,
            resumed=resumed,
            round=self._round,
            epoch=self._started,
            rate=self._request.rate if regime.needs_rate else None,
        )

    def _regimes_of(self, worker: CaseWorker, number: int) -> list[tuple[Regime, float]]:
        """Regimes of this round, each with its share of a block.

        By default latency is measured in every round and the other regimes less often. On a CPU, where a call
        returns with its result, calls back to back differ little from calls one by one, and get less time.
        """
        if self._request.regimes:
            return [(Regime(regime), 1.0) for regime in self._request.regimes]
        on_cpu = worker.loaded is None or all(d.name == "cpu" for d in worker.loaded.devices)
        more = [(Regime.SATURATED, 0.4)] if on_cpu else [(Regime.SATURATED, 1.0), (Regime.DEVICE, 1.0)]
        paced = [(Regime.PACED, 1.0)] if self._request.rate else []
        every = 4 if self._is_comparison else 2
        return [(Regime.ISOLATED, 1.0), *paced, *(more if number % every == 1 else [])]

    def _is_precise(self, worker: CaseWorker, batch: int, generation: int) -> bool:
        """Whether a case is as precise as this share of the processes can be expected to make it."""
        precision = self._plan.precision * math.sqrt(self._plan.processes / (generation + 1))
        return reached(self._labelled(worker, batch)) <= precision

    def _are_comparisons_precise(self, active: list[tuple[CaseWorker, int]], generation: int) -> bool:
        """Whether the comparisons are as precise as asked and rest on enough pairs."""
        if not self._is_comparison:
            return True
        share = (generation + 1) / self._plan.processes
        precision = self._plan.precision / math.sqrt(share)
        compared = comparisons([self._labelled(worker, batch) for worker, batch in active])
        return len(active) == 1 or (
            bool(compared)
            and all(
                comparison.pairs >= MIN_PAIRS * share
                and math.log(comparison.ci95[1] / comparison.ci95[0]) / 2 <= precision
                for comparison in compared
            )
        )

    def _passes(self) -> None:
        cases = self._active()
        for kind in passes.KINDS:
            self._say(f"measuring {kind}" if kind != "count" else "counting FLOPs")
            for worker, batch in cases:
                self._live(CaseChanged(worker.do(kind, batch, self._case(worker, batch))))
        self._say("measuring the device's peak")
        for variant in self._plan.variants:
            peak: dict[str, Any] = {}
            for worker, batch in cases:
                if worker.variant is not variant:
                    continue
                case = self._case(worker, batch)
                if not peak:
                    case = worker.do(passes.PEAK, batch, case)
                    peak = case.details.get("peak") or worker.peak_on_paper()
                details = {**case.details, "peak": peak}
                self._live(CaseChanged(msgspec.structs.replace(case, details=details)))

    def _case(self, worker: CaseWorker, batch: int) -> Case:
        return self._live.case(worker.keys[batch])

    def _labelled(self, worker: CaseWorker, batch: int) -> Case:
        virtual = bool(self._live.run().environment.virtual)
        return relabel(self._case(worker, batch), virtual=virtual)[0]

    # The end.

    def _finish(self, status: str) -> None:
        run = self._live.run()
        for worker in self._workers:
            for batch, failure in worker.failed.items():
                case = run.case(worker.keys[batch])
                self._live(CaseChanged(msgspec.structs.replace(case, status="failed", failure=failure)))
        done: list[Case] = []
        for case in self._live.run().cases:
            if status == "interrupted" and case.status == "ok":
                case = msgspec.structs.replace(case, status="interrupted")
            finished = completed(case, run.environment, run.plan)
            done.append(finished)
            self._live(CaseChanged(finished))
        for comparison in comparisons(done):
            self._live(ComparisonAdded(comparison))
        kinds = {finding.kind for finding in run.findings}
        for finding in findings(done):
            if finding.kind not in kinds:
                self._live(FindingAdded(finding))
        self._live.finish(status, self._now() - self._started)

    def _say(self, text: str) -> None:
        """Report what is going on, without progress."""
        self._live(Progress(done=self._done, remaining=self._plan.budget * (1 - self._done), text=text))

    def _progress(self, generation: int, done: float, remaining: float) -> None:
        processes = self._plan.processes
        text = "measuring" if processes == 1 else f"measuring, process {generation + 1} of {processes}"
        share = (generation + min(1.0, done)) / processes
        left = max(0.0, remaining) + (processes - generation - 1) * self._plan.budget / processes
        self._done = share
        self._live(Progress(done=share, remaining=left, text=text))
