"""`tune`: an unmodified training script made faster, with proof, handed back as a patch.

request ── diagnose ── candidates ── ladder (race, gate, keep or drop, diagnose anew) ── leave one out
                                                                                          │
        Run <── verified patch <── base and final measured afresh, in new processes <─────┘
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from laptime.analysis.tuned import exit_code
from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.records.event import Diagnosed, Event, GainMeasured, Listener, RungDecided, ignore
from laptime.records.run import Run
from laptime.records.tuning import Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search import ladder
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import patching, tuning_record
from laptime.tuning.session.after_search import finish, reserve
from laptime.tuning.session.final_results import FinalResults
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.refusals import data_parallel, refusal, several_ranks
from laptime.tuning.session.request import TuneRequest, choice_of, program_of, resume_terms, trial_limit
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.session.work_folder import workplace
from laptime.tuning.trial.hooks.torch_hooks import SPAWNS


def tune(request: TuneRequest, emit: Listener = ignore) -> Run:
    """Make the script faster, and say by how much.

    Args:
        emit: hears every event: diagnoses, decisions, progress.

    Returns:
        The run; its `tuning` has the diagnosis, the ladder, the gain and the patch.

    Raises:
        UsageError: there is no such script, or no training step in it. UserCodeError: it failed as it is.
    """
    program, choice = program_of(request), choice_of(request)
    with workplace("tune") as work:
        runner = TrialRunner(
            program,
            choice,
            work,
            timeout=min(request.timeout, trial_limit(request.budget)),
            steps=request.steps,
            max_memory=request.max_memory,
            step_by=request.step_by,
        )
        return session(request, runner, emit, save=request.save and not request.dry_run)


def session(request: TuneRequest, runner: TrialRunner, emit: Listener, *, save: bool) -> Run:
    """One session with a runner of trials.

    Args:
        save: keep every decision as it is made, for --resume.
    """
    journal = SessionJournal(runner.program, resume_terms(request), resume=request.resume, save=save)

    def both(event: Event) -> None:
        journal(event)
        emit(event)

    live = LiveRun("tune", both)
    tuning_record.start(live, request, runner.program, decided=journal.rungs)
    one = _Session(request, runner, live, journal.rungs)
    tuning = one.run()
    run = tuning_record.finish(live, runner, tuning, status=one.status, complaint=journal.complaint)
    if is_over(run):
        journal.over()
    return run


def is_over(run: Run) -> bool:
    """Whether nothing is left to go on with: a budget that ended it, or an open answer, can be resumed."""
    ended = run.tuning.ended if run.tuning else ""
    return run.status == "complete" and ended == "complete" and exit_code(run) != ExitCode.UNDECIDED


class _Session:
    """One session from the diagnosis to the patch; Ctrl-C at any moment leaves what is known so far."""

    def __init__(self, request: TuneRequest, runner: TrialRunner, live: LiveRun, decided: list[Rung]) -> None:
        self.status: Literal["complete", "interrupted"] = "complete"
        self._request, self._runner, self._live, self._decided_before = request, runner, live, decided
        self._is_diagnosed = False
        self._found: SearchResult | None = None
        self._finished = FinalResults(run_id=live.id)

    def run(self) -> Tuning:
        """Search, then measure, then patch."""
        try:
            if self._request.dry_run:
                return self._planned()
            self._say("diagnosing the script as it is")
            loop_profile = self._runner.diagnose(Recipe())
            self._found = ladder.search(
                self._runner,
                self._rules(loop_profile),
                self._decided,
                earlier=self._decided_before,
                on_race=self._trying,
                on_diagnosis=self._diagnosed,
            )
            finish(self._request, self._runner, self._found, self._finished, self._say)
            if self._finished.measured is not None:
                self._live(GainMeasured(*self._finished.measured))
        except TrialFailed as failed:
            raise self._refused(failed) from failed
        except KeyboardInterrupt:
            if not self._is_diagnosed:
                raise
            self.status = "interrupted"
        return tuning_record.tuning(self._live.run().tuning, self._runner, self._found, self._finished)

    def _rules(self, loop_profile: LoopProfile) -> ladder.Rules:
        request = self._request
        return ladder.Rules(
            budget=request.budget,
            certify=request.certify,
            goal=request.goal,
            reserve=partial(reserve, self._runner, loop_profile, request.budget),
        )

    def _planned(self) -> Tuning:
        """What would be tried, and how long each takes; nothing is."""
        loop_profile = self._runner.diagnose(Recipe())
        self._diagnosed(Recipe(), loop_profile)
        plans = ladder.planned(self._runner, loop_profile, self._rules(loop_profile))
        suggested, _ = patching.suggestions(self._runner, loop_profile)
        rungs = [tuning_record.planned(candidate, seconds) for candidate, seconds in plans]
        rungs = tuning_record.with_suggested(rungs, suggested)
        ruled_out = self._runner.candidates(loop_profile, Recipe()).ruled_out
        return tuning_record.dry(self._request, self._runner, loop_profile, rungs, ruled_out)

    # What the search tells.

    def _decided(self, rung: Rung) -> None:
        self._live(RungDecided(tuning_record.with_compile_time(rung, self._runner)))

    def _trying(self, candidate: Candidate) -> None:
        self._say(f"trying {candidate.change}")

    def _diagnosed(self, recipe: Recipe, loop_profile: LoopProfile) -> None:
        if not self._is_diagnosed:
            _refuse_unfit(self._request.program, loop_profile, self._runner)
        self._is_diagnosed = True
        self._live(Diagnosed(tuning_record.diagnosis(recipe, loop_profile, self._runner.choice)))

    def _say(self, text: str) -> None:
        self._live.say(text, self._share(), (1.0 - self._share()) * self._request.budget)

    def _share(self) -> float:
        return min(0.99, self._runner.elapsed() / self._request.budget)

    def _refused(self, failed: TrialFailed) -> LaptimeError:
        name = self._request.program
        if failed.kind == "no_steps" and SPAWNS in self._runner.trial.notes:
            return several_ranks(name)
        return refusal(name, failed, "")


def _refuse_unfit(name: str, loop_profile: LoopProfile, runner: TrialRunner) -> None:
    """Raise for what can be diagnosed, but not tuned."""
    if "data_parallel" in loop_profile.facts:
        raise data_parallel(name)
    if runner.trial.world > 1 and not any("torchrun" in word for word in runner.program.words):
        raise several_ranks(name)
    if not loop_profile.optimizer and "in_library" not in loop_profile.facts:
        raise UsageError(
            f"{name} does not train",
            why="no torch optimizer made a step",
            next=f"laptime profile {name}   tells where its time goes",
        )
