"""The `Evaluator` of a search over one server's flags: servers are started, loaded in turns, and compared."""

import os
import random
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import inf, isfinite, log, nan
from pathlib import Path
from statistics import fmean, median

from msgspec import structs

from laptime.analysis.load import level_stats
from laptime.analysis.paired import spread
from laptime.kit.clock import SystemClock
from laptime.measure.metrics import LATENCY
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.quantity import KEPT, UNDECIDED
from laptime.records.tuning import GATED, Gate, GateCheck
from laptime.tuning.gates.invariants import word
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Candidate, CandidateSet, Round, TrialFailed
from laptime.tuning.server import outputs
from laptime.tuning.server.outputs import figure, limits
from laptime.tuning.server.request import Choice, ServerRequest, Value
from laptime.tuning.server.visit import Visit, generators_fault, has_answers, visiting
from laptime.tuning.time_accounting import TimeAccounting

LEAST = 1.0  # seconds of a block at least
REQUESTS, WAVES = 24, 5  # requests of a block at a rate; of users who wait, answers that each gets
MOST = 1 / 100  # share of the budget that a block takes at most, or as long as the server takes to start
WARM_UP = 0.5  # share of a block that is sent before the first one and does not count
NOISE_BLOCKS = 4  # blocks of each of two starts of the server as it is, which show its noise
MANY = 2  # rounds of one pair of starts, if a start takes longer than a block
SAVES, PRIOR = 0.5, 0.5
"""Share of the figure that a flag is expected to save at most: nothing is known of what it does."""
ORDER = 0.98
"""Of its prior, by which a choice is behind the one before it in the command: the user's order counts."""
LIMITS = 0.05
"""Share of the budget that is spent at most on the question whether one recipe keeps the promise."""
STARTS = 2  # starts of the server as it is after which the same prompts are asked
CONTROL = Change("identity")
GENERATOR = "the load generator was late in every block, so nothing is known: is the machine busy?"


