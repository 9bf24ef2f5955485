"""Pairs of trials in fresh processes: how long they are timed, what they cost, what else they show."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from laptime.records.tuning import Convergence
from laptime.tuning.gates import verdict
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.script.trial_runner import (
    SETTLED,
    START,
    TimedTrial,
    TrialAccounting,
    TrialPair,
    settled,
)
from laptime.tuning.session.afresh import FinalCost, Visited

LONG, LONG_SHARE = 4.0, 1 / 60
"""Seconds of timed steps in a process, about, and their share of the budget, at most."""
SAME_LOSS = 1e-3
"""Largest difference of two losses that are called the same, as a share of their size."""
GATE_TRIALS, MORE_GATE_TRIALS = 4, 2
"""Trials of the first gate, about: the script twice, what rounding does to it, the change; of a later one."""
CAPTURED = 4
"""Steps of a trial of a gate, about."""
TRACED_STEPS = 1
"""Steps of each side that a profile has."""
PROFILING = 5.0
"""Seconds that tracing a side and reading its trace take beside its steps, about."""


def visited(side: TimedTrial) -> Visited:
    """A trial as one side of a pair whose gain is measured."""
    return Visited(side.per_sample, side.seconds, 1.0 / side.per_sample, side.result.peak)


def timed_seconds(budget: float) -> float:
    """Seconds of timed steps in a process of a session with this budget, about."""
    return min(LONG, LONG_SHARE * budget)


def cost(start: float, step: float, budget: float) -> float:
    """Seconds of one side, about: to the end of its first step, steps that do not count, those that do."""
    return start + settled(step, SETTLED) * step + max(2 * step, timed_seconds(budget))


def final_cost(
    accounting: TrialAccounting,
    script: LoopProfile,
    *,
    budget: float,
    step: float,
    changes: Iterable[str] = (),
) -> FinalCost:
    """What follows the search if it ended now: with the gate of one more change.

    Args:
        accounting: of the session. script: the loop profile of the script as it is. step: the final set's
            seconds a step. changes: labels of the final set.
    """
    start = accounting.first_step or START  # these are fresh interpreters
    compiling = sum(accounting.compiled_last.get(label, 0.0) for label in changes)
    baseline = cost(start, script.step, budget) + accounting.ending
    final = cost(start, step, budget) + accounting.ending + compiling
    profiles = sum(start + (3 + 2 * TRACED_STEPS) * each + PROFILING for each in (script.step, step))
    return FinalCost(
        gate=_gate_seconds(accounting, script) + compiling,
        pair=baseline + final,
        check=final,
        record=profiles + compiling,
    )


def _gate_seconds(accounting: TrialAccounting, script: LoopProfile) -> float:
    """Seconds of the next gate: of one after others, what their trials took."""
    if accounting.gate_trial is not None:
        return MORE_GATE_TRIALS * accounting.gate_trial
    start = accounting.forked_step or accounting.first_step or START
    return GATE_TRIALS * (start + CAPTURED * script.step + accounting.ending)


def convergence_of(pairs: list[TrialPair], numerics: str) -> Convergence:
    """A free, short look at convergence: the losses of the pairs, which share their seeds and data."""
    if numerics == "exact" or not pairs:
        return Convergence()
    before = [pair.baseline.losses for pair in pairs]
    allowed = verdict.margin(before)  # fixed before the other side is looked at
    return verdict.judged(before, [pair.final.losses for pair in pairs], allowed)


def same_losses(pairs: list[TrialPair], recipe: list[TimedTrial]) -> bool | None:
    """Whether the patched script's losses are those of the recipe, seed by seed; None: not comparable."""
    losses = [
        (patched, original)
        for pair, side in zip(pairs, recipe, strict=False)
        for patched, original in zip(pair.final.losses, side.losses, strict=False)
    ]
    if not losses:
        return None
    scale = mean(abs(original) for _, original in losses) or 1.0
    return all(abs(patched - original) <= SAME_LOSS * scale for patched, original in losses)
