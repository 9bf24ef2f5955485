"""How far one tensor of a step is from the baseline's: measures of a row of a comparison."""

from __future__ import annotations

import math

from laptime.tuning.trial.messages import NumericsComparison, TensorComparison

TINY = 1e-30


def over(value: float | None, scale: float) -> float:
    """An error as a share of a scale; infinite where it is not known."""
    return math.inf if value is None else value / scale


def relative(row: TensorComparison) -> float:
    """RMS of the difference over the baseline's RMS."""
    return over(row.error, max(row.rms or 0.0, TINY))


def turn(row: TensorComparison) -> float:
    """1 - cosine with the baseline's."""
    return 1 - (row.cosine or 0.0)


def stretch(row: TensorComparison) -> float:
    """Of the part of a tensor along the baseline's: how far it is from as long."""
    return abs((row.cosine or 0.0) * (row.norm or 0.0) / max(row.base_norm or 0.0, TINY) - 1)


def across(row: TensorComparison) -> float:
    """Length of the part of a tensor across the baseline's, over the baseline's length."""
    sine = math.sqrt(max(1 - (row.cosine or 0.0) ** 2, 0.0))
    return sine * (row.norm or 0.0) / max(row.base_norm or 0.0, TINY)


def overshoot(value: float, limit: float) -> float:
    """A value as a share of its limit: above 1 it fails."""
    if limit > 0:
        return value / limit
    return 0.0 if value == 0 else math.inf


def totals_of(comparison: NumericsComparison, group: str) -> list[TensorComparison]:
    """Rows of a whole group, one a step."""
    return [row for row in comparison.totals if row.group == group]
