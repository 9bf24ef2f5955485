"""A machine by the name that people type.

aws:g5.xlarge    gcp:g2-standard-4@us-east4    oci:VM.Standard.E3.Flex:16:32 (16 OCPUs, 32 GB)
"""

from __future__ import annotations

from difflib import get_close_matches

from laptime.kit.errors import UsageError
from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine
from laptime.records.environment import Environment

_GIB = 2**30


def find(text: str, table: Table, environment: Environment | None = None) -> Machine:
    """The machine that is meant; where several regions have it, the cheapest of them.

    Args:
        environment: of the run; a flexible shape without sizes takes its CPUs and memory.

    Raises:
        UsageError: none has this name (the nearest are told), or a flexible shape is not sold in this size.
    """
    name, _, region = text.strip().partition("@")
    parts = name.split(":")
    stem = ":".join(parts[:2]).lower()
    shape = next((each for each in table.flex if each.name.lower() == stem), None)
    if shape is not None:
        return _sized(shape, parts[2:], environment)
    rows = [row for row in table.machines if row.name.lower() == name.lower()]
    here = [row for row in rows if not region or row.region.lower() == region.lower()]
    if here:
        return min(here, key=lambda row: row.usd_per_hour)
    if rows:
        regions = ", ".join(sorted({row.region for row in rows if row.region}))
        raise UsageError(
            f"no price of {name} in {region!r} is known",
            why=f"regions: {regions}",
            next=f"--machine {rows[0].name}@{rows[0].region}",
        )
    raise _unknown(text, table)


def _sized(shape: FlexShape, texts: list[str], environment: Environment | None) -> Machine:
    example = f"--machine {shape.name}:16:32"
    if not texts and environment is not None and environment.vcpus and environment.memory:
        ocpus = max(1.0, round(environment.vcpus / shape.vcpus_per_ocpu))
        # A machine's memory is a little below what was rented: the kernel keeps some.
        return shape.sized(ocpus, float(max(ocpus * shape.min_gb, round(environment.memory / _GIB))))
    try:
        ocpus, memory = (float(size) for size in texts)
    except ValueError:
        raise UsageError(
            f"{shape.name} is rented by OCPU and GB",
            why=f"{':'.join(texts) or 'no size'} does not say how many of each",
            next=f"{example}   for 16 OCPUs and 32 GB",
        ) from None
    if why := shape.why_not(ocpus, memory):
        raise UsageError(
            f"{shape.name} is not sold with {ocpus:g} OCPUs and {memory:g} GB", why=why, next=example
        )
    return shape.sized(ocpus, memory)


def _unknown(text: str, table: Table) -> UsageError:
    names = {row.name for row in table.machines} | {shape.name for shape in table.flex}
    by_lower = {name.lower(): name for name in names} | {
        name.lower().partition(":")[2]: name for name in names
    }
    wanted = text.partition("@")[0].lower()
    near = list(
        dict.fromkeys(by_lower[each] for each in get_close_matches(wanted, by_lower, n=6, cutoff=0.5))
    )[:3]
    return UsageError(
        f"no machine is called {text!r}",
        why=f"nearest: {', '.join(near)}" if near else f"{len(names):,} are known, as PROVIDER:SHAPE",
        next=f"--machine {near[0]}   or --usd-per-hour 4" if near else "--usd-per-hour 4",
    )
