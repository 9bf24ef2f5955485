"""`tune MODEL`: from the survey to the folder that is handed back, in one session."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, structs

from laptime import targets
from laptime.experiment.pairs import LEAST, Pair, Visited, one_after_the_other
from laptime.experiment.turns import take_alone, take_turns
from laptime.kit.errors import LaptimeError, UsageError, UserCodeError
from laptime.kit.text import from_here
from laptime.records.case import Axis
from laptime.records.check import Finding
from laptime.records.environment import Environment
from laptime.records.event import FindingAdded, Listener, ignore
from laptime.records.quantity import KEPT, UNDECIDED
from laptime.records.run import Run
from laptime.records.run import Subject as RunSubject
from laptime.records.tuning import Applied, Gate, TunedModel
from laptime.tuning.gates.invariants import word
from laptime.tuning.inference import final_set, folder_file
from laptime.tuning.inference.changes import form_of
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folder_file import FolderFile
from laptime.tuning.inference.recording.recordings import model_bounds, seconds_to_record
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.inference.sameness import sameness_of
from laptime.tuning.inference.setups import Setup
from laptime.tuning.inference.sides import FleetSide
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import list_applied, recipe_of
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session.final_gain import FinalCost
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session, run_verification
from laptime.tuning.session.subject import Record, Subject
from laptime.tuning.session.verify import VerifyRequest
from laptime.verbs.profile.reconcile import STEP

HAND_BACK = 3.0  # seconds that copying the folder and the end of the session take, about
SECONDS = 1.5  # timed calls in a process whose gain is measured, about
LONGEST = 20.0  # timed calls in such a process at most, if the quantile of an SLO asks for many
OPENING = "looking at the model"
_OPTIONS = ("goal", "batch", "device", "python", "slo", "max_memory", "allow", "only", "skip", "certify")
"""What decides what the search does. Instances and batch sizes are chosen after it."""


def tune_model(request: ModelRequest, emit: Listener = ignore) -> Run:
    """Make the model faster to run, and say by how much. Return the run; its `tuning` has the ladder, the
    gain, the gate and, in `model`, the folder. emit: gets every event: decisions, progress.
    Raises UsageError: the target cannot be tuned, or the folder exists, or there is no session to go on with.
    UserCodeError: the model fails as it is."""
    check(request)
    return run_session(
        journal_of(request), lambda folder: ModelSubject(ModelEvaluator(request, folder)), emit, OPENING
    )


def verify_model(request: VerifyRequest, emit: Listener = ignore) -> Run:
    """Time the folder against the model as it is in new processes, and compare their outputs again.
    Returns the run, of verb `verify`; its `tuning` has both sides, the gain and the gate as they are now.
    Raises UsageError: the folder is not whole, or its model cannot be loaded. UserCodeError: the model fails.
    """
    place = request.recipe.expanduser().absolute()
    file = folder_file.read(place)
    of_model, recipe = folder_file.request_of(file, request), recipe_of(file)
    check(of_model)
    made: list[ModelSubject] = []

    def make(folder: Path) -> ModelSubject:
        evaluator = ModelEvaluator(of_model, folder)
        evaluator.folders.adopt(recipe, place.parent, file.form)
        serve = file.serve
        setup = Setup(serve.instances, serve.threads, serve.batch or evaluator.batch)
        made.append(ModelSubject(evaluator, setup, place.parent))
        return made[0]

    return run_verification(
        make,
        recipe,
        lambda record: _since_then(made[0].evaluator, place.parent, file),
        emit,
        OPENING,
        recipe_path=str(request.recipe),
    )


class TimedCalls(Struct, frozen=True, kw_only=True):
    """Calls of a folder, in seconds, and the largest peak of its processes so far, in bytes.

    `instances`: of a side of the races; calls of another number of them are not part of the figure."""

    recipe: list[Applied]
    seconds: list[float]
    peak: int
    instances: int = 1


def journal_of(request: ModelRequest) -> SessionJournal:
    """The journal of a session: one goes on where names, the text of files and options are the same.
    Raises LaptimeError: a file is gone, there is no session to go on with, or it still runs."""
    named = [request.target, request.inputs, request.metric]
    files = [targets.parse(name).sha256 if name else "" for name in named]
    terms = ["model", named, files, {name: getattr(request, name) for name in _OPTIONS}]
    save = request.save and not request.dry_run
    return SessionJournal(terms, "this model and these options", resume=request.resume, save=save)


class ModelSubject(Subject):
    """A model. evaluator: of the search. setup: of the final set; None: it is chosen. folder: that is
    verified."""

    PLAN = (
        "goal", "batch", "batches", "instances", "device", "python", "inputs", "metric", "slo", "max_memory",
        "budget", "allow", "only", "skip", "certify", "timeout",
    )  # fmt: skip
    METRIC = STEP
    UNIT = "call"
    BEGINS = "timing the model as it is"

    def __init__(
        self, evaluator: ModelEvaluator, setup: Setup | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(evaluator.request)
        self.evaluator: ModelEvaluator = evaluator
        self.setup = setup or Setup(batch=evaluator.batch)
        self.follows = f"{'instances, ' if self.request.has_setups else ''}{self.follows}"
        self._folder = folder
        self._finals: list[Visited] = []
        self._counts: dict[Recipe, int] = {}

    # --resume: folders are written anew, the earlier ones are gone; timed calls count as measured.

    def recall(self, journal: SessionJournal) -> None:
        for kept in journal.read_kept(TimedCalls):
            if kept.instances != self.evaluator.raced.instances:
                continue
            timing = self.evaluator.timings[recipe_of(kept)]
            timing.seconds.extend(kept.seconds)
            timing.peak = max(timing.peak, kept.peak)
        self._count()

    def keep(self, journal: SessionJournal) -> None:
        for recipe, timing in self.evaluator.timings.items():
            if seconds := timing.seconds[self._counts.get(recipe, 0) :]:
                calls = TimedCalls(
                    recipe=list_applied(recipe),
                    seconds=[round(each, 9) for each in seconds],
                    peak=timing.peak,
                    instances=self.evaluator.raced.instances,
                )
                journal.keep(calls)
        self._count()

    def _count(self) -> None:
        self._counts = {recipe: len(timing.seconds) for recipe, timing in self.evaluator.timings.items()}

    # Before and in the search

    def run_fields(self) -> dict[str, Any]:
        return {"subjects": [RunSubject(target=self.request.target)]}

    def tuning_fields(self) -> dict[str, Any]:
        surveyed = self.evaluator.surveyed
        model = TunedModel(
            batch=self.evaluator.batch,
            inputs=surveyed["inputs"],
            origin=surveyed["origin"],
            instructions=surveyed["instructions"],
            slo=self.request.slo,
            max_memory=self.request.max_memory,
        )
        return {"model": model}

    def refusal(self, failed: TrialFailed) -> LaptimeError:
        target = self.request.target
        return UserCodeError(
            f"{target} does not run as it is",
            why=f"{failed.kind}: {failed.why}",
            next=f"laptime bench {target}",
        )

    def cost(self, recipe: Recipe, step: float) -> FinalCost:
        evaluator = self.evaluator
        as_it_is = evaluator.loop_profile.step if evaluator.loop_profile else step
        final = evaluator.ready_alone(recipe) + self._plan_seconds(step, 1)
        return FinalCost(
            gate=0.0 if recipe in evaluator.gates and len(recipe) else final,
            pair=evaluator.ready_alone(Recipe()) + self._plan_seconds(as_it_is) + final,
            record=seconds_to_record(evaluator),
            hand_back=HAND_BACK,
            between=final_set.seconds_to_deploy(evaluator, recipe) if self.request.has_setups else 0.0,
        )

    def trying(self, candidate: Candidate, kept: str) -> str:
        would = f"; Ctrl-C ends with a folder of {kept}" if kept and self.request.export else ""
        return f"{super().trying(candidate, kept)}{would}"

    # After it

    def choose(self, record: Record, search: SearchResult) -> SearchResult:
        """The best set that keeps the limits, with its instances, threads and batch."""
        recipe = final_set.within_limits(self.evaluator, search.recipe)
        if recipe != search.recipe:
            search = final_set.with_recipe(search, recipe)
        record.set_part("model", points=final_set.points(self.evaluator, recipe))
        return replace(search, recipe=self._deploy(record, search)) if self.request.has_setups else search

    def _deploy(self, record: Record, search: SearchResult) -> Recipe:
        """Instances, threads and batch of the final set; its recipe with that number of threads."""
        budget = self.request.budget
        until = budget - min(budget, self.cost(search.recipe, search.after.step).keep_back(budget))
        recipe, self.setup, made = final_set.deploy(
            self.evaluator, search.recipe, until=until, noise=search.noise, say=record.say
        )
        model = record.tuning.model
        assert model is not None
        visited = {(each.label, each.instances, each.batch) for each in made}
        others = [
            structs.replace(point, chosen=point.chosen and not made)
            for point in model.points
            if (point.label, point.instances, point.batch) not in visited
        ]
        every = sorted([*others, *made], key=lambda each: each.latency)
        record.set_part("model", points=final_set.with_front(every))
        return recipe

    def gate(self, recipe: Recipe) -> Gate:
        return self.evaluator.sameness_at(recipe, self.setup.batch)

    def pair(self, recipe: Recipe, number: int, until: float) -> Pair:
        """The model as it is runs once, the final set as it was set up."""

        def side(at: int) -> FleetSide:
            made, setup = (recipe, self.setup) if at else (Recipe(), Setup(batch=self.evaluator.batch))
            return self.evaluator.fleet_side(made, setup, lambda call: self._plan_seconds(call, at))

        def in_turns() -> Pair:
            one, other = sides = side(0), side(1)
            turns = take_turns(sides, until=until, elapsed=self.evaluator.elapsed, seed=number)
            return Pair(one.visited, other.visited, turns)

        with self.evaluator.accounting.spent_on("measure"):
            found = self.at_once(
                in_turns, lambda: Pair(*one_after_the_other(number, lambda at: take_alone(side(at)).visited))
            )
        self._finals.append(found.final)
        return found

    def _plan_seconds(self, call: float, at: int = 0) -> float:
        """Seconds of calls of a process; of the final side (1) enough for the quantile of an SLO."""
        calls = self.evaluator.limits.calls if at else 0
        return max(SECONDS, 5 * call, min(1.5 * calls * call / LEAST, LONGEST))

    def is_decided(self) -> bool:
        """Whether it is known if the limits are kept."""
        return word(self._limits()) is not UNDECIDED

    def _limits(self) -> Any:
        seconds = [each for final in self._finals for each in final.seconds]
        return self.evaluator.limits.checks(seconds, max(final.peak or 0 for final in self._finals))

    def measure(self, record: Record, recipe: Recipe) -> None:
        record.set_part("model", limits=self._limits())

    def hand_back(self, record: Record, search: SearchResult) -> None:
        """Copy the final folder, unless its outputs are not the model's."""
        recipe, export = search.recipe, self.request.export
        self._describe(record, recipe)
        model = record.tuning.model
        assert model is not None
        if export is None or record.tuning.gate.word != "passed" or word(model.limits) is not KEPT:
            return
        try:
            place = folder_file.hand_back(
                self.evaluator, recipe, export, record.tuning, run=record.live.id, setup=self.setup
            )
        except UsageError as error:  # a full disk must not cost the session's numbers
            sentence = f"the folder was not handed back: {error.what}: {error.why}"
            finding = Finding(kind="tune/not-written", severity="problem", sentence=sentence)
            record.live(FindingAdded(finding))
            return
        record.set_part("model", folder=from_here(place))
        record.set(recipe_path=from_here(place / "recipe.json"))

    def _describe(self, record: Record, recipe: Recipe) -> None:
        evaluator = self.evaluator
        form = evaluator.folders.form(recipe)
        settings = evaluator.folders.settings(recipe)
        record.set_part(
            "model",
            form=form,
            needs=list(form_of(form).packages),
            takes=folder_file.say_inputs(settings, evaluator.recorded, evaluator.device),
            calls=len(evaluator.recorded.calls),
            outputs=sameness_of(evaluator.agreements.get(recipe)),
        )

    def finish(self, record: Record, search: SearchResult) -> None:
        """Limits of the search, if nothing was measured again; what bounds a call, before and after."""
        evaluator, model, tuning = self.evaluator, record.tuning.model, record.tuning
        assert model is not None
        if evaluator.limits and not model.limits:
            record.set_part("model", limits=evaluator.limit_checks(search.recipe))
        record.say("recording what bounds a call")
        sides = (tuning.baseline, tuning.final)
        record.set_part("model", bounds=model_bounds(evaluator, search.recipe, self.setup, sides))

    def hand_back_so_far(self, record: Record, search: SearchResult) -> None:
        """Hand back what was kept until then, if its outputs were compared."""
        evaluator, recipe, model = self.evaluator, search.recipe, record.tuning.model
        assert model is not None
        if model.folder or recipe not in evaluator.gates:
            return
        timing = evaluator.timings[recipe]
        record.set(gate=evaluator.gates[recipe])
        limits = model.limits or evaluator.limits.checks(timing.seconds, timing.peak)
        record.set_part("model", limits=limits, points=model.points or final_set.points(evaluator, recipe))
        self.hand_back(record, search)

    # The record

    def record(self, record: Record) -> None:
        if self._folder is not None:
            self._describe(record, recipe_of(record.tuning))
            record.set_part("model", folder=str(self._folder))

    def environment(self) -> Environment:
        return self.evaluator.environment()

    def axes(self) -> dict[str, Axis]:
        return {"batch": self.evaluator.batch, "device": self.evaluator.device}


