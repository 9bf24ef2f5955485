"""The `Evaluator` of a search that runs trials: diagnoses, races and gates of the user's own script."""

import math
import random
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path

from laptime.experiment.turns import OF_A_RACE, alive, rounds
from laptime.process.program import Guard
from laptime.records.run import IN_MEMORY
from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import COMPILING, Choice, Costs, find_candidates, numerics_of
from laptime.tuning.loop_profile import FACTS, LoopProfile
from laptime.tuning.optimization import CannotEdit, Change, Recipe
from laptime.tuning.patch import mends
from laptime.tuning.patch.diff import DoesNotApply
from laptime.tuning.patch.mends import Mend
from laptime.tuning.patch.sources import Sources
from laptime.tuning.script import fresh_pairs, switches
from laptime.tuning.script.fresh_pairs import TrialSide
from laptime.tuning.script.gate_runner import GateRunner
from laptime.tuning.script.switches import Switch
from laptime.tuning.script.trial_runner import RESETTLE, START, TrialRunner, per_sample
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed
from laptime.tuning.trial.messages import Block

DIAGNOSIS, DIAGNOSIS_SHARE = 20.0, 1 / 12
"""Seconds of timed steps in a diagnosis, and their share of the budget, at most."""
LONGEST_RACE = 60  # rounds of a race in one process
MOST_MENDS = 8  # lines of a script that are mended at most


