"""In which order cases are measured, and when it is enough.

    round 1   A B C      random order
    round 2   C B A      the same turned round
    round 3   B A C      random again ...

A minute of A and then a minute of B would measure the machine's drift; blocks close in time share it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from laptime.analysis.stat import Stat
from laptime.analysis.steady import largest_late_step
from laptime.analysis.summary import main_throughput, median_of
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.series import Regime

T = TypeVar("T")


def rounds(items: Sequence[T], seed: int) -> Iterator[list[T]]:
    """Endless rounds, each with every item once; every second one mirrors the one before."""
    shuffle = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        order = list(items)
        shuffle.shuffle(order)
        yield order
        yield order[::-1]


def looks() -> Iterator[int]:
    """Numbers of rounds after which to check whether to stop: 2, 3, 4, 6, 8, 11, 16, 22, 31 ...

    Few and ever farther apart, because each look is another chance to stop on a lucky interval."""
    at = 2.0
    last = 1
    while True:
        if round(at) > last:
            last = round(at)
            yield last
        at *= 1.4


# When to stop: the intervals that will be printed are as narrow as asked, or time is up.


def printed(case: Case) -> list[Stat]:
    """The statistics whose precision decides: the median of every latency regime, and the throughput."""
    stats = [
        stat
        for series in case.series
        if series.metric.tag == "latency" and series.samples and series.regime != Regime.SATURATED
        if (stat := median_of(case, series)).value is not None
    ]
    rate = main_throughput(case)
    return stats if rate is None else [*stats, rate]


def reached(case: Case) -> float:
    """Half-width of the widest printed interval, as a share of its value; inf when one does not exist yet."""
    shares = [stat.precision for stat in printed(case)]
    if not shares:
        return math.inf
    return max(math.inf if share is None else share for share in shares)


def is_within(case: Case, precision: float) -> bool:
    """Whether more time would tell nothing: intervals are as narrow as this share, the level has settled."""
    return reached(case) <= precision and not largest_late_step(case)


def compared_enough(compared: list[Comparison], precision: float, *, pairs: float) -> bool:
    """Whether there are comparisons, and each rests on so many pairs with an interval as narrow as asked."""
    return bool(compared) and all(
        comparison.pairs >= pairs and math.log(comparison.ci95[1] / comparison.ci95[0]) / 2 <= precision
        for comparison in compared
    )
