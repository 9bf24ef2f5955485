"""After the search: the gain measured afresh, the whole set gated, the patch made, verified and measured."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from laptime.analysis.tuned import CONTROL
from laptime.instrument.settings import Settings
from laptime.kit.errors import LaptimeError
from laptime.kit.units import show
from laptime.launch.script import execute
from laptime.records.profile import Profile
from laptime.records.run import IN_MEMORY
from laptime.records.shortfall import Shortfall
from laptime.records.tuning import Gate, GateWord
from laptime.tuning.candidates import numerics_of
from laptime.tuning.final_reserve import CAUTION
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import final_ab, patching, suggesting
from laptime.tuning.session.diagnosis_record import is_diagnosed
from laptime.tuning.session.final_cost import TRACED_STEPS, FinalCost, final_cost
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import TrialPair, TrialRunner
from laptime.tuning.session.tuning_record import FinalResults
from laptime.verbs import trace
from laptime.verbs.profile import reconcile


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
        results.set(shortfall=_shortfall_of_races(evaluator, search, request.budget))
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
        step=search.after.step,
        sources=sources if is_whole else None,
    )
    cost = _cost(evaluator, search.recipe, search.after.step, request.budget)
    if patch is not None and sources:
        say("running the patched script")
        needed = cost.check if is_whole else patching.PAIRS * cost.pair
        is_time = evaluator.elapsed() + needed <= request.budget
        patch.verify(pairs, sources, is_whole=is_whole, is_time=is_time)
        # Without time for it the shares of the diagnosis stay.
        if evaluator.elapsed() + cost.profiles <= request.budget:
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


def measure(
    evaluator: TrialEvaluator,
    recipe: Recipe,
    results: FinalResults,
    *,
    budget: float,
    noise: float,
    step: float,
    sources: dict[str, str] | None = None,
) -> list[TrialPair]:
    """Measure baseline and final in fresh processes; `results` is complete after every pair.

    Where the budget is too short for the fewest pairs, none is begun and `results` says what is lacking.

    Args:
        noise: standard deviation of a round of the script against itself; 0: unknown.
        step: the final set's seconds a step, as far as they are known.
        sources: the patched files, which have all of the recipe: they are the final side.
    """
    numerics = numerics_of(recipe, evaluator.loop_profile) if evaluator.loop_profile else "exact"
    cost, began = _cost(evaluator, recipe, step, budget), evaluator.elapsed()
    pairs: list[TrialPair] = []
    with suppress(TrialFailed), evaluator.runner.accounting.spent_on("measure"):
        for pairs in final_ab.pairs(
            evaluator.runner,
            Recipe() if sources else recipe,
            until=budget - cost.hand_back - cost.check - cost.profiles,
            end=budget - cost.hand_back,
            budget=budget,
            noise=noise,
            expected=cost.pair,
            sources=sources,
        ):
            results.set(
                baseline=final_ab.measured([pair.baseline for pair in pairs], noise),
                final=final_ab.measured([pair.final for pair in pairs], noise),
                speedup=final_ab.speedup(pairs, noise),
            )
    results.set(convergence=final_ab.convergence_of(pairs, numerics))
    if len(pairs) < final_ab.LEAST and evaluator.elapsed() + cost.pair > budget - cost.hand_back:
        results.set(shortfall=shortfall_of_pairs(cost, began, budget))
    return pairs


def shortfall_of_pairs(cost: FinalCost, began: float, budget: float) -> Shortfall:
    """What measuring the gain afresh lacked, if it began at that second of the session."""
    needs, left = final_ab.LEAST * cost.pair + cost.hand_back, max(0.0, budget - began)
    return shortfall("measurement", "the gain was not measured afresh", needs, began, left)


def _shortfall_of_races(evaluator: TrialEvaluator, search: SearchResult, budget: float) -> Shortfall | None:
    """What the first race lacked; None where one was run, or nothing was worth one."""
    if not search.shortest or any(rung.rounds for rung in search.ladder if rung.name != CONTROL):
        return None
    cost, began = _cost(evaluator, search.recipe, search.after.step, budget), evaluator.elapsed()
    needs, left = search.shortest + cost.bare, budget - began
    more = final_ab.LEAST * cost.pair
    return shortfall("race", "no change could be tried", needs, began, max(0.0, left), more)


def shortfall(
    what: Literal["race", "measurement"],
    lead: str,
    needs: float,
    began: float,
    left: float,
    more: float = 0.0,
) -> Shortfall:
    """A record of what the budget was too short for, and the budget that would do, in half minutes.

    Args:
        needs: seconds, from second `began` on, when `left` were left. more: seconds of what follows it.
    """
    enough = 30.0 * math.ceil((began + CAUTION * (needs + more)) / 30.0)
    sentence = (
        f"{lead}: it takes about {show(needs, 's')}, and {show(left, 's')} were left; "
        f"a budget of about {enough:.0f} s would do"
    )
    return Shortfall(what=what, needs=needs, left=left, budget=enough, sentence=sentence)


def _cost(evaluator: TrialEvaluator, recipe: Recipe, step: float, budget: float) -> FinalCost:
    return final_cost(
        evaluator.runner.accounting,
        evaluator.loop_profile or LoopProfile(),
        budget=budget,
        step=step,
        changes=map(str, recipe),
        is_gated=recipe in evaluator.gates,
    )


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
