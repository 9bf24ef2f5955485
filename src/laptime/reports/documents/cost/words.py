"""Words that all parts of a cost share, and the bill: a training, a month at a rate, an hour."""

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from laptime.kit.text import count
from laptime.kit.units import percent, show, usd, usd_interval
from laptime.records.cost import Cost, Line, Machine, Monthly, Speed
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
    """Return the unit in the plural; items if some runs count calls and others items."""
    names = {line.speed.unit for line in cost.lines}
    return f"{names.pop()}s" if len(names) == 1 else "items" if names <= {"call", "item"} else "units"


def show_field(name: str, write: Callable[[Any], str] = usd) -> Callable[[Any], doc.Cell]:
    """The cell of a number, US dollars mostly, by its attribute."""
    number = attrgetter(name)
    return lambda row: doc.Cell(write(number(row)), number(row))


def at(speed: Speed) -> str:
    """`at saturation`, `at latency=50 ms@p99`, `while training`."""
    return "while training" if speed.at == "training" else f"at {speed.at}"


def price(cost: Quantity) -> doc.Cell:
    """US dollars, with their interval."""
    return doc.Cell(usd(cost.value, cost.interval), cost.value, interval=usd_interval(cost.interval))


def machine(each: Machine) -> str:
    """Describe a machine, with OCPUs, vCPUs and cores apart: `16 OCPUs = 32 vCPUs = 16 cores, 32 GiB`."""
    numbers = {"OCPU": each.ocpus, "vCPU": each.vcpus, "core": each.cores}
    known = [(noun, number) for noun, number in numbers.items() if number is not None]
    text = " = ".join(f"{number:g} {noun}{'s' * (number != 1)}" for noun, number in known)
    if each.vcpus and each.cores:
        smt = each.vcpus / each.cores
        text += " with 2 threads each" if smt == 2 else " (a vCPU is a core)" if smt == 1 else ""
    memory = "" if each.memory is None else f"{each.memory:.4g} GiB"
    cards = f"{each.accelerators:g} x {each.accelerator}" if each.accelerator else ""
    return ", ".join(filter(None, (text, " or ".join(each.cpu), memory, cards)))


def conditions(cost: Cost) -> list[str]:
    """List the conditions of every number."""
    phrases = []
    for priced in cost.machines[:3]:
        what = machine(priced.machine)
        price = f"{priced.machine.name}: {usd(priced.machine.usd_per_hour)} USD/h"
        phrases.append(f"{price}, {what}" if what else price)
        if priced.age:
            phrases.append(f"price {', '.join(filter(None, (priced.age, priced.machine.source)))}")
    if len(cost.machines) > 3:
        phrases.append(f"and {count(len(cost.machines) - 3, 'more machine')}")
    phrases.append(f"a month is {cost.hours_per_month:g} h")
    if cost.utilization != 1:
        phrases.append(f"the machine works {percent(cost.utilization)} of the time")
    return phrases


def bill(cost: Cost) -> doc.Section:
    """Sentences on the bill."""
    cheapest = best(cost)
    share = f" ({cheapest.share:.3g} of {cheapest.machine})" if cheapest.share < 1 else ""
    month = f"{usd(cheapest.usd_per_month)} USD for a month of {_MONTH}"
    month += _free(cheapest, cheapest.usd_per_month, cost)
    rows = [("machine", f"{usd(cheapest.usd_per_hour)} USD/h{share}; {month}")]
    for line in [cheapest] if len(cost.lines) > 3 or not cost.savings else cost.lines:
        label = f"{line.speed.label}: " if len(cost.lines) > 1 else ""
        rows += [(topic, label + text) for topic, text in (*_training(line), *_monthly(line, cost))]
    return doc.Section("bill", "The bill", [doc.Facts(rows)], headed=False)


def _free(line: Line, bill: float, cost: Cost) -> str:
    """The rest of a bill once the free hours of an account are taken off it."""
    machines = (priced.machine for priced in cost.machines if line.share == 1)
    free = next((machine.free_usd_per_month for machine in machines if machine.name == line.machine), None)
    return f"; {usd(max(0.0, bill - free))} USD after the free hours of an account" if free else ""


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


def _monthly(line: Line, cost: Cost) -> list[tuple[str, str]]:
    month, of = line.monthly, units(cost)
    if month is None:
        return []
    each = f"{usd(month.usd_per_million)} USD per 1 M {of} really served"
    bill = f"{usd(month.usd)} USD at {month.rate:g} {of}/s: {_say_use(month)}"
    return [("month", f"{bill}; {each}{_free(line, month.usd, cost)}")]


def _say_use(month: Monthly) -> str:
    return f"{count(month.machines, 'machine')}, used to {percent(month.utilization)}"


def cards(cost: Cost) -> list[doc.Card]:
    """The numbers that people come for, of the cheapest line."""
    cheapest, of = best(cost), units(cost)
    least, label = price(cheapest.cost), f", {cheapest.speed.label}" if len(cost.lines) > 1 else ""
    made = [
        doc.Card(f"USD per 1 M {of}", least.text, at(cheapest.speed) + label, least.interval),
        doc.Card(f"{of} per USD", f"{cheapest.units_per_usd:,.0f}", cheapest.machine),
        doc.Card("USD a month", usd(cheapest.usd_per_month), _MONTH),
    ]
    if (training := cheapest.training) is not None:
        total, size = price(training.cost), f"{training.samples:,.0f} {cheapest.speed.unit}s"
        made.append(doc.Card("USD a training", total.text, f"{training.epochs:g} x {size}", total.interval))
    if (month := cheapest.monthly) is not None:
        note = f"at {month.rate:g}/s, {_say_use(month)}"
        made.append(doc.Card("USD a month at this rate", usd(month.usd), note))
    return made
