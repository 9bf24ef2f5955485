"""`tune`: an unmodified training script made faster, with proof, handed back as a patch.

request ── diagnose ── candidates ── ladder (race, gate, keep or drop, diagnose again) ── leave one out
                                                                                          │
        Run <── verified patch <── base and final measured afresh, in new processes <─────┘
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import Literal

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.kit.errors import UsageError
from laptime.probes.others import OthersMeter
from laptime.records.event import Diagnosed, Event, GainMeasured, Listener, RungDecided, ignore
from laptime.records.run import Run
from laptime.records.tuning import Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.final_reserve import CAUTION
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search import ladder
from laptime.tuning.search.earlier import EarlierEffect, effects
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchInterrupted, SearchResult
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session import earlier_sessions, suggesting, tuning_record
from laptime.tuning.session.after_search import finish, hand_back
from laptime.tuning.session.diagnosis_record import diagnosis
from laptime.tuning.session.final_cost import FinalCost, final_cost
from laptime.tuning.session.journal import SessionJournal, is_over
from laptime.tuning.session.refusals import data_parallel, refusal, several_ranks
from laptime.tuning.session.request import TuneRequest, choice_of, program_of, resume_terms, trial_limit
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.session.tuning_record import FinalResults
from laptime.tuning.session.work_folder import work_folder
from laptime.tuning.trial.hooks.torch_hooks import SPAWNS
from laptime.verbs.profile.run import environment


def tune(request: TuneRequest, emit: Listener = ignore) -> Run:
    """Make the script faster, and say by how much.

    Args:
        emit: gets every event: diagnoses, decisions, progress.

    Returns:
        The run; its `tuning` has the diagnosis, the ladder, the gain and the patch.

    Raises:
        UsageError: there is no such script, or no training step in it. UserCodeError: it failed as it is.
    """
    program, choice = program_of(request), choice_of(request)
    with work_folder("tune") as folder:
        runner = TrialRunner(
            program,
            folder,
            timeout=min(request.timeout, trial_limit(request.budget)),
            steps=request.steps,
            max_memory=request.max_memory,
            step_by=request.step_by,
        )
        save = request.save and not request.dry_run
        with closing(runner):
            return run_session(request, TrialEvaluator(runner, choice, request.budget), emit, save=save)


def run_session(request: TuneRequest, evaluator: TrialEvaluator, emit: Listener, *, save: bool) -> Run:
    """Tune with this evaluator, from the diagnosis to the patch.

    Args:
        save: keep every decision when it is made, for --resume.
    """
    program = evaluator.runner.program
    terms = [program.words, program.subject.sha256, program.python, resume_terms(request)]
    of = "this script, its arguments and these options"
    journal = SessionJournal(terms, of, resume=request.resume, save=save)

    def both(event: Event) -> None:
        journal(event)
        emit(event)

    live, others = LiveRun("tune", both), OthersMeter()
    tuning_record.start(live, request, program, earlier=journal.rungs)
    session = _Session(request, evaluator, live, journal.rungs)
    tuning = session.run()
    run = tuning_record.finish(
        live,
        evaluator,
        tuning,
        status=session.status,
        complaint=journal.complaint,
        others=others.cpus(),
    )
    if is_over(run):
        journal.over()
    return run


class _Session:
    """From the diagnosis to the patch; after Ctrl-C at any moment, what is known so far is the result."""

    def __init__(
        self, request: TuneRequest, evaluator: TrialEvaluator, live: LiveRun, earlier: list[Rung]
    ) -> None:
        self.status: Literal["complete", "interrupted"] = "complete"
        self._request, self._evaluator, self._live, self._earlier = request, evaluator, live, earlier
        self._is_diagnosed = False
        self._search: SearchResult | None = None
        self._results = FinalResults(live.id, tuning_record.empty(request))

    def run(self) -> Tuning:
        """Search, then measure, then patch."""
        try:
            if self._request.dry_run:
                return self._dry_run()
            self._say("diagnosing the script as it is")
            loop_profile = self._diagnosed()
            self._evaluator.runner.ends = self._request.budget  # its first diagnosis is needed in any case
            self._evaluator.runner.prepare()
            self._search = self._searched(self._settings(loop_profile), loop_profile)
            finish(self._request, self._evaluator, self._search, self._results, self._say)
            tuning = self._results.tuning
            if tuning.baseline is not None and tuning.final is not None:
                self._live(GainMeasured(tuning.baseline, tuning.final))
        except TrialFailed as failed:
            name = self._request.program
            spawns = failed.kind == "children" or (
                failed.kind == "no_steps" and SPAWNS in self._evaluator.runner.newest.notes
            )
            raise (several_ranks(name) if spawns else refusal(name, failed)) from failed
        except SearchInterrupted as stopped:
            self.status, self._search = "interrupted", stopped.result
            hand_back(self._request, self._evaluator, stopped.result, self._results)
        except KeyboardInterrupt:
            if not self._is_diagnosed:
                raise
            self.status = "interrupted"
        recorded = self._live.run().tuning or tuning_record.empty(self._request)
        return tuning_record.tuning(recorded, self._evaluator, self._search, self._results)

    def _searched(self, settings: SearchSettings, loop_profile: LoopProfile) -> SearchResult:
        """What the ladder keeps; none of its races runs into the time of the gate that follows it."""
        runner = self._evaluator.runner
        runner.race_until = settings.budget - self._cost(loop_profile, loop_profile.step).bare
        try:
            return ladder.search(
                self._evaluator,
                settings,
                self._on_rung,
                earlier=self._earlier,
                on_race=lambda candidate: self._say(f"trying {candidate.change}{self._kept()}"),
                on_diagnosis=self._on_diagnosis,
            )
        finally:
            runner.race_until = math.inf

    def _settings(self, loop_profile: LoopProfile) -> SearchSettings:
        request, budget = self._request, self._request.budget

        def cost(step: float) -> FinalCost:
            return self._cost(loop_profile, step)

        return SearchSettings(
            budget=budget,
            certify=request.certify,
            goal=request.goal,
            reserve=lambda step: cost(step).kept_back(budget) / budget,
            late_reserve=lambda step: CAUTION * cost(step).least / budget,
            bare_reserve=lambda step: cost(step).bare / budget,
            earlier_effects=self._earlier_effects(loop_profile),
        )

    def _cost(self, loop_profile: LoopProfile, step: float) -> FinalCost:
        """What follows if the search ended now, with what is kept by now and the gate of one more change."""
        tuning = self._live.run().tuning
        return final_cost(
            self._evaluator.runner.accounting,
            loop_profile,
            budget=self._request.budget,
            step=step,
            changes=[rung.label for rung in tuning.ladder if rung.kept] if tuning else (),
        )

    def _earlier_effects(self, loop_profile: LoopProfile) -> dict[str, EarlierEffect]:
        """What earlier sessions have shown of the changes, where they may order them."""
        if not self._request.earlier:
            return {}
        here = environment(self._evaluator.runner.newest)
        return effects(earlier_sessions.ladders(here, loop_profile.facts, self._request.goal))

    def _dry_run(self) -> Tuning:
        """Diagnose, and list what would be tried and how long each takes."""
        evaluator, loop_profile = self._evaluator, self._diagnosed()
        self._on_diagnosis(Recipe(), loop_profile)
        plans = ladder.planned(evaluator, loop_profile, self._settings(loop_profile))
        suggested = suggesting.planned(evaluator, loop_profile)
        rungs = [tuning_record.planned(candidate, seconds) for candidate, seconds in plans]
        rungs = tuning_record.with_suggested(rungs, suggested)
        ruled_out = evaluator.candidates(loop_profile, Recipe()).ruled_out
        return structs.replace(
            tuning_record.empty(self._request),
            before=diagnosis(Recipe(), loop_profile, evaluator.choice),
            ladder=rungs,
            ruled_out=ruled_out,
            trials=evaluator.runner.accounting.trials,
            seconds_by=evaluator.runner.accounting.seconds,
            ended=DRY,
        )

    def _on_rung(self, rung: Rung) -> None:
        self._live(RungDecided(tuning_record.with_compile_time(rung, self._evaluator.runner.accounting)))

    def _diagnosed(self) -> LoopProfile:
        """The script as it is; raises for one that cannot be tuned, before anything is prepared for races."""
        loop_profile = self._evaluator.diagnose(Recipe())
        _refuse_unfit(self._request.program, loop_profile, self._evaluator.runner)
        return loop_profile

    def _on_diagnosis(self, recipe: Recipe, loop_profile: LoopProfile) -> None:
        self._is_diagnosed = True
        self._live(Diagnosed(diagnosis(recipe, loop_profile, self._evaluator.choice)))

    def _kept(self) -> str:
        """What Ctrl-C would hand back now."""
        kept = tuning_record.kept(self._live)
        return f"; Ctrl-C ends with a patch of {kept}" if kept else ""

    def _say(self, text: str) -> None:
        budget = self._request.budget
        done = min(0.99, self._evaluator.elapsed() / budget)
        self._live.say(text, done, (1.0 - done) * budget)


def _refuse_unfit(name: str, loop_profile: LoopProfile, runner: TrialRunner) -> None:
    """Raise for a script that can be diagnosed, but not tuned."""
    if "data_parallel" in loop_profile.facts:
        raise data_parallel(name)
    if runner.newest.world > 1 and not any("torchrun" in word for word in runner.program.words):
        raise several_ranks(name)
    if not loop_profile.optimizer and "in_library" not in loop_profile.facts:
        raise UsageError(
            f"{name} does not train",
            why="no torch optimizer made a step",
            next=f"laptime profile {name}   tells where its time goes",
        )
