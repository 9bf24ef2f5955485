"""The record of a session of a model, and the events of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from msgspec import structs

from laptime.analysis.agreement import Agreement
from laptime.records.run import Run, Subject
from laptime.records.tuning import Diagnosis, Measured, OutputSameness, Rung, TunedModel, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ranking
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST
from laptime.tuning.session import run_events

_SETTINGS = (
    "goal",
    "batch",
    "batches",
    "instances",
    "device",
    "python",
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


def start(
    live: LiveRun, request: ModelRequest, evaluator: ModelEvaluator, earlier: Sequence[Rung] = ()
) -> None:
    """Report a run that begins.

    Args:
        earlier: rungs of the session that is resumed.
    """
    subject = Subject(target=request.target)
    run_events.start(live, request, _SETTINGS, subject, empty(request, evaluator), earlier)


def finish(
    live: LiveRun,
    evaluator: ModelEvaluator,
    tuning: Tuning,
    status: Literal["complete", "interrupted"] = "complete",
    complaint: str = "",
    others: float | None = None,
) -> Run:
    """Report the tuning of a session; the run.

    Args:
        complaint, others: see `run_events.finish`.
    """
    return run_events.finish(
        live,
        tuning,
        environment=evaluator.environment(),
        axes={"batch": evaluator.batch, "device": evaluator.device},
        status=status,
        complaint=complaint,
        others=others,
    )


def with_recipe(search: SearchResult, recipe: Recipe) -> SearchResult:
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
            worst=error.worst + 1,
        )
        for error in (agreement.outputs if agreement else [])
    ]
