"""`tune SCRIPT`: from the diagnosis of an unmodified script to a verified patch, in one session.

The search changes the loop under hooks. What a patch can hold of the final set is gated, and the patched
script measured again, in new processes and without hooks."""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.experiment.pairs import LEAST, Pair
from laptime.kit.errors import LaptimeError, UsageError
from laptime.records.case import Axis
from laptime.records.check import Check, Finding
from laptime.records.environment import Environment
from laptime.records.event import Listener, ignore
from laptime.records.run import IN_MEMORY, Run
from laptime.records.tuning import Diagnosis, Gate, Rung
from laptime.tuning import optimization, recipe_file
from laptime.tuning.candidates import numerics_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.recipe_file import environment_of
from laptime.tuning.script import final_set, fresh_pairs, records
from laptime.tuning.script.final_set import PatchWriter, convergence_of, final_cost
from laptime.tuning.script.request import (
    TuneRequest,
    choice_of,
    program_of,
    refusal,
    several_ranks,
    trial_limit,
)
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import TimedTrial, TrialPair, TrialRunner, fewest_rounds
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.settings import effects
from laptime.tuning.session.final_gain import FinalCost
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session, run_verification
from laptime.tuning.session.subject import Record, Subject
from laptime.tuning.session.verify import VerifyRequest, gain_since_then
from laptime.tuning.trial.hooks.torch_hooks import SPAWNS
from laptime.verbs.profile import reconcile
from laptime.verbs.profile.run import environment

RESUME_TERMS = ("allow", "strict", "only", "skip", "extra", "goal", "certify", "step_by")
"""Options that have to be the same for a session to go on."""


def tune(request: TuneRequest, emit: Listener = ignore) -> Run:
    """Make the script faster, and say by how much. emit: gets every event: diagnoses, decisions, progress.
    The run's `tuning` has the diagnosis, the ladder, the gain and the patch.
    Raises UsageError: no such script, or no training step in it. UserCodeError: it failed as it is."""
    program, choice = program_of(request), choice_of(request)
    same = {name: getattr(request, name) for name in RESUME_TERMS}
    terms = [program.words, program.subject.sha256, program.python, same]
    of, save = "this script, its arguments and these options", request.save and not request.dry_run
    journal = SessionJournal(terms, of, resume=request.resume, save=save)

    def make(folder: Path) -> ScriptSubject:
        runner = TrialRunner(
            program,
            folder,
            timeout=min(request.timeout, trial_limit(request.budget)),
            steps=request.steps,
            max_memory=request.max_memory,
            step_by=request.step_by,
        )
        return ScriptSubject(request, TrialEvaluator(runner, choice, request.budget))

    return run_session(journal, make, emit)


def verify(request: VerifyRequest, emit: Listener = ignore) -> Run:
    """Time the script with and without the recipe in new processes, and gate the recipe again. The run, of
    verb `verify`: its `tuning` has baseline, final, speedup and gate as they are now, its findings the
    earlier gain.
    Raises UsageError: it is not a recipe, its script is gone or has the patch. UserCodeError: it failed."""
    file = recipe_file.read(request.recipe)
    file.refuse_applied()
    command: dict[str, Any] = {"program": file.program, "arguments": file.arguments, "module": file.module}
    asked = TuneRequest(**command, python=request.python, **request.of_session)
    program = program_of(asked)
    made: list[ScriptSubject] = []

    def make(folder: Path) -> ScriptSubject:
        runner = TrialRunner(program, folder, timeout=request.timeout)
        made.append(ScriptSubject(asked, TrialEvaluator(runner, choice_of(asked)), verifies=True))
        return made[0]

    def since_then(record: Record) -> Finding:
        now = environment_of(made[0].environment())
        changed = [name for name, value in file.environment.items() if now.get(name) != value]
        changed += ["the script"] if program.subject.sha256 != file.sha256 else []
        return gain_since_then(file.speedup, record.tuning.speedup, changed)

    recipe = recipe_file.recipe_of(file)
    return run_verification(make, recipe, since_then, emit, recipe_path=str(request.recipe))


