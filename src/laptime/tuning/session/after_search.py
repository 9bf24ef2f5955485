"""After the search: the gain measured afresh, the whole set gated, the patch made, verified and measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from laptime.records.tuning import Gate, Patched
from laptime.tuning.candidates import numerics_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import final_ab, patching
from laptime.tuning.session.final_results import FinalResults
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.step_parts import cost, step_parts
from laptime.tuning.session.trial_runner import Pair, TrialRunner
from laptime.tuning.session.tuning_record import is_diagnosed

MOST_RESERVED = 0.4
"""Share of the budget that is reserved at most: where everything is slow, something is still tried."""
SHARE_MEASURED = 0.6
"""Share of the time left after the search for measuring baseline and final; the patch gets the rest."""


def finish(
    request: TuneRequest,
    runner: TrialRunner,
    found: SearchResult,
    results: FinalResults,
    say: Callable[[str], None],
) -> None:
    """Fill `results`, the most important first: what is interrupted has what came before."""
    results.breakdown_before = dict(found.before.shares)
    results.suggested, suggestions = patching.suggestions(runner, found.before)
    results.patch = Patched(suggestions=suggestions)
    if not len(found.recipe):
        results.is_complete = True
        return
    results.breakdown_after = dict(found.after.shares) if is_diagnosed(found, runner) else {}
    say("the gate of the whole set")
    results.gate = _gate_of_all(runner, found)
    has_script = runner.program.subject.source != "memory"
    sources: dict[str, str] = {}
    if has_script:
        say("writing the patch")
        sources = patching.write(request, runner, found, results)
    # Where the patch has every change, the patched script is measured, not our hooks.
    is_whole = bool(sources) and not results.patch.left_out
    say("measuring the gain in new processes")
    pairs = measure(
        runner,
        found.recipe,
        results,
        budget=request.budget,
        noise=found.noise,
        sources=sources if is_whole else None,
    )
    if sources:
        say("running the patched script")
        patching.verify(request, runner, found, results, pairs, sources, is_whole=is_whole)
        _profile_both(request, runner, found, results, say, sources)
    if has_script:
        patching.write_recipe(request, runner, found.recipe, results)
    results.is_complete = True


def reserve(
    runner: TrialRunner, loop_profile: LoopProfile, budget: float, step: float | None = None
) -> float:
    """Share of the budget for `finish`, about: three pairs, the recipe once more, two profiles, a gate.

    Args:
        loop_profile: of the script as it is. step: the incumbent's seconds a step; None: as the script's.
    """
    step = loop_profile.step if step is None else step
    start = runner.costs(loop_profile).start
    baseline, final = final_ab.cost(start, loop_profile.step), final_ab.cost(start, step)
    profiles = cost(runner, loop_profile.step) + cost(runner, step)
    return min(MOST_RESERVED, (final_ab.FEWEST * (baseline + final) + 2 * final + profiles) / budget)


def _profile_both(
    request: TuneRequest,
    runner: TrialRunner,
    found: SearchResult,
    results: FinalResults,
    say: Callable[[str], None],
    sources: dict[str, str],
) -> None:
    """Profile both sides if there is time for it; otherwise the shares of the diagnosis stay."""
    needed = cost(runner, found.before.step) + cost(runner, found.after.step)
    if runner.elapsed() + needed > request.budget:
        return
    say("profiling both")
    with runner.ledger.spent("profile"):
        before, after = (step_parts(runner, files, request.timeout) for files in ({}, sources))
    if before and after:
        results.breakdown_before, results.breakdown_after = before, after


def measure(
    runner: TrialRunner,
    recipe: Recipe,
    results: FinalResults,
    *,
    budget: float,
    noise: float,
    sources: dict[str, str] | None = None,
) -> list[Pair]:
    """Measure baseline and final in fresh processes; `results` is complete after every pair.

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
            results.measured = (
                final_ab.measured([pair.baseline for pair in pairs], noise),
                final_ab.measured([pair.final for pair in pairs], noise),
            )
            results.speedup = final_ab.speedup(pairs, noise)
    results.convergence = final_ab.convergence_of(pairs, numerics)
    return pairs


def _gate_of_all(runner: TrialRunner, found: SearchResult) -> Gate:
    """The gate of the whole set; known already when the last kept change was gated with the same set."""
    numerics = numerics_of(found.recipe, found.before)
    try:
        return runner.gate(Recipe(), found.recipe, numerics)
    except TrialFailed as failed:
        return Gate(word="undecided", reason=failed.why)
