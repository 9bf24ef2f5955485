"""Where more load buys little but waiting: the knee of a load test.

Power, what is answered per second over the mean time of an answer, is largest at the knee (L. Kleinrock,
Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer Communications, ICC 1979;
R. Jain, The Art of Computer Systems Performance Analysis, 1991, 3.3). It rises before the knee and falls
behind it, so that levels tell between which two of them the knee lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.batch_means import mean_interval
from laptime.analysis.load import LevelStats

SURE = 0.95
"""That all intervals of a knee hold together (Bonferroni)."""


class Knee(NamedTuple):
    """Between which loads the knee lies; None: no level bounds it there."""

    low: float | None
    high: float | None


def load_of(stats: LevelStats) -> float:
    """How much was asked of a server: requests per second, or users."""
    facts = stats.facts
    return float(facts.concurrency or 0) if facts.kind == "closed" else facts.rate or 0.0


def knee(levels: Sequence[LevelStats]) -> Knee | None:
    """The knee that levels with trusted figures show; None where they are too few to bound it.

    Args:
        levels: in any order. One above capacity bounds the knee, and says nothing else of it.
    """
    stable = sorted((each for each in levels if not each.balance.grows), key=load_of)
    above = min((load_of(each) for each in levels if each.balance.grows), default=None)
    powers = [_power(each, 1 - (1 - SURE) / len(stable)) for each in stable]
    known = [(load_of(each), power) for each, power in zip(stable, powers, strict=True) if power]
    if not known or len(known) + (above is not None) < 2:
        return None
    least = max(low for _, (low, _) in known)
    near = [at for at, (_, (_, high)) in enumerate(known) if high >= least]
    loads = [load for load, _ in known]
    higher = loads[near[-1] + 1] if near[-1] + 1 < len(loads) else above
    return Knee(loads[near[0] - 1] if near[0] else None, higher)


def kept_until(levels: Sequence[LevelStats]) -> Knee | None:
    """The highest level that surely kept its promises, and the lowest above it that surely broke them."""
    kept = max((load_of(each) for each in levels if each.facts.kept == "kept"), default=None)
    broken = [load_of(each) for each in levels if each.facts.kept == "broken"]
    higher = min((load for load in broken if kept is None or load > kept), default=None)
    return None if kept is None and higher is None else Knee(kept, higher)


def _power(stats: LevelStats, level: float) -> tuple[float, float] | None:
    """Its interval, in requests per second squared."""
    latency = stats.requests.latency[stats.steady :]
    ends = mean_interval(latency[latency < float("inf")], level)
    rate = stats.answered.value
    return (rate / ends[1], rate / ends[0]) if rate and ends and ends[0] > 0 else None
