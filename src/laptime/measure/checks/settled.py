"""Did the level settle, or was the program still warming up, slowing down or wandering?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import Floats
from laptime.analysis.steady import Kind, Steady, settle
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.regime import Regime
from laptime.records.series import DISTURBED, UNSETTLED, Label, Series

FIRST = 50
"""Calls that may be a warm-up however few are measured: short measurements are all beginning."""
STEP = 0.05
"""Such a change of level is none that only a cache makes while it fills up."""
WARM_UP_SHARE = 0.25
"""Of a process's samples: what changes later than that is no warm-up, and may change again."""

_LONGER = "--budget 60s   or --preset strict: it needs more time"


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when a process never reached a steady level; tell of a slow-down."""
    kinds: list[tuple[Kind, float]] = []
    late: list[float] = []
    for series in case.series:
        if series.metric.tag != "latency" or not series.samples or series.calls:
            continue
        if series.regime == Regime.PACED:  # a queue's level moves by itself
            continue
        if select(series).basis == "all":
            return Check("settled", "warn", "the latency never settled", _LONGER)
        for steady, seconds in _steady(series):
            kinds.append((steady.kind, steady.change))
            if steady.start > max(FIRST, WARM_UP_SHARE * len(seconds)):
                late.append(_step(seconds, steady.start))
    if any(kind == "unstable" for kind, _ in kinds):
        return Check(
            "settled", "warn", "the latency wanders between levels that lie more than 10 % apart", _LONGER
        )
    if max(late, default=0) > STEP:
        sentence = f"its level changed by {percent(max(late))} in the middle of the measurement"
        return Check("settled", "warn", sentence, _LONGER)
    slower = [change for kind, change in kinds if kind == "slow-down"]
    if slower:
        share = 1 / (1 + min(slower)) - 1
        return Check(
            "settled",
            "note",
            f"it slowed down while measured, by {share:.0%}; the later level is reported",
            "laptime doctor   (heat, power limit, clocks)",
        )
    return Check("settled", "ok", "the latency settled") if kinds else None


def _step(seconds: Floats, start: int) -> float:
    """Share by which the level just before this sample differs from the one after it."""
    near = max(5, len(seconds) // 20)
    return abs(float(np.median(seconds[start - near : start]) / np.median(seconds[start:])) - 1)


def _steady(series: Series) -> Iterator[tuple[Steady, Floats]]:
    """How each process settled, and its samples."""
    seconds = np.asarray(series.samples)
    process = np.asarray(series.process or [0] * len(seconds))
    label = np.asarray(series.label or [0] * len(seconds), dtype=int)
    ignore = (label & int(DISTURBED | (UNSETTLED & ~Label.WARM_UP))) != 0
    for p in np.unique(process):
        yield settle(seconds[process == p], ignore[process == p]), seconds[process == p]
