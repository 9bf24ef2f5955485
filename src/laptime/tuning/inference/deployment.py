"""Instances, threads and batch sizes of the final set: `--goal throughput`, `--batch 1,8`, `--goal cost`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np

from laptime.analysis import shifting_level
from laptime.analysis.paired import LEAST_NOISE
from laptime.probes import energy
from laptime.records.tuning import Point
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.limits import upper_end, word
from laptime.tuning.inference.points import label, with_front
from laptime.tuning.inference.setups import FEWEST, Seen, Setup, Visit, chosen, cost_of, table, with_threads
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search.evaluator import TrialFailed
from laptime.verbs.bench.instances import room

VISIT = 3.0
"""Seconds of a visit, about. Its processes are new ones, which takes as long."""
KEPT_FOR, FOR_LIMITS = 2, FEWEST + 1
"""Visits of each setup that time is kept back for: after two it is known what is far better, and setups are
closer to each other than to a runtime that no time was left for. A limit takes more.
"""
CALLS, WITH_LIMITS = 3, 10
"""Calls of a visit at least: of each instance; where a quantile of them is a limit."""


def setups_of(evaluator: ModelEvaluator) -> list[Setup]:
    """What there is to choose from; where throughput alone counts, none that leaves half of the CPUs idle."""
    request, cpus = evaluator.request, room()
    every = table(cpus, request.instances, request.batches or [evaluator.batch])
    if not request.is_throughput:
        return every
    return [each for each in every if 2 * each.instances * each.threads > cpus]


def seconds_to_deploy(evaluator: ModelEvaluator, recipe: Recipe) -> float:
    """Seconds that choosing takes at least, about; what the search leaves goes into more visits."""
    visits = FOR_LIMITS if evaluator.limits else KEPT_FOR
    return len(setups_of(evaluator)) * visits * (VISIT + evaluator.ready_alone(recipe))


def deployed(
    evaluator: ModelEvaluator, recipe: Recipe, *, until: float, noise: float, say: Callable[[str], None]
) -> tuple[Recipe, Setup, list[Point]]:
    """The best setup of a recipe, with its number of threads in the recipe, and all setups as points.

    Args:
        until: second of the session at which measuring ends. noise: standard deviation of a round.

    Returns:
        The recipe as it is on one instance where no setup runs and computes the same.
    """
    request, setups = evaluator.request, setups_of(evaluator)

    def visit(setup: Setup) -> Visit | None:
        say(f"{setup.instances} x {setup.threads} threads, batch {setup.batch}")
        try:
            with evaluator.accounting.spent_on("race"):
                return visited(evaluator, with_threads(recipe, setup.threads), setup)
        except TrialFailed:
            return None

    best, seen = chosen(
        setups,
        visit,
        limits=evaluator.limits,
        noise=max(noise, LEAST_NOISE),
        is_over=lambda: evaluator.elapsed() > until,
        cost=cost_of(request.goal, room()),
    )
    if best is not None and not _is_same(evaluator, with_threads(recipe, best.threads), best.batch):
        best = None
    made = [_point(evaluator, recipe, setup, each, best) for setup, each in seen.items() if each.rates]
    if best is None:
        return recipe, Setup(batch=evaluator.batch), with_front(made)
    return with_threads(recipe, best.threads), best, with_front(made)


def _is_same(evaluator: ModelEvaluator, recipe: Recipe, batch: int) -> bool:
    """Whether the outputs are the model's, at the chosen batch size, too."""
    try:
        return evaluator.sameness_at(recipe, batch).word == "passed"
    except TrialFailed:
        return False


def visited(evaluator: ModelEvaluator, recipe: Recipe, setup: Setup) -> Visit:
    """A setup in new processes for a second or so.

    Raises:
        TrialFailed: it does not run.
    """
    visits: list[Visit] = []
    with evaluator.fleet(recipe, setup) as fleet:
        seconds = max(VISIT, (WITH_LIMITS if evaluator.limits else CALLS) * fleet.call)
        readings = energy.measure(evaluator.meters, lambda: visits.append(fleet.visit(seconds)))
    joules, items = energy.gross(readings), len(visits[0].seconds) * setup.batch
    return replace(visits[0], joules=None if joules is None else joules / items)


def _point(evaluator: ModelEvaluator, recipe: Recipe, setup: Setup, seen: Seen, best: Setup | None) -> Point:
    limits, own = evaluator.limits, with_threads(recipe, setup.threads)
    return Point(
        label=label(own),
        recipe=applied(own),
        instances=setup.instances,
        threads=setup.threads,
        batch=setup.batch,
        latency=median(seen.seconds),
        ci95=shifting_level.interval(np.array(seen.seconds), 0.5),
        bound=upper_end(limits.slo, seen.seconds) if limits.slo else None,
        throughput=median(seen.rates),
        energy=median(seen.joules) if seen.joules else None,
        peak=seen.peak,
        calls=len(seen.seconds),
        limits=word(seen.checks(limits)) if limits else "",
        chosen=setup == best,
    )
