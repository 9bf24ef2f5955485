"""The gains of changes beside each other: those rejected alone are raced together, those kept are left
out one by one.

When loading and computing take about the same time and overlap, neither a faster loader nor a faster model
shows: each is hidden behind the other. Gains below what a race can see add up, too. So when nothing is left
to try, everything that may still save something and did not hurt is raced at once; leave-one-out then drops
what did not take part in the gain. A change that was kept early may do nothing once others have come, and one
in many was kept by luck: the final set is raced against itself without each of them, the weakest first, on
rounds that had no part in choosing it."""

import math
from dataclasses import replace
from functools import reduce
from itertools import combinations

from msgspec import structs

from laptime.records.tuning import Rung
from laptime.tuning.optimization import Recipe, farthest
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.race import FAST_ALPHA, HOPELESS, LOOKS, RaceResult, make_rung, race, race_summary
from laptime.tuning.search.ranking import WON
from laptime.tuning.search.state import HARMLESS, SearchState, is_control

NAMED = 5  # sets that are named of those for which no time was left
HIDDEN = 0.5  # factor on the prior of a rejected change: how likely its gain is only hidden


def race_together(state: SearchState, least: float, *, untried: bool = False) -> bool:
    """Race the rejected changes together; whether they were kept. least: smallest share of the step that a
    change must be able to save, to be taken along. untried: take along what was not raced alone, too: there
    is no time for it."""
    members, target = _members(state, least, untried)
    return len(members) > 1 and not _no_time(state, members) and _race(state, members, target)


def _race(state: SearchState, members: list[Candidate], target: Recipe, among: int = 0) -> bool:
    """Race several changes as one; whether they were kept. among: so many sets that are tried like this."""
    state.on_race(members[0])
    began = state.evaluator.elapsed()
    bundle = replace(
        members[0],
        cost=max(member.cost for member in members),
        start=max(member.start for member in members),
        numerics=farthest(member.numerics for member in members),
    )
    terms = state.terms(bundle, state.try_until, among or None, among)
    state.races += 1
    rung = make_rung(members[0])
    try:
        rung, result = state.race_and_gate(rung, target, terms, bundle, [])
        reason = rung.reason if rung.gate.reason else f"together: {race_summary(result)}"
    except TrialFailed as failure:
        rung, reason = structs.replace(rung, verdict="failed", reason=failure.why), f"together: {failure.why}"
    rung = structs.replace(rung, seconds=state.evaluator.elapsed() - began)
    if rung.kept:
        _keep(state, members, target, rung)
        state.rediagnose()
    elif among:
        label = " + ".join(str(member.change) for member in members)
        state.report(structs.replace(rung, name=label, label=label, title="", options={}))
    else:
        for member in members:
            state.revise(str(member.change), reason=f"with {_others(member, members)} {reason}")
    return rung.kept


def race_again(state: SearchState) -> bool:
    """Race what lost or stayed open once more, beside what was kept since then, by twos and threes; whether a
    set was kept."""
    sets = find_unraced(state)
    sizes = [len(members) for members, _ in sets]
    for members, target in sets:
        among = sum(size <= len(members) for size in sizes)
        if _no_time(state, members):
            continue
        if len(members) > 1 and _race(state, members, target, among):
            return True
        if len(members) == 1:
            beside = replace(members[0], earlier=f"once more, beside {state.recipe}")
            if state.attempt(beside, among).kept:
                state.rediagnose()
                return True
    return False


def find_unraced(state: SearchState) -> list[tuple[list[Candidate], Recipe]]:
    """Sets of one to three changes, decided alone or beside less, that were never raced, with the recipe of
    each: small ones first, of these those whose changes do most, for better or worse."""
    if not state.settings.depend:
        return []
    done = {rung.label: min(abs(math.log(rung.speedup)), HOPELESS) for rung in state.rungs if rung.speedup}
    past = state.raced_before
    tried = [one for one in state.candidates.values() if one.change in past and not past[one.change].final]
    alone = sorted((one for one in tried if not is_control(one)), key=lambda one: str(one.change))
    sets = [
        ([*combination], reduce(Recipe.plus, (one.change for one in combination), state.recipe))
        for size in (1, 2, 3)
        for combination in combinations(alone, size)
        if len({one.change.name for one in combination}) == size
    ]
    sets.sort(key=lambda each: (len(each[0]), -sum(done.get(str(one.change), 0.0) for one in each[0])))
    return [(members, target) for members, target in sets if target.labels not in state.bundles]


