"""Arithmetic of cost. Prices are USD per hour of all that is rented, rates units (calls, tokens) per second.

    USD per 1 M        1e6 x price / (3600 x rate x utilization)
    units per USD      3600 x rate x utilization / price
    USD of a training  price x (epochs x samples / rate) / 3600
    month              730 h = 8760 h / 12

A price is exact, so the interval of a cost is that of the rate, turned over.
"""

from __future__ import annotations

import math

from laptime.records.cost import Interval, Monthly, Training

HOURS_PER_MONTH = 730.0
MILLION = 1e6
_SECONDS = 3600.0


def per_million(price: float, rate: float, utilization: float = 1.0) -> float:
    """USD per 1 M units; infinite where nothing is done."""
    return MILLION * price / (_SECONDS * rate * utilization) if rate > 0 else math.inf


def per_million_interval(price: float, ci95: Interval, utilization: float = 1.0) -> Interval:
    """Its 95 % interval from that of the rate."""
    if ci95 is None:
        return None
    return per_million(price, ci95[1], utilization), per_million(price, ci95[0], utilization)


def per_usd(price: float, rate: float, utilization: float = 1.0) -> float:
    """Units for one USD."""
    return _SECONDS * rate * utilization / price


def per_month(price: float) -> float:
    """USD of a month of 730 hours."""
    return price * HOURS_PER_MONTH


def training(price: float, rate: float, samples: float, epochs: float, ci95: Interval = None) -> Training:
    """Cost of `epochs` passes over `samples` samples at `rate` samples per second."""
    hours = epochs * samples / rate / _SECONDS
    ends = None
    if ci95 is not None:
        fast, slow = (
            epochs * samples / end / _SECONDS if end > 0 else math.inf for end in (ci95[1], ci95[0])
        )
        ends = (fast * price, slow * price)
    return Training(
        samples=samples,
        epochs=epochs,
        hours=hours,
        usd_per_epoch=hours * price / epochs,
        usd=hours * price,
        ci95=ends,
    )


def monthly(price: float, rate: float, wanted: float) -> Monthly:
    """Serving `wanted` units per second with machines that do `rate` each; whole machines are rented."""
    machines = max(1, math.ceil(wanted / rate - 1e-9))
    usd = machines * per_month(price)
    return Monthly(
        rate=wanted,
        machines=machines,
        utilization=wanted / (machines * rate),
        usd=usd,
        usd_per_million=per_million(machines * price, wanted),
    )
