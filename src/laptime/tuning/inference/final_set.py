"""Which of all that was measured is handed back.

`points` are all recipes that were timed on the way, with the Pareto front; `within_limits` takes the best one
that keeps the limits. `deploy` chooses instances, threads and batch sizes of the final set, if these are
asked for: `--goal throughput`, `--batch 1,8`, `--goal cost`."""

from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import mean, median

import numpy as np
from msgspec import structs

from laptime.analysis import shifting_level
from laptime.analysis.paired import LEAST_NOISE
from laptime.analysis.pareto import front
from laptime.analysis.summary import QUANTILES
from laptime.probes import energy
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.tuning import Point
from laptime.tuning.gates.invariants import word
from laptime.tuning.inference import setups
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.setups import Setup, Visit, with_threads
from laptime.tuning.inference.sides import Timing
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import list_applied
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.verbs.bench.variants import room

UNTIL = 0.8  # share of the budget after which no further point is looked at


def points(evaluator: ModelEvaluator, chosen: Recipe) -> list[Point]:
    """Every measured recipe, the fastest first, as fast as its races say that it is.

    The machine is another one in each race: a recipe is as far from what it was raced against as their rounds
    say, and the first of all is the model as it is."""
    levels: dict[Recipe, float] = {}
    for (incumbent, candidate), ratios in evaluator.ratios.items():
        before = levels.setdefault(incumbent, evaluator.figure(evaluator.timings[incumbent].seconds))
        levels.setdefault(candidate, before * median(ratios))
    made = []
    for raced, timing in evaluator.timings.items():
        if timing.seconds:
            recipe, level = evaluator.as_raced(raced), levels.get(raced, 0.0)
            by = level / evaluator.figure(timing.seconds) if level else 1.0
            threads = next((int(each.options["value"]) for each in recipe if each.name == "threads"), 0)
            setup = Setup(evaluator.raced.instances, threads, evaluator.batch)
            rate = setup.instances * setup.batch / (by * mean(timing.seconds))
            joules = timing.joules / timing.metered / setup.batch if timing.metered else None
            is_chosen = raced == chosen
            made.append(_point(evaluator, recipe, setup, timing, rate, joules, by=by, chosen=is_chosen))
    return with_front(sorted(made, key=lambda point: point.latency))


def with_front(made: list[Point]) -> list[Point]:
    """The same points, those of the front marked; energy takes part if it was read of all of them."""
    is_metered = all(each.energy is not None for each in made)
    goals = [
        (each.latency, -each.throughput, each.peak, (each.energy or 0.0) if is_metered else 0.0)
        for each in made
    ]
    best = set(front(goals))
    return [structs.replace(each, front=index in best) for index, each in enumerate(made)]


def _point(
    evaluator: ModelEvaluator,
    recipe: Recipe,
    setup: Setup,
    seen: Timing | setups.Seen,
    rate: float,
    joules: float | None,
    *,
    by: float = 1.0,
    chosen: bool,
) -> Point:
    """A point of calls that were seen; `by`: factor on their seconds."""
    limits, interval = evaluator.limits, shifting_level.interval(np.array(seen.seconds), 0.5)
    slo = limits.slo and QUANTILES[limits.slo.quantile]
    slowest = shifting_level.interval(np.array(seen.seconds), slo) if slo else None
    return Point(
        label=", ".join(map(str, recipe)) or "as it is",
        recipe=list_applied(recipe),
        **asdict(setup),
        latency=by * median(seen.seconds),
        ci95=interval and (by * interval[0], by * interval[1]),
        bound=slowest and slowest[1],
        throughput=rate,
        peak=seen.peak,
        energy=joules,
        calls=len(seen.seconds),
        limits=word(limits.checks(seen.seconds, seen.peak)) if limits else None,
        chosen=chosen,
    )


def within_limits(evaluator: ModelEvaluator, found: Recipe) -> Recipe:
    """The set that a search has found, if it keeps the limits; else the best measured one that does.

    If none does, it is the one that comes nearest. Whatever is taken in place of the search's set computes
    the same.

    Raises TrialFailed: the model does not run as it is."""
    state = word(evaluator.limit_checks(found)) if evaluator.limits else KEPT
    if state is KEPT:
        return found

    def figure(recipe: Recipe) -> float:
        timing = evaluator.timings[recipe]
        if evaluator.request.goal == "memory":
            return float(timing.peak)
        return evaluator.figure(timing.seconds) if timing.seconds else float("inf")

    def far(recipe: Recipe) -> float:
        timing, limits = evaluator.timings[recipe], evaluator.limits
        return setups.distance(limits.checks(timing.seconds, timing.peak)) if timing.seconds else float("inf")

    by_goal = sorted(evaluator.timings, key=figure)
    for recipe in by_goal:
        if recipe != found and _word(evaluator, recipe) is KEPT and _is_same(evaluator, recipe):
            return recipe
    if state is UNDECIDED:
        return found
    nearest = sorted(by_goal, key=far)
    return next((each for each in nearest if each == found or _is_same(evaluator, each)), found)


