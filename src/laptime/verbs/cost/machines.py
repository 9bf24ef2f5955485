"""On which machine a run was measured, at which price, and whether that can be."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.pricing import location
from laptime.pricing.lookup import find
from laptime.pricing.machine_table import Table
from laptime.probes.machine import cloud
from laptime.probes.peaks import accelerator_name
from laptime.records.cost import Machine, Speed
from laptime.records.environment import Environment
from laptime.records.run import Run
from laptime.verbs.cost.request import CostRequest
from laptime.verbs.load.request import is_loopback

_ARM = frozenset({"Neoverse N1", "Neoverse V1", "Neoverse V2", "Neoverse N2", "Cobalt 100", "AmpereOne"})


class Known(NamedTuple):
    """A run's machine, and how it is known: flag, machine, run, dmi, metadata."""

    machine: Machine
    by: str


def machine_of(run: Run, at: int, request: CostRequest, table: Table) -> Known:
    """The machine of the run at this place of the command line.

    Raises:
        UsageError: nobody says which, or at what price.
    """
    named = _named(at, request.machines)
    if named:
        known = Known(find(named, table, run.environment), "machine")
    elif request.usd_per_hour is not None:
        return Known(_own(run, request.usd_per_hour), "flag")
    else:
        known = _recorded(run, request, table)
    if request.usd_per_hour is not None:
        own = structs.replace(
            known.machine, usd_per_hour=request.usd_per_hour, origin="flag", source="typed", seen=""
        )
        return Known(own, "flag")
    if request.spot:
        return Known(_spot(known.machine), known.by)
    return known


def _named(at: int, names: Sequence[str]) -> str:
    return "" if not names else names[at if len(names) > 1 else 0]


def _own(run: Run, price: float) -> Machine:
    """What is known of a machine of which the user gave the price alone."""
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


def _spot(machine: Machine) -> Machine:
    if machine.spot_usd_per_hour is None:
        raise UsageError(
            f"no spot price of {machine.name} is known",
            why=f"its row has none ({machine.source})",
            next="--usd-per-hour 1.2",
        )
    return structs.replace(machine, usd_per_hour=machine.spot_usd_per_hour)


def _recorded(run: Run, request: CostRequest, table: Table) -> Known:
    """From the run's own record; where it was measured here, from this machine now."""
    _refuse_distant(run)
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
        why = "it was measured on another machine, and does not tell its shape"
    elif request.detect:
        why += f"; no metadata service answered within {location.LIMIT:g} s"
    example = {"oci": "oci:VM.Standard.E3.Flex:16:32", "azure": "azure:Standard_D32s_v6"}
    shape = example.get(provider, "aws:g5.xlarge" if provider != "gcp" else "gcp:g2-standard-4")
    raise UsageError(
        f"no price is known for the machine of run {run.id}",
        why=why,
        next=f"--usd-per-hour 4   or --machine {shape}" + ("" if request.detect else "   or --detect"),
    )


def _refuse_distant(run: Run) -> None:
    """Raise where load was put on another machine: what the run tells is the one that sent it."""
    for subject in run.subjects if run.verb == "load" else []:
        host = urlsplit(subject.target).hostname or ""
        if host and not is_loopback(host):
            raise UsageError(
                f"no price is known for the machine of run {run.id}",
                why=f"it put load on {host}, and knows the machine that sent it only",
                next="--usd-per-hour 4   or --machine aws:g5.xlarge",
            )


def refuse_mismatch(run: Run, speed: Speed, machine: Machine) -> None:
    """Raise where a run cannot have been measured on this machine.

    Raises:
        UsageError: another accelerator, none, or another kind of CPU.
    """
    on_cpu = speed.device.startswith("cpu")
    if machine.origin == "flag" and not machine.provider:
        return
    other = f"laptime cost {run.id} --usd-per-hour 4 --where   what it cannot beat"
    if not on_cpu and not machine.accelerator:
        raise UsageError(
            f"run {run.id} was not measured on {machine.name}",
            why=f"it ran on {speed.device}, and that machine has no accelerator",
            next=other,
        )
    model = _accelerator(run.environment, speed.device)
    if model and machine.accelerator and model.partition("-")[0] != machine.accelerator.partition("-")[0]:
        raise UsageError(
            f"run {run.id} was not measured on {machine.name}",
            why=f"it ran on {model}, and that machine has {machine.accelerator}",
            next=other,
        )
    is_arm = "asimd" in run.environment.isa
    if machine.cpu and run.environment.isa and bool(_ARM & {*machine.cpu}) is not is_arm:
        raise UsageError(
            f"run {run.id} was not measured on {machine.name}",
            why=f"it ran on {run.environment.cpu or 'another kind'}, that machine has {machine.cpu[0]}",
            next=other,
        )


def _accelerator(environment: Environment, device: str) -> str:
    """The table's name of the accelerator that was used; "" on CPUs and where it is not known."""
    used = next((each for each in environment.devices if each.name == device and each.name != "cpu"), None)
    return accelerator_name(used.model, used.memory) if used else ""


def doubts(run: Run, speed: Speed, machine: Machine) -> list[str]:
    """Sentences about what does not fit together, where it may still be."""
    environment, on_cpu = run.environment, speed.device.startswith("cpu")
    found = []
    if on_cpu and machine.accelerator:
        found.append(
            f"run {run.id} used the CPU alone: the price of {machine.name} has "
            f"{machine.accelerators:g} {machine.accelerator} in it that did nothing"
        )
    if environment.vcpus and machine.vcpus and machine.provider and machine.vcpus != environment.vcpus:
        found.append(
            f"run {run.id} saw {environment.vcpus} vCPUs, {machine.name} has {machine.vcpus:g}: "
            "the cost is that of the whole machine at the speed of the run"
        )
    elif on_cpu and environment.vcpus and environment.usable_cpus < environment.vcpus:
        found.append(
            f"run {run.id} could use {environment.usable_cpus:g} of {environment.vcpus} CPUs: "
            "the cost is that of the whole machine"
        )
    return found


def share_of(speed: Speed, machine: Machine) -> float:
    """Share of a machine with several accelerators that a speed needs; 1 for CPUs."""
    if speed.device.startswith("cpu") or machine.accelerators <= 1:
        return 1.0
    used = speed.instances if speed.at == "training" else 1
    return min(1.0, used / machine.accelerators)
