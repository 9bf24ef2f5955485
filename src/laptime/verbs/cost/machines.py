"""On which machine a run was measured, at which price, and whether that can be; `--where`: every machine
whose price is known, with what it cannot beat, and what it is predicted to do."""

import math
import platform
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import structs

from laptime.analysis.promises import Promise
from laptime.kit.errors import UsageError
from laptime.kit.typed import is_loopback
from laptime.kit.units import show, usd
from laptime.pricing import formulas, location
from laptime.pricing.bounds import Bound, Reached, bound, devices, fits, may_lower, predict, work_of
from laptime.pricing.bounds import quality as quality_of
from laptime.pricing.formulas import memory_needed, size_down
from laptime.pricing.location import find
from laptime.pricing.machine_table import MEMORY_OFF, Table
from laptime.probes.machine import cloud
from laptime.probes.peaks import accelerators, cores_of, slice_of
from laptime.records.cost import Elsewhere, Line, Machine, Prediction, Speed, Work
from laptime.records.environment import Device
from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.verbs.cost.request import CostRequest

_ARM = frozenset({"Neoverse N1", "Neoverse V1", "Neoverse V2", "Neoverse N2", "Cobalt 100", "AmpereOne"})


class Known(NamedTuple):
    """A run's machine, how it is known, and which of its prices it has: see `Priced`."""

    machine: Machine
    by: str
    price: str = "listed"


def machine_of(run: Run, at: int, request: CostRequest, table: Table) -> Known:
    """The machine of the run at this place of the command line.
    Raises UsageError: nobody says which, or at what price."""
    if names := request.machines:
        known = Known(find(names[at if len(names) > 1 else 0], table, run.environment), "machine")
    elif request.usd_per_hour is not None:
        return Known(_own(run, request.usd_per_hour), "flag", "typed")
    else:
        known = _read_record(run, request, table)
    if (price := request.usd_per_hour) is not None:
        typed = structs.replace(known.machine, usd_per_hour=price, origin="flag", source="typed", seen="")
        return Known(typed, "flag", "typed")
    kind = "spot" if request.spot else "reserved" if request.reserved else ""
    return Known(_price(known.machine, kind), known.by, kind) if kind else known


def _own(run: Run, price: float) -> Machine:
    """Describe a machine of which the user gave the price alone."""
    environment = run.environment
    return Machine(
        provider="",
        shape="your machine",
        vcpus=float(environment.vcpus) or None,
        cores=environment.physical_cores,
        memory=environment.memory / 2**30 or None,
        usd_per_hour=price,
        source="typed",
        origin="flag",
    )


def _price(machine: Machine, kind: str) -> Machine:
    """At its price of this kind: spot, reserved."""
    price = machine.spot_usd_per_hour if kind == "spot" else machine.reserved_usd_per_hour
    if price is None:
        raise UsageError(
            f"no {kind} price of {machine.name} is known",
            why=f"its price list has none ({machine.source})",
            next="laptime cost last --usd-per-hour 1.2" if kind == "spot" else "laptime cost update",
        )
    seen = (machine.spot_seen if kind == "spot" else "") or machine.seen
    return structs.replace(machine, usd_per_hour=price, free_usd_per_month=None, seen=seen)


def _read_record(run: Run, request: CostRequest, table: Table) -> Known:
    """Return the machine from the run's own record; if it was measured here, from this machine now."""
    for subject in run.subjects if run.verb == "load" else []:
        host = urlsplit(subject.target).hostname or ""
        if host and not is_loopback(host):
            raise UsageError(
                f"no price is known for the machine of run {run.id}",
                why=f"it put load on {host}, but records only the machine that sent it",
                next="--usd-per-hour 4   or --machine aws:g5.xlarge",
            )
    told, by = run.environment.cloud, "run"
    is_here = run.environment.host == platform.node()
    if not location.is_whole(told) and is_here:
        told, by = cloud() or told, "dmi"
        if request.detect:
            told, by = location.detect() or told, "metadata"
    if location.is_whole(told):
        return Known(find(str(told), table, run.environment), by)
    provider = (told or "").partition(":")[0]
    why = f"its mainboard says {provider}, but no shape" if provider else "its mainboard names no cloud"
    if not is_here:
        why = "it was measured on another machine, and does not name its shape"
    elif request.detect:
        why += f"; no metadata service answered within {location.LIMIT:g} s"
    example = {"oci": "oci:VM.Standard.E3.Flex:16:32", "azure": "azure:Standard_D32s_v6"}
    shape = example.get(provider, "aws:g5.xlarge" if provider != "gcp" else "gcp:g2-standard-4")
    next = f"--usd-per-hour 4   or --machine {shape}" + ("" if request.detect else "   or --detect")
    raise UsageError(f"no price is known for the machine of run {run.id}", why=why, next=next)


