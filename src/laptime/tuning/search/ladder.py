"""The whole search: diagnose, rank, race, gate, keep or drop, diagnose anew, leave one out.

    diagnose ── offered ── best promise ── race ── gate ── kept ── diagnose ...
                               │            │       └── failed: recorded, next
                               │            └── slower, same, unclear, crashed: recorded, next
                               └── none left: what was rejected alone is raced together, once or twice
                                   no time, or nothing more: leave one out, and the rest is `not tried`

Every rung is told as it is decided. One that is changed later (replaced by a better option, dropped by
leave-one-out) is told again, with the same name, options and ratios; the last telling counts. The list of
what was told, in order, is what `search` takes as `done` to go on after a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from msgspec import structs

from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search import ranking
from laptime.tuning.search.bundle import bundled, promise
from laptime.tuning.search.evaluator import Candidate, Evaluator
from laptime.tuning.search.leave_one_out import leave_one_out
from laptime.tuning.search.race import FAST_ALPHA, LONGEST, looks_for
from laptime.tuning.search.replay import replay
from laptime.tuning.search.rules import Rules
from laptime.tuning.search.session import LEAST_ROUNDS, Session, is_control
from laptime.tuning.search.space import Climb

BUNDLES = 3
"""How often what was rejected alone is raced together, at most: when it wins, something new may show."""

HIDES = 0.02
"""Share of the step from which waiting for data can hide what a change does to the rest."""

__all__ = ["Found", "Rules", "planned", "search"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to.

    Attributes:
        recipe: the final set. kept: its candidates, in the recipe's order.
        ladder: rungs in the order of trying, the `not tried` ones last; each once, as it ended.
        before, after: loop profiles of the script as it is and under the final set, as far as diagnosed.
        control: the rung of `identity`; None when it was not offered or there was no time.
        margin: share below which nothing was claimed; wider than asked when the control came out different.
        noise: standard deviation of a round. detectable: smallest saving that races found in half of cases.
        ruled_out: names of the catalogue that were no candidates, with the reason.
        ended: complete; budget: something was not tried, or not left out, for want of time.
        races: how many, the control's and leave-one-out's not among them.
    """

    recipe: Recipe
    kept: tuple[Candidate, ...] = ()
    ladder: list[Rung] = field(default_factory=list)
    before: LoopProfile
    after: LoopProfile
    control: Rung | None = None
    margin: float
    noise: float
    detectable: float
    ruled_out: dict[str, str] = field(default_factory=dict)
    ended: Literal["complete", "budget"] = "complete"
    races: int = 0


def search(
    evaluator: Evaluator,
    rules: Rules,
    heard: Callable[[Rung], None] = lambda rung: None,
    *,
    done: Sequence[Rung] = (),
    trying: Callable[[Candidate], None] = lambda candidate: None,
    diagnosed: Callable[[Recipe, LoopProfile], None] = lambda recipe, loop_profile: None,
) -> Found:
    """Find the changes that make the script faster (or smaller) and keep it the same training.

    Args:
        heard: is told every rung as it is decided. trying: what is raced now. diagnosed: every diagnosis.
        done: what an earlier session told, in order; it is taken as it is, nothing of it is raced again.

    Raises:
        TrialFailed: the script as it is does not run.
    """
    session = Session(evaluator, rules, heard, trying, diagnosed)
    session.begin()
    replay(session, done)
    _try_all(session)
    before_leaving = session.recipe
    complete = leave_one_out(session)
    if session.recipe != before_leaving:
        session.again()
    hurried = _rest(session)
    told = {rung.name for rung in session.rungs}
    return Found(
        recipe=session.recipe,
        kept=tuple(session.kept[change.name] for change in session.recipe),
        ladder=session.rungs,
        before=session.script,
        after=session.loop_profile,
        control=session.control,
        margin=session.margin,
        noise=session.noise,
        detectable=_detectable(session, rules.looks or LONGEST),
        ruled_out={name: why for name, why in session.ruled_out.items() if name not in told},
        ended="budget" if hurried or session.hurried or not complete else "complete",
        races=session.races,
    )


def _try_all(session: Session) -> None:
    """Everything that may help, one by one; then, or when there is no time for that, together."""
    least = _detectable(session, LONGEST)
    crowded = False
    for _ in range(BUNDLES):
        while (candidate := _next(session)) is not None:
            if not crowded and _crowded(session):
                crowded = True
                bundled(session, least, untried=True)
                continue
            if promise(session, least) > ranking.promise(candidate):
                bundled(session, least)
                continue
            _climb(session, candidate)
        if not bundled(session, least):
            break


def _crowded(session: Session) -> bool:
    """Half of the time is gone, and the rest is not enough for what is still to be raced.

    Never with --certify: what is kept there has been seen to help by itself.
    """
    if session.rules.certify:
        return False
    now, until = session.evaluator.elapsed(), session.try_until
    waiting = [each for each in session.offers.values() if not _obstacle(session, each)]
    needed = sum(each.start + LEAST_ROUNDS * each.cost for each in waiting)
    together = LEAST_ROUNDS * max((each.cost for each in waiting), default=0.0)
    return now > until / 2 and now + needed + together > until


def _detectable(session: Session, looks: tuple[int, ...]) -> float:
    alpha = FAST_ALPHA / len(looks)
    return ranking.detectable(session.noise, looks[-1], alpha, session.margin)