def sets_in_words(state: SearchState, sets: list[tuple[list[Candidate], Recipe]]) -> str:
    """Name the sets of `left_out`, and say that no time was left for them."""
    named = [" + ".join(str(one.change) for one in members) for members, _ in sets[:NAMED]]
    more = f" and {len(sets) - NAMED} more" if len(sets) > NAMED else ""
    beside = f" beside {state.recipe}" if len(state.recipe) else ""
    return f"no time was left to try{beside} {', '.join(named)}{more}"


def promise(state: SearchState, least: float) -> float:
    """Expected seconds of a step saved per second of racing them together; 0 if that makes no sense.

    What was raced alone and stayed unclear may do nothing, or be hidden (HIDDEN). If nothing runs beside
    anything else, nothing is."""
    if state.settings.certify or not ranking.is_concurrent(state.loop_profile):
        return 0.0
    members, target = _members(state, least, untried=False)
    if len(members) < 2 or target.labels in state.bundles or _no_time(state, members):
        return 0.0
    seconds = max(member.start for member in members) + LOOKS[0] * max(member.cost for member in members)
    return HIDDEN * sum(map(ranking.expect_saving, members)) / max(seconds, 1e-9)


def _members(state: SearchState, least: float, untried: bool) -> tuple[list[Candidate], Recipe]:
    speedups = {rung.label: rung.speedup or 0.0 for rung in state.rungs if rung.verdict != "not tried"}
    lost = {change.name for change in state.raced_before if speedups.get(str(change), 1.0) < HARMLESS}
    target, adopted = state.recipe, dict(state.adopted)
    members: list[Candidate] = []
    # One that needs a process for each round may alone take what is left of the time.
    affordable = [one for one in _find_rejected(state, least, untried) if not _no_time(state, [one])]
    for candidate in ranking.rank(_without_slow_starts(state, affordable)):
        change = candidate.change
        if speedups.get(str(change), 1.0) < HARMLESS or change.name in {one.change.name for one in members}:
            continue
        is_new = change not in state.raced_before
        if is_new and (candidate.risky or change.name in lost):  # lost: another option of it was slower
            continue
        lacking = ranking.missing(candidate, adopted, state.loop_profile, state.script)
        if lacking or ranking.rivals(candidate, adopted, state.script):
            continue
        adopted[candidate.change.name] = candidate
        target = target.plus(candidate.change)
        members.append(candidate)
    return members, target


def _without_slow_starts(state: SearchState, candidates: list[Candidate]) -> list[Candidate]:
    """Leave out untried ones (compiling) that take longer to start than the race of all before them.

    They would take the time that is short, and if they are slower, hide what the others gain."""
    race = LOOKS[0] * max((one.cost for one in candidates), default=0.0)
    raced = [one for one in candidates if one.change in state.raced_before]
    untried = sorted((one for one in candidates if one not in raced), key=lambda one: one.start)
    longest = max((one.start for one in raced), default=untried[0].start if untried else 0.0)
    for one in untried:
        if one.start > longest + race:
            break
        longest = max(longest, one.start)
    return [one for one in candidates if one in raced or one.start <= longest]


def _find_rejected(state: SearchState, least: float, untried: bool) -> list[Candidate]:
    """Candidates that were raced and not decided for good, and the option beyond each kept one of a line."""
    beyond = []
    for candidate in state.adopted.values():
        line = ranking.line(candidate)
        following = line[line.index(candidate.change) + 1 :][:1]
        beyond += [replace(candidate, change=change) for change in following]
    others = [
        candidate
        for candidate in state.candidates.values()
        if candidate.change.name not in state.adopted
        and ranking.share(candidate, state.loop_profile.step) >= least
    ]
    raced = state.raced_before
    return [
        one
        for one in (*beyond, *others)
        if not is_control(one)
        and (untried or one.change.name in state.adopted or one.change in raced)
        and not (one.change in raced and raced[one.change].final)
    ]


