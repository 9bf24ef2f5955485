"""Arithmetic of cost. Prices are USD per hour of all that is rented, rates units (calls, tokens) per second.

    USD per 1 M        1e6 x price / (3600 x rate x utilization)
    units per USD      3600 x rate x utilization / price
    USD of a training  price x (epochs x samples / rate) / 3600
    month              730 h = 8760 h / 12

A price is exact, so a cost is the rate turned over, with its interval."""

import math
import re
from datetime import date

from laptime.records.cost import HOURS_PER_MONTH, FlexShape, Machine, Monthly, Training
from laptime.records.quantity import Quantity

MILLION = 1e6
_SECONDS = 3600.0


def per_million(price: float, rate: Quantity, utilization: float = 1.0) -> Quantity:
    """USD per 1 M units; infinite if nothing is done."""
    return rate.invert(MILLION * price / (_SECONDS * utilization), "USD")


def per_usd(price: float, rate: float, utilization: float = 1.0) -> float:
    """Units for one USD."""
    return _SECONDS * rate * utilization / price


def per_month(price: float) -> float:
    """USD of a month of 730 hours."""
    return price * HOURS_PER_MONTH


def training(price: float, rate: Quantity, samples: float, epochs: float) -> Training:
    """Cost of `epochs` passes over `samples` samples at `rate` samples per second."""
    hours = rate.invert(epochs * samples / _SECONDS, "h")
    usd = hours.scale(price, "USD")
    return Training(
        samples=samples,
        epochs=epochs,
        hours=hours.value,
        usd_per_epoch=usd.value / epochs,
        usd=usd.value,
        ci95=usd.interval,
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
        usd_per_million=per_million(machines * price, Quantity(wanted, exact=True)).value,
    )


# The smallest machine of a flexible shape that holds a program: its busy cores and its memory.

_MARGIN, _SYSTEM = 1.2, 2.0**30  # over the measured peak, and bytes for the system itself


def memory_needed(peak: float | None) -> float:
    """Bytes of a machine that runs a program with this peak."""
    return _SYSTEM + _MARGIN * (peak or 0.0)


def size_down(shape: FlexShape, cores: float, peak: float | None) -> Machine | None:
    """The smallest machine with so many cores, and room for a peak in bytes; None if none is so large."""
    ocpus = float(max(1, math.ceil(cores / shape.cores_per_ocpu)))
    needed = float(math.ceil(memory_needed(peak) / 2**30))
    memory = max(needed, ocpus * shape.min_gb)
    while ocpus <= shape.max_ocpus and shape.why_not(ocpus, memory):
        ocpus += 1  # more memory than so few OCPUs may have
        memory = max(needed, ocpus * shape.min_gb)
    return shape.size_to(ocpus, memory) if ocpus <= shape.max_ocpus else None


# How old a price is, and from which age on it is a doubtful one.

LARGE = frozenset({"aws", "azure", "gcp", "oci"})
"""Their list prices rarely change; those of small sellers do every few weeks."""
DAYS = {True: 180, False: 30}
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def first_day(seen: str) -> date | None:
    """The first day that a date may mean (`2026` is its first of January); None if it is none."""
    match = _DATE.fullmatch(seen)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def age_in_days(row: Machine | FlexShape, today: date) -> int | None:
    """Age of a price in days, at most; None if that day is not noted."""
    first = first_day(row.seen)
    return None if first is None else (today - first).days


def age_text(row: Machine | FlexShape, today: date) -> str:
    """`seen 2026-07-20, 125 days ago`; empty for a price that was typed."""
    age = age_in_days(row, today)
    if row.origin == "flag":
        return ""
    if age is None:
        return "it is not known when it was seen"
    most = "up to " if len(row.seen) < len("2026-01-01") else ""
    return f"seen {row.seen}, {most}{age} day{'' if age == 1 else 's'} ago"


def age_warning(row: Machine | FlexShape, today: date) -> str:
    """A sentence if a price is older than prices of its seller stay true; "" if it is not."""
    age, most = age_in_days(row, today), DAYS[row.provider in LARGE]
    if row.origin == "flag" or age is None or age <= most:
        return ""
    return f"the price of {row.name} is {age} days old ({row.seen}); beyond {most} days look it up again"