def _next(session: Session) -> Candidate | None:
    """The best candidate that may be raced now."""
    offers = list(session.offers.values())
    for candidate in ranking.ranked([*offers, *(one for each in offers for one in _beside(session, each))]):
        if not _obstacle(session, candidate):
            return candidate
    return None


def _beside(session: Session, candidate: Candidate) -> list[Candidate]:
    """The options on both sides of one that is kept already."""
    line = ranking.line(candidate)
    if candidate.change not in session.recipe.changes:
        return []
    at = line.index(candidate.change)
    return [replace(candidate, change=change) for change in line[max(0, at - 1) : at + 2]]


def _obstacle(session: Session, candidate: Candidate) -> str:
    """Why it is not raced now; "" when nothing stands against it."""
    if not _open(session, candidate):
        return "was tried"
    lacking = ranking.missing(candidate, session.kept, session.loop_profile, session.script)
    if lacking:
        return f"needs {', '.join(lacking)}".replace("needs !", "not beside ").replace(", !", ", not beside ")
    if not is_control(candidate) and session.rules.goal == "throughput":
        saved = ranking.share(candidate, session.loop_profile.step)
        least = _detectable(session, session.rules.looks or LONGEST)
        if saved < least:
            return f"could save {saved:.1%} of a step at most; less than {least:.1%} is not seen here"
    return "budget" if _too_long(session, candidate) else ""


def _open(session: Session, candidate: Candidate) -> bool:
    """Not raced yet, or rejected at a much smaller share of the step, or owed a race against a rival."""
    change = candidate.change
    if change in session.recipe.changes:
        return False
    before = session.tried.get(change)
    if before is None:
        return True
    grown = ranking.share(candidate, session.loop_profile.step) / max(before.share, 0.01)
    revealed = before.waiting > HIDES and session.waiting < before.waiting / 2
    moved = session.loop_profile.bound != before.bound
    owed = not before.rivals.issuperset(ranking.rivals(candidate, session.kept, session.script))
    again = owed or revealed or grown >= session.rules.regrow or (moved and grown > 1)
    return again and not before.final and not is_control(candidate)


def _too_long(session: Session, candidate: Candidate) -> bool:
    looks = session.rules.looks or (3,)
    first = candidate.start + looks[0] * candidate.cost
    return session.evaluator.elapsed() + first > session.try_until


def _climb(session: Session, candidate: Candidate) -> None:
    """Race a candidate and, where it has a space, the options beside it; then look where time goes now."""
    before = session.recipe
    left = candidate.bound
    climb = Climb(ranking.line(candidate), candidate.change, session.rules.climb)
    for change in climb:
        one = _option(session, candidate, change, left)
        if one is None or _obstacle(session, one):
            continue
        step = session.loop_profile.step
        rung = session.attempt(one)
        if rung.kept and rung.speedup:
            left = max(0.0, left - step * (1 - 1 / rung.speedup))
        climb.told(change, rung.verdict, kept=rung.kept)
    if session.recipe != before:
        session.again()


def _option(session: Session, candidate: Candidate, change: Change, left: float) -> Candidate | None:
    """The candidate with another option of its line; None when that was raced already.

    Args:
        left: seconds of its bound that options before it have not saved already.
    """
    one = replace(candidate, change=change, bound=left)
    return one if _open(session, one) else None


def _rest(session: Session) -> bool:
    """Rungs for what was not tried, with the reason; whether time was a reason."""
    hurried = False
    for candidate in ranking.ranked(session.offers.values()):
        why = _obstacle(session, candidate)
        if candidate.change in session.tried or why == "was tried":
            continue
        hurried = hurried or why in ("", "budget")
        _not_tried(session, candidate, "budget: no time was left" if why in ("", "budget") else why)
    told = {rung.name for rung in session.rungs}
    for name, candidate in session.known.items():
        if name not in told and name not in session.ruled_out:
            _not_tried(session, candidate, f"has nothing to offer beside {session.recipe}")
    return hurried


def _not_tried(session: Session, candidate: Candidate, why: str) -> None:
    rung = structs.replace(session.rung(candidate), reason=why)
    session.rungs.append(rung)
    session.heard(rung)


def planned(
    evaluator: Evaluator, loop_profile: LoopProfile, rules: Rules | None = None, recipe: Recipe | None = None
) -> list[tuple[Candidate, float]]:
    """What would be tried and how long each would take, about, in this order; nothing is run.

    A line of options counts as two races. What the machine could not show is not among them; what the budget
    does not reach is, after what it does.
    """
    rules = rules or Rules()
    recipe = recipe or Recipe()
    session = Session(evaluator, rules, _deaf, _deaf, lambda one, other: None)
    session.recipe, session.script, session.loop_profile = recipe, loop_profile, loop_profile
    session.noise, session.margin = loop_profile.noise, rules.margin
    offered = ranking.ranked(evaluator.offered(loop_profile, recipe).candidates)
    session.offers = {each.change: each for each in offered}
    plans = []
    for candidate in offered:
        if _obstacle(session, candidate) not in ("", "budget"):
            continue
        left = session.try_until / max(1, len(offered))
        looks = rules.looks or looks_for(candidate.cost, candidate.start, left, certify=rules.certify)
        races = min(2, len(ranking.line(candidate)))
        plans.append((candidate, races * (candidate.start + looks[1] * candidate.cost)))
    return plans


def _deaf(told: object) -> None:
    pass
