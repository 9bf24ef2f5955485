"""`tune MODEL`: from the survey to the folder.

request ── survey ── candidates ── ladder (race, gate, keep or drop) ── leave one out
                                                                          │
      Run <── folder handed back <── base and final measured afresh <─────┘
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from msgspec import structs

from laptime.analysis.agreement import Agreement
from laptime.analysis.tuned import DRY
from laptime.kit.errors import UsageError, UserCodeError
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.event import (
    CaseChanged,
    ChecksMade,
    Diagnosed,
    EnvironmentChanged,
    FindingAdded,
    GainMeasured,
    Listener,
    RungDecided,
    TuningChanged,
    ignore,
)
from laptime.records.finding import Finding
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.records.tuning import Diagnosis, Gate, Measured, OutputSameness, TunedModel, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.confirmation import confirmed
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.limits import word
from laptime.tuning.inference.points import points, within_limits
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ladder, ranking
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session import tuning_record
from laptime.tuning.session.work_folder import work_folder
from laptime.verbs.profile.reconcile import STEP

RESERVE = 0.25
"""Share of the budget for measuring afresh and handing back."""
_SETTINGS = (
    "goal",
    "batch",
    "inputs",
    "metric",
    "slo",
    "max_memory",
    "budget",
    "allow",
    "only",
    "skip",
    "certify",
    "timeout",
)


def tune_model(request: ModelRequest, emit: Listener = ignore) -> Run:
    """Make the model faster to run, and say by how much.

    Args:
        emit: gets every event: decisions, progress.

    Returns:
        The run; its `tuning` has the ladder, the gain, the gate and, in `model`, the folder.

    Raises:
        UsageError: the target cannot be tuned, or the folder exists. UserCodeError: the model fails as it is.
    """
    check(request)
    live = LiveRun("tune", emit)
    with work_folder("tune-model") as folder:
        live.say("looking at the model", 0.0, request.budget)
        evaluator = ModelEvaluator(request, folder)
        start(live, request, evaluator)
        return _Session(request, evaluator, live).run()


def empty(request: ModelRequest, evaluator: ModelEvaluator) -> Tuning:
    """The tuning of a session that begins."""
    surveyed = evaluator.surveyed
    return Tuning(
        goal=request.goal,
        mode="certify" if request.certify else "fast",
        budget=request.budget,
        ended="interrupted",
        model=TunedModel(
            batch=evaluator.batch,
            inputs=surveyed["inputs"],
            origin=surveyed["origin"],
            instructions=surveyed["instructions"],
            slo=request.slo,
            max_memory=request.max_memory,
        ),
    )


class _Session:
    """After Ctrl-C at any moment, what is known so far is the result."""

    def __init__(self, request: ModelRequest, evaluator: ModelEvaluator, live: LiveRun) -> None:
        self._request, self._evaluator, self._live = request, evaluator, live
        self._tuning = empty(request, evaluator)
        self._search: SearchResult | None = None
        self._is_complete = False

    def run(self) -> Run:
        status: Literal["complete", "interrupted"] = "complete"
        try:
            if self._request.dry_run:
                self._dry_run()
            else:
                self._tune()
        except TrialFailed as failed:
            raise UserCodeError(
                f"{self._request.target} does not run as it is",
                why=f"{failed.kind}: {failed.why}",
                next=f"laptime bench {self._request.target}",
            ) from failed
        except KeyboardInterrupt:
            status = "interrupted"
        return self._finished(status)

    def _tune(self) -> None:
        request = self._request
        settings = SearchSettings(
            budget=request.budget,
            certify=request.certify,
            reserve=lambda step: RESERVE,
            goal="memory" if request.goal == "memory" else "throughput",
        )
        self._say("timing the model as it is")
        self._search = ladder.search(
            self._evaluator,
            settings,
            lambda rung: self._live(RungDecided(rung)),
            on_race=lambda candidate: self._say(f"trying {candidate.change}"),
            on_diagnosis=lambda recipe, profile: self._live(Diagnosed(diagnosis(recipe, profile))),
        )
        recipe = within_limits(self._evaluator, self._search.recipe)
        if recipe != self._search.recipe:
            self._search = _with_recipe(self._search, recipe)
        self._confirm(self._search)
        self._set_points(self._search.recipe)
        self._is_complete = True

    def _set_points(self, recipe: Recipe) -> None:
        """What was measured on the way; the limits as the fresh processes keep them, where there are any."""
        evaluator, tuning = self._evaluator, self._tuning
        assert tuning.model is not None
        checks = tuning.model.limits or (evaluator.limit_checks(recipe) if evaluator.limits else [])
        measured = points(evaluator, recipe)
        self._set(model=structs.replace(tuning.model, limits=checks, points=measured))

    def _confirm(self, search: SearchResult) -> None:
        if not len(search.recipe):
            return
        self._say("the outputs of the whole set")
        self._set(gate=self._gate(search.recipe))
        self._say("measuring the gain in new processes")
        with suppress(TrialFailed):
            for baseline, final, speedup in confirmed(
                self._evaluator, search.recipe, until=0.95 * self._request.budget, noise=search.noise
            ):
                self._set(baseline=baseline, final=final, speedup=speedup)
        tuning = self._tuning
        if tuning.baseline is not None and tuning.final is not None:
            self._live(GainMeasured(tuning.baseline, tuning.final))
            self._set(model=with_limits(tuning.model, self._evaluator, tuning.final))
        self._hand_back(search.recipe)

    def _gate(self, recipe: Recipe) -> Gate:
        try:
            return self._evaluator.sameness(recipe)
        except TrialFailed as failed:
            return Gate(word="undecided", reason=failed.why)

    def _hand_back(self, recipe: Recipe) -> None:
        """Copy the final folder, unless its outputs are not the model's."""
        evaluator, tuning = self._evaluator, self._tuning
        form = evaluator.form(recipe)
        assert tuning.model is not None
        model = structs.replace(
            tuning.model,
            form=form,
            needs=folder_file.needs(form),
            calls=len(evaluator.recorded.calls),
            outputs=sameness_of(evaluator.agreements.get(recipe)),
        )
        self._set(model=model)
        export = self._request.export
        if export is None or tuning.gate.word != "passed" or word(model.limits) != "ok":
            return
        try:
            place = folder_file.hand_back(evaluator, recipe, export, tuning, run=self._live.id)
        except UsageError as error:  # a full disk must not cost the session's numbers
            sentence = f"the folder was not handed back: {error.what}: {error.why}"
            self._live(FindingAdded(Finding(kind="tune/not-written", severity="problem", sentence=sentence)))
            return
        self._set(model=structs.replace(model, folder=str(place)), recipe_path=str(place / "recipe.json"))

    def _dry_run(self) -> None:
        evaluator = self._evaluator
        loop_profile = evaluator.diagnose(Recipe())
        plans = ladder.planned(evaluator, loop_profile, SearchSettings(budget=self._request.budget))
        self._set(
            before=diagnosis(Recipe(), loop_profile),
            ladder=[tuning_record.planned(candidate, seconds) for candidate, seconds in plans],
            ruled_out=evaluator.candidates(loop_profile, Recipe()).ruled_out,
            ended=DRY,
        )

    def _finished(self, status: Literal["complete", "interrupted"]) -> Run:
        evaluator, live, search = self._evaluator, self._live, self._search
        recorded = live.run().tuning or self._tuning
        self._set(trials=evaluator.accounting.trials, seconds_by=dict(evaluator.accounting.seconds))
        if search is not None:
            self._set(
                before=recorded.before,
                after=diagnosis(search.recipe, search.after) if len(search.recipe) else None,
                ladder=search.ladder,
                ruled_out=search.ruled_out,
                recipe=applied(search.recipe),
                ended=search.ended if self._is_complete else "interrupted",
            )
        elif self._tuning.ended != DRY:
            self._set(before=recorded.before, ladder=recorded.ladder)
        return finish(live, evaluator, self._tuning, status)

    def _set(self, **fields: Any) -> None:
        self._tuning = structs.replace(self._tuning, **fields)

    def _say(self, text: str) -> None:
        budget = self._request.budget
        done = min(0.99, self._evaluator.elapsed() / budget)
        self._live.say(text, done, (1.0 - done) * budget)


