"""Calls at a fixed rate: can the program serve them, or does its queue grow without end?

A server that is busy for the share `rate x mean service time` of the time is in balance below 1 (utilisation
law: Denning & Buzen, The Operational Analysis of Queueing Network Models, 1978). Above 1 the latency grows as
long as calls come: any number printed for it would be the length of the measurement.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.analysis.quantiles import mean_interval
from laptime.records.case import Case
from laptime.records.quantity import Judgement, Quantity
from laptime.records.series import Label, Regime


class OpenLoop(NamedTuple):
    """What came and what could be served.

    Attributes:
        rate: calls that came per second.
        capacity: calls per second that it can serve: 1 / mean service time; without an interval below three.
        balance: broken if the rate is surely above the capacity.
    """

    rate: float
    capacity: Quantity
    balance: Judgement

    @property
    def served(self) -> Quantity:
        """Calls per second that were answered, in the long run: surely all if its interval has no width."""
        return self.capacity.at_most(self.rate)


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
    capacity = Quantity.of(mean, around, len(service), "s").inverted(unit="1/s")
    return OpenLoop(1 / period, capacity, capacity.judged(1 / period, at_least=True))
