"""A loop profile as the record of a diagnosis, with what limits its step in words."""

from __future__ import annotations

from dataclasses import replace

from laptime.kit.text import from_here
from laptime.kit.units import show
from laptime.records.tuning import Diagnosis, Suspect
from laptime.tuning.candidates import Choice, suspects
from laptime.tuning.loop_profile import SHARES, LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.search import ranking
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST

SUSPECTS = 3
"""Suspects that a diagnosis names at most."""
PROFILED = "the step under what was kept is that of the profiled script: it was not diagnosed again"
_BOTTLENECKS = {
    "data": "waiting for data",
    "transfer": "copies to the device",
    "compute": "the model's own computing",
    "other": "what the script does beside the model",
}


def diagnosis(recipe: Recipe, loop_profile: LoopProfile, choice: Choice | None = None) -> Diagnosis:
    """The record of a loop profile; with a choice, it names what could save most."""
    likely = suspects(loop_profile, recipe, choice)[:SUSPECTS] if choice is not None else []
    return Diagnosis(
        recipe=applied(recipe),
        step=loop_profile.step,
        shares=loop_profile.shares,
        what_if=loop_profile.what_if,
        bound=loop_profile.bound,
        sentence=bound_by(loop_profile),
        syncs=[
            {"what": site.detail, "where": f"{from_here(site.file)}:{site.line}", "count": site.count}
            for site in loop_profile.syncs
        ],
        noise=loop_profile.noise,
        detectable=ranking.detectable(loop_profile.noise, LONGEST[-1]),
        batch=loop_profile.batch,
        peak=loop_profile.peak,
        utilization=utilization(loop_profile),
        facts=sorted(loop_profile.facts),
        notes=list(loop_profile.notes),
        suspects=[
            Suspect(
                label=str(candidate.change),
                title=candidate.title,
                saves=candidate.bound,
                suggests=is_only_suggested,
            )
            for candidate, is_only_suggested in likely
        ],
    )


def bound_by(loop_profile: LoopProfile) -> str:
    """What bounds the step, in words."""
    seconds = loop_profile.bottlenecks[loop_profile.bound]
    share = seconds / loop_profile.step if loop_profile.step else 0.0
    bottleneck = _BOTTLENECKS[loop_profile.bound]
    return f"{share:.0%} of a step of {show(loop_profile.step, 's')} is {bottleneck}"


def utilization(loop_profile: LoopProfile) -> float | None:
    """Share of the step that the device works, 0 to 1; None without an accelerator."""
    busy = loop_profile.details.get("busy")
    return min(1.0, busy / loop_profile.step) if busy is not None and loop_profile.step else None


def is_diagnosed(search: SearchResult, evaluator: TrialEvaluator) -> bool:
    """Whether the final set was diagnosed; a long diagnosis that cannot tell anything new is skipped."""
    return len(search.recipe) > 0 and search.recipe in evaluator.profiles


def diagnosis_after(
    search: SearchResult, evaluator: TrialEvaluator, profiled: dict[str, float]
) -> Diagnosis | None:
    """The step under the final set: as diagnosed or, if the diagnosis was skipped, as profiled.

    Args:
        profiled: seconds of the patched script's step by part; other parts than SHARES cannot be used.
    """
    if is_diagnosed(search, evaluator):
        return diagnosis(search.recipe, search.after, evaluator.choice)
    if not profiled or not profiled.keys() <= set(SHARES):
        return None
    step = sum(profiled.values())
    loop_profile = replace(search.after, step=step, shares=profiled, what_if={}, notes=(PROFILED,))
    return diagnosis(search.recipe, loop_profile)