def _word(evaluator: ModelEvaluator, recipe: Recipe) -> Judgement:
    timing = evaluator.timings[recipe]
    said = word(evaluator.limits.checks(timing.seconds, timing.peak)) if timing.seconds else BROKEN
    if said is not UNDECIDED or evaluator.elapsed() > UNTIL * evaluator.request.budget:
        return said
    try:
        return word(evaluator.limit_checks(recipe))
    except TrialFailed:
        return BROKEN


def _is_same(evaluator: ModelEvaluator, recipe: Recipe, batch: int = 0) -> bool:
    """Whether it computes the same; `batch`: other items in a call than those of the session."""
    try:
        return not len(recipe) or evaluator.sameness_at(recipe, batch or evaluator.batch).word == "passed"
    except TrialFailed:
        return False


VISIT = 3.0  # seconds of a visit, about. Its processes are new ones, which takes as long
KEPT_FOR, FOR_LIMITS = 2, setups.FEWEST + 1
"""Visits of each setup that time is kept back for: after two it is known what is far better, and setups are
closer to each other than to a runtime that no time was left for. A limit takes more.
"""
CALLS, WITH_LIMITS = 3, 10  # calls of a visit at least: of each instance; if a quantile of them is a limit


def setups_of(evaluator: ModelEvaluator) -> list[Setup]:
    """Return the setups to choose from; for throughput alone, none that leaves half of the CPUs idle."""
    request, cpus = evaluator.request, room()
    every = setups.table(cpus, request.instances, request.batches or [evaluator.batch])
    if not request.is_throughput:
        return every
    return [each for each in every if 2 * each.instances * each.threads > cpus]


def seconds_to_deploy(evaluator: ModelEvaluator, recipe: Recipe) -> float:
    """Seconds that choosing takes at least, about; what the search leaves goes into more visits."""
    visits = FOR_LIMITS if evaluator.limits else KEPT_FOR
    return len(setups_of(evaluator)) * visits * (VISIT + evaluator.ready_alone(recipe))


def deploy(
    evaluator: ModelEvaluator, recipe: Recipe, *, until: float, noise: float, say: Callable[[str], None]
) -> tuple[Recipe, Setup, list[Point]]:
    """The best setup of a recipe, with its number of threads in the recipe, and all setups as points.
    until: second of the session at which measuring ends. noise: standard deviation of a round. Returns the
    recipe as it is on one instance if no setup runs and computes the same."""
    request, every = evaluator.request, setups_of(evaluator)

    def visit(setup: Setup) -> Visit | None:
        say(f"{setup.instances} x {setup.threads} threads, batch {setup.batch}")
        try:
            with evaluator.accounting.spent_on("race"):
                return visit_setup(evaluator, with_threads(recipe, setup.threads), setup)
        except TrialFailed:
            return None

    best, seen = setups.choose(
        every,
        visit,
        limits=evaluator.limits,
        noise=max(noise, LEAST_NOISE),
        is_over=lambda: evaluator.elapsed() > until,
        cost=setups.cost_of(request.goal, room()),
    )
    if best is not None and not _is_same(evaluator, with_threads(recipe, best.threads), best.batch):
        best = None
    made = []
    for setup, each in seen.items():
        if each.rates:
            own, joules = with_threads(recipe, setup.threads), median(each.joules) if each.joules else None
            made.append(_point(evaluator, own, setup, each, median(each.rates), joules, chosen=setup == best))
    if best is None:
        return recipe, Setup(batch=evaluator.batch), with_front(made)
    return with_threads(recipe, best.threads), best, with_front(made)


def visit_setup(evaluator: ModelEvaluator, recipe: Recipe, setup: Setup) -> Visit:
    """A setup in new processes for a second or so. Raises TrialFailed: it does not run."""
    visits: list[Visit] = []
    with evaluator.fleet(recipe, setup) as fleet:
        seconds = max(VISIT, (WITH_LIMITS if evaluator.limits else CALLS) * fleet.call)
        readings = energy.measure(evaluator.meters, lambda: visits.append(fleet.visit(seconds)))
    joules, items = energy.gross(readings), len(visits[0].seconds) * setup.batch
    return replace(visits[0], joules=None if joules is None else joules / items)


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
