"""The device's peak as it was measured between the blocks of a case: its level, and whether to quote it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from laptime.analysis.evidence import CROWDED, select
from laptime.analysis.quantiles import effective_size
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.plan import TODAY, Constants
from laptime.records.quantity import Quantity
from laptime.records.series import DISTURBED

TAG = "evidence/peak"

FEWEST = 3
"""Undisturbed blocks that a peak needs: two always agree well enough."""

WIDEST = 0.15
"""Half the distance between the tenth and the ninetieth of a hundred blocks, as a share: beyond it the
machine has no peak to be a share of, whatever the interval of its mean."""


class Peak(NamedTuple):
    """The level of a peak.

    Attributes:
        quantity: FLOP/s, the geometric mean of the undisturbed blocks, Student's t on the logarithms; None
            when it must not be quoted.
        why_not: the reason in words; "" when it may be quoted.
    """

    quantity: Quantity | None
    why_not: str = ""


def measured_peak(case: Case, constants: Constants = TODAY) -> Peak | None:
    """The peak of this case's device beside its samples; None where nobody measured any."""
    series = case.find(TAG)
    if series is None or not series.samples:
        is_known = bool(case.details.peak and case.details.peak.flops)
        return Peak(None, why_not="the peak was measured once, apart from the samples") if is_known else None
    evidence = select(series, constants)
    label = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    quiet = int(((label & int(DISTURBED)) == 0).sum())
    needed = max(FEWEST, math.ceil((1 - CROWDED) * len(series.samples)))
    if quiet < needed or evidence.basis not in ("undisturbed", "few"):
        have = f"{quiet} of {len(series.samples)} blocks of the peak were undisturbed"
        return Peak(None, why_not=f"{have}, {needed} are needed")
    logs = np.log(evidence.values)
    low, high = np.quantile(logs, [0.1, 0.9])
    spread = math.expm1(float(high - low) / 2)
    if spread > WIDEST:
        return Peak(None, why_not=f"the measured peak itself swings by ±{spread:.0%}")
    worth = max(2.0, min(len(logs), effective_size(evidence.values)))
    reach = t_quantile(0.975, worth - 1) * float(logs.std(ddof=1)) / math.sqrt(worth)
    mean = float(logs.mean())
    return Peak(Quantity(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs), "FLOP/s"))
