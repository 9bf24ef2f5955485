"""The whole search: diagnose, rank, race, gate, keep or drop, diagnose again, leave one out.

    diagnose ── candidates ── best promise ── race ── gate ── kept ── diagnose ...
                               │               │       └── failed: recorded, next
                               │               └── slower, same, unclear, crashed: recorded, next
                               └── none left: what was rejected alone is raced together, once or twice
                                   no time, or nothing more: leave one out, and the rest is `not tried`

Every rung is reported when it is decided. One that changes later (replaced by a better option, dropped by
leave-one-out) is reported again, with the same name, options and ratios; the last report counts. The list of
the reports, in order, is what `search` takes as `earlier` to go on after a kill (`replay`)."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec import structs

from laptime.kit.text import count
from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search import ranking, together
from laptime.tuning.search.evaluator import Candidate, Evaluator
from laptime.tuning.search.race import FAST_ALPHA, LONGEST, looks_for, make_rung
from laptime.tuning.search.ranking import WON, Climb
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.search.state import LEAST_ROUNDS, SearchState, is_control

BUNDLES = 3
"""How often what was rejected alone is raced together, at most: when it wins, something new may show."""
CONTROL_MOST = 0.1
"""Share of the budget that the fewest rounds of the control may take; the diagnosis tells the noise, too. A
control that takes more waits until something faster is kept: its rounds are shorter then."""
HIDES = 0.02  # share of the step from which waiting for data can hide what a change does to the rest


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    recipe: Recipe  # the final set
    # rungs in the order of trying, the `not tried` ones last; each once, as it ended
    ladder: list[Rung] = field(default_factory=list)
    # before, after: loop profiles of the script as it is and under the final set, as far as diagnosed
    before: LoopProfile
    after: LoopProfile
    noise: float  # standard deviation of a round
    # names of the catalogue that were no candidates, with the reason
    ruled_out: dict[str, str] = field(default_factory=dict)
    # complete; budget: something was not tried, or not left out, for lack of time
    ended: Literal["complete", "budget"] = "complete"
    why_ended: str = ""  # that in words
    shortest: float = 0.0  # seconds of the shortest race that there was no time for; 0: none


class SearchInterrupted(KeyboardInterrupt):
    """Ctrl-C in a search; `result` has the set that was kept so far, and the rungs that were decided."""

    def __init__(self, result: SearchResult) -> None:
        super().__init__()
        self.result = result


def search(
    evaluator: Evaluator,
    settings: SearchSettings,
    on_rung: Callable[[Rung], None] = lambda rung: None,
    *,
    earlier: Sequence[Rung] = (),
    on_race: Callable[[Candidate], None] = lambda candidate: None,
    on_diagnosis: Callable[[Recipe, LoopProfile], None] = lambda recipe, loop_profile: None,
) -> SearchResult:
    """Find the changes that make the script faster (or smaller) and keep it the same training.
    on_rung: gets every rung when it is decided. on_race: what is raced now. on_diagnosis: each diagnosis.
    earlier: rungs that a killed session has reported, in order; nothing of them is raced again.
    Raises TrialFailed: the script as it is does not run. SearchInterrupted: on Ctrl-C, once something was
    kept."""
    state = SearchState(evaluator, settings, on_rung, on_race, on_diagnosis)
    state.begin()
    try:
        replay(state, earlier)
        while True:
            _try_all(state)
            raced = state.recipe
            complete = together.leave_one_out(state)
            if state.recipe != raced:
                state.rediagnose()
            if len(state.recipe) or not len(raced):  # else the time that was kept back is free again
                break
    except KeyboardInterrupt as stop:
        if not len(state.recipe):
            raise
        raise SearchInterrupted(_result(state, is_complete=False)) from stop
    no_time, shortest = _report_untried(state)
    if sets := together.find_unraced(state):
        no_time = "; ".join(filter(None, (no_time, together.sets_in_words(state, sets))))
    elif not no_time and not complete:
        no_time = "no time was left to leave out everything that was kept"
    return replace(_result(state, is_complete=not no_time, why_ended=no_time), shortest=shortest)


def _result(state: SearchState, *, is_complete: bool, why_ended: str = "") -> SearchResult:
    if not why_ended and state.undecided:
        why_ended = f"a race ended before it could be decided: {state.undecided}"
    names = {rung.name for rung in state.rungs}
    broken = sum(rung.verdict == "failed" for rung in state.rungs)
    is_tried = not state.rungs or any(rung.verdict != "not tried" for rung in state.rungs)
    all_that = "all that may help was tried" if is_tried else "nothing was tried: each change says why"
    return SearchResult(
        recipe=state.recipe,
        ladder=state.rungs,
        before=state.script,
        after=state.loop_profile,
        noise=state.noise,
        ruled_out={name: why for name, why in state.ruled_out.items() if name not in names},
        ended="complete" if is_complete and not state.undecided else "budget",
        why_ended=why_ended or all_that + (f", {broken} did not run" if broken else ""),
    )


def _try_all(state: SearchState) -> None:
    """Everything that may help, one by one; then, or when there is no time for that, together."""
    least, crowded = _detectable(state), False
    for at in itertools.count():
        while (candidate := _next(state)) is not None:
            if not crowded and _is_crowded(state):
                crowded = True
                together.race_together(state, least, untried=True)
                continue
            if together.promise(state, least) > ranking.promise(candidate):
                together.race_together(state, least)
                continue
            _climb(state, candidate)
        if not (at < BUNDLES and together.race_together(state, least)) and not together.race_again(state):
            break


def _is_crowded(state: SearchState) -> bool:
    """Half of the time is gone, and the rest is not enough for what is still to be raced.

    Never with --certify: what is kept there has been shown to help by itself."""
    if state.settings.certify:
        return False
    now, until = state.evaluator.elapsed(), state.try_until
    waiting = [one for one in state.candidates.values() if not _obstacle(state, one)]
    needed = sum(one.start + LEAST_ROUNDS * one.cost for one in waiting)
    together = LEAST_ROUNDS * max((one.cost for one in waiting), default=0.0)
    return now > until / 2 and now + needed + together > until


def _detectable(state: SearchState, candidate: Candidate | None = None) -> float:
    """Smallest share that a usual race shows; of a candidate a longer one, if there is time for it."""
    looks = state.settings.looks or LONGEST
    if candidate is not None and not state.settings.looks:
        left = (state.try_until - state.evaluator.elapsed()) / 2
        affordable = looks_for(candidate.cost, candidate.start, left, noise=state.noise)
        looks = max(looks, affordable, key=lambda one: one[-1])
    return ranking.detectable(state.noise, looks[-1], FAST_ALPHA / len(looks), state.margin)


def _next(state: SearchState) -> Candidate | None:
    """The best candidate that may be raced now; without one, of the reserved time that is not needed."""
    candidate = _best(state)
    if candidate is None and not state.adopted and not state.is_late:
        state.is_late = True
        candidate = _best(state)
    if candidate is None and not state.adopted and not state.is_bare:
        state.is_bare = True
        candidate = _best(state)
    return candidate


def _best(state: SearchState) -> Candidate | None:
    candidates = list(state.candidates.values())
    beside = [option for one in candidates for option in _beside(state, one)]
    control_first = state.settings.certify
    for candidate in ranking.rank([*candidates, *beside], control_first=control_first):
        if not _obstacle(state, candidate):
            return candidate
    return None


def _beside(state: SearchState, candidate: Candidate) -> list[Candidate]:
    """The options on both sides of one that is kept."""
    line = ranking.line(candidate)
    if candidate.change not in state.recipe.changes:
        return []
    at = line.index(candidate.change)
    return [replace(candidate, change=change) for change in line[max(0, at - 1) : at + 2]]


def _first(state: SearchState, candidate: Candidate) -> float:
    """Seconds until its race can say anything."""
    return candidate.start + (state.settings.looks or (3,))[0] * candidate.cost


def _obstacle(state: SearchState, candidate: Candidate) -> str:
    """Say why it is not raced now; "" when nothing stands against it."""
    if not _open(state, candidate):
        return "was tried"
    lacking = ranking.missing(candidate, state.adopted, state.loop_profile, state.script)
    if lacking:
        return f"needs {', '.join(lacking)}".replace("needs !", "not beside ").replace(", !", ", not beside ")
    if not is_control(candidate) and state.settings.goal == "throughput":
        saved = ranking.share(candidate, state.loop_profile.step)
        least = _detectable(state, candidate)
        if saved < least:
            unit = state.settings.unit
            return f"could save {saved:.1%} of a {unit} at most; less than {least:.1%} is not seen here"
    first = _first(state, candidate)
    if is_control(candidate) and first > CONTROL_MOST * state.settings.budget:
        return f"would take {first:.0f} s of the {state.settings.budget:.0f} s"
    return "budget" if state.evaluator.elapsed() + first > state.try_until else ""


def _open(state: SearchState, candidate: Candidate) -> bool:
    """Not raced yet; or its share of the step has grown, a rival is new, there is time for a longer race."""
    change = candidate.change
    if change in state.recipe.changes:
        return False
    before = state.raced_before.get(change)
    if before is None:
        return True
    grown = ranking.share(candidate, state.loop_profile.step) / max(before.share, 0.01)
    revealed = before.waiting > HIDES and state.waiting < before.waiting / 2
    moved = state.loop_profile.bound != before.bound
    new_rival = not before.rivals.issuperset(ranking.rivals(candidate, state.adopted, state.script))
    longer = 0 < 2 * before.unclear_after <= state.terms(candidate, state.try_until).looks[-1]
    again = new_rival or revealed or longer or grown >= state.settings.regrow or (moved and grown > 1)
    return again and not before.final and not is_control(candidate)


def _climb(state: SearchState, candidate: Candidate) -> None:
    """Race a candidate and, if it has a space, the options beside it; then look where time goes now."""
    before = state.recipe
    left = candidate.bound  # what the options before have not saved of it
    climb = Climb(ranking.line(candidate), candidate.change, state.settings.climb)
    for change in climb:
        earlier = candidate.earlier if change == candidate.change else ""
        one = replace(candidate, change=change, bound=left, earlier=earlier)
        if _obstacle(state, one):
            continue
        step = state.loop_profile.step
        rung = state.attempt(one)
        if rung.kept and rung.speedup:
            left = max(0.0, left - step * (1 - 1 / rung.speedup))
        climb.record(change, rung.verdict, kept=rung.kept)
    if state.recipe != before:
        state.rediagnose()


def _report_untried(state: SearchState) -> tuple[str, float]:
    """Report what was not tried; why there was no time for some, and the seconds of their shortest race."""
    untried = []
    for candidate in ranking.rank(state.candidates.values()):
        why = _obstacle(state, candidate)
        if candidate.change not in state.raced_before and why != "was tried":
            untried.append((candidate, why if why != "budget" else ""))
    without_time = [candidate for candidate, why in untried if not why]
    shortest = min((_first(state, one) for one in without_time), default=0.0)
    no_time = _no_time_left(state, shortest)
    for candidate, why in untried:
        _not_tried(state, candidate, why or no_time)
    names = {rung.name for rung in state.rungs}
    for name, candidate in state.newest.items():
        if name not in names and name not in state.ruled_out:
            _not_tried(state, candidate, f"has nothing to offer beside {state.recipe}")
    if not without_time:
        return "", 0.0
    return f"{count(len(without_time), 'change')} not tried: {no_time.removeprefix('budget: ')}", shortest


def _no_time_left(state: SearchState, shortest: float) -> str:
    """Say why there was no time for a race, with what the shortest would have taken and what was left."""
    budget = state.settings.budget
    left = max(0.0, min(budget, state.try_until) - state.evaluator.elapsed())
    kept_back = min(budget, max(0.0, budget - state.leave_until))
    return (
        f"budget: a race takes at least {shortest:.0f} s, and {left:.0f} s were left "
        f"before the {kept_back:.0f} s that {state.settings.follows} take"
    )


def _not_tried(state: SearchState, candidate: Candidate, why: str) -> None:
    state.report(structs.replace(make_rung(candidate), reason=why))


def plan_races(
    evaluator: Evaluator, loop_profile: LoopProfile, settings: SearchSettings | None = None
) -> list[tuple[Candidate, float]]:
    """Return what would be tried on the script as it is, and about how many seconds each takes; run nothing.

    A line of options counts as two races. Changes whose gain the machine could not show are left out; those
    that the budget does not reach come last."""
    settings = settings or SearchSettings()
    usable = evaluator.candidates(loop_profile, Recipe()).usable
    in_order = (settings.in_order(one, loop_profile.step) for one in usable)
    candidates = ranking.rank(in_order, control_first=settings.certify)
    state = SearchState(
        evaluator,
        settings,
        script=loop_profile,
        loop_profile=loop_profile,
        candidates={candidate.change: candidate for candidate in candidates},
        noise=loop_profile.noise,
        margin=settings.margin,
    )
    plans = []
    for candidate in candidates:
        if _obstacle(state, candidate) not in ("", "budget"):
            continue
        left = state.try_until / max(1, len(candidates))
        looks = settings.looks or looks_for(candidate.cost, candidate.start, left, certify=settings.certify)
        races = min(2, len(ranking.line(candidate)))
        plans.append((candidate, races * (candidate.start + looks[1] * candidate.cost)))
    return plans


# Going on after a kill


def replay(state: SearchState, rungs: Sequence[Rung]) -> None:
    """Bring a search to the state in which these rungs were reported; nothing is raced."""
    adopted = False
    on_rung, state.on_rung = state.on_rung, lambda rung: None  # all of them were reported before
    for rung in rungs:
        if rung.verdict in ("not tried", "suggested"):
            continue
        race = _race_of(rung)
        at = next((index for index, one in enumerate(state.rungs) if _race_of(one) == race), None)
        if at is not None:  # reported before, of the same race
            state.rungs[at] = rung
            if rung.dropped and rung.name in state.adopted:
                state.recipe = state.recipe.without(rung.name)
                state.adopted.pop(rung.name)
            continue
        _take_over(state, _candidate(state, rung), rung)
        adopted = adopted or rung.kept
    state.on_rung = on_rung
    if adopted:
        state.rediagnose()


def _race_of(rung: Rung) -> Any:
    """Same change, same rounds."""
    return rung.name, rung.options, rung.ratios, rung.bound


def _candidate(state: SearchState, rung: Rung) -> Candidate:
    """The candidate as it was raced: facts from the catalogue, the bound from the rung."""
    if rung.kept and rung.name not in state.newest:
        state.rediagnose()  # candidates on top of the changes kept so far
    change, bound = Change(rung.name, rung.options), rung.bound or 0.0
    if rung.name in state.newest:
        return replace(state.newest[rung.name], change=change, bound=bound)
    return Candidate(change=change, numerics=rung.numerics, bound=bound)


def _take_over(state: SearchState, candidate: Candidate, rung: Rung) -> None:
    final = rung.kept or rung.dropped or rung.verdict == "failed" or rung.verdict in WON
    state.mark_raced(candidate, final=final)
    state.bundles.add(state.recipe.labels.union(rung.label.split(" + ")))
    state.rungs.append(rung)
    if is_control(candidate):
        state.calibrate(rung)
        return
    state.races += 1
    if rung.kept:
        replaced = ranking.rivals(candidate, state.adopted, state.script)
        target = ranking.join(candidate, state.recipe, replaced)
        state.adopt(candidate, target, replaced, rung.speedup)
