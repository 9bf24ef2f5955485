"""How much of each figure that is told may be the generator's own time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from laptime.analysis.load.level import QUANTILES, LevelStats
from laptime.analysis.quantiles import Floats

ZERO = 1e-9
"""Seconds below which a figure is zero."""
Lost = Callable[[Floats, Floats, Floats], Floats]
"""Seconds of each request that may be the generator's: of when it was due, what it took, how late it was."""


def worst(stats: LevelStats, lost: Lost) -> tuple[float, str]:
    """The largest share, and of which figure: without it, each request took so much less."""
    rows = stats.requests.since(stats.steady)
    shares = [(0.0, "")]
    told = [("latency", rows.latency, stats.latency)]
    told += [("TTFT", rows.ttft, stats.tokens.ttft)] if stats.tokens else []
    for title, took, figures in told:
        whole = np.isfinite(took)
        if not whole.any():
            continue
        values = took[whole]
        without = values - lost(rows.due[whole], values, rows.late[whole])
        names = [name for name, stat in figures.items() if stat.value]
        if stats.balance.grows and not names:
            names = ["p95"]  # of its window is told
        shares += [(_share(values, without, name), f"{name} {title}") for name in names]
    return max(shares)


def _share(values: Floats, without: Floats, name: str) -> float:
    figure = _figure(values, name)
    return (figure - _figure(without, name)) / figure if figure > ZERO else 0.0


def _figure(values: Floats, name: str) -> float:
    return float(
        np.quantile(values, QUANTILES[name], method="higher") if name in QUANTILES else values.mean()
    )
