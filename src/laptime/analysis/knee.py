"""From which batch size on does throughput hardly grow? Told only where paired rounds prove it.

Blocks of all sizes are measured side by side, round by round, so the ratio of two throughputs is known
better than either of them: the machine's drift is in both. A size is sure when it is proven to be within 3 %
of every other one, and out when it is proven to be more than 3 % below some other one; of the rest nobody
knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from laptime.analysis.compare import effect, thin_evidence
from laptime.analysis.paired import MARGIN
from laptime.records.case import Case

KNEE = 0.03
"""The knee is the smallest batch whose throughput is within 3 % of the best."""

Bounds = tuple[float, float]


class Knee(NamedTuple):
    """Result.

    Attributes:
        batch: the knee; None while several sizes may be it.
        candidates: sizes that may be it, ascending; the knee alone where it is proven.
        is_rising: the largest size surely gives more than the one below it, by more than 1 %.
    """

    batch: int | None
    candidates: list[int]
    is_rising: bool


def find_knee(cases: list[Case], regimes: Sequence[str]) -> Knee:
    """The knee of cases that differ in their batch size alone.

    Args:
        cases: at least two.
        regimes: in which throughput means the same; of each pair the one counts that knows it best.
    """
    ratios = _ratios(cases, regimes)
    sizes = sorted(case.batch for case in cases)
    others = {size: [ratios[size, other] for other in sizes if other != size] for size in sizes}
    sure = [size for size in sizes if all(low >= 1 - KNEE for low, _ in others[size])]
    maybe = [size for size in sizes if not any(high < 1 - KNEE for _, high in others[size])]
    candidates = [size for size in maybe if not sure or size <= sure[0]]
    batch = candidates[0] if sure and candidates == [sure[0]] else None
    is_rising = ratios[sizes[-1], sizes[-2]][0] > 1 + MARGIN
    return Knee(batch, candidates, is_rising)


def _ratios(cases: list[Case], regimes: Sequence[str]) -> dict[tuple[int, int], Bounds]:
    """Bounds of the first size's throughput over the second's; from 0 to inf where evidence is thin."""
    found: dict[tuple[int, int], Bounds] = {}
    for one, other in combinations(cases, 2):
        bounds = [_ratio(one, other, regime) for regime in regimes]
        low, high = min(bounds, key=lambda ends: ends[1] - ends[0])
        found[one.batch, other.batch] = low, high
        found[other.batch, one.batch] = (1 / high if high else math.inf), (1 / low if low else math.inf)
    return found


def _ratio(one: Case, other: Case, regime: str) -> Bounds:
    above, below = one.find("latency", regime), other.find("latency", regime)
    measured = effect(below, above) if above is not None and below is not None else None
    if above is None or below is None or measured is None or thin_evidence(below, above, measured):
        return 0.0, math.inf
    items = one.batch / other.batch
    return items * math.exp(-measured.upper(0.025)), items * math.exp(-measured.lower(0.025))
