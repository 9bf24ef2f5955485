"""A number of which every trial, a fresh process, gives one value: its mean, and how sure that is.

Times and rates are positive and differ by factors, so theirs is the geometric mean with Student's t on the
logarithms: such an interval never reaches below zero. Numbers that can be zero or negative have the usual
mean. The trials must be independent: what drifts through all of them does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laptime.analysis.quantiles import mean_interval
from laptime.kit.text import count
from laptime.records.quantity import Quantity

FEWEST = 3
"""Trials from which a mean has an interval."""


class OverTrials(NamedTuple):
    """A number over its trials.

    Attributes:
        quantity: in the number's own unit; without an interval below three trials.
        statistic: what it is: `geometric mean of 5 trials`, `one trial`.
    """

    quantity: Quantity
    statistic: str


def over_trials(values: Sequence[float]) -> OverTrials:
    """The mean of finite values, one a trial, at least one."""
    n, first = len(values), float(values[0])
    if n == 1:
        return OverTrials(Quantity(first), "one trial")
    positive = min(values) > 0
    statistic = f"{'geometric mean' if positive else 'mean'} of {count(n, 'trial')}"
    if min(values) == max(values):
        return OverTrials(Quantity.of(first, (first, first) if n >= FEWEST else None, n), statistic)
    scaled = np.log(values) if positive else np.asarray(values, dtype=float)
    around = mean_interval(scaled, effective=n) if n >= FEWEST else None
    turned = np.exp if positive else float
    ends = None if around is None else (float(turned(around[0])), float(turned(around[1])))
    return OverTrials(Quantity.of(float(turned(scaled.mean())), ends, n), statistic)