class ServerEvaluator:
    """Evaluates choices of a server's flags. request: checked. folder: for what servers print."""

    def __init__(self, request: ServerRequest, folder: Path) -> None:
        self.request, self.folder, self.template = request, folder, request.template
        self.accounting = TimeAccounting()
        self.cases: dict[Recipe, list[Case]] = defaultdict(list)  # all blocks, in order of time
        self.answers: dict[Recipe, list[list[outputs.Output]]] = defaultdict(list)  # by start
        self.ready: dict[Recipe, list[float]] = defaultdict(list)  # seconds until its server answers
        self.unusable: list[Check] = []  # what the generator did wrong in blocks that say nothing of it
        self.began = SystemClock.now()
        self.block = LEAST
        self._number = 0
        self._cost = self._ending = 0.0

    # The contract of a search

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return SystemClock.now() - self.began

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """The figure under a recipe, and how much it scatters from block to block and start to start.
        Raises TrialFailed: the server does not run."""
        began = self.elapsed()
        numbers = self.numbers(NOISE_BLOCKS)
        with self.accounting.spent_on("diagnose"):
            before, after = (self.measure(recipe, numbers) for _ in range(2))
        usable = [each for each in (*before, *after) if isfinite(each)]
        if not usable:
            raise TrialFailed("refused", GENERATOR)
        step = median(usable)
        logs = [log(b / a) for a, b in zip(before, after, strict=True) if a > 0 and b > 0]
        return LoopProfile(
            step=step,
            shares={"forward": step},
            cpus=len(os.sched_getaffinity(0)),
            noise=spread(logs),
            seconds=self.elapsed() - began,
        )

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Every choice that is not made, and the control."""
        values = values_of(recipe)
        found = [
            Candidate(
                change=change,
                title=f"{choice.name}: {change.options['value']} for {choice.values[0]}",
                numerics="precision" if self.request.differs else "exact",
                bound=SAVES * loop_profile.step,
                cost=self._round_cost(),
                start=2 * self._cost,
                prior=PRIOR * ORDER ** (index + is_jump * len(self.template.choices)),
                space=space,
                gives=frozenset({choice.name}),
            )
            for index, choice in enumerate(self.template.choices)
            for change, space, is_jump in _propose(choice, values.get(choice.name))
        ]
        control = Candidate(change=CONTROL, cost=self._round_cost(), start=2 * self._cost)
        return CandidateSet((*found, control))

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        """Paired blocks with the same arrivals and prompts, of servers that are up one after the other.
        Raises TrialFailed: a side does not run."""
        coin = random.Random(self._number)  # noqa: S311
        sides, process = (incumbent, candidate), 0
        while True:
            numbers = self.numbers(1 if fresh else self.rounds_of_a_start)
            order = (0, 1) if coin.random() < 0.5 else (1, 0)
            with self.accounting.spent_on("race"):
                figures = {at: self.measure(sides[at], numbers) for at in order}
            for before, after in zip(figures[0], figures[1], strict=True):
                yield Round(after / before, process=process)
            process += 1

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Whether the server answers the same, and keeps the promise that the incumbent keeps.
        Raises TrialFailed: it does not run."""
        gate = self.sameness(candidate)
        if not self.request.slo or gate.word != "passed" or word(self.limit_checks(incumbent)) is not KEPT:
            return gate
        checks = self.limit_checks(candidate)
        sentences = [check.sentence for check in checks if check.outcome is not KEPT]
        return structs.replace(
            gate,
            word=GATED[word(checks)],
            reason=sentences[0] if sentences else gate.reason,
            checks=[*gate.checks, *checks],
        )

    # What it is made of

    @property
    def rounds_of_a_start(self) -> int:
        """Blocks that a server gets before it is ended."""
        return MANY if self._cost > self.block else 1

    def is_asked(self, recipe: Recipe) -> bool:
        """Whether nothing has to be started to tell if a recipe's server answers the same."""
        return len(self.answers[Recipe()]) >= STARTS and bool(self.answers[strip(recipe)])

    def sameness(self, recipe: Recipe) -> Gate:
        """Whether the server answers what it does as it is. Raises TrialFailed: it does not run."""
        for asked, times in ((Recipe(), STARTS), (strip(recipe), 1)):
            while len(self.answers[asked]) < times:
                with self.accounting.spent_on("gate"), self.visit(asked):
                    pass
        reference = self.answers[Recipe()]
        return outputs.gate(reference, self.answers[strip(recipe)][0], differs=self.request.differs)

    def limit_checks(self, recipe: Recipe) -> list[GateCheck]:
        """Whether a recipe keeps the promise; it is loaded further while that is open and there is time.
        Raises TrialFailed: it does not run."""
        if not self.request.slo:
            return []
        budget = self.request.budget
        until = min(self.elapsed() + LIMITS * budget, budget)
        while True:
            checks = limits(self.request.slo, self.cases[strip(recipe)])
            if (checks and word(checks) is not UNDECIDED) or self.elapsed() > until:
                return checks
            with self.accounting.spent_on("measure"):
                self.measure(recipe, self.numbers(NOISE_BLOCKS))

    def measure(self, recipe: Recipe, numbers: list[int]) -> list[float]:
        """The figures of blocks of these numbers, of a server started for them; NaN of one that cannot be
        used.
        Raises TrialFailed: it does not run."""
        with self.visit(recipe) as visit:
            cases = [visit.block(number, self.block, self.began) for number in numbers]
        faults = [generators_fault(case) for case in cases]
        self.unusable += [fault for fault in faults if fault]
        pairs = zip(cases, faults, strict=True)
        usable = [case if not fault and has_answers(case) else None for case, fault in pairs]
        self.cases[strip(recipe)] += filter(None, usable)
        return [nan if case is None else figure(case, self.request.figure) for case in usable]

    @contextmanager
    def visit(self, recipe: Recipe) -> Iterator[Visit]:
        """A recipe's server, up and warm; what it answers to the same prompts is asked if it is not known.
        Raises TrialFailed: it does not run."""
        recipe, began = strip(recipe), self.elapsed()
        self.accounting.trials += 1
        with visiting(self.request, values_of(recipe), self.folder) as visit:
            self.ready[recipe].append(visit.ready)
            if len(self.answers[recipe]) < (1 if len(recipe) else STARTS):
                self.answers[recipe].append(visit.outputs())
            warm = visit.block(self.numbers(1)[0], WARM_UP * self.block, self.began)
            if not self._cost:
                # So many requests, and no more than the budget allows, or as a start of the server takes; the
                # most if users had no answer yet.
                tag, rate = LATENCY.tag, self.request.rate
                took = [
                    each for sample in warm.samples if sample.metric.tag == tag for each in sample.samples
                ]
                wanted = REQUESTS / rate if rate else WAVES * fmean(took or [inf])
                most = max(MOST * self.request.budget, self.ready[recipe][0])
                self.block = max(LEAST, min(wanted, most))
            self._cost = max(0.1, self.elapsed() - began + self._ending)
            yield visit
            ended = self.elapsed()
        self._ending = self.elapsed() - ended

    def _round_cost(self) -> float:
        return self.pair_cost(self.rounds_of_a_start) / self.rounds_of_a_start

    def pair_cost(self, blocks: int) -> float:
        """Seconds of one start of both sides with so many blocks of load each."""
        return 2 * (self._cost + blocks * self.block)

    def numbers(self, count: int) -> list[int]:
        """So many new numbers of blocks."""
        self._number += count
        return list(range(self._number - count + 1, self._number + 1))

    @property
    def unit(self) -> str:
        """The unit of a rate: tokens, requests."""
        stats = level_stats(cases[0]) if (cases := self.cases[Recipe()]) else None
        return "tokens" if stats and stats.tokens and stats.tokens.got else "requests"


def strip(recipe: Recipe) -> Recipe:
    """Without the control, which changes nothing."""
    return recipe.without(CONTROL.name)


def values_of(recipe: Recipe) -> dict[str, Value]:
    """The choices that a recipe makes, by name."""
    return {change.name: change.options["value"] for change in strip(recipe)}


def _propose(choice: Choice, now: Value | None) -> Iterator[tuple[Change, tuple[Change, ...], bool]]:
    """Values of a choice to try beside the present one, each with its line, and whether it waits for others.

    Numbers are a line: the next one above today's goes first, or below where there is none; the rest waits,
    as a number may stand for a mode. What is not a number is tried one by one."""
    changes = [Change(choice.name, {"value": value}) for value in choice.values[1:]]
    if not choice.is_ordered:
        yield from ((change, (), False) for change in changes if change.options["value"] != now)
        return
    line = sorted(changes, key=lambda change: change.options["value"])
    today = choice.values[0]
    above = [change for change in line if change.options["value"] > today]
    first = above[0] if above else line[-1]
    present = next((change for change in line if change.options["value"] == now), first)
    yield present, tuple(line), False
    yield from ((each, (), True) for each in line if each != present)
