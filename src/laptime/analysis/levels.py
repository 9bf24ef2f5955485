"""How each process of a series settled, and levels that changed too late to be a warm-up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from laptime.analysis.quantiles import Floats
from laptime.analysis.steady import Steady, late_step, settle
from laptime.records.case import Case
from laptime.records.series import DISTURBED, UNSETTLED, Label, Regime, Series


def timed_calls(case: Case) -> list[Series]:
    """Latencies of single calls that have a level of their own; a queue's moves by itself."""
    return [
        series
        for series in case.series
        if series.metric.tag == "latency"
        and series.samples
        and not series.calls
        and series.regime != Regime.PACED
    ]


def levels(series: Series) -> Iterator[tuple[Steady, Floats]]:
    """How each process settled, and its samples in seconds."""
    seconds = np.asarray(series.samples)
    process = np.asarray(series.process or [0] * len(seconds))
    label = np.asarray(series.label or [0] * len(seconds), dtype=int)
    ignore = (label & int(DISTURBED | (UNSETTLED & ~Label.WARM_UP))) != 0
    for p in np.unique(process):
        yield settle(seconds[process == p], ignore[process == p]), seconds[process == p]


def largest_late_step(case: Case) -> float:
    """Share by which a level changed when it was too late for a warm-up; 0 where none did."""
    steps = [late_step(seconds, steady) for series in timed_calls(case) for steady, seconds in levels(series)]
    return max(steps, default=0.0)