def refuse_mismatch(run: Run, speed: Speed, machine: Machine) -> None:
    """Raise if a run cannot have been measured on this machine.
    Raises UsageError: another accelerator, none, or a CPU of another architecture."""
    if machine.origin == "flag" and not machine.provider:
        return
    environment, why = run.environment, ""
    if not speed.device.startswith("cpu"):
        why = _other_accelerator(_device(run, speed), machine)
    is_arm = "asimd" in environment.isa
    if not why and machine.cpu and environment.isa and bool(_ARM & {*machine.cpu}) is not is_arm:
        why = f"it ran on {environment.cpu or 'another kind'}, that machine has {machine.cpu[0]}"
    if why:
        next = f"laptime cost {run.id} --usd-per-hour 4 --where   shows what it cannot beat"
        raise UsageError(f"run {run.id} was not measured on {machine.name}", why=why, next=next)


def _device(run: Run, speed: Speed) -> Device:
    """The accelerator that a speed comes from."""
    known = (device for device in run.environment.devices if device.name == speed.device)
    return next(known, Device(name=speed.device, model=speed.device))


_FORM = re.compile(r"-(SXM\d?|PCIe|NVL)")


def _other_accelerator(device: Device, machine: Machine) -> str:
    """Say why the machine's accelerator cannot be the one that a run used; "" if it may be."""
    name, there = slice_of(device.model, device.memory)[0], machine.accelerator
    if not there:
        return f"it ran on {name or device.model}, and that machine has no accelerator"
    sizes, words = accelerators(), {*re.split(r"[-\s]", f"{device.model} {name}".lower())}
    needed = {there.lower().partition("-")[0]} if there in sizes else {*re.split(r"[-\s]", there.lower())}
    fits, told = needed <= words, (device.memory or 0) / 2**30
    if name in sizes and there in sizes:
        is_size = machine.accelerators < 1 or sizes[name] == sizes[there]
        fits = is_size and _FORM.sub("", name) == _FORM.sub("", there)
    memory = machine.accelerator_memory or sizes.get(there, 0.0) * min(1.0, machine.accelerators)
    told = told if machine.accelerators < 1 else sizes.get(name, told)
    if fits and memory and told and abs(told / memory - 1) > MEMORY_OFF:
        return f"it ran on {name or device.model} of {told:.3g} GiB, and that machine has {memory:.3g} GiB"
    return "" if fits else f"it ran on {name or device.model}, and that machine has {there}"


