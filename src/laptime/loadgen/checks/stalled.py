"""Did the generator stand still while answers came? Then it read the clock too late."""

from __future__ import annotations

import numpy as np

from laptime.analysis.load.level import QUANTILES, LevelStats
from laptime.analysis.quantiles import Floats
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.loadgen.checks.late import LIMIT
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import TTFT

_TIMES = 1e-9
"""Seconds below which a figure is zero."""


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where stalls may make up more than 5 % of a figure that is told."""
    if stats is None or not stats.facts.stalls:
        return None
    worst = max(seconds for _, seconds in stats.facts.stalls)
    times = count(len(stats.facts.stalls), "time")
    stood = f"the generator stood still {times}, {show(worst, 's')} at the longest"
    share, name = max(_shares(case, stats), default=(0.0, ""))
    if share <= LIMIT:
        figures = f"at most {percent(share)} of a figure" if share > _TIMES else "none of the figures"
        return Check("stalled", "note", f"{stood}: that is {figures}") if share > _TIMES else None
    words = f"{stood}: that may be {percent(share)} of the {name}. It was late, not the server"
    return Check("stalled", "fail", words, "the same again on a machine with nothing else to do")


def _shares(case: Case, stats: LevelStats) -> list[tuple[float, str]]:
    """By how much of itself stalls may have raised each figure that is told: time in them is taken off."""
    requests, start = stats.requests, stats.steady
    whole = np.isfinite(requests.latency[start:])
    due, latency = requests.due[start:][whole], requests.latency[start:][whole]
    told = [name for name, stat in stats.latency.items() if stat.value] or [
        "p95"
    ]  # a queue that grows: its window's
    shares = [(_share(stats, due, latency, name), f"{name} latency") for name in told]
    first = case.find(TTFT.tag, stats.facts.regime) if stats.tokens else None
    if first is not None and stats.tokens is not None:
        at, waited = np.asarray(first.at), np.asarray(first.samples)
        told = [name for name, stat in stats.tokens.ttft.items() if stat.value]
        shares += [(_share(stats, at, waited, name), f"{name} TTFT") for name in told]
    return shares


def _share(stats: LevelStats, due: Floats, latency: Floats, name: str) -> float:
    lost = np.zeros(len(due))
    for begin, seconds in stats.facts.stalls:
        overlap = np.minimum(due + latency, begin + seconds) - np.maximum(due, begin)
        lost = np.maximum(lost, overlap)  # one that is read late is late by one stall
    figure, without = (_figure(values, name) for values in (latency, latency - lost))
    return (figure - without) / figure if figure > _TIMES else 0.0


def _figure(values: Floats, name: str) -> float:
    return float(
        np.quantile(values, QUANTILES[name], method="higher") if name in QUANTILES else values.mean()
    )
