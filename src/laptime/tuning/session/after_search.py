"""After the search: the gain measured afresh, the whole set gated, the patch made, verified and measured
itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from laptime.records.tuning import Convergence, Gate, Measured, Patched, Rung, Speedup
from laptime.tuning.candidates import numerics_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import final_ab, patching
from laptime.tuning.session.step_parts import breakdown, cost
from laptime.tuning.session.trial_runner import Pair, TrialRunner
from laptime.tuning.session.tuning_record import is_diagnosed

MOST_RESERVED = 0.4
"""Share of the budget that is kept back at most: where everything is slow, something is still tried."""
SHARE_MEASURED = 0.6
"""Of what is left of the budget when the search is over, for baseline and final; the rest is the patch's."""


@dataclass
class Finished:
    """What came after the search, as far as it came.

    Attributes:
        run_id: of the session, for the recipe's file.
        suggested: rungs of changes that are only ever suggested.
        is_complete: nothing was left out.
    """

    run_id: str = ""
    measured: tuple[Measured, Measured] | None = None
    speedup: Speedup | None = None
    gate: Gate = field(default_factory=Gate)
    convergence: Convergence = field(default_factory=Convergence)
    patch: Patched = field(default_factory=Patched)
    recipe_path: str = ""
    suggested: list[Rung] = field(default_factory=list)
    breakdown_before: dict[str, float] = field(default_factory=dict)
    breakdown_after: dict[str, float] = field(default_factory=dict)
    is_complete: bool = False


def finish(
    request: Any, runner: TrialRunner, found: SearchResult, finished: Finished, say: Callable[[str], None]
) -> None:
    """Fill `finished`, the most important first: what is interrupted keeps what came before."""
    finished.breakdown_before = dict(found.before.shares)
    finished.suggested, suggestions = patching.suggestions(runner, found.before)
    finished.patch = Patched(suggestions=suggestions)
    if not len(found.recipe):
        finished.is_complete = True
        return
    finished.breakdown_after = dict(found.after.shares) if is_diagnosed(found, runner) else {}
    say("the gate of the whole set")
    finished.gate = _gate_of_all(runner, found)
    has_script = runner.program.subject.source != "memory"
    sources: dict[str, str] = {}
    if has_script:
        say("writing the patch")
        sources = patching.write(request, runner, found, finished)
    # Where the patch has every change, its gain is measured, not that of our hooks.
    is_whole = bool(sources) and not finished.patch.left_out
    say("measuring the gain in new processes")
    pairs = measure(
        runner,
        found.recipe,
        finished,
        budget=request.budget,
        noise=found.noise,
        sources=sources if is_whole else None,
    )
    if sources:
        say("running the patched script")
        patching.verify(request, runner, found, finished, pairs, sources, is_whole=is_whole)
        _profiled(request, runner, found, finished, say, sources)
    if has_script:
        patching.write_recipe(request, runner, found.recipe, finished)
    finished.is_complete = True


def reserve(
    runner: TrialRunner, loop_profile: LoopProfile, budget: float, step: float | None = None
) -> float:
    """Share of the budget that all this takes, about: three pairs, the recipe once more, two profiles, a
    gate.

    Args:
        loop_profile: of the script as it is. step: the incumbent's seconds a step; None: as the script's.
    """
    start, own = runner.costs(loop_profile).start, loop_profile.step if step is None else step
    baseline, final = final_ab.cost(start, loop_profile.step), final_ab.cost(start, own)
    profiles = cost(runner, loop_profile.step) + cost(runner, own)
    return min(MOST_RESERVED, (final_ab.FEWEST * (baseline + final) + 2 * final + profiles) / budget)


def _profiled(
    request: Any,
    runner: TrialRunner,
    found: SearchResult,
    finished: Finished,
    say: Callable[[str], None],
    sources: dict[str, str],
) -> None:
    """Both sides under the profiler, where there is time for it; the diagnosis has told their shares
    already."""
    needed = cost(runner, found.before.step) + cost(runner, found.after.step)
    if runner.elapsed() + needed > request.budget:
        return
    say("profiling both")
    with runner.ledger.spent("profile"):
        before, after = (breakdown(runner, each, request.timeout) for each in ({}, sources))
    if before and after:
        finished.breakdown_before, finished.breakdown_after = before, after


def measure(
    runner: TrialRunner,
    recipe: Recipe,
    finished: Finished,
    *,
    budget: float,
    noise: float,
    sources: dict[str, str] | None = None,
) -> list[Pair]:
    """Baseline and final in fresh processes; `finished` has what is known after every pair.

    Args:
        noise: standard deviation of a round of the script against itself; 0: unknown.
        sources: the patched files, which have all of the recipe: they are the final side.
    """
    numerics = numerics_of(recipe, runner.loop_profile) if runner.loop_profile else "exact"
    until = runner.elapsed() + SHARE_MEASURED * max(0.0, budget - runner.elapsed())
    pairs: list[Pair] = []
    with suppress(TrialFailed), runner.ledger.spent("measure"):
        for pairs in final_ab.pairs(
            runner,
            Recipe() if sources else recipe,
            until=until,
            end=budget,
            noise=noise,
            sources=sources,
        ):
            finished.measured = (
                final_ab.measured([pair.baseline for pair in pairs], noise),
                final_ab.measured([pair.final for pair in pairs], noise),
            )
            finished.speedup = final_ab.speedup(pairs, noise)
    finished.convergence = final_ab.trains_as_well(pairs, numerics)
    return pairs


def _gate_of_all(runner: TrialRunner, found: SearchResult) -> Gate:
    """Of the whole set; the laboratory remembers it when the last change that was kept had the same set."""
    numerics = numerics_of(found.recipe, found.before)
    try:
        return runner.gate(Recipe(), found.recipe, numerics)
    except TrialFailed as failed:
        return Gate(word="undecided", reason=failed.why)
