"""The `Evaluator` of a search over one model: folders are written, raced and gated."""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from itertools import islice, pairwise
from math import log
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec

from laptime.analysis.paired import spread
from laptime.experiment.turns import FEWEST_ROUNDS, rounds
from laptime.kit.errors import UsageError
from laptime.launch import fresh_call
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.probes import energy, machine
from laptime.records.details import Agreement
from laptime.records.environment import Device, Environment
from laptime.records.quantity import KEPT, UNDECIDED, Judgement
from laptime.records.tuning import Gate, GateCheck
from laptime.tuning.gates.invariants import report, word
from laptime.tuning.inference.arm_process import count_warmup
from laptime.tuning.inference.changes import find_candidates, numerics_of
from laptime.tuning.inference.folders import Folders, strip
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.sameness import UserMetric, outputs_in, with_checks
from laptime.tuning.inference.sameness import sameness as judged
from laptime.tuning.inference.setups import Setup, Visit, cost_of, of_race
from laptime.tuning.inference.sides import FleetSide, Side, Sides, Timing
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed
from laptime.tuning.time_accounting import TimeAccounting
from laptime.verbs.bench.variants import room

BLOCK = 0.4  # seconds of timed calls in a block, about
FEWEST, MOST = 3, 200  # calls in a block; fewer if these take more than twice its seconds
OF_ONE_PROCESS = 3  # rounds after which both sides get new processes
NOISE_BLOCKS, FEW_BLOCKS, NOISE_SECONDS = 9, 5, 10.0
"""Blocks that show how much they scatter; so few if more take longer than these seconds."""
LIMITS = 0.1  # share of the budget that is spent at most on the question whether one recipe keeps the limits
ASKED_OF, SHORT, LONG = 6, 1.0, 4.0
"""Processes that share the calls which that takes, as their levels differ; seconds of calls of each."""
OF_SETUPS = "chosen with instances and batch sizes"  # why threads are no candidate if these are
LOADING_BOTH = 1.5  # times the seconds of one arm that two take to load at once, before any have
STARTED = 6.0  # seconds that an arm takes to be ready, before one was started


