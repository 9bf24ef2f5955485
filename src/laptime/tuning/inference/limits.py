"""What a model has to keep: `--slo 20ms@p99`, `--max-memory 2GB`.

An SLO is judged by the interval of the percentile, from order statistics (`analysis.quantiles`). Calls of a
millisecond follow the level of their process: thousands are worth few independent ones, and get the wider
interval of `analysis.shifting_level`. Calls are made one after the other: how long they wait for each other
under load is another question (`laptime load`). Memory is the largest resident set of a process that has
loaded the folder and calls it, interpreter and libraries included; it has no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laptime.analysis import shifting_level
from laptime.analysis.promises import Promise
from laptime.analysis.quantiles import Floats, effective_size, quantile, samples_needed
from laptime.analysis.summary import QUANTILES
from laptime.kit.units import show
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Quantity
from laptime.records.tuning import GateCheck
from laptime.tuning.gates.invariants import checked


@dataclass(frozen=True)
class Limits:
    """Attributes:
    slo: seconds at a quantile of the calls; None: none. memory: bytes; None: no limit.
    """

    slo: Promise | None = None
    memory: int | None = None

    def __bool__(self) -> bool:
        return self.slo is not None or self.memory is not None

    @property
    def calls(self) -> int:
        """Independent calls that the interval of the SLO's quantile needs at least."""
        return samples_needed(QUANTILES[self.slo.quantile]) if self.slo else 0

    def checks(self, seconds: Sequence[float], peak: int) -> list[GateCheck]:
        """Whether calls that took so many seconds, in a process of this peak, keep them."""
        made = [] if self.slo is None else [_slo(self.slo, np.array(seconds))]
        return made if self.memory is None else [*made, _memory(self.memory, peak)]


def distance(checks: Sequence[GateCheck]) -> float:
    """By how much the farthest limit is exceeded, as a ratio; 0 where all are kept, infinite if unknown."""
    ratios = [
        check.value / check.limit if check.value is not None and check.limit else float("inf")
        for check in checks
        if check.outcome is not KEPT
    ]
    return max(ratios, default=0.0)


def upper_end(slo: Promise, seconds: Sequence[float]) -> float | None:
    """Upper end of the interval of the SLO's quantile; None where there are too few calls."""
    ends = shifting_level.interval(np.array(seconds), QUANTILES[slo.quantile])
    return ends[1] if ends else None


def _slo(slo: Promise, seconds: Floats) -> GateCheck:
    q, limit = QUANTILES[slo.quantile], show(slo.limit, "s")
    ends = shifting_level.interval(seconds, q)
    if ends is None:
        return checked("slo", UNDECIDED, _too_few(slo.quantile, seconds, q), None, slo.limit)
    found = Quantity.of(quantile(seconds, q), ends, len(seconds), "s")
    outcome = found.judged(slo.limit)
    said = {KEPT: f"within {limit}", BROKEN: f"above {limit}", UNDECIDED: f"{limit} lies in between"}
    text = f"{slo.quantile} of {len(seconds):,} calls {found.estimate}, {said[outcome]}"
    return checked("slo", outcome, text, found.high, slo.limit)


def _too_few(name: str, seconds: Floats, q: float) -> str:
    """How many calls an interval would take, and what those that were timed are worth."""
    needed, timed = samples_needed(q), len(seconds)
    told = f"{name} needs {needed} independent calls, {timed} were timed"
    return f"{told}, which are worth {effective_size(seconds, q):.0f}" if timed >= needed else told


def _memory(limit: int, peak: int) -> GateCheck:
    outcome = Quantity(peak, unit="B", exact=True).judged(limit)
    side = "within" if outcome is KEPT else "above"
    text = f"its process has {show(peak, 'B')} at most, {side} {show(limit, 'B')}"
    return checked("memory", outcome, text, float(peak), float(limit))
