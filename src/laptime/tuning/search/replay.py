"""Rungs of a killed session are taken over, so that `--resume` goes on where it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laptime.records.tuning import Rung
from laptime.tuning.optimization import Change
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.space import WON
from laptime.tuning.search.state import SearchState, is_control


def replay(state: SearchState, rungs: Sequence[Rung]) -> None:
    """Bring a search to the state in which these rungs were reported; nothing is raced."""
    adopted = False
    on_rung, state.on_rung = state.on_rung, lambda rung: None  # all of them were reported before
    for rung in rungs:
        if rung.verdict in ("not tried", "suggested"):
            continue
        at = _position(state.rungs, rung)
        if at is not None:
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


def _position(rungs: Sequence[Rung], rung: Rung) -> int | None:
    """Where an earlier report of the same race is: same change, same rounds."""
    race = (rung.name, rung.options, rung.ratios, rung.bound)
    return next(
        (at for at, one in enumerate(rungs) if (one.name, one.options, one.ratios, one.bound) == race), None
    )


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
    state.rungs.append(rung)
    if is_control(candidate):
        state.control = rung
        state.calibrate(rung)
        return
    state.races += 1
    if rung.kept:
        replaced = ranking.rivals(candidate, state.adopted, state.script)
        target = ranking.joined(candidate, state.recipe, replaced)
        state.adopt(candidate, target, replaced, rung.speedup)