def doubts(run: Run, speed: Speed, machine: Machine) -> list[str]:
    """Sentences about what does not fit together, where it may still be."""
    environment, on_cpu = run.environment, speed.device.startswith("cpu")
    found = []
    if on_cpu and machine.accelerator:
        found.append(
            f"run {run.id} used the CPU alone: the price of {machine.name} has "
            f"{machine.accelerators:g} {machine.accelerator} in it that did nothing"
        )
    if not on_cpu:
        device = _device(run, speed)
        name, part = slice_of(device.model, device.memory)
        if machine.accelerator not in ("", name, device.model, device.model.partition(" ")[2]):
            found.append(
                f"run {run.id} ran on {device.model}, {machine.name} has {machine.accelerator}: "
                "whether they are the same is not known"
            )
        if part < 1:
            typed = f"{machine.usd_per_hour:g} USD/h is taken as the price of the slice"
            paid = f"the cost is that of {part:.3g} of the card" if machine.accelerator else typed
            found.append(f"run {run.id} used a MIG slice of {name or 'a card'}, {device.model}: {paid}")
    ran = cores_of(environment.cpu, environment.isa)
    if machine.cpu and ran and not {*ran} & {*machine.cpu}:
        found.append(
            f"run {run.id} ran on {environment.cpu or ' or '.join(ran)}, {machine.name} has "
            f"{' or '.join(machine.cpu)}: it was not measured there"
        )
    if environment.vcpus and machine.vcpus and machine.provider and machine.vcpus != environment.vcpus:
        share = share_of(run, speed, machine)
        found.append(
            f"run {run.id} saw {environment.vcpus} vCPUs, {machine.name} has {machine.vcpus:g}: the cost is "
            f"that of {'the whole' if share == 1 else f'{share:.3g} of the'} machine at the speed of the run"
        )
    elif on_cpu and environment.vcpus and environment.usable_cpus < environment.vcpus:
        found.append(
            f"run {run.id} could use {environment.usable_cpus:g} of {environment.vcpus} CPUs: "
            "the cost is that of the whole machine"
        )
    return found


def share_of(run: Run, speed: Speed, machine: Machine) -> float:
    """Share of a machine with accelerators that a speed needs; 1 for CPUs."""
    if speed.device.startswith("cpu") or not machine.accelerators:
        return 1.0
    device = _device(run, speed)
    used = speed.instances if speed.at == "training" else 1
    return min(1.0, used * slice_of(device.model, device.memory)[1] / machine.accelerators)


# Elsewhere.

_CORES = 16.0  # cores that a flexible shape is sized to where the run does not tell how many it had


class MachineLine(NamedTuple):
    """A line with the run and the machine that it comes from."""

    run: Run
    line: Line
    machine: Machine


class Question(NamedTuple):
    """The question to every machine."""

    work: Work  # of one call of the reference
    batch: float  # units in it
    reference: Line  # the measured line that bounds are held against: the cheapest
    loose: bool  # float32 may be computed in a lower precision
    # host, device: bytes that it needs of a machine, and of an accelerator
    host: float | None
    device: float | None
    utilization: float
    wanted: Sequence[Promise]
    today: date


def question(
    measured: Sequence[MachineLine], *, utilization: float, wanted: Sequence[Promise], today: date
) -> Question | str:
    """The cheapest measured line and its work; a sentence if nothing bounds it."""
    cheapest = min(measured, key=lambda each: each.line.usd_per_million)
    speed, run = cheapest.line.speed, cheapest.run
    case = next((case for case in run.cases if case.key == speed.case), None)
    work = work_of(case) if case is not None else None
    if work is None:
        return (
            f"nothing bounds other machines: run {run.id} has no count of dense products and convolutions "
            "(laptime bench counts them, without --timing-only)"
        )
    backend = str(speed.axes.get("backend", "torch"))
    on_cpu = speed.device.startswith("cpu")
    return Question(
        work=work,
        batch=speed.batch,
        reference=cheapest.line,
        loose=may_lower(run.environment.knobs, backend),
        host=memory_needed(speed.host_memory) if on_cpu and speed.host_memory else None,
        device=work.weights or None if on_cpu else speed.device_memory,
        utilization=utilization,
        wanted=wanted,
        today=today,
    )


def elsewhere(
    asked: Question, measured: Sequence[MachineLine], table: Table
) -> tuple[list[Elsewhere], Prediction]:
    """All machines but the measured ones: the cheapest bound first; and how good predictions are."""
    reached = list(_find_reached(asked, measured))
    quality = quality_of(reached)
    names = {each.machine.name for each in measured}
    others = (machine for machine in _machines(asked, measured, table) if machine.name not in names)
    kept = [_row(machine, asked, reached, quality) for machine in others]
    order = {"estimate": 0, "open": 0, "ruled out": 1, "does not fit": 2, "unknown": 3}
    kept.sort(
        key=lambda row: (order[row.word], row.is_old, row.usd_per_million or math.inf, row.machine.name)
    )
    return kept, quality


