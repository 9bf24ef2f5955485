"""When to stop: the intervals that will be printed are as narrow as asked, or time is up."""

from __future__ import annotations

import math

from laptime.analysis.levels import largest_late_step
from laptime.analysis.stat import Stat
from laptime.analysis.summary import main_throughput, median_of
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.series import Regime


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
