"""The `Evaluator` of a search that runs trials: diagnoses, races and gates of the user's own script.

In a gate the numerics of the script with a recipe are compared with those of the script as it is, run twice,
and in double precision or with rounded activations where the class of the recipe asks for it. Every run of
the script as it is happens once a session, when it is first needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import COMPILING, Choice, Costs, find_candidates, numerics_of
from laptime.tuning.gates.verdict import judge
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_runner import RESETTLE, START, TrialRunner, per_sample
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed
from laptime.tuning.trial.messages import Block, CapturePlan, NumericsComparison

DIAGNOSIS, DIAGNOSIS_SHARE = 20.0, 1 / 12
"""Seconds of timed steps in a diagnosis, and their share of the budget, at most."""
LONGEST_RACE = 60
"""Rounds of a race in one process."""
Rounding = Literal["bfloat16", "float16", "last_bits"]
"""What activations and their gradients are rounded to."""

DRAWS = 3
"""Simulations of rounding by which a gate is judged before it fails."""
STEPS, SLOW_STEPS = 3, 2
"""Captured steps, of a quick and of a slow script."""
SLOW = 1.5
"""Seconds of a step above which a script is slow."""
QUICK = 0.5
"""Seconds that a captured step should take; larger batches are cut."""
FEWEST_SAMPLES = 4
"""Samples below which no batch is cut."""
BATCHES = 64
"""Batches of the loader that are compared for a change of data, at most."""
LONGEST_DATA = 30.0
"""Seconds that loading these batches may take."""
_OF_DATA = frozenset({"loader", "map_dataset", "iterable_dataset", "accumulation"})


class TrialEvaluator:
    """Evaluates recipes of one script by trials, each recipe once.

    Attributes:
        runner: of the trials. accounting: what they cost. choice: what may be tried.
        budget: seconds of the session.
        loop_profile: of the script as it is; None before it was diagnosed.
        profiles: loop profile of each diagnosed recipe, in the order of the diagnoses. gates: by recipe.
    """

    def __init__(self, runner: TrialRunner, choice: Choice, budget: float = math.inf) -> None:
        self.runner, self.choice, self.budget = runner, choice, budget
        self.accounting = runner.accounting
        self.loop_profile: LoopProfile | None = None
        self.profiles: dict[Recipe, LoopProfile] = {}
        self.gates: dict[Recipe, Gate] = {}

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
        seconds = min(DIAGNOSIS, DIAGNOSIS_SHARE * self.budget)
        started = self.runner.start(recipe, mode="diagnose", seconds=seconds)
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
            start=accounting.forked_step or accounting.first_step or START,
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
            with self.runner.accounting.spent_on("gate"):
                self.gates[candidate] = self._gate_runner.gate(candidate, numerics)
        return self.gates[candidate]

    @cached_property
    def _gate_runner(self) -> GateRunner:
        return GateRunner(self.runner, self.loop_profile or LoopProfile())

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Iterator[Round]:
        """Rounds in one process if every difference can be switched there, else in alternating fresh ones.

        Raises:
            TrialFailed: the candidate does not run.
        """
        is_live = not fresh and self._is_live(incumbent, candidate)
        if is_live:
            yield from self._live_rounds(incumbent, candidate)
            # The script ended in the middle. What one side leaves behind, such as a hidden state in half
            # precision, can be what the other one stumbles over: each in a process of its own may run.
        for number in itertools.count(int(is_live)):
            pair = self.runner.pair(incumbent, candidate, number, fresh=fresh)
            compiled = pair.final.result.compile_seconds
            for change in candidate if compiled else ():
                # What is raced beside a change that compiles does not compile itself.
                if change not in incumbent.changes and optimization.load(change.name).compiles:
                    self.runner.accounting.add_compile(str(change), compiled)
            yield Round(pair.ratio, memory=pair.memory, process=number)

    def _is_live(self, incumbent: Recipe, candidate: Recipe) -> bool:
        if self.choice.goal == "memory":  # peaks are those of processes
            return False
        differing = set(incumbent.changes) ^ set(candidate.changes)
        is_live = all(optimization.load(change.name).live for change in differing)
        return self.runner.newest.world <= 1 and is_live

    def _live_rounds(self, incumbent: Recipe, candidate: Recipe) -> Iterator[Round]:
        """Arms in one process, as long as the script runs; a round is complete when both have run.

        Raises:
            TrialFailed: nothing suggests that the candidate would run without being switched.
        """
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
        failure = runner.failure(result, running)
        is_over = result.ended in ("returned", "raised", "died", "exited")
        if refused & set(arms[1].names) or not (
            rounds or (is_over and failure.kind in ("crashed", "no_steps"))
        ):
            raise failure


class GateRunner:
    """Runs the gates of a session, with the results of the script as it is as its cache."""

    def __init__(self, runner: TrialRunner, loop_profile: LoopProfile) -> None:
        self._runner, self._loop_profile = runner, loop_profile
        self._home = runner.folder / "captures"
        self._home.mkdir(exist_ok=True)
        step = loop_profile.step
        self._steps = SLOW_STEPS if step > SLOW else STEPS
        # Double precision has no fast kernels: a large batch is cut, the same for all.
        is_cut = step > QUICK and loop_profile.batch > FEWEST_SAMPLES
        cut = max(FEWEST_SAMPLES, round(loop_profile.batch * QUICK / max(step, QUICK)))
        self._most_samples = cut if is_cut else None
        seconds = (loop_profile.loader_seconds or loop_profile.share("data") or 0.0) + 1e-3
        self._batches = max(4, min(BATCHES, int(LONGEST_DATA / seconds)))
        self._rounded: dict[tuple[Rounding, int], NumericsComparison | None] = {}

    def gate(self, recipe: Recipe, numerics: str) -> Gate:
        """The gate of a recipe.

        Args:
            numerics: class of the newest change; the most far-reaching of the recipe's classes counts.

        Raises:
            TrialFailed: the recipe does not run, or the script as it is does not.
        """
        classes = {numerics, numerics_of(recipe, self._loop_profile)}
        self._base()
        reference = None
        if "reassociated" in classes and "precision" not in classes:
            reference = self._double
        half = _half(recipe) if "precision" in classes else None
        judged = partial(self._judged, recipe, classes, reference, half)
        gate = judged()
        if gate.word == "failed" and any(optimization.load(name).compiles for name in recipe.names):
            # Compiled code draws other random numbers: asked with those of eager code where it can matter.
            gate = judged(eager_draws=True)
        return gate

    def _judged(
        self,
        recipe: Recipe,
        classes: set[str],
        reference: str | None,
        half: Rounding | None,
        *,
        eager_draws: bool = False,
    ) -> Gate:
        rounded = self._roundings(half, 1)
        comparison = self._capture(
            recipe, compare=self._file("base"), reference=reference, eager_draws=eager_draws
        )
        is_of_data = any(optimization.load(name).needs & _OF_DATA for name in recipe.names)
        judged = partial(
            judge,
            classes,
            comparison,
            samples=self._samples(recipe) if is_of_data else None,
            needs_samples=is_of_data,
        )
        gate = judged(rounded=rounded)
        if gate.word != "passed":
            # How the script differs from itself only ever grants something: run where that can matter.
            samples_again = self._repeated_samples if is_of_data else None
            judged = partial(judged, again=self._repeated, samples_again=samples_again)
            gate = judged(rounded=rounded)
        if gate.word == "failed" and half is not None:
            # Draws of their own, run only where they can matter: one of them may have spared this tensor.
            gate = judged(rounded=self._roundings(half, DRAWS))
        for draws in (1, DRAWS):
            if gate.word == "failed" and gate.numerics == "reassociated":
                # As well: an activation near zero may have changed its sign, in one draw or in another.
                gate = judged(perturbed=self._roundings("last_bits", draws))
        return gate

    # The script as it is.

    def _base(self) -> None:
        """Captures batches and the initial state, too."""
        if not Path(self._file("base")).is_file():
            self._capture(Recipe(), write=self._file("base"))

    @cached_property
    def _repeated(self) -> NumericsComparison | None:
        """Against its first run: the script's own non-determinism."""
        return self._capture(Recipe(), compare=self._file("base"))

    @cached_property
    def _double(self) -> str | None:
        """The file of its numerics in double precision; None where it does not run so."""
        with suppress(TrialFailed):
            self._capture(Recipe(), write=self._file("double"), double=True)
            return self._file("double") if Path(self._file("double")).is_file() else None
        return None

    def _roundings(self, rounding: Rounding | None, draws: int) -> tuple[NumericsComparison, ...]:
        """The effect of rounded activations alone, a draw each; empty where it does not run so."""
        if rounding is None:
            return ()
        simulated = (self._rounding(rounding, draw) for draw in range(draws))
        return tuple(each for each in simulated if each is not None)

    def _rounding(self, rounding: Rounding, draw: int = 0) -> NumericsComparison | None:
        key = rounding, draw
        if key not in self._rounded:
            self._rounded[key] = None
            with suppress(TrialFailed):
                self._rounded[key] = self._capture(
                    Recipe(), compare=self._file("base"), rounds=rounding, draw=draw
                )
        return self._rounded[key]

    # The loader alone.

    def _samples(self, recipe: Recipe) -> NumericsComparison | None:
        """With the recipe, against the script's own."""
        base = self._file("samples")
        if not Path(base).is_file():
            self._run(Recipe(), CapturePlan(write=base, samples=self._batches))
        return self._run(recipe, CapturePlan(compare=base, samples=self._batches))

    @cached_property
    def _repeated_samples(self) -> NumericsComparison | None:
        """The script's own, once more."""
        return self._run(Recipe(), CapturePlan(compare=self._file("samples"), samples=self._batches))

    # Trials.

    def _file(self, name: str) -> str:
        return str(self._home / f"{name}.pt")

    def _capture(self, recipe: Recipe, **settings: Any) -> NumericsComparison | None:
        """Capture steps on the captured batches; a comparison, where `compare` names a file.

        Only what others are compared with is written: captures of large models are large.

        Raises:
            TrialFailed: it does not run.
        """
        plan = CapturePlan(
            batches=self._file("capture"),
            steps=self._steps,
            most=self._most_samples,
            **settings,
        )
        return self._run(recipe, plan)

    def _run(self, recipe: Recipe, capture: CapturePlan) -> NumericsComparison | None:
        began = self._runner.elapsed()
        with self._runner.start(recipe, mode="gate", capture=capture, settle=1, seed=0) as running:
            running.wait()
            result = self._runner.finish(running)
            comparison = running.document(NumericsComparison)
        self._runner.accounting.gate_trial = self._runner.elapsed() - began
        is_empty = comparison is None or not (comparison.steps or capture.samples)
        if is_empty and (running.hung or result.ended in ("raised", "died", "memory")):
            raise self._runner.failure(result, running)
        return comparison


def _half(recipe: Recipe) -> Rounding:
    return "float16" if any("fp16" in name for name in recipe.names) else "bfloat16"
