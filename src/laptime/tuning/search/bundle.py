"""What was rejected alone, tried together.

When loading and computing take about the same time and overlap, neither a faster loader nor a faster model
shows: each is hidden behind the other. Gains below what a race can see add up, too. So when nothing is left
to try, everything that may still save something and did not hurt is raced at once; leave-one-out then drops
what did not take part in the gain.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from laptime.records.tuning import Rung
from laptime.tuning.optimization import Recipe
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.race import LOOKS, race
from laptime.tuning.search.session import Session, gated, is_control, sentence
from laptime.tuning.search.space import WON

HARMLESS = 0.97
"""Speedup, as estimated, below which a rejected change is not taken along."""

HIDDEN = 0.5
"""How likely a rejected change is only hidden, of what its prior says."""

CLASSES = ("exact", "reassociated", "random", "precision", "algorithm")
"""Of numerics, from harmless to far-reaching."""


def bundled(session: Session, least: float, *, untried: bool = False) -> bool:
    """Race the rejected ones together; whether they were kept.

    Args:
        least: smallest share of the step that a change must be able to save, to be taken along.
        untried: take along what was not raced alone, too: there is no time for it.
    """
    members, target = _members(session, least, untried)
    if len(members) < 2 or _no_time(session, members):
        return False
    session.bundles.add(target)
    session.trying(members[0])
    began = session.evaluator.elapsed()
    costs = max(each.cost for each in members)
    numerics = max((each.numerics for each in members), key=CLASSES.index)
    first = replace(members[0], cost=costs, start=sum(each.start for each in members), numerics=numerics)
    terms = session.terms(first, session.try_until)
    session.races += 1
    rung = session.rung(members[0])
    try:
        rounds = session.evaluator.race(session.recipe, target, fresh=session.rules.certify)
        result = race(rounds, terms)
        rung = session.raced(rung, result, [])
        if result.word in WON:
            rung = gated(rung, session.evaluator.gate(session.recipe, target, numerics))
    except TrialFailed as failure:
        rung = structs.replace(rung, reason=failure.why)
        _told(session, members, f"together: {failure.why}")
        return False
    if not rung.kept:
        _told(session, members, f"together: {sentence(result)}" if not rung.gate.reason else rung.reason)
        return False
    _keep(session, members, target, structs.replace(rung, seconds=session.evaluator.elapsed() - began))
    session.again()
    return True


def promise(session: Session, least: float) -> float:
    """Expected seconds of a step saved per second of racing them together; 0 where that makes no sense.

    What was raced alone and stayed unclear may do nothing, or be hidden (HIDDEN). Where nothing runs beside
    anything else, nothing is.
    """
    if session.rules.certify or not ranking.is_concurrent(session.loop_profile):
        return 0.0
    members, target = _members(session, least, untried=False)
    if len(members) < 2 or target in session.bundles or _no_time(session, members):
        return 0.0
    seconds = sum(each.start for each in members) + LOOKS[0] * max(each.cost for each in members)
    return HIDDEN * sum(map(ranking.expected, members)) / max(seconds, 1e-9)


def _members(session: Session, least: float, untried: bool) -> tuple[list[Candidate], Recipe]:
    """What is raced together, and the recipe with all of it."""
    speedups = {rung.label: rung.speedup or 0.0 for rung in session.rungs if rung.verdict != "not tried"}
    target, kept = session.recipe, dict(session.kept)
    members: list[Candidate] = []
    for candidate in ranking.ranked(_rejected(session, least, untried)):
        seen = speedups.get(str(candidate.change), 1.0)
        if seen < HARMLESS or candidate.change.name in {each.change.name for each in members}:
            continue
        if ranking.rivals(candidate, kept, session.script):
            continue
        if ranking.missing(candidate, kept, session.loop_profile, session.script):
            continue
        kept[candidate.change.name] = candidate
        target = target.plus(candidate.change)
        members.append(candidate)
    return members, target


def _rejected(session: Session, least: float, untried: bool) -> list[Candidate]:
    """Candidates that were raced and not decided for good; of kept lines the option beyond the kept one."""
    found = []
    for candidate in session.kept.values():
        line = ranking.line(candidate)
        following = line[line.index(candidate.change) + 1 :][:1]
        found += [replace(candidate, change=change) for change in following]
    for candidate in session.offers.values():
        if candidate.change.name not in session.kept:
            known = ranking.share(candidate, session.loop_profile.step) >= least
            found += [candidate] if known else []
    tried = session.tried
    return [
        one
        for one in found
        if not is_control(one)
        and (untried or one.change.name in session.kept or one.change in tried)
        and not (one.change in tried and tried[one.change].final)
    ]


def _no_time(session: Session, members: list[Candidate]) -> bool:
    first = sum(each.start for each in members) + 4 * max(each.cost for each in members)
    return session.evaluator.elapsed() + first > session.try_until


def _told(session: Session, members: list[Candidate], reason: str) -> None:
    """Say in the rungs of the members how they did together."""
    for member in members:
        session.again_told(str(member.change), f"with {_others(member, members)} {reason}")


def _others(member: Candidate, members: list[Candidate]) -> str:
    """The other members, by name or, where they are many, by number."""
    labels = [str(each.change) for each in members if each is not member]
    return ", ".join(labels) if len(labels) < 5 else f"{len(labels)} others"


def _keep(session: Session, members: list[Candidate], target: Recipe, rung: Rung) -> None:
    """The first member's rung has the numbers; those of the others say where they belong."""
    for at, member in enumerate(members):
        others = _others(member, members)
        if at == 0:
            own = structs.replace(rung, reason=f"together with {others}: {rung.reason}")
        else:
            own = structs.replace(
                session.rung(member),
                verdict=rung.verdict,
                gate=rung.gate,
                kept=True,
                reason=f"together with {others}, see {members[0].change}",
            )
        session.mark(member, final=True)
        session.rungs.append(own)
        session.heard(own)
        partly = session.recipe.plus(member.change) if at + 1 < len(members) else target
        session.take(member, partly, [], own.speedup)