def _with_recipe(search: SearchResult, recipe: Recipe) -> SearchResult:
    """A search whose final set is another one, for the sake of the limits."""
    kept = {(each.name, str(each.options)) for each in recipe}
    ladder = []
    for rung in search.ladder:
        is_kept = (rung.name, str(rung.options)) in kept
        if is_kept != rung.kept:
            side = "taken in" if is_kept else "left out"
            rung = structs.replace(rung, kept=is_kept, reason=f"{rung.reason}; {side} for the limits")
        ladder.append(rung)
    return replace(search, recipe=recipe, ladder=ladder)


def with_limits(model: TunedModel | None, evaluator: ModelEvaluator, final: Measured) -> TunedModel:
    """The record with the answers to the limits, from calls in fresh processes."""
    assert model is not None
    seconds = [each for process in final.samples for each in process]
    return structs.replace(model, limits=evaluator.limits.checks(seconds, final.peak or 0))


def start(live: LiveRun, request: ModelRequest, evaluator: ModelEvaluator) -> None:
    """Report a run that begins."""
    live.start(
        name=request.name,
        subjects=[Subject(target=request.target)],
        environment=machine.environment(),
        plan={
            name: Setting(value=getattr(request, name), origin=request.origins.get(name, "default"))
            for name in _SETTINGS
        },
        tuning=empty(request, evaluator),
    )


