"""The `Evaluator` of a search that runs trials: diagnoses, races and gates of the user's own script."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import COMPILING, Choice, Costs, find_candidates
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import CandidateSet, Round
from laptime.tuning.session.gating import GateRunner
from laptime.tuning.session.trial_runner import RESETTLE, START, TrialRunner, per_sample
from laptime.tuning.trial.messages import Block

DIAGNOSIS = 20.0
"""Seconds of timed steps in a diagnosis."""
LONGEST_RACE = 60
"""Rounds of a race in one process."""


class TrialEvaluator:
    """Evaluates recipes of one script by trials, each recipe once.

    Attributes:
        runner: of the trials. choice: what may be tried.
        loop_profile: of the script as it is; None before it was diagnosed.
        profiles: loop profile of each diagnosed recipe, in the order of the diagnoses. gates: by recipe.
    """

    def __init__(self, runner: TrialRunner, choice: Choice) -> None:
        self.runner, self.choice = runner, choice
        self.loop_profile: LoopProfile | None = None
        self.profiles: dict[Recipe, LoopProfile] = {}
        self.gates: dict[Recipe, Gate] = {}
        self._gate_runner: GateRunner | None = None

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return self.runner.elapsed()

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """The loop profile under a recipe: one process that leaves parts of the step out, in turns.

        Raises:
            TrialFailed: the script does not run, or has no step.
        """
        if recipe not in self.profiles:
            self.profiles[recipe] = self._diagnosed(recipe)
        if self.loop_profile is None:
            self.loop_profile = self.profiles[recipe]
            self.runner.step = self.loop_profile.step
        return self.profiles[recipe]

    def _diagnosed(self, recipe: Recipe) -> LoopProfile:
        began = self.elapsed()
        started = self.runner.start(recipe, mode="diagnose", seconds=DIAGNOSIS)
        with self.runner.accounting.spent_on("diagnose"), started as running:
            running.wait()
            result = self.runner.finish(running)
            document = running.document(LoopProfile)
        if document is None:
            raise self.runner.failure(result, running)
        return replace(document, seconds=self.elapsed() - began)

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Candidates of the catalogue that the trials can apply."""
        proposed = find_candidates(loop_profile, recipe, self.choice, self.costs(loop_profile))
        obstacles = {one.change.name: self.runner.obstacle(one) for one in proposed.usable}
        usable = tuple(one for one in proposed.usable if not obstacles[one.change.name])
        return CandidateSet(
            usable, proposed.ruled_out | {name: why for name, why in obstacles.items() if why}
        )

    def costs(self, loop_profile: LoopProfile) -> Costs:
        """Seconds that trials of this script take."""
        accounting = self.runner.accounting
        return Costs(
            start=accounting.first_step or START,
            block=self.runner.block_steps(loop_profile.step) * loop_profile.step,
            flip=RESETTLE * loop_profile.step,
            compiling=COMPILING if accounting.longest_compile is None else accounting.longest_compile,
        )

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Against the script as it is, not against the incumbent: small deviations must not add up unseen.

        Raises:
            TrialFailed: the candidate does not run.
        """
        if candidate not in self.gates:
            if self._gate_runner is None:
                self._gate_runner = GateRunner(self.runner, self.loop_profile or LoopProfile())
            with self.runner.accounting.spent_on("gate"):
                self.gates[candidate] = self._gate_runner.gate(candidate, numerics)
        return self.gates[candidate]

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Iterator[Round]:
        """Rounds in one process if every difference can be switched there, else in alternating fresh ones."""
        if not fresh and self._is_live(incumbent, candidate):
            yield from self._live_rounds(incumbent, candidate)
            return
        for number in itertools.count():
            pair = self.runner.pair(incumbent, candidate, number)
            compiled = pair.final.result.compile_seconds
            for change in candidate if compiled else ():
                # What is raced beside a change that compiles does not compile itself.
                if change not in incumbent.changes and optimization.load(change.name).COMPILES:
                    self.runner.accounting.add_compile(str(change), compiled)
            yield Round(pair.ratio, memory=pair.memory, process=number)

    def _is_live(self, incumbent: Recipe, candidate: Recipe) -> bool:
        if self.choice.goal == "memory":  # peaks are those of processes
            return False
        differing = set(incumbent.changes) ^ set(candidate.changes)
        toggles = [optimization.load(change.name).TOGGLE for change in differing]
        return self.runner.newest.world <= 1 and all(toggle == "live" for toggle in toggles)

    def _live_rounds(self, incumbent: Recipe, candidate: Recipe) -> Iterator[Round]:
        """Arms in one process; a round is complete when both have run."""
        runner = self.runner
        shared = Recipe(tuple(change for change in incumbent if change in candidate.changes))
        arms = [
            Recipe(tuple(change for change in recipe if change not in shared.changes))
            for recipe in (incumbent, candidate)
        ]
        started = runner.start(
            shared,
            order=runner.arm_order(),
            arms=[arm.to_json() for arm in arms],
            steps=runner.block_steps(runner.step or 1.0),
            rounds=LONGEST_RACE,
            seconds=runner.timeout,
        )
        open_rounds: dict[int, dict[int, Block]] = {}
        rounds = 0
        with runner.accounting.spent_on("race"), started as running:
            try:
                for block in running.blocks():
                    sides = open_rounds.setdefault(block.round, {})
                    sides[block.arm] = block
                    if len(sides) == 2:
                        rounds += 1
                        yield Round(per_sample(sides[1]) / per_sample(sides[0]))
            finally:
                result = runner.finish(running)
        refused = {change["name"] for change in result.refused}
        if not rounds or refused & set(arms[1].names):
            raise runner.failure(result, running)
