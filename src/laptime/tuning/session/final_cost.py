"""The expected seconds of what follows the search of a script, from what its trials have cost so far.

The gate of the whole set, pairs of fresh processes, the run of the patched script, profiles of both, and what
is handed back. What a search keeps back of the budget comes from here, and so does the word that the rest of
the budget is too short for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laptime.tuning import final_reserve
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.session import final_ab
from laptime.tuning.session.trial_runner import START, TrialAccounting

GATE_TRIALS, MORE_GATE_TRIALS = 4, 2
"""Trials of the first gate, about: the script twice, what rounding does to it, the change; of a later one."""
CAPTURED = 4
"""Steps of a trial of a gate, about."""
TRACED_STEPS = 1
"""Steps of each side that a profile has."""
PROFILING = 5.0
"""Seconds that tracing a side and reading its trace take beside its steps, about."""
HAND_BACK = 2.0
"""Seconds that the patch, the recipe's file and the end of the session take, about."""


@dataclass(frozen=True, kw_only=True)
class FinalCost:
    """Seconds of what follows a search.

    Attributes:
        gate: of the set that is handed back. pair: the script and the final set, each in a fresh process.
        check: the recipe once more, beside the patched script. profiles: of both. hand_back: all files.
    """

    gate: float
    pair: float
    check: float
    profiles: float
    hand_back: float = HAND_BACK

    @property
    def usual(self) -> float:
        """A gate, the usual pairs, the check of the patch, both profiles."""
        return self.gate + final_ab.FEWEST * self.pair + self.check + self.profiles + self.hand_back

    @property
    def least(self) -> float:
        """A gate, and the fewest pairs that give an interval."""
        return self.gate + final_ab.LEAST * self.pair + self.hand_back

    @property
    def bare(self) -> float:
        """A gate: what a change needs to be handed back without a measured gain."""
        return self.gate + self.hand_back

    def kept_back(self, budget: float) -> float:
        """Seconds of a budget that a search leaves alone: the usual, and never less than the least."""
        return final_reserve.kept_back(self.usual, self.least, budget)


def final_cost(
    accounting: TrialAccounting,
    script: LoopProfile,
    *,
    budget: float,
    step: float,
    changes: Iterable[str] = (),
    is_gated: bool = False,
) -> FinalCost:
    """What follows, if the search ended now.

    Args:
        accounting: of the session. script: the loop profile of the script as it is. step: the final set's
            seconds a step. changes: labels of the final set. is_gated: its gate is known.
    """
    start = accounting.first_step or START  # these are fresh interpreters
    compiling = sum(accounting.compiled_last.get(label, 0.0) for label in changes)
    baseline = final_ab.cost(start, script.step, budget) + accounting.ending
    final = final_ab.cost(start, step, budget) + accounting.ending + compiling
    profiles = sum(start + (3 + 2 * TRACED_STEPS) * each + PROFILING for each in (script.step, step))
    return FinalCost(
        gate=0.0 if is_gated else gate_seconds(accounting, script) + compiling,
        pair=baseline + final,
        check=final,
        profiles=profiles + compiling,
    )


def gate_seconds(accounting: TrialAccounting, script: LoopProfile) -> float:
    """Seconds of the next gate: of one after others, what their trials took."""
    if accounting.gate_trial is not None:
        return MORE_GATE_TRIALS * accounting.gate_trial
    start = accounting.forked_step or accounting.first_step or START
    return GATE_TRIALS * (start + CAPTURED * script.step + accounting.ending)
