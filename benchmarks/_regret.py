"""How much worse is one setting than the best of many that were measured in the same rounds?

The best of many noisy figures is too good. So in each round the best is the one of the OTHER rounds, and the
setting is compared with it in this one: the regret of settings that are all the same is none on the average.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from _rounds import factor

LIMIT = 0.04
"""Asked for, of what `laptime tune` keeps."""
FEWEST = 3
"""Rounds below which a regret has no interval."""


class Regret(NamedTuple):
    """Of one setting against the best of a grid: shares of its time per item, 95 % interval over rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


def regret(seen: Mapping[Hashable, Sequence[float]], kept: Hashable) -> Regret:
    """Of `kept` against the best of the others' rounds, round by round.

    Args:
        seen: time per item of each setting, in the same rounds.

    Raises:
        ValueError: fewer than FEWEST rounds.
    """
    rounds = len(seen[kept])
    if rounds < FEWEST:
        raise ValueError(f"{rounds} rounds, {FEWEST} are the fewest")
    logs = []
    for number in range(rounds):
        others = {
            at: median(value for other, value in enumerate(values) if other != number)
            for at, values in seen.items()
        }
        best = min(others, key=lambda at: others[at])
        logs.append(math.log(seen[kept][number] / seen[best][number]))
    return Regret(*(each - 1 for each in factor(logs)))
