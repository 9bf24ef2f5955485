"""Did the level settle, or was the program still warming up, slowing down or wandering?"""

from __future__ import annotations

import numpy as np

from laptime.analysis.evidence import select
from laptime.analysis.steady import Kind, settle
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.regime import Regime
from laptime.records.series import DISTURBED, Label, Series

_LONGER = "give it more time: --budget 60s, or --preset strict"


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when a process never reached a steady level; tell of a slow-down."""
    kinds: list[tuple[Kind, float]] = []
    for series in case.series:
        if series.metric.tag != "latency" or not series.samples or series.calls:
            continue
        if series.regime == Regime.PACED:  # a queue's level moves by itself
            continue
        if select(series).basis == "all":
            return Check("settled", "warn", "the latency never settled", _LONGER)
        kinds += _kinds(series)
    if any(kind == "unstable" for kind, _ in kinds):
        return Check(
            "settled", "warn", "the latency wanders between levels that lie more than 10 % apart", _LONGER
        )
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


def _kinds(series: Series) -> list[tuple[Kind, float]]:
    seconds = np.asarray(series.samples)
    process = np.asarray(series.process or [0] * len(seconds))
    label = np.asarray(series.label or [0] * len(seconds), dtype=int)
    ignore = (label & int(DISTURBED | Label.RESUMED | Label.RECOMPILED)) != 0
    kinds = []
    for p in np.unique(process):
        steady = settle(seconds[process == p], ignore[process == p])
        kinds.append((steady.kind, steady.change))
    return kinds