def _machines(asked: Question, measured: Sequence[MachineLine], table: Table) -> Iterator[Machine]:
    """The table's machines, each in its cheapest region; flexible shapes with the cores of the reference."""
    dearest_first = sorted(table.machines, key=lambda each: each.usd_per_hour, reverse=True)
    cheapest = {machine.name: machine for machine in dearest_first}
    yield from cheapest.values()
    reference = next((each for each in measured if each.line is asked.reference), measured[0])
    cores = reference.machine.cores or reference.run.environment.physical_cores or _CORES
    for shape in table.flex:
        size = size_down(shape, cores, reference.line.speed.host_memory)
        if size is not None and size.name not in cheapest:  # there it stands at a contract's price
            yield size


def _find_reached(asked: Question, measured: Sequence[MachineLine]) -> Iterator[Reached]:
    """Yield what the same work reached on each measured machine, on one accelerator or on all cores."""
    seen = set()
    for each in measured:
        speed = each.line.speed
        axes = {**asked.reference.speed.axes, "device": speed.device}
        alike = speed.target == asked.reference.speed.target and speed.axes == axes
        best = bound(asked.work, each.machine, is_loose=asked.loose) if alike else None
        if best is not None and each.machine.name not in seen:
            seen.add(each.machine.name)
            limit = best.rate / devices(each.machine)
            yield Reached(each.machine, min(speed.rate / speed.batch, limit), limit)


def _row(machine: Machine, asked: Question, reached: Sequence[Reached], quality: Prediction) -> Elsewhere:
    row = Elsewhere(
        kind="bounded",
        word="unknown",
        machine=machine,
        age=formulas.age_text(machine, asked.today),
        is_old=bool(formulas.age_warning(machine, asked.today)),
    )
    if why := fits(machine, host=asked.host, device=asked.device):
        return structs.replace(row, word="does not fit", reason=why)
    best = bound(asked.work, machine, is_loose=asked.loose)
    if best is None:
        what = machine.accelerator or "|".join(machine.cpu) or "its CPU"
        why = f"no peak of {what} is known for {' and '.join(asked.work.flops)}"
        return structs.replace(row, reason=why)
    number = devices(machine)
    told = "" if quality.why_not else predict(reached, machine, best.rate / number)
    if isinstance(told, str):
        return _bound(row, asked, best)
    rate = told.scale(asked.batch * number)
    cost = formulas.per_million(machine.usd_per_hour, rate, asked.utilization)
    return structs.replace(
        row,
        kind="predicted",
        word="estimate",
        rate=rate.value,
        usd_per_million=cost.value,
        ci95=cost.interval,
        limit=best.limit,
        reason=f"{told.value * number / best.rate:.0%} of its bound, as on {len(reached)} machines",
    )


def _bound(row: Elsewhere, asked: Question, best: Bound) -> Elsewhere:
    """The best case of a machine, and whether it is good enough to try."""
    rate = best.rate * asked.batch
    bounded = Quantity(rate, unit="1/s", exact=True)
    least = formulas.per_million(row.machine.usd_per_hour, bounded, asked.utilization).value
    reference = asked.reference
    dearest = reference.usd_per_million if reference.cost.high is None else reference.cost.high
    late = next((each for each in asked.wanted if best.seconds > each.limit), None)
    what = f"not faster than {show(rate, '1/s')}, so not below {usd(least)} USD per 1 M"
    if late:
        what = f"no call is faster than {show(best.seconds, 's')}, which breaks {late.text}"
    elif least > dearest:
        what += f"; {usd(reference.usd_per_million)} was measured on {reference.machine}"
    return structs.replace(
        row,
        word="ruled out" if late or least > dearest else "open",
        rate=rate,
        latency=best.seconds,
        usd_per_million=least,
        limit=best.limit,
        reason=what,
    )
