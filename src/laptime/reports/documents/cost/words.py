"""Words that all parts of a cost share, and the bill: a training, a month at a rate, an hour."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from laptime.kit.text import count
from laptime.kit.units import percent, show, usd, usd_interval
from laptime.records.cost import Cost, Line, Machine, Speed
from laptime.records.quantity import Quantity
from laptime.reports import document as doc
from laptime.reports._words import printable

_MONTH = "730 h, whether it works or not"


def title(cost: Cost) -> str:
    """The runs, by name where they have one."""
    return printable(", ".join(run.name or run.id for run in cost.runs))


def best(cost: Cost) -> Line:
    """The cheapest line of all."""
    return min(cost.lines, key=lambda line: line.usd_per_million)


def units(cost: Cost) -> str:
    """What is counted, in the plural; items where a run counts calls and another items."""
    names = {line.speed.unit for line in cost.lines}
    return f"{names.pop()}s" if len(names) == 1 else "items" if names <= {"call", "item"} else "units"


def money(name: str) -> Callable[[Any], doc.Cell]:
    """The cell of an amount, by its attribute."""
    amount = attrgetter(name)
    return lambda row: doc.Cell(text=usd(amount(row)), value=amount(row))


def at(speed: Speed) -> str:
    """`at saturation`, `at latency=50 ms@p99`, `while training`."""
    return "while training" if speed.at == "training" else f"at {speed.at}"


def price(cost: Quantity) -> doc.Cell:
    """US dollars, with their interval."""
    return doc.Cell(
        text=usd(cost.value, cost.interval), value=cost.value, interval=usd_interval(cost.interval)
    )


def machine(each: Machine) -> str:
    """What is in it, OCPUs, vCPUs and cores told apart: `16 OCPUs = 32 vCPUs = 16 cores, 32 GiB`."""
    parts = []
    if each.ocpus is not None:
        parts.append(f"{each.ocpus:g} OCPU{'' if each.ocpus == 1 else 's'}")
    if each.vcpus is not None:
        parts.append(f"{each.vcpus:g} vCPU{'' if each.vcpus == 1 else 's'}")
    if each.cores is not None:
        parts.append(f"{each.cores:g} core{'' if each.cores == 1 else 's'}")
    text = " = ".join(parts)
    if each.vcpus and each.cores:
        smt = each.vcpus / each.cores
        text += " with 2 threads each" if smt == 2 else " (a vCPU is a core)" if smt == 1 else ""
    more = [text] if text else []
    if each.cpu:
        more.append(" or ".join(each.cpu))
    if each.memory is not None:
        more.append(f"{each.memory:.4g} GiB")
    if each.accelerator:
        more.append(f"{each.accelerators:g} x {each.accelerator}")
    return ", ".join(more)


def conditions(cost: Cost) -> list[str]:
    """What holds for every number."""
    phrases = []
    for priced in cost.machines[:3]:
        what = machine(priced.machine)
        price = f"{priced.machine.name}: {usd(priced.machine.usd_per_hour)} USD/h"
        phrases.append(f"{price}, {what}" if what else price)
        if priced.age:
            phrases.append(f"price {priced.age}, {priced.machine.source}")
    if len(cost.machines) > 3:
        phrases.append(f"and {count(len(cost.machines) - 3, 'more machine')}")
    phrases.append(f"a month is {cost.hours_per_month:g} h")
    if cost.utilization != 1:
        phrases.append(f"the machine works {percent(cost.utilization)} of the time")
    return phrases


def bill(cost: Cost) -> doc.Section:
    """Sentences on the bill."""
    return doc.Section(id="bill", title="The bill", headed=False, blocks=[doc.Facts(rows=_bill_rows(cost))])


def _bill_rows(cost: Cost) -> list[tuple[str, str]]:
    cheapest = best(cost)
    rows = [("machine", _hour(cheapest))]
    for line in [cheapest] if len(cost.lines) > 3 or not cost.savings else cost.lines:
        label = f"{line.speed.label}: " if len(cost.lines) > 1 else ""
        told = (*_training(line), *_monthly(line, units(cost)))
        rows += [(topic, label + text) for topic, text in told]
    return rows


def _hour(line: Line) -> str:
    share = f" ({line.share:.3g} of {line.machine})" if line.share < 1 else ""
    month = f"{usd(line.usd_per_month)} USD for a month of {_MONTH}"
    return f"{usd(line.usd_per_hour)} USD/h{share}; {month}"


def _training(line: Line) -> list[tuple[str, str]]:
    training = line.training
    if training is None:
        return []
    is_whole = training.epochs == int(training.epochs)
    epochs = count(int(training.epochs), "epoch") if is_whole else f"{training.epochs:g} epochs"
    total = price(training.cost)
    around = f" {total.interval}" if total.interval else ""
    digits = max(0, 2 - math.floor(math.log10(training.hours))) if training.hours > 0 else 0
    hours = f"{training.hours:,.{digits}f} h" if training.hours >= 0.1 else show(training.hours * 3600, "s")
    return [
        ("epoch", f"{usd(training.usd_per_epoch)} USD for {training.samples:,.0f} {line.speed.unit}s"),
        ("training", f"{total.text} USD{around} for {epochs}, {hours}"),
    ]


def _monthly(line: Line, units: str) -> list[tuple[str, str]]:
    month = line.monthly
    if month is None:
        return []
    machines = f"{count(month.machines, 'machine')}, used to {percent(month.utilization)}"
    each = f"{usd(month.usd_per_million)} USD per 1 M {units} really served"
    return [("month", f"{usd(month.usd)} USD at {month.rate:g} {units}/s: {machines}; {each}")]


def cards(cost: Cost) -> list[doc.Card]:
    """The numbers that people come for, of the cheapest line."""
    cheapest, of = best(cost), units(cost)
    least = price(cheapest.cost)
    made = [
        doc.Card(
            title=f"USD per 1 M {of}",
            figure=least.text,
            interval=least.interval,
            note=", ".join(
                filter(None, (at(cheapest.speed), cheapest.speed.label if len(cost.lines) > 1 else ""))
            ),
        ),
        doc.Card(title=f"{of} per USD", figure=f"{cheapest.units_per_usd:,.0f}", note=cheapest.machine),
        doc.Card(
            title="USD a month", figure=usd(cheapest.usd_per_month), note="730 h, whether it works or not"
        ),
    ]
    if cheapest.training is not None:
        training, total = cheapest.training, price(cheapest.training.cost)
        made.append(
            doc.Card(
                title="USD a training",
                figure=total.text,
                interval=total.interval,
                note=f"{training.epochs:g} x {training.samples:,.0f} {cheapest.speed.unit}s",
            )
        )
    if cheapest.monthly is not None:
        month = cheapest.monthly
        used = f"{count(month.machines, 'machine')}, used to {percent(month.utilization)}"
        note = f"at {month.rate:g}/s, {used}"
        made.append(doc.Card(title="USD a month at this rate", figure=usd(month.usd), note=note))
    return made
