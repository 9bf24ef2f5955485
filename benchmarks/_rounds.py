"""What rounds of two sides say: a factor and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from laptime.analysis.paired import from_few_rounds
from laptime.tuning.loop_profile import UNKNOWN_NOISE


def factor(logs: Sequence[float]) -> tuple[float, float, float]:
    """The factor between two sides, and the ends of its 95 % interval over rounds.

    Args:
        logs: natural logarithms of the factor, one a round.
    """
    effect = from_few_rounds(logs, range(len(logs)), UNKNOWN_NOISE)
    return math.exp(effect.mean), math.exp(effect.lower(0.025)), math.exp(effect.upper(0.025))
