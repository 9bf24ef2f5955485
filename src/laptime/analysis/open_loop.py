"""Calls at a fixed rate: can the program serve them, or does its queue grow without end?

A server that is busy for the share `rate x mean service time` of the time is in balance below 1 (utilisation
law: Denning & Buzen, The Operational Analysis of Queueing Network Models, 1978). Above 1 the latency grows as
long as calls come: any number printed for it would be the length of the measurement.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from laptime.analysis.quantiles import mean_interval
from laptime.records.case import Case
from laptime.records.regime import Regime
from laptime.records.series import Label

Balance = Literal["kept", "undecided", "overloaded"]


class OpenLoop(NamedTuple):
    """What came and what could be served.

    Attributes:
        rate: calls that came per second.
        capacity: calls per second that it can serve: 1 / mean service time.
        ci95: interval of the capacity; None below three calls.
        balance: whether the rate is surely below the capacity, surely above it, or neither.
    """

    rate: float
    capacity: float
    ci95: tuple[float, float] | None
    balance: Balance

    @property
    def served(self) -> float:
        """Calls per second that were answered, in the long run."""
        return min(self.rate, self.capacity)

    @property
    def served_ci95(self) -> tuple[float, float] | None:
        """Its 95 % interval: of no width where every call is surely served."""
        return None if self.ci95 is None else (min(self.rate, self.ci95[0]), min(self.rate, self.ci95[1]))


def open_loop(case: Case) -> OpenLoop | None:
    """The balance of a case's paced calls; None where none were made, or their schedule was not recorded.

    The service time of a call is its latency less its waiting in the queue. Calls that others disturbed
    count, too: those behind them had to wait.
    """
    latency, late = case.find("latency", Regime.PACED), case.find("disturbance/late", Regime.PACED)
    if latency is None or late is None or len(latency.at) < 2 or len(late.samples) != len(latency.samples):
        return None
    label = np.asarray(latency.label or [0] * len(latency.samples))
    counts = (label & int(Label.RESUMED | Label.RECOMPILED)) == 0
    if not counts.any():
        return None
    service = (np.asarray(latency.samples) - np.asarray(late.samples))[counts]
    period = float(np.median(np.diff(latency.at)))
    mean = float(service.mean())
    around = mean_interval(service)
    if mean <= 0 or period <= 0:
        return None
    ends = None if around is None else (1 / around[1], 1 / around[0] if around[0] > 0 else np.inf)
    return OpenLoop(1 / period, 1 / mean, ends, _balance(1 / period, ends))


def _balance(rate: float, capacity: tuple[float, float] | None) -> Balance:
    if capacity is None or capacity[0] <= rate <= capacity[1]:
        return "undecided"
    return "kept" if rate < capacity[0] else "overloaded"
