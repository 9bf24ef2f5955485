"""All that was measured on the way: the Pareto front, and which point keeps the limits."""

from __future__ import annotations

from statistics import mean, median

import numpy as np
from msgspec import structs

from laptime.analysis import shifting_level
from laptime.analysis.pareto import front
from laptime.records.tuning import Gate, Point
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.limits import distance, upper_end, word
from laptime.tuning.inference.timing import Timing
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search.evaluator import TrialFailed

UNTIL = 0.8
"""Share of the budget after which no further point is looked at."""


def points(evaluator: ModelEvaluator, chosen: Recipe) -> list[Point]:
    """Every measured recipe, the fastest first."""
    made = [
        _point(evaluator, recipe, timing, chosen=recipe == chosen)
        for recipe, timing in evaluator.timings.items()
        if timing.seconds
    ]
    return with_front(sorted(made, key=lambda point: point.latency))


def label(recipe: Recipe) -> str:
    """Its changes in words."""
    return ", ".join(map(str, recipe)) or "as it is"


def with_front(made: list[Point]) -> list[Point]:
    """The same points, those of the front marked; energy takes part where it was read of all of them."""
    is_metered = all(each.energy is not None for each in made)
    goals = [
        (each.latency, -each.throughput, each.peak, (each.energy or 0.0) if is_metered else 0.0)
        for each in made
    ]
    best = set(front(goals))
    return [structs.replace(each, front=at in best) for at, each in enumerate(made)]


def _point(evaluator: ModelEvaluator, raced: Recipe, timing: Timing, *, chosen: bool) -> Point:
    limits, seconds, recipe = evaluator.limits, timing.seconds, evaluator.as_raced(raced)
    return Point(
        label=label(recipe),
        recipe=applied(recipe),
        instances=evaluator.raced.instances,
        threads=next((int(each.options["value"]) for each in recipe if each.name == "threads"), 0),
        batch=evaluator.batch,
        latency=median(seconds),
        ci95=shifting_level.interval(np.array(seconds), 0.5),
        bound=upper_end(limits.slo, seconds) if limits.slo else None,
        throughput=evaluator.raced.instances * evaluator.batch / mean(seconds),
        peak=timing.peak,
        energy=None if (joules := timing.joules_per_call) is None else joules / evaluator.batch,
        calls=len(seconds),
        limits=word(limits.checks(seconds, timing.peak)) if limits else "",
        chosen=chosen,
    )


def within_limits(evaluator: ModelEvaluator, found: Recipe) -> Recipe:
    """The set that a search has found, if it keeps the limits; else the best measured one that does.

    Where none does, it is the one that comes nearest. Whatever is taken in place of the search's set computes
    the same.

    Raises:
        TrialFailed: the model does not run as it is.
    """
    state = word(evaluator.limit_checks(found)) if evaluator.limits else "ok"
    if state == "ok":
        return found
    by_goal = sorted(evaluator.timings, key=lambda recipe: _figure(evaluator, recipe))
    for recipe in by_goal:
        if recipe != found and _word(evaluator, recipe) == "ok" and _is_same(evaluator, recipe):
            return recipe
    if state == "unknown":
        return found
    for recipe in sorted(by_goal, key=lambda recipe: _distance(evaluator, recipe)):
        if recipe == found or _is_same(evaluator, recipe):
            return recipe
    return found


def _figure(evaluator: ModelEvaluator, recipe: Recipe) -> float:
    """What the goal looks at, of all that was timed."""
    timing = evaluator.timings[recipe]
    if evaluator.request.goal == "memory":
        return float(timing.peak)
    return evaluator.figure(timing.seconds) if timing.seconds else float("inf")


def _word(evaluator: ModelEvaluator, recipe: Recipe) -> str:
    """Whether it keeps the limits; timed further where that is open and it may."""
    timing = evaluator.timings[recipe]
    said = word(evaluator.limits.checks(timing.seconds, timing.peak)) if timing.seconds else "fail"
    if said != "unknown" or evaluator.elapsed() > UNTIL * evaluator.request.budget:
        return said
    try:
        return word(evaluator.limit_checks(recipe))
    except TrialFailed:
        return "fail"


def _distance(evaluator: ModelEvaluator, recipe: Recipe) -> float:
    timing = evaluator.timings[recipe]
    return distance(evaluator.limits.checks(timing.seconds, timing.peak)) if timing.seconds else float("inf")


def _is_same(evaluator: ModelEvaluator, recipe: Recipe) -> bool:
    try:
        gate = evaluator.sameness(recipe) if len(recipe) else Gate(word="passed")
    except TrialFailed:
        return False
    return gate.word == "passed"