def _since_then(evaluator: ModelEvaluator, folder: Path, file: FolderFile) -> Finding:
    """Whether it still gives the confirmed outputs bit for bit, and the gain of that day."""
    now, then = evaluator.folder / "now.npz", folder / "outputs.npz"
    outputs, is_equal = "no outputs any more", False
    try:
        with evaluator.arm_of(recipe_of(file), folder, folder / "calls.npz") as arm:
            arm.outputs(now)
    except TrialFailed:
        pass
    else:
        with np.load(now, allow_pickle=False) as ours, np.load(then, allow_pickle=False) as theirs:
            same = (ours[key].tobytes() == theirs[key].tobytes() for key in theirs)
            is_equal = set(ours) == set(theirs) and all(same)
        outputs = "the confirmed outputs, bit for bit" if is_equal else "other outputs than confirmed"
    was = f"{file.speedup.value:.2f}x" if file.speedup else "not measured"
    here = folder_file.at_version(need.partition("==")[0] for need in file.needs)
    changed = [f"; {then} then, {now} now" for then, now in zip(file.needs, here, strict=True) if then != now]
    return Finding(
        kind="tune/verified",
        severity="info" if is_equal else "advice",
        sentence=f"on the recorded inputs it gives {outputs}; its gain was {was}{''.join(changed)}",
        evidence={"bit_for_bit": is_equal, "was": file.speedup.value if file.speedup else None},
    )
