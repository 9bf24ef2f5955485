"""Leave one out: what each kept change is worth beside the others; what is worth nothing is dropped.

A change that was kept early may do nothing once others have come, and one in many was kept by luck. The
final set is raced against itself without each of them, the weakest first, on rounds that had no part in
choosing it.
"""

from __future__ import annotations

from dataclasses import replace

from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.race import FAST_ALPHA, RaceResult, race
from laptime.tuning.search.rungs import race_summary
from laptime.tuning.search.space import WON
from laptime.tuning.search.state import SearchState

CERTAIN = 1.1
"""Low end of a speedup's interval from which the race that kept the newest change is not repeated."""


def leave_one_out(state: SearchState) -> bool:
    """Drop kept changes whose removal does not cost more than the margin.

    Returns:
        Whether there was time for all of them.
    """
    if len(state.adopted) < 2:  # the final measurement is that race
        return True
    complete = True
    gain = {rung.name: rung.speedup or 1.0 for rung in state.rungs if rung.kept}
    weakest_first = sorted(state.adopted, key=lambda name: gain.get(name, 1.0))
    for at, name in enumerate(weakest_first):
        candidate = state.adopted[name]
        needed = ranking.dependents(name, state.adopted, state.script)
        if needed:
            state.revise(name, kept=True, reason=f"not left out: {', '.join(needed)} needs it")
            continue
        if _is_certain(state, name):
            state.revise(name, kept=True, reason="that race was beside all the others, and leaves no doubt")
            continue
        if _no_time(state, candidate):
            complete = False
            state.revise(name, kept=True, reason="no time was left to leave it out")
            continue
        stays, why = _without(state, candidate, waiting=len(weakest_first) - at)
        if not stays:
            state.recipe = state.recipe.without(name)
            state.adopted.pop(name)
        state.revise(name, kept=stays, dropped=not stays, reason=why)
    return complete


def _is_certain(state: SearchState, name: str) -> bool:
    """Whether it was kept last, clearly, beside all that is kept: leaving it out is that race again."""
    is_newest = name == list(state.adopted)[-1] and not any(rung.dropped for rung in state.rungs)
    return is_newest and state.low_end(name) > CERTAIN


def _no_time(state: SearchState, candidate: Candidate) -> bool:
    until = state.leave_until
    return state.evaluator.elapsed() + candidate.start + 3 * candidate.cost > until


def _without(state: SearchState, candidate: Candidate, waiting: int) -> tuple[bool, str]:
    """Whether it stays, by the final set against itself without it, and why. `waiting`: races left."""
    rest = state.recipe.without(candidate.change.name)
    # Nothing is chosen here, so there is nothing to correct for.
    terms = replace(state.terms(candidate, state.leave_until, waiting), alpha=FAST_ALPHA)
    try:
        result = race(state.evaluator.race(rest, state.recipe, fresh=state.settings.certify), terms)
    except TrialFailed as failure:
        return True, f"the rest does not run without it ({failure.why})"
    return _judged(result, certify=state.settings.certify, margin=state.margin)


def _judged(result: RaceResult, *, certify: bool, margin: float) -> tuple[bool, str]:
    numbers = race_summary(result)
    if result.word in WON:
        return True, f"worth {numbers} when it alone is left out of the final set"
    if result.word != "unclear":
        return False, f"dropped: when it is left out, nothing is lost ({result.word}, {numbers})"
    if result.out_of_time:
        return True, f"leaving it out stayed unclear: {numbers}"
    mean = result.effect.mean if result.effect else 0.0
    if not certify and -mean > margin:
        return True, f"leaving it out stayed unclear, its value is probably {numbers}"
    return False, f"dropped: leaving it out does not show what it is worth ({numbers})"
