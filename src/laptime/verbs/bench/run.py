"""`bench`: how fast a model runs, with an interval and a verdict.

plan ── generation 0 ─────────────────────────────────────────── generation 1 ...
        start workers ── load ── first calls ── rounds ── close
                                                │  every case a block, in random order,
                                                │  mirrored every second round; look now
                                                └─ and then whether it is enough
then, in the last generation: separate passes (outputs, FLOPs, memory, copies, energy)
then: labels, checks, comparisons, findings"""

import math
from dataclasses import dataclass
from itertools import count, islice

import msgspec

from laptime.analysis.compare import MIN_PAIRS, is_crowded
from laptime.experiment.turns import looks, orders
from laptime.kit.clock import Clock, SystemClock
from laptime.measure.checks import processes
from laptime.measure.checks.precision import TOLERATED, is_within
from laptime.measure.labels import relabel
from laptime.probes import machine
from laptime.records import event as events
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.event import Listener, ignore
from laptime.records.plan import BenchRequest, Setting
from laptime.records.run import Run
from laptime.records.series import Regime
from laptime.store.live_run import LiveRun
from laptime.verbs.bench import batch_search, rounds
from laptime.verbs.bench.case_worker import CaseWorker, OpenSession, fresh_process
from laptime.verbs.bench.planning import LONGER, Plan, plan, plan_processes
from laptime.verbs.bench.postprocess import best_known, comparisons, complete, findings, remember

MIN_ROUNDS = 4
MIN_COMPARED_ROUNDS = 5
SEPARATE = 4  # batch sizes up to which each gets a process of its own
NO_BATCH = 0  # what ran last was a block of the device's peak
CURVE_ROUNDS = 12  # that the budget of a curve is divided into, every regime in each
DOUBT = 0.5  # seconds for each case of two more processes, if one may not show every speed of its calls
BRIEF = 10.0  # seconds: a shorter budget that was set is the loading's, too, up to two thirds of it
OVERTIME = 2.0  # budgets that the fewest rounds, and numbers too wide to be trusted, may take


def bench(
    request: BenchRequest,
    emit: Listener = ignore,
    *,
    open_session: OpenSession = fresh_process,
    in_memory: bool = False,
    clock: Clock = SystemClock,
) -> Run:
    """Measure what was asked for.

    request: targets, axes and wishes. emit: is called with every event as it happens. open_session: how a
    variant's worker is started. in_memory: the target is an object of this process; its name is a label, not
    a place to look. clock: tells the time for the budget; a scripted machine brings its own.
    Returns: The run. After Ctrl-C its status is "interrupted" and it holds what was measured until then.
    Raises UsageError: the request is impossible; nothing was measured."""
    planned = plan(request, in_memory=in_memory)
    return _Bench(request, planned, LiveRun("bench", emit), open_session, clock, in_memory).run()