def finish(
    live: LiveRun, evaluator: ModelEvaluator, tuning: Tuning, status: Literal["complete", "interrupted"]
) -> Run:
    """Report the tuning of a session; the run."""
    live(EnvironmentChanged(machine.environment().extended((), evaluator.surveyed["libraries"], {})))
    for name, side in (("baseline", tuning.baseline), ("final", tuning.final)):
        if side is not None:
            live(CaseChanged(_case(evaluator, name, side)))
    live(ChecksMade(tuning_record.checks(tuning)))
    live(TuningChanged(tuning))
    return live.finish(status)


def _case(evaluator: ModelEvaluator, name: str, side: Measured) -> Case:
    target, batch = evaluator.request.target, evaluator.batch
    samples = [seconds for process in side.samples for seconds in process]
    processes = [number for number, process in enumerate(side.samples) for _ in process]
    return Case(
        key=f"{target}/variant={name}/batch={batch}/device=cpu",
        target=target,
        axes={"variant": name, "batch": batch, "device": "cpu"},
        series=[Series(metric=STEP, samples=samples, process=processes, probe="wall")],
    )


def diagnosis(recipe: Recipe, loop_profile: LoopProfile) -> Diagnosis:
    """A call of the model as the record of a diagnosis."""
    return Diagnosis(
        recipe=applied(recipe),
        step=loop_profile.step,
        noise=loop_profile.noise,
        detectable=ranking.detectable(loop_profile.noise, LONGEST[-1]),
        batch=loop_profile.batch,
        peak=loop_profile.peak,
        facts=sorted(loop_profile.facts),
    )


def sameness_of(agreement: Agreement | None) -> list[OutputSameness]:
    """The errors of each output as records."""
    return [
        OutputSameness(
            output=error.output,
            rms=error.rms,
            largest=error.largest,
            absolute=error.absolute,
            cosine=error.cosine,
            top1=error.top1,
        )
        for error in (agreement.outputs if agreement else [])
    ]