def _no_time(state: SearchState, members: list[Candidate]) -> bool:
    first = max(member.start for member in members) + 4 * max(member.cost for member in members)
    return state.evaluator.elapsed() + first > state.try_until


def _others(member: Candidate, members: list[Candidate]) -> str:
    labels = [str(other.change) for other in members if other is not member]
    return ", ".join(labels) if len(labels) < 5 else f"{len(labels)} others"


def _keep(state: SearchState, members: list[Candidate], target: Recipe, rung: Rung) -> None:
    """The first member's rung has the numbers; those of the others say where they belong."""
    for index, member in enumerate(members):
        others = _others(member, members)
        if index == 0:
            report = structs.replace(rung, reason=f"together with {others}: {rung.reason}")
        else:
            report = structs.replace(
                make_rung(member),
                verdict=rung.verdict,
                gate=rung.gate,
                kept=True,
                reason=f"together with {others}, see {members[0].change}",
            )
        state.mark_raced(member, final=True)
        state.report(report)
        partly = state.recipe.plus(member.change) if index + 1 < len(members) else target
        state.adopt(member, partly, [], report.speedup)


# Leave one out


CERTAIN = 1.1
"""Low end of a speedup's interval from which the race that kept the newest change is not repeated."""


def leave_one_out(state: SearchState) -> bool:
    """Drop kept changes whose removal does not cost more than the margin. Returns whether there was time for
    all of them."""
    if len(state.adopted) < 2:  # the final measurement is that race
        return True
    complete = True
    gain = {rung.name: rung.speedup or 1.0 for rung in state.rungs if rung.kept}
    weakest_first = sorted(state.adopted, key=lambda name: gain.get(name, 1.0))
    for index, name in enumerate(weakest_first):
        candidate = state.adopted[name]
        # Kept changes that need a fact which only this one gives.
        others = frozenset().union(*(other.gives for key, other in state.adopted.items() if key != name))
        only = candidate.gives - others - state.script.facts
        needed = [key for key, other in state.adopted.items() if key != name and other.needs & only]
        if needed:
            state.revise(name, kept=True, reason=f"not left out: {', '.join(needed)} needs it")
            continue
        # It was kept last, clearly, beside all that is kept: leaving it out is that race again.
        is_newest = name == list(state.adopted)[-1] and not any(rung.dropped for rung in state.rungs)
        if is_newest and state.low_end(name) > CERTAIN:
            state.revise(name, kept=True, reason="that race was beside all the others, and leaves no doubt")
            continue
        if state.evaluator.elapsed() + candidate.start + 3 * candidate.cost > state.leave_until:
            complete = False
            state.revise(name, kept=True, reason="no time was left to leave it out")
            continue
        stays, why = _without(state, candidate, waiting=len(weakest_first) - index)
        if not stays:
            state.recipe = state.recipe.without(name)
            state.adopted.pop(name)
        state.revise(name, kept=stays, dropped=not stays, reason=why)
    return complete


def _without(state: SearchState, candidate: Candidate, waiting: int) -> tuple[bool, str]:
    """Whether it stays, by the final set against itself without it, and why. `waiting`: races left."""
    rest = state.recipe.without(candidate.change.name)
    # Nothing is chosen here, so there is nothing to correct for.
    terms = replace(state.terms(candidate, state.leave_until, waiting), alpha=FAST_ALPHA)
    try:
        result = race(state.evaluator.race(rest, state.recipe, fresh=state.settings.certify), terms)
    except TrialFailed as failure:
        return True, f"the rest does not run without it ({failure.why})"
    return _judge(result, certify=state.settings.certify, margin=state.margin)


def _judge(result: RaceResult, *, certify: bool, margin: float) -> tuple[bool, str]:
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
