"""What an earlier session told is taken over, so that `--resume` goes on where it ended."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.records.tuning import Rung
from laptime.tuning.optimization import Change
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.session import Session, is_control
from laptime.tuning.search.space import WON


def replay(session: Session, done: Sequence[Rung]) -> None:
    """Bring the session to the state in which these rungs were told; nothing is raced."""
    taken = False
    heard, session.heard = session.heard, lambda rung: None  # all this was told before
    for rung in done:
        if rung.verdict in ("not tried", "suggested"):
            continue
        at = _earlier(session.rungs, rung)
        if at is not None:
            session.rungs[at] = rung
            if rung.dropped and rung.name in session.kept:
                session.recipe = session.recipe.without(rung.name)
                session.kept.pop(rung.name)
            continue
        candidate = _candidate(session, rung)
        _take_over(session, candidate, rung)
        taken = taken or rung.kept
    session.heard = heard
    if taken:
        session.again()


def _earlier(rungs: Sequence[Rung], rung: Rung) -> int | None:
    """Where the same rung was told before: same change, same rounds."""
    for at, other in enumerate(rungs):
        if (other.name, other.options, other.ratios, other.bound) == (
            rung.name,
            rung.options,
            rung.ratios,
            rung.bound,
        ):
            return at
    return None


def _candidate(session: Session, rung: Rung) -> Candidate:
    """The candidate of that time: facts from the catalogue's offer, the bound as it was told."""
    if rung.kept and rung.name not in session.known:
        session.again()  # what was offered on top of the changes kept so far
    known = session.known.get(rung.name)
    change = Change(rung.name, rung.options)
    if known is None:
        return Candidate(change=change, numerics=rung.numerics, bound=rung.bound or 0.0)
    return Candidate(
        change=change,
        title=known.title,
        numerics=known.numerics,
        bound=rung.bound or 0.0,
        cost=known.cost,
        start=known.start,
        prior=known.prior,
        space=known.space,
        needs=known.needs,
        gives=known.gives,
        conflicts=known.conflicts,
        live=known.live,
    )


def _take_over(session: Session, candidate: Candidate, rung: Rung) -> None:
    final = rung.kept or rung.dropped or rung.verdict == "failed" or rung.verdict in WON
    session.mark(candidate, final=final)
    session.rungs.append(rung)
    if is_control(candidate):
        session.control = rung
        session.calibrate(rung)
        return
    session.races += 1
    if rung.kept:
        out = ranking.rivals(candidate, session.kept, session.script)
        target = ranking.joined(candidate, session.recipe, out)
        session.take(candidate, target, out, rung.speedup)
