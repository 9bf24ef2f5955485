"""Is a row of prices believable? Rows are refused one by one, each with its reason; the others still count.

Faults that public lists have had: GPU memory times the number of GPUs, once or twice; a spot price above
the one on demand; the price of a machine without its GPU; rows twice with two prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import TypeVar

from laptime.kit.text import closest
from laptime.pricing.ages import day
from laptime.probes.peaks import accelerators
from laptime.records.cost import Machine

CHEAPEST, DEAREST = 0.05, 60.0
"""USD per hour of one whole accelerator: beyond, the price is that of something else."""

_MEMORY_OFF = 0.15

R = TypeVar("R")


def reason(machine: Machine, today: date) -> str:
    """Why a machine's row cannot be right; "" where nothing speaks against it."""
    checks = (
        _price(machine),
        _spot(machine),
        _date(machine.seen, today),
        _sizes(machine),
        _accelerator(machine),
    )
    return next((each for each in checks if each), "")


def without_duplicates(rows: Iterable[tuple[int, R]], key: str) -> tuple[list[R], list[tuple[int, R]]]:
    """Rows by line, the first of each key; and those that come again."""
    first: dict[object, R] = {}
    again = []
    for line, row in rows:
        if (of_row := getattr(row, key)) in first:
            again.append((line, row))
        else:
            first[of_row] = row
    return list(first.values()), again


def _price(machine: Machine) -> str:
    price = machine.usd_per_hour
    if not math.isfinite(price) or price <= 0:
        return f"a price of {price:g} USD/h cannot be"
    return ""


def _spot(machine: Machine) -> str:
    spot = machine.spot_usd_per_hour
    if spot is None:
        return ""
    if not math.isfinite(spot) or spot <= 0:
        return f"a spot price of {spot:g} USD/h cannot be"
    if spot > machine.usd_per_hour:
        return f"its spot price {spot:g} is above the one on demand, {machine.usd_per_hour:g}"
    return ""


def _date(seen: str, today: date) -> str:
    seen_on = day(seen)
    if seen_on is None:
        return f"{seen!r} is no date (2026-11-22)" if seen else "it does not say when the price was seen"
    return f"it was seen in the future: {seen}" if seen_on > today else ""


def _sizes(machine: Machine) -> str:
    for name in ("vcpus", "cores", "memory", "accelerator_memory"):
        value = getattr(machine, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            return f"{value:g} {name.replace('_', ' ')} cannot be"
    if machine.vcpus and machine.cores and machine.cores > machine.vcpus:
        return f"{machine.cores:g} cores in {machine.vcpus:g} vCPUs cannot be"
    return ""


def _accelerator(machine: Machine) -> str:
    """The accelerator is one that is known, with its memory, at a price that it can have."""
    if not machine.accelerator:
        return "accelerators without a name" if machine.accelerators else ""
    if not (math.isfinite(machine.accelerators) and machine.accelerators > 0):
        return f"{machine.accelerators:g} accelerators cannot be"
    memory = accelerators().get(machine.accelerator)
    each = machine.usd_per_hour / machine.accelerators
    if machine.accelerators >= 1 and not CHEAPEST <= each <= DEAREST:
        return f"{each:g} USD/h for one {machine.accelerator} is no price of one"
    if memory is None:
        near = closest(machine.accelerator, accelerators())
        plain = machine.accelerator.lower().replace("-", "").replace(" ", "")
        if near and near.lower().replace("-", "") == plain:
            return f"no accelerator is called {machine.accelerator}: {near} is"
        return ""  # one whose peak nobody knows here, a TPU say: it has a price, but no bound
    whole = memory * min(1.0, machine.accelerators)
    told = machine.accelerator_memory
    if told is not None and abs(told / whole - 1) > _MEMORY_OFF:
        return f"{told:g} GiB is not the memory of one {machine.accelerator}, {whole:g} is"
    return ""
