"""After the search: the gain measured afresh, the whole set gated, the patch made, verified and measured."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress

from laptime.instrument.settings import Settings
from laptime.kit.errors import LaptimeError
from laptime.launch.script import execute
from laptime.records.profile import Profile
from laptime.records.run import IN_MEMORY
from laptime.records.tuning import Gate, GateWord
from laptime.tuning.candidates import numerics_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import final_ab, patching, suggesting
from laptime.tuning.session.diagnosis_record import is_diagnosed
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import START, TrialPair, TrialRunner
from laptime.tuning.session.tuning_record import FinalResults
from laptime.verbs import trace
from laptime.verbs.profile import reconcile

MOST_RESERVED = 0.4
"""Share of the budget that is reserved at most: where everything is slow, something is still tried."""
SHARE_MEASURED = 0.6
"""Share of the time left after the search for measuring baseline and final; the patch gets the rest."""
GATE_TRIALS = 4
"""Trials of a first gate, about: the script twice, what rounding does to it, the change."""
CAPTURED = 4
"""Steps of a trial of the gate, about."""
TRACED_STEPS = 1
"""Steps of each side that a profile has."""


def finish(
    request: TuneRequest,
    evaluator: TrialEvaluator,
    search: SearchResult,
    results: FinalResults,
    say: Callable[[str], None],
) -> None:
    """Fill `results`, the most important first: what is interrupted has what came before."""
    results.set(breakdown_before=dict(search.before.shares))
    if not len(search.recipe):
        _suggest(request, evaluator, search, results, say)
        results.is_complete = True
        return
    if is_diagnosed(search, evaluator):
        results.set(breakdown_after=dict(search.after.shares))
    say("the gate of the whole set")
    # Known already when the last kept change was gated with the same set.
    results.set(gate=gate_of(evaluator, search.recipe, search.before, "undecided"))
    patch, sources = _patch_of(request, evaluator, search, results), {}
    if patch is not None:
        say("writing the patch")
        sources = patch.write()
    # Where the patch has every change, the patched script is measured, not our hooks.
    is_whole = bool(sources) and not results.tuning.patch.left_out
    say("measuring the gain in new processes")
    pairs = measure(
        evaluator,
        search.recipe,
        results,
        budget=request.budget,
        noise=search.noise,
        sources=sources if is_whole else None,
    )
    if patch is not None and sources:
        say("running the patched script")
        patch.verify(pairs, sources, is_whole=is_whole)
        needed = sum(_profile_cost(evaluator.runner, side.step) for side in (search.before, search.after))
        # Without time for it the shares of the diagnosis stay.
        if evaluator.elapsed() + needed <= request.budget:
            say("profiling both")
            _profile_both(evaluator.runner, results, sources, request.timeout)
    if patch is not None:
        patch.write_recipe()
    _suggest(request, evaluator, search, results, say)
    results.is_complete = True


def hand_back(
    request: TuneRequest, evaluator: TrialEvaluator, search: SearchResult, results: FinalResults
) -> None:
    """After Ctrl-C in the search: the patch of what was kept until then. Nothing is run any more."""
    results.set(gate=evaluator.gates.get(search.recipe, Gate()))
    patch = _patch_of(request, evaluator, search, results)
    if patch is None:
        return
    patch.write()
    if not results.tuning.patch.sentence:
        sentence = "interrupted: its changes were raced and gated, the patched script did not run"
        results.set_patch(sentence=sentence)
    patch.write_recipe()


def _patch_of(
    request: TuneRequest, evaluator: TrialEvaluator, search: SearchResult, results: FinalResults
) -> patching.PatchWriter | None:
    """The patch of a session; None where there is no script that could be patched."""
    if evaluator.runner.program.subject.source == IN_MEMORY:
        return None
    return patching.PatchWriter(request, evaluator, search, results)


def _suggest(
    request: TuneRequest,
    evaluator: TrialEvaluator,
    search: SearchResult,
    results: FinalResults,
    say: Callable[[str], None],
) -> None:
    """What is only suggested is run, too, before it is shown: with the time that is left."""
    say("running what is only suggested")
    results.suggested, diff = suggesting.suggestions(evaluator, search.before, end=request.budget)
    results.set_patch(suggestions=diff)


def reserve(evaluator: TrialEvaluator, loop_profile: LoopProfile, budget: float, step: float) -> float:
    """Share of the budget for `finish`, about: three pairs, the recipe once more, two profiles, a gate.

    Args:
        loop_profile: of the script as it is. step: the incumbent's seconds a step.
    """
    start = evaluator.runner.accounting.first_step or START  # these are fresh interpreters
    baseline, final = (final_ab.cost(start, each, budget) for each in (loop_profile.step, step))
    profiles = _profile_cost(evaluator.runner, loop_profile.step) + _profile_cost(evaluator.runner, step)
    return min(MOST_RESERVED, (final_ab.FEWEST * (baseline + final) + 2 * final + profiles) / budget)


def late_reserve(evaluator: TrialEvaluator, loop_profile: LoopProfile, budget: float) -> float:
    """Share of the budget that a change needs which is kept last: its gate, and the fewest pairs.

    Args:
        loop_profile: of the script as it is.
    """
    accounting = evaluator.runner.accounting
    start = accounting.first_step or START
    pairs = 2 * final_ab.LEAST * final_ab.cost(start, loop_profile.step, budget)
    gate = GATE_TRIALS * ((accounting.forked_step or start) + CAPTURED * loop_profile.step)
    return min(MOST_RESERVED, (pairs + gate) / budget)


def measure(
    evaluator: TrialEvaluator,
    recipe: Recipe,
    results: FinalResults,
    *,
    budget: float,
    noise: float,
    sources: dict[str, str] | None = None,
) -> list[TrialPair]:
    """Measure baseline and final in fresh processes; `results` is complete after every pair.

    Args:
        noise: standard deviation of a round of the script against itself; 0: unknown.
        sources: the patched files, which have all of the recipe: they are the final side.
    """
    numerics = numerics_of(recipe, evaluator.loop_profile) if evaluator.loop_profile else "exact"
    until = evaluator.elapsed() + SHARE_MEASURED * max(0.0, budget - evaluator.elapsed())
    pairs: list[TrialPair] = []
    with suppress(TrialFailed), evaluator.runner.accounting.spent_on("measure"):
        for pairs in final_ab.pairs(
            evaluator.runner,
            Recipe() if sources else recipe,
            until=until,
            end=budget,
            noise=noise,
            sources=sources,
        ):
            results.set(
                baseline=final_ab.measured([pair.baseline for pair in pairs], noise),
                final=final_ab.measured([pair.final for pair in pairs], noise),
                speedup=final_ab.speedup(pairs, noise),
            )
    results.set(convergence=final_ab.convergence_of(pairs, numerics))
    return pairs


def gate_of(
    evaluator: TrialEvaluator, recipe: Recipe, loop_profile: LoopProfile, broken: GateWord, why: str = ""
) -> Gate:
    """The gate of a whole recipe; where it does not run, the word `broken` with the reason."""
    try:
        return evaluator.gate(Recipe(), recipe, numerics_of(recipe, loop_profile))
    except TrialFailed as failed:
        return Gate(word=broken, reason=why + failed.why)


# A profile of both sides


def _profile_both(
    runner: TrialRunner, results: FinalResults, sources: dict[str, str], timeout: float
) -> None:
    with runner.accounting.spent_on("profile"):
        before, after = (_step_parts(runner, each, timeout) for each in ({}, sources))
    if before and after:
        results.set(breakdown_before=before, breakdown_after=after)


def _profile_cost(runner: TrialRunner, step: float) -> float:
    """Seconds that one side takes, about: start, three steps that are not traced, those that are."""
    return (runner.accounting.first_step or START) + (3 + 2 * TRACED_STEPS) * step + 5.0


def _step_parts(runner: TrialRunner, sources: dict[str, str], timeout: float) -> dict[str, float]:
    """Seconds of a step by part, as `laptime trace` tells them; {} when there is no trace.

    Args:
        sources: files in place of the user's.
    """
    work = runner.folder / "profile"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    settings = Settings(
        folder=str(work), steps=TRACED_STEPS, warmup=1, wait=1, timed=1, stack=False, memory=False,
        primitives=False, quiet=True, sources=sources,
    )  # fmt: skip
    try:
        outcome = execute(
            runner.program,
            settings=settings,
            timeout=timeout,
            output_to_stderr=True,
            output=work / "output",
            variables=runner.variables,
        )
        observed = outcome.observed[0] if outcome.observed else None
        if observed is None or not observed.traces:
            return {}
        profile = reconcile.reconciled(trace.analyse([work / observed.traces[-1]]), observed)
    except LaptimeError:
        return {}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return _seconds(profile, on_device=bool(observed.devices))


def _seconds(profile: Profile, *, on_device: bool) -> dict[str, float]:
    """On an accelerator the trace's categories; on the CPU, where they are one, phases of untraced steps."""
    if not on_device and profile.reconciled is not None:
        return {name: value * 1e-9 for name, value in profile.reconciled.parts_ns.items()}
    parts, total = profile.overview.breakdown, profile.overview.breakdown.total_ns
    if not total:
        return {}
    scale = profile.overview.step_ns * 1e-9 / total
    by_part = {name.removesuffix("_ns"): getattr(parts, name) * scale for name in parts.__struct_fields__}
    return {name: seconds for name, seconds in by_part.items() if seconds > 0}