@dataclass(eq=False)
class _Bench:
    _request: BenchRequest
    _plan: Plan
    _live: LiveRun
    _open: OpenSession
    _clock: Clock
    _in_memory: bool
    _round: int = 0
    _is_doubted: bool = False  # whether one process shows every speed of the calls
    _largest: int | None = None  # batch that fits, when the search has found its limit
    _last: tuple[CaseWorker, int] | None = None
    _loading: float = 0.0  # seconds that the first processes took to load, variant after variant

    def __post_init__(self) -> None:
        request, planned, variants = self._request, self._plan, len(self._plan.variants)
        self._workers: list[CaseWorker] = []
        self._batches = list(planned.batches)
        self._peaks = rounds.PeakRounds(planned.variants, wanted=not request.timing_only)
        self._is_comparison = variants > 1
        self._is_budget_given = request.budget is not None
        self._is_brief = request.budget is not None and request.budget < BRIEF
        self._now, self._started = self._clock.now, self._clock.now()
        self._wall = rounds.WallProgress(self._live, self._now, variants=variants)

    def run(self) -> Run:
        environment, planned = machine.environment(), self._plan
        self._live.start(
            name=self._request.name, subjects=planned.subjects, environment=environment, plan=planned.settings
        )
        for note in self._plan.notes:
            self._live(events.FindingAdded(note))
        status = "complete"
        try:
            if not self._batches:
                self._search_batches()
            self._workers = self._case_workers()
            generations = count()
            while (generation := next(generations)) < self._plan.processes:
                self._generation(generation)
        except KeyboardInterrupt:
            status = "interrupted"
        finally:
            self._close()
        self._finish(status)
        return self._live.run()

    def _search_batches(self) -> None:
        """Replace `auto` by the batch sizes worth measuring, and say what the search found."""
        self._wall.searching()
        result = batch_search.search(
            self._plan.variants[0],
            linear=self._request.batch == "auto:linear",
            timeout=self._request.timeout,
            open_session=self._open,
            progress=self._wall.say,
            budget=self._request.budget,
            usual=self._plan.budget,
            times=len(self._plan.variants) * self._plan.processes,
            now=self._now,
        )
        self._batches = result.batches
        self._plan = self._plan._replace(budget=result.seconds)
        # Only the first variant was searched.
        self._largest = result.largest if result.is_limit and not self._is_comparison else None
        for finding in result.findings:
            self._live(events.FindingAdded(finding))
        settings = {**self._plan.settings, "batch": Setting(value=self._batches, origin="machine")}
        if self._request.budget is None:
            settings["budget"] = Setting(value=result.seconds, origin="preset")
        self._live(events.PlanChanged(settings))

    # One generation: a fresh process of every variant.

    def _generation(self, generation: int) -> None:
        self._load(generation)
        self._measure(generation)
        if self._plan.processes == 1 and not (self._is_comparison or self._in_memory or self._is_curve):
            is_time_left = not self._is_brief  # without it the check of processes says so
            self._is_doubted = is_time_left and any(
                processes.is_suspect(self._relabel(*case)) for case in self._active()
            )
            self._plan = self._plan._replace(processes=3 if self._is_doubted else 1)
        is_free = not (self._request.processes or self._in_memory or self._request.preset == "quick")
        if self._is_comparison and is_free:
            self._plan_processes(generation + 1)
        for worker, batch in self._active():
            self._peak(worker, batch, elapsed=0.0)  # behind the last round, where too few came before it
        if generation == self._plan.processes - 1 and not self._request.timing_only:
            self._passes()
        self._close()

    def _plan_processes(self, done: int) -> None:
        """Plan many short processes for a comparison of two, and where others disturb one of more."""
        active, elapsed = self._active(), self._now() - self._started
        cases = (self._relabel(*case).find("latency", Regime.ISOLATED) for case in active)
        latencies = [series for series in cases if series]
        first = self._loading + self._plan.budget / self._plan.processes
        planned = plan_processes(
            self._plan,
            done,
            is_clear=self._are_comparisons_precise(active, 1.0),
            may_add=len(latencies) == len(active) == 2 or is_crowded(*latencies),
            fewest=MIN_COMPARED_ROUNDS * sum(worker.estimate[batch] for worker, batch in active),
            loading=self._loading / len(self._plan.variants),
            left=None if self._is_budget_given else LONGER * first - elapsed,
        )
        if planned.processes != self._plan.processes:
            setting = Setting(value=planned.processes, origin="machine")
            self._live(events.PlanChanged({**self._live.run().plan, "processes": setting}))
        self._plan = planned

    def _close(self) -> None:
        for worker in reversed(self._workers):  # modes that they have entered in this process are nested
            worker.close()

    def _case_workers(self) -> list[CaseWorker]:
        """One worker for every case: memory left behind by another batch size would change its speed.

        A long curve and an object in this process share one worker, and their details say so."""
        alone = not self._in_memory and self._plan.batches and len(self._plan.batches) <= SEPARATE
        groups: list[list[int] | None] = [[batch] for batch in self._batches] if alone else [self._batches]
        if self._request.batch is None:
            groups = [None]  # each takes the batch that its inputs have
        timeout = self._request.timeout
        return [
            CaseWorker(variant, batches, emit=self._live, timeout=timeout, open_session=self._open)
            for variant in self._plan.variants
            for batches in groups
        ]

    def _load(self, generation: int) -> None:
        # What has failed with every batch size is not waited for again.
        workers = [worker for worker in self._workers if worker.active]
        self._wall.loading(generation, self._plan.processes, self._plan.budget)
        if generation > 0:
            self._wall.say(f"loading, process {generation + 1} of {self._plan.processes}")
            rounds.open_together(workers)
            for worker in workers:
                worker.prepare()
            self._wall.end_loading(worker.estimate[batch] for worker, batch in self._active())
            return
        began = self._now()
        for variant in self._plan.variants:
            self._wall.say(f"loading {variant.target}")
            same = [worker for worker in workers if worker.variant is variant]
            rounds.load_first(same, one_by_one=self._request.preset == "strict")
        self._loading = self._now() - began
        self._wall.end_loading(worker.estimate[batch] for worker, batch in self._active())
        self._complete_environment()
        self._complete_cases()

    def _complete_environment(self) -> None:
        environment = self._live.run().environment
        for worker in self._workers:
            if (loaded := worker.loaded) is not None:
                environment = environment.extend(loaded.devices, loaded.libraries, worker.knobs())
        self._live(events.EnvironmentChanged(environment))

    def _complete_cases(self) -> None:
        """Add what is known by now: a case's inputs and the machine's best so far; the plan's own batch."""
        for worker in self._workers:
            for batch, inputs in worker.inputs.items():
                case = self._case(worker, batch)
                cpus, known = self._live.run().environment.usable_cpus, best_known(self._clock) or None
                details = case.details.merge(Details(inputs=inputs, known_work=known, usable_cpus=cpus))
                self._live(events.CaseChanged(msgspec.structs.replace(case, details=details)))
        if self._request.batch is None:
            sizes = {case.axes["batch"]: None for case in self._live.run().cases}
            settings = {**self._plan.settings, "batch": Setting(value=[*sizes], origin="machine")}
            if [*sizes] != [1]:
                self._live(events.PlanChanged(settings))

    @property
    def _is_curve(self) -> bool:  # sizes of one program are compared by their throughput, round by round
        return len(self._batches) > 1 and not self._is_comparison

    def _active(self) -> list[tuple[CaseWorker, int]]:
        return [(worker, batch) for worker in self._workers for batch in worker.active]

    def _measure(self, generation: int) -> None:
        budget, paced = self._plan.budget / self._plan.processes, self._plan.paced_share
        if self._is_brief and generation == 0:
            budget = max(budget / 3, budget - (self._now() - self._started))
        if self._is_doubted:
            budget = DOUBT * len(self._active())
        if paced < 1:
            self._rounds(generation, (1 - paced) * budget, paced=paced * budget)
        if paced:
            self._run_paced(generation, paced * budget)

    def _run_paced(self, generation: int, budget: float) -> None:
        """Each case's paced calls in one stretch: a queue that starts anew every second never fills.

        Cases that are compared take several stretches in turns: they share what the machine does meanwhile.
        """
        stretches = MIN_COMPARED_ROUNDS if self._is_comparison else 1
        in_turns = islice(orders(self._active(), self._request.seed + generation), stretches)
        for number, order in enumerate(in_turns):
            self._round += 1
            self._wall.measuring(budget * (1 - number / stretches))
            for worker, batch in order:
                if batch not in worker.failed:
                    self._block(worker, batch, Regime.PACED, budget / len(order) / stretches)

    def _rounds(self, generation: int, budget: float, *, paced: float) -> None:
        """Blocks of all cases in turns, until they are precise or time is up; `paced` seconds follow."""
        if not (active := self._active()):
            return
        # Comparisons take many short blocks: the closer two cases are in time, the more drift they share.
        portions, longest = (24.0, 0.25) if self._is_comparison else (5.0, 1.0)
        if self._is_curve:
            portions = CURVE_ROUNDS * sum(share for _, share in self._regimes_of(*active[0], 1))
        block = min(longest, max(0.02, budget / len(active) / portions))
        is_paired = self._is_comparison or self._is_curve
        fewest = MIN_COMPARED_ROUNDS if is_paired else MIN_ROUNDS
        begun, look = self._now(), looks()
        self._peaks.begin()
        next_look = next(look)
        satisfied: set[tuple[CaseWorker, int]] = set()
        limit: float | None = None
        for number, order in enumerate(orders(active, self._request.seed + generation), start=1):
            self._round += 1
            for worker, batch in order:
                if (worker, batch) in satisfied:
                    continue
                self._peak(worker, batch, self._now() - begun)
                for regime, share in self._regimes_of(worker, batch, number):
                    self._block(worker, batch, regime, share * block)
            active = self._active()
            spent = self._now() - begun
            self._wall.measuring(budget - spent + paced)
            if limit is None and spent >= budget and number >= fewest:
                # Decided once: who looks after each round until it suits stops at a lucky one.
                # Whether more time would not change a verdict: every interval is narrow enough for it.
                is_sound = all(is_within(self._relabel(*case), TOLERATED) for case in active)
                is_sound |= self._is_comparison or self._is_budget_given
                limit = budget if is_sound else OVERTIME * budget
            if not active or spent >= (OVERTIME * budget if limit is None else limit):
                return
            while next_look < number:
                next_look = next(look)
            if limit is None and number >= fewest and number == next_look:
                enough = {case for case in active if self._is_precise(*case, generation)}
                share = (generation + 1) / self._plan.processes
                if len(enough) == len(active) and self._are_comparisons_precise(active, share):
                    return
                # Sides of a comparison stay together; lone cases leave their time to the others.
                satisfied = set() if is_paired else enough

    def _peak(self, worker: CaseWorker, batch: int, elapsed: float) -> None:
        """A block of the device's peak beside those of the case whose turn it is, when one is due."""
        if not self._peaks.is_due(worker.variant, elapsed):
            return
        began = self._now()
        samples, facts = worker.peak(batch, round=self._round, epoch=self._started)
        self._peaks.enter(worker.variant, samples, facts, seconds=self._now() - began)
        if samples and worker.estimate[batch] < rounds.WARM:
            self._last = (worker, NO_BATCH)
        of_variant = [(w, b) for w, b in self._active() if w.variant is worker.variant]
        for other, size in of_variant if samples else []:
            self._live(events.Measured(other.keys[size], samples[0]))

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

    def _regimes_of(self, worker: CaseWorker, batch: int, number: int) -> list[tuple[Regime, float]]:
        every = 1 if self._is_curve else 4 if self._is_comparison else 2
        return worker.regimes(batch, self._request.regimes, is_long_round=number % every == 1 % every)

    def _is_precise(self, worker: CaseWorker, batch: int, generation: int) -> bool:
        precision = self._plan.precision * math.sqrt(self._plan.processes / (generation + 1))
        return is_within(self._relabel(worker, batch), precision)

    def _are_comparisons_precise(self, active: list[tuple[CaseWorker, int]], share: float) -> bool:
        """Whether each is known as well as this share of all processes can, and no word is near."""
        if not self._is_comparison or len(active) == 1:
            return True
        compared = comparisons([self._relabel(worker, batch) for worker, batch in active])
        return bool(compared) and all(
            one.pairs >= MIN_PAIRS * share
            and math.log(one.ci95[1] / one.ci95[0]) / 2
            <= max(self._plan.precision / math.sqrt(share), abs(math.log(one.speedup)) / 3)
            and (one.word != "unclear" or one.ci95[0] <= 1 <= one.ci95[1])
            for one in compared
        )

    def _passes(self) -> None:
        cases = self._active()
        for case in rounds.complete_cases(cases, self._case, self._wall.completing):
            self._live(events.CaseChanged(case))
        for worker, batch in cases:
            self._live(events.CaseChanged(self._peaks.add_peak(worker, self._case(worker, batch))))

    def _case(self, worker: CaseWorker, batch: int) -> Case:
        return self._live.case(worker.keys[batch])

    def _relabel(self, worker: CaseWorker, batch: int) -> Case:
        return relabel(self._case(worker, batch), virtual=bool(self._live.run().environment.virtual))[0]

    def _finish(self, status: str) -> None:
        run = self._live.run()
        for worker in self._workers:
            for batch, failure in worker.failed.items():
                case = run.case(worker.keys[batch])
                self._live(
                    events.CaseChanged(msgspec.structs.replace(case, status="failed", failure=failure))
                )
        done: list[Case] = []
        for case in self._live.run().cases:
            if status == "interrupted" and case.status == "ok":
                case = msgspec.structs.replace(case, status="interrupted")
            finished = complete(case, run.environment, run.plan)
            done.append(finished)
            self._live(events.CaseChanged(finished))
        if status == "complete" and done and all(case.status == "failed" for case in done):
            status = "failed"
        remember(done, self._clock)
        for comparison in comparisons(done):
            self._live(events.ComparisonAdded(comparison))
        kinds = {finding.kind for finding in run.findings}
        for finding in findings(done, largest=self._largest):
            if finding.kind not in kinds:
                self._live(events.FindingAdded(finding))
        self._live.finish(status, self._now() - self._started)