class TrialEvaluator:
    """Evaluates recipes of one script by trials, each recipe once.

    Attributes:
        runner: of the trials. accounting: what they cost. choice: what may be tried.
        budget: seconds of the session.
        loop_profile: of the script as it is; None before it was diagnosed.
        profiles: loop profile of each diagnosed recipe, in the order of the diagnoses. gates: by recipe.
        mends: what is mended, with the names of the changes that may need it.
    """

    def __init__(self, runner: TrialRunner, choice: Choice, budget: float = math.inf) -> None:
        self.runner, self.choice, self.budget = runner, choice, budget
        self.accounting = runner.accounting
        self.loop_profile: LoopProfile | None = None
        self.profiles: dict[Recipe, LoopProfile] = {}
        self.gates: dict[Recipe, Gate] = {}
        self.mends: dict[Mend, set[str]] = {}
        self._by_script: dict[Change, Change] = {}
        self._runs_apart = False

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return self.runner.elapsed()

    @cached_property
    def switches(self) -> list[Switch]:
        """The script's own switches; a loop in memory has none."""
        if self.runner.program.subject.source == IN_MEMORY:
            return []
        return switches.read(main_file(self), [Path.cwd()], self.runner.program.words)

    def _use_switches(self, changes: Iterable[Change]) -> dict[Change, Change]:
        """Changes as the script's own switches do them, of those that have one."""
        found = {change: switches.arguments_of(change, self.switches) for change in changes}
        return {
            each: replace(each, options={**each.options, "arguments": words})
            for each, words in found.items()
            if words
        }

    def by_switches(self, recipe: Recipe, until: float) -> Recipe:
        """The recipe, with those changes left to the script's own switches that these do as well.

        They are on at run time then, and the gate of the whole does not fail. until: second of the session
        after which no switch is tried."""
        realized = self._as_run(recipe)
        wanted = self._use_switches(realized)
        alone = [{change: other} for change, other in wanted.items()]
        for tried in [wanted, *alone] if len(wanted) > 1 else alone:
            other = Recipe(tuple(tried.get(each, each) for each in realized))
            if wanted.keys() & {*realized} and self.elapsed() <= until and self._is_done(other):
                realized = other
        if recipe in self.profiles:
            self.profiles[realized] = self.profiles[recipe]
        return realized

    def _is_done(self, recipe: Recipe) -> bool:
        """Whether the switches of a recipe do what their changes would, and the gate is kept."""
        by_script = [change for change in recipe if change.arguments]
        try:
            with self.accounting.spent_on("patch"):
                trial = self.runner.time_trial(recipe, 0)
            numerics = numerics_of(recipe, self.loop_profile or LoopProfile())
            is_same = self.gate(Recipe(), recipe, numerics).word != "failed"
        except TrialFailed:
            return False
        for change in by_script:
            if trial.result.compile_seconds and optimization.load(change.name).compiles:
                self.accounting.add_compile(str(change), trial.result.compile_seconds)
        given = set[str]().union(*(optimization.load(change.name).given_facts for change in by_script))
        return is_same and given & FACTS <= set(trial.result.effects)

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """The loop profile under a recipe: one process that leaves parts of the step out, in turns.
        Raises TrialFailed: the script does not run, or has no step."""
        if recipe not in self.profiles:
            self.profiles[recipe] = self._diagnose(recipe)
        if self.loop_profile is None:
            self.loop_profile = self.profiles[recipe]
            self.runner.step = self.loop_profile.step
        return self.profiles[recipe]

    def _diagnose(self, recipe: Recipe) -> LoopProfile:
        began = self.elapsed()
        seconds = min(DIAGNOSIS, DIAGNOSIS_SHARE * self.budget)
        started = self.runner.start(self._as_run(recipe), mode="diagnose", seconds=seconds)
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
        found = {one.change.name: self.runner.obstacle(one) for one in proposed.usable}
        obstacles = {name: why for name, why in found.items() if why}
        usable = tuple(one for one in proposed.usable if one.change.name not in obstacles)
        return CandidateSet(usable, proposed.ruled_out | obstacles)

    def costs(self, loop_profile: LoopProfile) -> Costs:
        """Seconds that trials of this script take."""
        accounting = self.runner.accounting
        return Costs(
            start=accounting.forked_step or accounting.first_step or START,
            block=self.runner.block_steps(loop_profile.step) * loop_profile.step,
            flip=RESETTLE * loop_profile.step,
            compiling=COMPILING if accounting.longest_compile is None else accounting.longest_compile,
            rounds=1 if self._is_apart() else OF_A_RACE,
        )

    def _is_apart(self) -> bool:
        """Whether both sides of a race run one after the other, as for peaks, which ended processes have."""
        return self._runs_apart or self.choice.goal == "memory" or bool(fresh_pairs.why_apart(self.runner))

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Against the script as it is, not against the incumbent: small deviations must not add up unseen.
        Raises TrialFailed: the candidate does not run."""
        while candidate not in self.gates:
            try:
                with self.runner.accounting.spent_on("gate"):
                    self.gates[candidate] = self._gate_runner.gate(self._as_run(candidate), numerics)
            except TrialFailed as failed:
                if not self._is_mended([*candidate], failed):
                    raise
        return self.gates[candidate]

    @cached_property
    def _gate_runner(self) -> GateRunner:
        return GateRunner(self.runner, self.loop_profile or LoopProfile())

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        """Rounds in one process if every difference can be switched there, else in alternating fresh ones.

        A line of the script that crashes is mended, if that is known; else the changes are left to the
        script's own switches, if it has any.

        Raises TrialFailed: the candidate does not run."""
        new = [change for change in candidate if change not in incumbent]
        while True:
            try:
                yield from self._rounds(self._as_run(incumbent), self._as_run(candidate), fresh=fresh)
            except TrialFailed as failed:
                if self._is_mended(new, failed) or self._is_left_to_script(new, failed):
                    continue
                raise
            return

    def _is_mended(self, new: list[Change], failed: TrialFailed) -> bool:
        """Whether the line that has crashed is mended from now on, with any of a recipe's new changes."""
        result = self.runner.newest
        wanted = mends.find_mend(result.error, result.traceback) if failed.kind == "crashed" else None
        if wanted is None or len(self.mends) >= MOST_MENDS:
            return False
        names, sources = {change.name for change in new}, Sources((), main_file(self))
        try:
            for each in (*self.mends, wanted):
                sources.mend(each, "")
            self.runner.mended = sources.patch_copies(self.runner.folder / f"mended-{len(self.mends)}")
        except (CannotEdit, DoesNotApply):
            return False
        self.mends[wanted] = names
        self.runner.needs_mending |= names
        return True

    def _as_run(self, recipe: Recipe) -> Recipe:
        """The recipe as trials apply it."""
        return Recipe(tuple(self._by_script.get(change, change) for change in recipe))

    def _is_left_to_script(self, new: list[Change], failed: TrialFailed) -> bool:
        """Whether any of the new changes of a recipe that does not run is left to the script from now on."""
        if failed.kind not in ("crashed", "refused", "no_steps"):
            return False
        left = self._use_switches(change for change in new if change not in self._by_script)
        self._by_script |= left
        return bool(left)

    def _rounds(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool) -> Iterator[Round]:
        differing = set(incumbent.changes) ^ set(candidate.changes)
        is_live = all(optimization.load(each.name).live and not each.arguments for each in differing)
        # Of the goal "memory" peaks count, which are those of processes.
        is_live &= not fresh and self.runner.newest.world <= 1 and self.choice.goal != "memory"
        if is_live:
            yield from self._live_rounds(incumbent, candidate)
            # The script ended in the middle. What one side leaves behind, such as a hidden state in half
            # precision, can be what the other one stumbles over: each in a process of its own may run.
        for number in count(int(is_live)):
            if not self._is_apart():
                try:
                    yield from self._in_turns((incumbent, candidate), number, fresh=fresh)
                    continue
                except TrialFailed as failed:
                    if failed.kind in ("budget", "refused"):
                        raise
                    self.runner.time_trial(candidate, number, fresh=fresh)  # does it run alone?
                    self._runs_apart = True
            pair = self.runner.pair(incumbent, candidate, number, fresh=fresh)
            self._add_compile(incumbent, candidate, pair.final.result.compile_seconds)
            yield Round(pair.ratio, memory=pair.memory, process=number)

    def _in_turns(self, recipes: tuple[Recipe, Recipe], number: int, *, fresh: bool) -> Iterator[Round]:
        """Rounds of a pair of processes that are both alive.
        Raises TrialFailed: one of them does not run, or to no round."""
        runner, dice, done = self.runner, random.Random(number), 0  # noqa: S311, an order
        with runner.accounting.spent_on("race"), closing(Guard()) as guard:
            begin = partial(TrialSide, runner, memory=runner.memory // 2, guard=guard, fresh=fresh)
            sides, began = [begin(recipe, number) for recipe in recipes], self.elapsed()
            with alive(sides, dice):
                ready = self.elapsed()
                try:
                    for before, after in rounds([side.block for side in sides], dice):
                        done += 1
                        yield Round(after / before, process=number)
                        is_dear = self.elapsed() - ready < ready - began  # to start: more rounds of them
                        if fresh or done >= (2 if is_dear else 1) * OF_A_RACE:
                            break
                except GeneratorExit:  # the race knows enough
                    done += 1
                if not done:
                    raise TrialFailed("no_steps", "it ended before a round of steps was timed")
                for side in sides:
                    side.finish()
            self._add_compile(*recipes, sides[1].timed.result.compile_seconds)

    def _add_compile(self, incumbent: Recipe, candidate: Recipe, seconds: float) -> None:
        for change in candidate if seconds else ():
            # What is raced beside a change that compiles does not compile itself.
            if change not in incumbent.changes and optimization.load(change.name).compiles:
                self.accounting.add_compile(str(change), seconds)

    def _live_rounds(self, incumbent: Recipe, candidate: Recipe) -> Iterator[Round]:
        """Arms in one process, as long as the script runs; a round is complete when both have run.
        Raises TrialFailed: nothing suggests that the candidate would run without being switched."""
        runner = self.runner
        shared = Recipe(tuple(change for change in incumbent if change in candidate.changes))
        own = ([each for each in recipe if each not in shared.changes] for recipe in (incumbent, candidate))
        arms = [Recipe(tuple(changes)) for changes in own]
        started = runner.start(
            shared,
            order=runner.random.randrange(1 << 30),
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
        failure = runner.failure(result, running)
        is_refused = any(change["name"] in arms[1].names for change in result.refused)
        is_over = result.ended in ("returned", "raised", "died", "exited")
        if is_refused or not (rounds or (is_over and failure.kind in ("crashed", "no_steps"))):
            raise failure


def main_file(evaluator: TrialEvaluator) -> str:
    """The script's main file. Behind a command such as torchrun, and for a module, the file with the loop."""
    source = evaluator.runner.program.subject.source
    if source.endswith(".py") and Path(source).is_file():
        return str(Path(source).resolve())
    sites = evaluator.loop_profile.sites if evaluator.loop_profile else ()
    kinds = ("fetch", "step", "backward", "forward", "optimizer")
    return next((site.file for kind in kinds for site in sites if site.kind == kind), "")
