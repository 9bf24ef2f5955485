"""The expected seconds of what follows the search of a model, from what its processes have taken so far.

The outputs of the whole set, pairs of fresh processes, what bounds a call, the folder that is handed back.
"""

from __future__ import annotations

from dataclasses import dataclass

from laptime.tuning import final_reserve
from laptime.tuning.inference import confirmation

HAND_BACK = 3.0
"""Seconds that copying the folder and the end of the session take, about."""


@dataclass(frozen=True, kw_only=True)
class FinalCost:
    """Seconds of what follows a search.

    Attributes:
        gate: outputs of the final set. pair: the model as it is and the final folder, in fresh processes.
        record: what bounds a call. hand_back: the folder.
    """

    gate: float
    pair: float
    record: float = 0.0
    hand_back: float = HAND_BACK

    @property
    def usual(self) -> float:
        """The gate, the usual pairs, the record."""
        return self.gate + confirmation.FEWEST * self.pair + self.record + self.hand_back

    @property
    def least(self) -> float:
        """The gate, and the fewest pairs that give an interval."""
        return self.gate + confirmation.LEAST * self.pair + self.hand_back

    def kept_back(self, budget: float) -> float:
        """Seconds of a budget that a search leaves alone: the usual, and never less than the least."""
        return final_reserve.kept_back(self.usual, self.least, budget)


def final_cost(
    ready: tuple[float, float], timed: tuple[float, float], *, record: float = 0.0, is_gated: bool = False
) -> FinalCost:
    """What follows, if the search ended now.

    Args:
        ready: seconds until a process of the model as it is, and of the final folder, can be called.
        timed: seconds of calls of each. record: of what bounds a call. is_gated: the outputs are known.
    """
    return FinalCost(
        gate=0.0 if is_gated else ready[1] + timed[1], pair=sum(ready) + sum(timed), record=record
    )
