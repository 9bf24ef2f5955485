"""`tune MODEL`: from the survey to the folder.

request ── survey ── candidates ── ladder (race, gate, keep or drop) ── leave one out
                                                                          │
      Run <── folder handed back <── base and final measured afresh <─────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.kit.errors import UsageError, UserCodeError
from laptime.kit.text import from_here
from laptime.probes.others import OthersMeter
from laptime.records.event import Diagnosed, Event, FindingAdded, GainMeasured, Listener, RungDecided, ignore
from laptime.records.finding import Finding
from laptime.records.run import Run
from laptime.records.tuning import Gate, Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import folder_file, model_record
from laptime.tuning.inference.confirmation import LEAST, FinalCost, confirmed, final_cost, timed_seconds
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.final_set import deployed, points, seconds_to_deploy, with_front, within_limits
from laptime.tuning.inference.limits import word
from laptime.tuning.inference.model_record import diagnosis
from laptime.tuning.inference.recording.recordings import model_bounds, seconds_to_record
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.inference.resuming import TimingJournal, journal_of
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ladder
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchInterrupted, SearchResult
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session import tuning_record
from laptime.tuning.session.after_search import shortfall
from laptime.tuning.session.journal import is_over
from laptime.tuning.session.work_folder import work_folder

SETUPS = 0.25
"""Share of the budget at most for instances, threads and batch sizes, where they are asked for."""


def tune_model(request: ModelRequest, emit: Listener = ignore) -> Run:
    """Make the model faster to run, and say by how much.

    Args:
        emit: gets every event: decisions, progress.

    Returns:
        The run; its `tuning` has the ladder, the gain, the gate and, in `model`, the folder.

    Raises:
        UsageError: the target cannot be tuned, or the folder exists, or there is no
            session to go on with. UserCodeError: the model fails as it is.
    """
    check(request)
    journal = journal_of(request)
    listeners: list[Listener] = [journal, emit]

    def every(event: Event) -> None:
        for listener in listeners:
            listener(event)

    live, others = LiveRun("tune", every), OthersMeter()
    with work_folder("tune-model") as folder:
        live.say("looking at the model", 0.0, request.budget)
        evaluator = ModelEvaluator(request, folder)
        request = evaluator.request
        listeners.append(TimingJournal(journal, evaluator))
        model_record.start(live, request, evaluator, journal.rungs)
        session = _Session(request, evaluator, live, journal.rungs)
        tuning = session.run()
        complaint, cpus = journal.complaint, others.cpus()
        run = model_record.finish(live, evaluator, tuning, session.status, complaint, cpus)
    if is_over(run):
        journal.over()
    return run


class _Session:
    """After Ctrl-C at any moment, what is known so far is the result."""

    def __init__(
        self,
        request: ModelRequest,
        evaluator: ModelEvaluator,
        live: LiveRun,
        earlier: Sequence[Rung] = (),
    ) -> None:
        self.status: Literal["complete", "interrupted"] = "complete"
        self._request, self._evaluator, self._live, self._earlier = request, evaluator, live, earlier
        self._tuning = model_record.empty(request, evaluator)
        self._search: SearchResult | None = None
        self._setup = Setup(batch=evaluator.batch)
        self._is_complete = False

    def run(self) -> Tuning:
        """Search, then measure, then hand back."""
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
        except KeyboardInterrupt as stopped:
            self.status = "interrupted"
            if isinstance(stopped, SearchInterrupted):
                self._search = stopped.result
            if self._search is not None:
                self._hand_back_so_far(self._search.recipe)
        return self._recorded()

    def _tune(self) -> None:
        request = self._request
        settings = SearchSettings(
            budget=request.budget,
            certify=request.certify,
            reserve=lambda step: self._kept_back(step) + self._for_setups(),
            goal="memory" if request.goal == "memory" else "throughput",
            unit="call",
            follows=f"{'instances, ' if request.has_setups else ''}a gate and the final measurement",
        )
        self._say("timing the model as it is")
        self._search = ladder.search(
            self._evaluator,
            settings,
            lambda rung: self._live(RungDecided(rung)),
            earlier=self._earlier,
            on_race=lambda candidate: self._say(f"trying {candidate.change}{self._kept()}"),
            on_diagnosis=lambda recipe, profile: self._live(Diagnosed(diagnosis(recipe, profile))),
        )
        recipe = within_limits(self._evaluator, self._search.recipe)
        if recipe != self._search.recipe:
            self._search = model_record.with_recipe(self._search, recipe)
        self._set_points(recipe)
        if request.has_setups:
            self._search = replace(self._search, recipe=self._deploy(self._search))
        self._confirm(self._search)
        self._set_limits(self._search.recipe)
        self._is_complete = True
        self._record(self._search.recipe)

    def _kept_back(self, step: float) -> float:
        """Share of the budget that measuring afresh and handing back take; `step`: the final set's call."""
        budget = self._request.budget
        return min(1.0, self._cost(self._so_far(), step).kept_back(budget) / budget)

    def _for_setups(self) -> float:
        """Share of the budget that choosing instances, threads and batch takes."""
        if not self._request.has_setups:
            return 0.0
        return min(SETUPS, seconds_to_deploy(self._evaluator, self._so_far()) / self._request.budget)

    def _so_far(self) -> Recipe:
        """What is kept now."""
        recorded = self._live.run().tuning
        return Recipe(
            tuple(Change(each.name, each.options) for each in (recorded.recipe if recorded else []))
        )

    def _cost(self, recipe: Recipe, step: float) -> FinalCost:
        """What follows the search, if it ended with this set now."""
        evaluator = self._evaluator
        calls = (evaluator.loop_profile.step if evaluator.loop_profile else step), step
        seconds = [timed_seconds(evaluator, call, is_final=at == 1) for at, call in enumerate(calls)]
        return final_cost(
            (evaluator.ready_alone(Recipe()), evaluator.ready_alone(recipe)),
            (seconds[0], seconds[1]),
            record=seconds_to_record(evaluator),
            is_gated=recipe in evaluator.gates and len(recipe) > 0,
        )

    def _deploy(self, search: SearchResult) -> Recipe:
        """Instances, threads and batch of the final set; its recipe with that number of threads."""
        until = (1 - self._kept_back(search.after.step)) * self._request.budget
        recipe, self._setup, made = deployed(
            self._evaluator, search.recipe, until=until, noise=search.noise, say=self._say
        )
        model = self._tuning.model
        assert model is not None
        visited = {(each.label, each.instances, each.batch) for each in made}
        others = [
            structs.replace(each, chosen=each.chosen and not made)
            for each in model.points
            if (each.label, each.instances, each.batch) not in visited
        ]
        measured = with_front(sorted([*others, *made], key=lambda each: each.latency))
        self._set(model=structs.replace(model, points=measured))
        return recipe

    def _record(self, recipe: Recipe) -> None:
        """What bounds a call, before and after."""
        self._say("recording what bounds a call")
        tuning = self._tuning
        assert tuning.model is not None
        made = model_bounds(self._evaluator, recipe, self._setup, (tuning.baseline, tuning.final))
        self._set(model=structs.replace(tuning.model, bounds=made))

    def _set_points(self, recipe: Recipe) -> None:
        """What was measured on the way."""
        assert self._tuning.model is not None
        measured = points(self._evaluator, recipe)
        self._set(model=structs.replace(self._tuning.model, points=measured))

    def _set_limits(self, recipe: Recipe) -> None:
        """Those of the search, where nothing was measured afresh."""
        model = self._tuning.model
        assert model is not None
        if self._evaluator.limits and not model.limits:
            self._set(model=structs.replace(model, limits=self._evaluator.limit_checks(recipe)))

    def _confirm(self, search: SearchResult) -> None:
        if not len(search.recipe):
            return
        self._say("the outputs of the whole set")
        self._set(gate=self._gate(search.recipe))
        self._say("measuring the gain in new processes")
        budget, began = self._request.budget, self._evaluator.elapsed()
        cost = self._cost(search.recipe, search.after.step)
        is_failed = True
        with suppress(TrialFailed):
            for baseline, final, speedup in confirmed(
                self._evaluator,
                search.recipe,
                self._setup,
                until=budget - cost.hand_back - cost.record,
                end=budget - cost.hand_back,
                expected=cost.pair,
                noise=search.noise,
            ):
                self._set(baseline=baseline, final=final, speedup=speedup)
            is_failed = False
        if self._tuning.speedup is None and not is_failed:
            needs, left = LEAST * cost.pair + cost.hand_back, max(0.0, budget - began)
            lead = "the gain was not measured afresh"
            self._set(shortfall=shortfall("measurement", lead, needs, began, left))
        tuning = self._tuning
        if tuning.baseline is not None and tuning.final is not None:
            self._live(GainMeasured(tuning.baseline, tuning.final))
            self._set(model=model_record.with_limits(tuning.model, self._evaluator, tuning.final))
        self._hand_back(search.recipe)

    def _gate(self, recipe: Recipe) -> Gate:
        try:
            return self._evaluator.sameness_at(recipe, self._setup.batch)
        except TrialFailed as failed:
            return Gate(word="undecided", reason=failed.why)

    def _hand_back(self, recipe: Recipe) -> None:
        """Copy the final folder, unless its outputs are not the model's."""
        evaluator, tuning = self._evaluator, self._tuning
        form = evaluator.folders.form(recipe)
        assert tuning.model is not None
        model = structs.replace(
            tuning.model,
            form=form,
            needs=folder_file.needs(form),
            calls=len(evaluator.recorded.calls),
            outputs=model_record.sameness_of(evaluator.agreements.get(recipe)),
        )
        self._set(model=model)
        export = self._request.export
        if export is None or tuning.gate.word != "passed" or word(model.limits) != "ok":
            return
        try:
            place = folder_file.hand_back(
                evaluator, recipe, export, tuning, run=self._live.id, setup=self._setup
            )
        except UsageError as error:  # a full disk must not cost the session's numbers
            sentence = f"the folder was not handed back: {error.what}: {error.why}"
            self._live(FindingAdded(Finding(kind="tune/not-written", severity="problem", sentence=sentence)))
            return
        self._set(model=structs.replace(model, folder=from_here(place)))
        self._set(recipe_path=from_here(place / "recipe.json"))

    def _hand_back_so_far(self, recipe: Recipe) -> None:
        """After Ctrl-C: what was kept until then, if its outputs were compared. Nothing is run any more."""
        evaluator, model = self._evaluator, self._tuning.model
        assert model is not None
        if model.folder or recipe not in evaluator.gates:
            return
        timing = evaluator.timings[recipe]
        checks = model.limits or evaluator.limits.checks(timing.seconds, timing.peak)
        self._set(gate=evaluator.gates[recipe], model=structs.replace(model, limits=checks))
        if not model.points:
            self._set_points(recipe)
        self._hand_back(recipe)

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

    def _recorded(self) -> Tuning:
        """The tuning of the session, whole or interrupted."""
        evaluator, search = self._evaluator, self._search
        recorded = self._live.run().tuning or self._tuning
        self._set(trials=evaluator.accounting.trials, seconds_by=dict(evaluator.accounting.seconds))
        if search is not None:
            self._set(
                before=recorded.before,
                after=diagnosis(search.recipe, search.after) if len(search.recipe) else None,
                ladder=search.ladder,
                ruled_out=search.ruled_out,
                recipe=applied(search.recipe),
                ended=search.ended if self._is_complete else "interrupted",
                why_ended=search.why_ended if self._is_complete else "",
            )
        elif self._tuning.ended != DRY:
            self._set(before=recorded.before, ladder=recorded.ladder)
        return self._tuning

    def _set(self, **fields: Any) -> None:
        self._tuning = structs.replace(self._tuning, **fields)

    def _kept(self) -> str:
        """What Ctrl-C would hand back now."""
        kept = tuning_record.kept(self._live) if self._request.export else ""
        return f"; Ctrl-C ends with a folder of {kept}" if kept else ""

    def _say(self, text: str) -> None:
        budget = self._request.budget
        done = min(0.99, self._evaluator.elapsed() / budget)
        self._live.say(text, done, (1.0 - done) * budget)
