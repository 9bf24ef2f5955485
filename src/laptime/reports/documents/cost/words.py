"""Words that all parts of a cost's document share."""

from __future__ import annotations

from laptime.kit.text import count
from laptime.kit.units import percent, usd
from laptime.records.cost import Cost, Line, Machine, Speed
from laptime.reports._words import printable


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


def at(speed: Speed) -> str:
    """`at saturation`, `at latency=50 ms@p99`, `while training`."""
    return "while training" if speed.at == "training" else f"at {speed.at}"


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
