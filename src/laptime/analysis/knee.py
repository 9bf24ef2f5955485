"""The knee of a curve: from which batch size on throughput hardly grows, and where more load buys little but
waiting.

Blocks of all batch sizes are measured side by side, round by round, so the ratio of two throughputs is known
better than either of them: the machine's drift is in both. A size is sure when it is proven to be within 3 %
of every other one, and out when it is proven to be more than 3 % below some other one; of the rest nobody
knows.

Of levels of load: power, what is answered per second over the mean time of an answer, is largest at the knee
(L. Kleinrock, Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer Communications,
ICC 1979; R. Jain, The Art of Computer Systems Performance Analysis, 1991, 3.3). It rises before the knee and
falls behind it, so that levels tell between which two of them the knee lies."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from laptime.analysis.batch_means import mean_interval
from laptime.analysis.compare import effect
from laptime.analysis.load import LevelStats
from laptime.analysis.paired import MARGIN
from laptime.records.case import Case

KNEE = 0.03  # the knee is the smallest batch whose throughput is within 3 % of the best
Bounds = tuple[float, float]


class Knee(NamedTuple):
    """Result."""

    batch: int | None  # the knee; None while several sizes may be it
    candidates: list[int]  # sizes that may be it, ascending; the knee alone if it is proven
    is_rising: bool  # the largest size certainly gives more than the one below it, by more than 1 %


def find_knee(cases: list[Case], regimes: Sequence[str]) -> Knee:
    """The knee of cases that differ in their batch size alone.
    cases: at least two. regimes: in which throughput means the same; of each pair the one counts that knows
    it best."""
    # Bounds of the first size's throughput over the second's; from 0 to inf if evidence is thin.
    ratios: dict[tuple[int, int], Bounds] = {}
    for one, other in combinations(cases, 2):
        bounds = [_ratio(one, other, regime) for regime in regimes]
        low, high = min(bounds, key=lambda ends: ends[1] - ends[0])
        ratios[one.batch, other.batch] = low, high
        ratios[other.batch, one.batch] = (1 / high if high else math.inf), (1 / low if low else math.inf)
    sizes = sorted(case.batch for case in cases)
    others = {size: [ratios[size, other] for other in sizes if other != size] for size in sizes}
    sure = [size for size in sizes if all(low >= 1 - KNEE for low, _ in others[size])]
    maybe = [size for size in sizes if not any(high < 1 - KNEE for _, high in others[size])]
    candidates = [size for size in maybe if not sure or size <= sure[0]]
    batch = candidates[0] if sure and candidates == [sure[0]] else None
    is_rising = ratios[sizes[-1], sizes[-2]][0] > 1 + MARGIN
    return Knee(batch, candidates, is_rising)


def _ratio(one: Case, other: Case, regime: str) -> Bounds:
    above, below = one.find("latency", regime), other.find("latency", regime)
    measured = effect(below, above) if above is not None and below is not None else None
    if measured is None or measured.doubt:
        return 0.0, math.inf
    items = one.batch / other.batch
    return items * math.exp(-measured.upper(0.025)), items * math.exp(-measured.lower(0.025))


# Levels of load.

SURE = 0.95  # that all intervals of a knee hold together (Bonferroni)


class LoadKnee(NamedTuple):
    """Between which loads the knee lies; None: no level bounds it there."""

    low: float | None
    high: float | None


def load_of(stats: LevelStats) -> float:
    """Return how much was asked of a server: requests per second, or users."""
    return float(stats.facts.users or stats.facts.rate or 0.0)


def knee(levels: Sequence[LevelStats]) -> LoadKnee | None:
    """The knee that levels with trusted figures show; None if they are too few to bound it. levels: in any
    order. One above capacity bounds the knee, and says nothing else of it."""
    stable = sorted((level for level in levels if not level.balance.grows), key=load_of)
    above = min((load_of(level) for level in levels if level.balance.grows), default=None)
    powers = [_power(each, 1 - (1 - SURE) / len(stable)) for each in stable]
    known = [(load_of(each), power) for each, power in zip(stable, powers, strict=True) if power]
    if not known or len(known) + (above is not None) < 2:
        return None
    least = max(low for _, (low, _) in known)
    near = [index for index, (_, (_, high)) in enumerate(known) if high >= least]
    loads = [load for load, _ in known]
    higher = loads[near[-1] + 1] if near[-1] + 1 < len(loads) else above
    return LoadKnee(loads[near[0] - 1] if near[0] else None, higher)


def find_load_knee(levels: Sequence[LevelStats]) -> LoadKnee | None:
    """The highest level that certainly kept its promises; the lowest above it that certainly broke them."""
    kept = max((load_of(level) for level in levels if level.facts.kept == "kept"), default=None)
    broken = [load_of(level) for level in levels if level.facts.kept == "broken"]
    higher = min((load for load in broken if kept is None or load > kept), default=None)
    return None if kept is None and higher is None else LoadKnee(kept, higher)


def _power(stats: LevelStats, level: float) -> tuple[float, float] | None:
    """Its interval, in requests per second squared."""
    latency = stats.requests.latency[stats.steady :]
    ends = mean_interval(latency[latency < float("inf")], level)
    rate = stats.answered.value
    return (rate / ends[1], rate / ends[0]) if rate and ends and ends[0] > 0 else None
