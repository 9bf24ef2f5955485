"""How much of each figure that is told may be the generator's own time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from laptime.analysis.load.level import QUANTILES, LevelStats
from laptime.analysis.quantiles import Floats
from laptime.records.case import Case
from laptime.records.load import LATE, TTFT

ZERO = 1e-9
"""Seconds below which a figure is zero."""
Lost = Callable[[Floats, Floats, Floats], Floats]
"""Seconds of each request that may be the generator's: of when it was due, what it took, how late it was."""


def worst(case: Case, stats: LevelStats, lost: Lost) -> tuple[float, str]:
    """The largest share, and of which figure: without it, each request took so much less."""
    regime = stats.facts.regime
    late = case.find(LATE.tag, regime)
    shares = [(0.0, "")]
    told = {"latency": stats.latency, TTFT.tag: stats.tokens.ttft if stats.tokens else {}}
    for tag, figures in told.items():
        series = case.find(tag, regime)
        if series is None or not series.samples:
            continue
        at, values = np.asarray(series.at), np.asarray(series.samples)
        behind = np.asarray(late.samples) if late else np.zeros(len(at))
        counts = at >= stats.requests.due[stats.steady]
        without = (values - lost(at, values, behind))[counts]
        names = [name for name, stat in figures.items() if stat.value]
        if stats.balance.grows and not names:
            names = ["p95"]  # of its window is told
        title = "TTFT" if tag == TTFT.tag else "latency"
        shares += [(_share(values[counts], without, name), f"{name} {title}") for name in names]
    return max(shares)


def _share(values: Floats, without: Floats, name: str) -> float:
    figure = _figure(values, name)
    return (figure - _figure(without, name)) / figure if figure > ZERO else 0.0


def _figure(values: Floats, name: str) -> float:
    return float(
        np.quantile(values, QUANTILES[name], method="higher") if name in QUANTILES else values.mean()
    )
