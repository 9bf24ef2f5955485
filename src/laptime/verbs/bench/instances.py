"""`--instances`: variants that run several copies of a program at the same time, where there are CPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import structs

from laptime.kit import system_files
from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.launch.instances import placed
from laptime.records.check import Finding
from laptime.records.plan import BenchRequest, Variant


def usable() -> list[int]:
    """CPUs that this process may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return list(range(os.cpu_count() or 1))


def room() -> int:
    """CPUs that processes of this machine may keep busy: the usable ones, or a container's quota of them."""
    cpus, quota = len(usable()), system_files.cpu_quota("/")
    return cpus if quota is None else min(cpus, max(1, int(quota)))


def cpus_of(variant: Variant) -> list[list[int]]:
    """CPUs of each instance of a variant; [] where it runs once."""
    number = variant.options.get("instances", 1)
    return placed(number, variant.threads or 1, usable()) if isinstance(number, int) and number > 1 else []


def variants(request: BenchRequest, planned: Sequence[Variant]) -> tuple[list[Variant], list[Finding]]:
    """Each variant with each number of instances, and a finding on those that there are no CPUs for.

    Threads that nobody set are the usable CPUs, shared out.

    Raises:
        UsageError: no number of them fits.
    """
    if not request.instances:
        return list(planned), []
    cpus = room()
    made, left_out = [], []
    for variant in planned:
        for number in request.instances:
            threads = variant.threads or max(1, cpus // number)
            if number * threads > cpus and number > 1:
                left_out.append(f"{number} x {threads}")
                continue
            # One instance stays as it is without: its threads go where the system puts them.
            options = {**variant.options, **({"instances": number} if number > 1 else {})}
            made.append(structs.replace(variant, threads=threads, options=options))
    if not made:
        raise UsageError(
            f"{' and '.join(left_out)} threads do not fit on {count(cpus, 'CPU')}",
            why="each instance needs CPUs of its own, or they would wait for each other",
            next="--instances 1,2 --threads 1",
        )
    sentence = f"instances x threads left out, more than {count(cpus, 'usable CPU')}: {', '.join(left_out)}"
    return made, [Finding(kind="instances/left_out", sentence=sentence)] if left_out else []


def check(request: BenchRequest, *, in_memory: bool) -> None:
    """Check what a request says of instances, whatever its targets are.

    Raises:
        UsageError: they cannot be measured so.
    """
    if not request.instances:
        return
    if in_memory:
        raise UsageError(
            "an object of this process cannot run in several instances",
            why="it exists once",
            next="laptime bench FILE.py:FUNCTION --instances 2",
        )
    if min(request.instances) < 1:
        raise UsageError(
            f"--instances {min(request.instances)} is impossible",
            why="at least one copy has to run",
            next="--instances 1,2",
        )
    if request.rate is not None:
        raise UsageError(
            "--instances and --rate do not go together",
            why="calls at a rate go to one instance",
            next="leave one of them out",
        )