class ScriptSubject(Subject):
    """A training script, or a loop in memory. verifies: an earlier result is looked at: nothing is raced, and
    no suspect is named."""

    PLAN = (
        "budget", "steps", "allow", "strict", "only", "skip", "goal", "max_memory", "certify", "timeout",
    )  # fmt: skip
    METRIC = reconcile.STEP
    BEGINS = "diagnosing the script as it is"
    MOST_PAIRS = 12

    def __init__(self, request: TuneRequest, evaluator: TrialEvaluator, *, verifies: bool = False) -> None:
        super().__init__(request)
        self.evaluator: TrialEvaluator = evaluator
        self._runner, self._verifies = evaluator.runner, verifies
        self._pairs: list[TrialPair] = []
        self._patch: PatchWriter | None = None
        self._cost = FinalCost(gate=0.0, pair=0.0)
        self._sources: dict[str, str] = {}
        self._filled: list[Change] = []
        self._suggested: list[Rung] = []
        self._is_in_memory = self._runner.program.subject.source == IN_MEMORY

    def run_fields(self) -> dict[str, Any]:
        return {"subjects": [self._runner.program.subject]}

    def tuning_fields(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self._runner.close()

    # Before and in the search

    def diagnosis(self, recipe: Recipe, profile: LoopProfile) -> Diagnosis:
        choice = None if self._verifies else self.evaluator.choice
        return records.diagnosis(recipe, profile, choice)

    def diagnose(self, profile: LoopProfile) -> None:
        if not self._verifies:
            _refuse_unfit(self.request.program, profile, self._runner)
        if self.request.dry_run:
            return
        self._runner.ends = self.request.budget  # its first diagnosis is needed in any case
        if self._verifies:
            return
        self._runner.prepare()
        if self.request.earlier:
            here = environment(self._runner.newest)
            self.earlier.update(effects(records.ladders(here, profile.facts, self.request.goal)))
        # No race runs into the time of the gate that follows it.
        self._runner.race_until = self.request.budget - self.cost(Recipe(), profile.step).bare

    def refusal(self, failed: TrialFailed) -> LaptimeError:
        name = self.request.program
        notes = self._runner.newest.notes
        spawns = failed.kind == "children" or (failed.kind == "no_steps" and SPAWNS in notes)
        return several_ranks(name) if spawns else refusal(name, failed)

    def cost(self, recipe: Recipe, step: float) -> FinalCost:
        script = self.evaluator.loop_profile or LoopProfile()
        cost = final_cost(self._runner.accounting, script, step=step, changes=map(str, recipe))
        if any(optimization.load(name).read_at_start for name in recipe.names):  # a fork has read it
            cost = dataclasses.replace(cost, hurried=math.inf)
        self._cost = cost
        return cost

    def decide(self, rung: Rung) -> Rung:
        return records.with_compile_time(rung, self._runner.accounting)

    def plan(self, rungs: list[Rung], profile: LoopProfile) -> list[Rung]:
        return records.with_suggested(rungs, final_set.plan(self.evaluator, profile))

    def trying(self, candidate: Candidate, kept: str) -> str:
        would = f"; Ctrl-C ends with a patch of {kept}" if kept else ""
        return f"{super().trying(candidate, kept)}{would}"

    # After it

    def choose(self, record: Record, search: SearchResult) -> SearchResult:
        """Without the changes that no patch can hold: the rest is gated and measured as a set of its own. If
        nothing can be edited the set stays whole: `laptime.apply` has it on."""
        self._runner.race_until = math.inf
        if self._is_in_memory or not len(search.recipe):
            return search
        cost, until = self.cost(search.recipe, search.after.step), self.request.budget
        recipe = self.evaluator.by_switches(search.recipe, until - 2 * (cost.bare + cost.check))
        search = dataclasses.replace(search, recipe=recipe)
        _, hunks, left_out = PatchWriter(self.request, self.evaluator, search, record).edit()
        if not left_out or not (hunks or any(change.arguments for change in recipe)):
            return search
        rest = Recipe(tuple(change for change in search.recipe if change.name not in left_out))
        record.set_part("patch", left_out=left_out)
        kept = [structs.replace(each, kept=each.kept and each.name not in left_out) for each in search.ladder]
        return dataclasses.replace(search, recipe=rest, ladder=kept)

    def gate(self, recipe: Recipe) -> Gate:
        return self.evaluator.gate(Recipe(), recipe, self._numerics(recipe))

    def _numerics(self, recipe: Recipe) -> str:
        profile = self.evaluator.loop_profile
        return numerics_of(recipe, profile) if profile else "exact"

    def write(self, record: Record, search: SearchResult) -> None:
        """The patch; it stands for the recipe if it has every change."""
        if not self._is_in_memory:
            record.say("writing the patch")
            self._write(record, search)

    def _write(self, record: Record, search: SearchResult) -> PatchWriter:
        self._patch = PatchWriter(self.request, self.evaluator, search, record)
        self._sources = self._patch.write()
        return self._patch

    def pair(self, recipe: Recipe, number: int, until: float) -> Pair:
        runner, sources = self._runner, self._sources
        self.apart = self.apart or fresh_pairs.why_apart(runner)
        self._filled = [change for change in recipe if optimization.load(change.name).fills]
        filling = [Change(change.name, change.options | {"patched": True}) for change in self._filled]
        beside = [*filling, *(change for change in recipe if change.arguments)]
        final = Recipe(tuple(beside)) if sources else recipe
        last = until - 2 * runner.accounting.ending
        is_late = runner.elapsed() + self._cost.pair > until
        self._is_fresh = is_fresh = math.isinf(self._cost.hurried) or (number < LEAST and not is_late)
        self.forked += not is_fresh

        how = partial(fresh_pairs.in_turns, runner, final, number, sources=sources, fresh=is_fresh)
        in_turns, rounds = partial(how, until=last), fewest_rounds(runner.step)
        apart = partial(runner.pair, Recipe(), final, number, sources=sources, rounds=rounds, fresh=is_fresh)
        with runner.accounting.spent_on("measure"):
            self._pairs.append(self.at_once(in_turns, apart))
        return fresh_pairs.pair_of(self._pairs[-1])

    def _alone(self, recipe: Recipe) -> TimedTrial:
        """A recipe as it runs in the newest pair, alone: a fork leaves out fewer steps than what is fresh."""
        number = len(self._pairs) - 1
        with self._runner.accounting.spent_on("patch"):
            if self.apart:
                return self._runner.time_trial(recipe, number, rounds=fewest_rounds(self._runner.step))
            return fresh_pairs.alone(self._runner, recipe, number, fresh=self._is_fresh)

    def measure(self, record: Record, recipe: Recipe) -> None:
        record.set(convergence=convergence_of(self._pairs, self._numerics(recipe)))

    def hand_back(self, record: Record, search: SearchResult) -> None:
        """Run the patched script, profile both as far as there is time, and write the recipe file."""
        if self._patch is None:
            return
        cost, budget = self.cost(search.recipe, search.after.step), self.request.budget
        if self._sources:
            record.say("running the patched script")
            is_time = bool(self._pairs) and record.elapsed() + cost.check <= budget
            self._patch.verify(self._pairs, self._alone if is_time else None)
        if (self._sources or record.tuning.patch.command) and self._patch.is_withdrawn():
            return
        self._patch.write_recipe()

    def finish(self, record: Record, search: SearchResult) -> None:
        """Run suggestions, too, before they are shown: with the time that is left."""
        record.say("running what is only suggested")
        self._suggested, diff = final_set.suggestions(self.evaluator, search.before, end=self.request.budget)
        record.set_part("patch", suggestions=diff)

    def hand_back_so_far(self, record: Record, search: SearchResult) -> None:
        """The patch of what was kept until then, unless it is written."""
        if self._patch is not None or not len(search.recipe):
            return
        record.set(gate=self.evaluator.gates.get(search.recipe, Gate()))
        if self._is_in_memory:
            return
        patch = self._write(record, search)
        if not record.tuning.patch.sentence:
            sentence = "interrupted: its changes were raced and gated, the patched script did not run"
            record.set_part("patch", sentence=sentence)
        patch.write_recipe()

    # The record

    def diagnosis_after(self, record: Record, search: SearchResult) -> Diagnosis | None:
        is_known = search.recipe in self.evaluator.profiles  # a long one that can tell nothing new is skipped
        return super().diagnosis_after(record, search) if is_known else None

    def ladder(self, rungs: list[Rung], record: Record) -> list[Rung]:
        told = [records.with_utilization(self.decide(rung), self.evaluator) for rung in rungs]
        return [_with_edit(rung, record) for rung in records.with_suggested(told, self._suggested)]

    def checks(self) -> list[Check]:
        """A note if what was measured is not yet true of the first epoch."""
        names = ", ".join(change.name for change in self._filled)
        if not names:
            return []
        sentence = (
            f"the gain is that of the second epoch on: in the first one {names} reads each sample as before"
        )
        return [Check(name="epochs", outcome="note", sentence=sentence, next=f"--skip {names}")]

    def environment(self) -> Environment:
        return environment(self._runner.newest)

    def axes(self) -> Mapping[str, Axis]:
        profile = self.evaluator.loop_profile
        device = self._runner.newest.device.partition(":")[0]
        return {"batch": profile.batch if profile else 1, "device": device}


def _refuse_unfit(name: str, loop_profile: LoopProfile, runner: TrialRunner) -> None:
    if "data_parallel" in loop_profile.facts:  # torch.nn.DataParallel: one process on several devices
        raise UsageError(
            f"{name} trains on several GPUs with DataParallel",
            why="one process drives all of them, and laptime tunes one device at a time",
            next="set CUDA_VISIBLE_DEVICES=0, or train with DistributedDataParallel under torchrun",
        )
    if runner.newest.world > 1 and not any("torchrun" in word for word in runner.program.words):
        raise several_ranks(name)
    if not loop_profile.optimizer and "in_library" not in loop_profile.facts:
        raise UsageError(
            f"{name} does not train",
            why="no torch optimizer made a step",
            next=f"laptime profile {name}   shows where its time goes",
        )


def _with_edit(rung: Rung, record: Record) -> Rung:
    patch = record.tuning.patch
    edit = patch.left_out.get(rung.name, "") if rung.kept or rung.gate.word == "passed" else ""
    return structs.replace(rung, hunk=rung.kept and rung.name in patch.hunks, edit=edit)