class ModelEvaluator(Sides):
    """Evaluates recipes of one model. request: checked. folder: for all that is written.
    Raises UsageError: the model cannot be tuned. LaptimeError: it does not run."""

    def __init__(self, request: ModelRequest, folder: Path) -> None:
        self.request, self.folder = request, folder
        self.accounting = TimeAccounting()
        self.loop_profile: LoopProfile | None = None  # of the model as it is
        self.gates: dict[Recipe, Gate] = {}
        self.agreements: dict[Recipe, Agreement] = {}
        self.limits = request.limits  # that have to be kept
        self.timings: dict[Recipe, Timing] = defaultdict(Timing)
        # Time of a round, the second recipe's over the first's.
        self.ratios: dict[tuple[Recipe, Recipe], list[float]] = defaultdict(list)
        self._began = time.perf_counter()
        self._batch_checks: dict[tuple[Recipe, int], GateCheck] = {}
        # Seconds until a side of a race is ready, about, and one process of the model as it is.
        self.ready = self.ready_as_is = STARTED
        self.ready_by: dict[Recipe, float] = {}  # the same by raced recipe, beside the other side
        self.calls, self._calibration = folder / "calls.npz", folder / "calibration.npz"
        arguments = {"target": request.target, "batch": request.batch, "samples": request.inputs}
        arguments |= {"device": request.place, "calls": str(self.calls)}
        arguments["calibration"] = str(self._calibration)
        with self.accounting.spent_on("diagnose"):
            self.surveyed = self._call("laptime.tuning.inference.survey:survey", arguments)
        if self.surveyed["refused"]:
            raise UsageError(
                f"{request.target} cannot be tuned",
                why=self.surveyed["refused"],
                next=f"laptime bench {request.target}   measures it as it is",
            )
        self.request = request.on(self.device, int(self.surveyed["peak"]))
        if self.request.is_throughput:
            self.raced = of_race(room(), self.request.instances, self.batch)
        self.recorded = RecordedCalls.load(self.calls)
        self.meters = [meter for meter in energy.survey()[0] if meter.device == self.device]
        self.folders = Folders(folder, request, self.surveyed, self._calibration, self.accounting)
        # Now, and not when the first change has won minutes later: it may raise.
        self._metric = UserMetric(request.metric, self.recorded, self.surveyed, folder, self._call)

    def _call(self, function: str, arguments: dict[str, Any]) -> Any:
        self.accounting.trials += 1
        return fresh_call.call(function, arguments, timeout=self.request.timeout)

    def environment(self) -> Environment:
        """The machine, with what the survey knows of libraries and the device."""
        devices = msgspec.convert(self.surveyed.get("devices", []), list[Device])
        return machine.environment().extend(devices, self.surveyed["libraries"], {})

    # The contract of a search

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return time.perf_counter() - self._began

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """A call under a recipe, and how much blocks of calls scatter.

        The call is that of one process; of several, a call's share of their time.

        Raises TrialFailed: it does not run."""
        began, many = self.elapsed(), self.raced.instances
        with self.accounting.spent_on("diagnose"), self.side(recipe) as side:
            self.ready = max(side.ready, 0.1)
            calls = self.calls_in_block(side.call)
            blocks, until = list[float](), self.elapsed() + NOISE_SECONDS
            while len(blocks) < (NOISE_BLOCKS if self.elapsed() < until else FEW_BLOCKS):
                blocks.append(self.figure(self.time_calls(recipe, side, calls)))
            step, peak = median(blocks) / many, side.peak
        noise = spread([log(after / before) for before, after in pairwise(blocks)])
        if many > 1 and self.loop_profile is None:  # as it is, it is one process
            with self.accounting.spent_on("diagnose"), self.arm(recipe) as arm:
                step, peak = median(arm.seconds(self.calls_in_block(arm.call))), arm.peak
                self.ready_as_is = arm.ready
        loop_profile = LoopProfile(
            step=step,
            shares={"forward": step},
            batch=self.batch,
            device=self.device,
            cpus=len(os.sched_getaffinity(0)),
            threads=int(self.surveyed["threads"]),
            facts=frozenset(self.surveyed["facts"]),
            peak=peak,
            noise=noise,
            seconds=self.elapsed() - began,
        )
        if self.loop_profile is None:
            self.loop_profile = loop_profile
        return loop_profile

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Return the candidates on top of a recipe; threads that go with instances are chosen later."""
        request, call = self.request, loop_profile.step * self.raced.instances
        incumbent = self.ready_by.get(strip(recipe), self.ready)
        others = [seconds for each, seconds in self.ready_by.items() if strip(each)]
        offered = find_candidates(
            loop_profile,
            recipe,
            goal=request.goal,
            allow=request.classes,
            only=tuple(request.only),
            skip=tuple(request.skip),
            block=(self.calls_in_block(call) + count_warmup(call)) * call,
            # Until both arms of a race are ready, by those that were: they load at the same time.
            starts=max(incumbent, median(others)) if others else LOADING_BOTH * incumbent,
            rounds=OF_ONE_PROCESS,
            missing_of=request.interpreters.missing,
        )
        if not request.has_setups:
            return offered
        usable = tuple(each for each in offered.usable if each.change.name != "threads")
        return CandidateSet(usable, {"threads": OF_SETUPS, **offered.ruled_out})

    def ready_alone(self, recipe: Recipe) -> float:
        """Seconds until a recipe is ready while nothing else loads: one process as it is, else a side.

        In a race several instances of both sides have shared the CPUs when they loaded."""
        if self.raced.instances == 1:
            return self.ready_by.get(recipe, self.ready)
        return self.ready_by.get(recipe, 2 * self.ready) / 2 if strip(recipe) else self.ready_as_is

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        """Paired blocks of calls in random order; both processes live through some rounds (`fresh`: one).
        Raises TrialFailed: a side does not run."""
        coin = random.Random(len(self.timings))  # noqa: S311
        process = 0
        while True:
            with self.accounting.spent_on("race"), ExitStack() as stack:
                recipes = (incumbent, candidate)
                for each in map(self.as_raced, recipes):  # no arm waits for the other one's
                    self.folders.ensure(each)
                sides = list[Side]()
                for recipe in recipes:
                    sides.append(stack.push(self.side(recipe)))
                    if self.device != "cpu":  # one after the other, or it would be unknown whose memory it is
                        sides[-1].wait()
                for side in sides:
                    side.wait()
                one, other = sides
                counts = [self.calls_in_block(side.call) for side in sides]
                self.ready_by.update({incumbent: one.ready, candidate: other.ready})
                block = lambda *timed: self.figure(self.time_calls(*timed))  # noqa: E731
                blocks = [partial(block, *each) for each in zip(recipes, sides, counts, strict=True)]
                for before, after in islice(rounds(blocks, coin), 1 if fresh else OF_ONE_PROCESS):
                    self.ratios[strip(incumbent), strip(candidate)].append(after / before)
                    yield Round(after / before, memory=other.peak / one.peak, process=process)
            process += 1

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Whether the folder computes what the model does, and keeps the limits that the incumbent keeps.
        Raises TrialFailed: it does not run."""
        gate = self.sameness(candidate)
        if not self.limits or gate.word != "passed" or word(self.limit_checks(incumbent)) is not KEPT:
            return gate
        return with_checks(gate, self.limit_checks(candidate))

    def limit_checks(self, recipe: Recipe) -> list[GateCheck]:
        """Whether a recipe keeps the limits; it is timed further while that is open and there is time.
        Raises TrialFailed: it does not run."""
        until = self.elapsed() + LIMITS * self.request.budget
        while True:
            timing = self.timings[strip(recipe)]
            checks = self.limits.checks(timing.seconds, timing.peak) if timing.peak else []
            is_open = not checks or word(checks) is UNDECIDED
            if not self.limits or not is_open or (checks and self.elapsed() > until):
                return checks
            with self.accounting.spent_on("measure"), self.arm(recipe) as arm:
                seconds = min(LONG, max(SHORT, self.limits.calls * arm.call / ASKED_OF))
                self.time_calls(recipe, arm, max(FEWEST, round(seconds / arm.call)))

    def sameness(self, candidate: Recipe) -> Gate:
        """Whether the folder computes what the model does. Raises TrialFailed: it does not run."""
        if candidate not in self.gates:
            path = self.folders.outputs_of(candidate)
            both = self._compare(candidate, self.recorded, self.calls, path, self._metric)
            self.gates[candidate], self.agreements[candidate] = both
        return self.gates[candidate]

    def _compare(
        self,
        recipe: Recipe,
        recorded: RecordedCalls,
        calls: Path,
        path: Path,
        metric: UserMetric | None = None,
    ) -> tuple[Gate, Agreement]:
        with self.accounting.spent_on("gate"), self.arm(recipe, calls) as arm:
            answer = arm.outputs(path)
        more = metric.checks(path, answer["counts"]) if metric else ()
        precision = self.folders.settings(recipe).get("precision", "float32")
        kind = {"numerics": numerics_of(recipe), "precision": precision}
        return judged(recorded, path, answer, more=more, about=self.surveyed, **kind)

    def sameness_at(self, recipe: Recipe, batch: int) -> Gate:
        """The same, in calls of so many items, too.
        Raises TrialFailed: it does not run, or takes no such batch; or the model as it is does not."""
        gate = self.sameness(recipe)
        if batch == self.batch:
            return gate
        if (recipe, batch) not in self._batch_checks:
            calls = self._calls_of(batch)
            with self.accounting.spent_on("gate"):
                recorded = self._record_calls(calls, batch)
            again, _ = self._compare(recipe, recorded, calls, self.folder / f"outputs-{batch}.npz")
            outcome = Judgement.of_all(check.outcome for check in again.checks)
            check = report("chosen_batch_size", outcome, f"calls of {batch} items: {again.reason}")
            self._batch_checks[recipe, batch] = check
        return with_checks(gate, [self._batch_checks[recipe, batch]])

    def _record_calls(self, calls: Path, batch: int) -> RecordedCalls:
        outputs = self.folder / f"reference-{batch}.npz"
        with self.arm(Recipe(), calls) as arm:
            made = outputs_in(outputs, arm.outputs(outputs))
        recorded = []
        for call, arrays in zip(RecordedCalls.load(calls).calls, made, strict=True):
            if isinstance(arrays, str):
                raise TrialFailed("crashed", f"the model as it is, {batch} items: {arrays}")
            recorded.append(RecordedCall(batch, call.inputs, arrays))
        return RecordedCalls(recorded, rounding=self.recorded.rounding)

    # Figures

    def figure(self, seconds: list[float]) -> float:
        """Return the figure of a block for the goal: the median call, or the mean."""
        return median(seconds) if self.request.goal == "latency" else mean(seconds)

    def fleet_side(self, recipe: Recipe, setup: Setup, seconds: Callable[[float], float]) -> FleetSide:
        """A setup that takes turns; `seconds`: of calls in its fewest blocks, by the seconds of a call."""
        cost = cost_of(self.request.goal, room())(setup)

        def figure(visit: Visit) -> float:
            return median(visit.seconds) if self.request.goal == "latency" else cost / visit.rate

        return FleetSide(
            lambda: self.fleet(recipe, setup), lambda call: seconds(call) / FEWEST_ROUNDS, figure
        )

    def calls_in_block(self, call: float) -> int:
        """Calls that fill a block."""
        call = max(call, 1e-6)
        return min(MOST, max(1, min(FEWEST, int(2 * BLOCK / call)), round(BLOCK / call)))
