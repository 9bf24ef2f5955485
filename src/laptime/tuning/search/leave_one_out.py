"""Leave one out: what each kept change is still worth beside the others, and what is not worth keeping.

A change that was kept early may do nothing once others have come, and one in many was kept by luck. The
final set is raced against itself without each of them, the weakest first, on rounds that had no part in
choosing it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.race import FAST_ALPHA, RaceResult, race
from laptime.tuning.search.session import Session, sentence
from laptime.tuning.search.space import WON

CERTAIN = 1.1
"""Least speedup, by its interval, at which the race that kept the newest change is not run once more."""


class Verdict(NamedTuple):
    """Whether a change stays, and why."""

    stays: bool
    why: str


def leave_one_out(session: Session) -> bool:
    """Drop kept changes whose removal does not cost more than the margin.

    Returns:
        Whether there was time for all of them.
    """
    if len(session.kept) < 2:  # the final measurement is that race
        return True
    complete = True
    gain = {rung.name: rung.speedup or 1.0 for rung in session.rungs if rung.kept}
    weakest_first = sorted(session.kept, key=lambda own: gain.get(own, 1.0))
    for at, name in enumerate(weakest_first):
        candidate = session.kept[name]
        needed = ranking.dependents(name, session.kept, session.script)
        if needed:
            session.revise(name, kept=True, reason=f"not left out: {', '.join(needed)} needs it")
            continue
        if _is_certain(session, name):
            session.revise(name, kept=True, reason="that race was beside all the others, and leaves no doubt")
            continue
        if _no_time(session, candidate):
            complete = False
            session.revise(name, kept=True, reason="no time was left to leave it out")
            continue
        verdict = _without(session, candidate, waiting=len(weakest_first) - at)
        if not verdict.stays:
            session.recipe = session.recipe.without(name)
            session.kept.pop(name)
        session.revise(name, kept=verdict.stays, dropped=not verdict.stays, reason=verdict.why)
    return complete


def _is_certain(session: Session, name: str) -> bool:
    """Kept last, on top of all that is still kept: leaving it out is that race again, and it was clear."""
    if session.rules.certify or name != list(session.kept)[-1]:
        return False
    newest = next(rung for rung in reversed(session.rungs) if rung.kept and rung.name == name)
    dropped = any(rung.dropped for rung in session.rungs)
    return not dropped and newest.ci95 is not None and newest.ci95[0] > CERTAIN


def _no_time(session: Session, candidate: Candidate) -> bool:
    until = session.leave_until
    return session.evaluator.elapsed() + candidate.start + 3 * candidate.cost > until


def _without(session: Session, candidate: Candidate, waiting: int) -> Verdict:
    """What the change is worth now: the final set against itself without it. `waiting`: races left."""
    rest = session.recipe.without(candidate.change.name)
    terms = session.terms(candidate, session.leave_until, waiting)
    # Nothing is chosen here, so there is nothing to correct for.
    terms = replace(terms, alpha=FAST_ALPHA)
    try:
        rounds = session.evaluator.race(rest, session.recipe, fresh=session.rules.certify)
        result = race(rounds, terms)
    except TrialFailed as failure:
        return Verdict(True, f"the rest does not run without it ({failure.why})")
    return _judged(result, certify=session.rules.certify, margin=session.margin)


def _judged(result: RaceResult, *, certify: bool, margin: float) -> Verdict:
    numbers = sentence(result)
    if result.word in WON:
        return Verdict(True, f"worth {numbers} when it alone is left out of the final set")
    if result.word != "unclear":
        return Verdict(False, f"dropped: when it is left out, nothing is lost ({result.word}, {numbers})")
    if result.hurried:
        return Verdict(True, f"leaving it out stayed unclear: {numbers}")
    mean = result.effect.mean if result.effect else 0.0
    if not certify and -mean > margin:
        return Verdict(True, f"leaving it out stayed unclear, its value is probably {numbers}")
    return Verdict(False, f"dropped: leaving it out does not show what it is worth ({numbers})")
