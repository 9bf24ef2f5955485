"""`tune MODEL --resume`: what has to be the same, and what was timed before.

Decisions are taken over as those of a script are (`search.replay`); folders are written anew, as the earlier
ones are gone, and the outputs of the final set are compared anew. Calls that were timed count as measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from laptime import targets
from laptime.records.event import Event, RungDecided
from laptime.records.tuning import Applied
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.sides import Timing
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.session.journal import SessionJournal

_OPTIONS = ("goal", "batch", "device", "python", "slo", "max_memory", "allow", "only", "skip", "certify")
"""What decides what the search does. Instances and batch sizes are chosen after it."""


class TimedCalls(Struct, frozen=True, kw_only=True):
    """Calls of a folder, in seconds, and the largest peak of its processes so far, in bytes.

    `instances`: of a side of the races; calls of another number of them are no part of the figure.
    """

    recipe: list[Applied]
    seconds: list[float]
    peak: int
    instances: int = 1


def terms(request: ModelRequest) -> list[Any]:
    """What has to be the same for a session to go on: names, the text of files, options.

    Raises:
        LaptimeError: a file is gone.
    """
    named = [request.target, request.inputs, request.metric]
    files = [targets.parse(name).sha256 if name else "" for name in named]
    return ["model", named, files, {name: getattr(request, name) for name in _OPTIONS}]


def journal_of(request: ModelRequest) -> SessionJournal:
    """The journal of a session.

    Raises:
        UsageError: there is no session to go on with, or it still runs.
    """
    save = request.save and not request.dry_run
    return SessionJournal(terms(request), "this model and these options", resume=request.resume, save=save)


class TimingJournal:
    """Keeps what was timed beside the decisions; what an earlier session has timed counts from the start.

    Args:
        journal: of the session. evaluator: whose timings they are.
    """

    def __init__(self, journal: SessionJournal, evaluator: ModelEvaluator) -> None:
        self._journal, self._timings = journal, evaluator.timings
        self._instances = evaluator.raced.instances
        for kept in journal.kept(TimedCalls):
            if kept.instances != self._instances:
                continue
            timing = evaluator.timings[Recipe(tuple(Change(each.name, each.options) for each in kept.recipe))]
            timing.seconds.extend(kept.seconds)
            timing.peak = max(timing.peak, kept.peak)
        self._counts = _counts(self._timings)

    def __call__(self, event: Event) -> None:
        """At each decision, keep what was timed for it; other events are passed over."""
        if not isinstance(event, RungDecided):
            return
        for recipe, timing in self._timings.items():
            if seconds := timing.seconds[self._counts.get(recipe, 0) :]:
                rounded = [round(each, 9) for each in seconds]
                self._journal.keep(
                    TimedCalls(
                        recipe=applied(recipe),
                        seconds=rounded,
                        peak=timing.peak,
                        instances=self._instances,
                    )
                )
        self._counts = _counts(self._timings)


def _counts(timings: Mapping[Recipe, Timing]) -> dict[Recipe, int]:
    return {recipe: len(timing.seconds) for recipe, timing in timings.items()}
