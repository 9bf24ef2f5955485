"""Facts about a program that rules need before they speak: `NEEDS` of a rule names them, `!` in front
means that one must not hold. A rule whose needs are not met is silent.

A profile without a workload was read by a reader that looks for none of this: no fact holds."""

import re
from collections.abc import Callable
from typing import NamedTuple, get_args

from laptime.records.profile import HostWork, HostWorkKind, Profile, Workload
from laptime.rules import _reading as reading

BEGINNING: tuple[HostWorkKind, ...] = ("initialisation", "capture", "autotuning")
"""Host work that is not part of a step, however it got into the recording."""
MOSTLY = 0.5
SPARSE = 250e-6
"""Seconds of idle time for each launch from which on it is not launching that takes them: ten times what an
eager operator costs."""
REPLAYED = 0.5  # share of the device's activities from which on graphs are what launches them
CONVOLUTION = r"aten::(_?convolution.*|(cudnn|miopen|mkldnn|thnn|_?slow)_?conv.*|conv[123]d)"


def of(profile: Profile) -> frozenset[str]:
    """The facts that hold."""
    workload = profile.workload
    if workload is None:
        return frozenset()
    return frozenset(name for name, holds in FACTS.items() if holds(profile, workload))


def host_work(profile: Profile, *kinds: HostWorkKind) -> list[HostWork]:
    """Host work of these kinds."""
    return [row for row in (profile.workload.host_work if profile.workload else []) if row.kind in kinds]


def host_seconds(profile: Profile, *kinds: HostWorkKind) -> float:
    """Seconds per step of these kinds in which the device had nothing to do; all without a device."""
    return reading.per_step(profile, sum(row.idle_ns for row in host_work(profile, *kinds)))


def launching_seconds(profile: Profile) -> float:
    """Idle time per step in which the host was launching: without its work that launches nothing."""
    return max(0.0, reading.idle_seconds(profile, "host") - host_seconds(profile, *get_args(HostWorkKind)))


def launches_little(profile: Profile) -> bool:
    """Whether the host lets the device idle for `SPARSE` a launch, in what launches nothing."""
    launched, cause = reading.launches_per_step(profile), reading.idle(profile, "host")
    if not launched or cause is None or launching_seconds(profile) < SPARSE * launched:
        return False
    launching = {row.name for row in profile.operators if row.kernels}
    return not cause.operators or cause.operators[0][0] not in launching


def beginning(profile: Profile) -> float:
    """Share of the steps that is no step: initialisation, capturing, trying kernels."""
    return reading.share(
        profile, reading.per_step(profile, sum(row.host_ns for row in host_work(profile, *BEGINNING)))
    )


FACTS: dict[str, Callable[[Profile, Workload], bool]] = {
    "training": lambda _, workload: workload.kind == "training",
    "server": lambda _, workload: bool(workload.server),
    "compiled": lambda _, workload: workload.compiled,
    "graphs": lambda _, workload: workload.graph_share >= REPLAYED,
    "loader": lambda _, workload: workload.loader,
    "beginning": lambda profile, _: beginning(profile) >= MOSTLY,
    "cuda": lambda profile, _: profile.device_type == "cuda",
    "cpu": lambda profile, _: profile.device_type == "cpu",
    "conv": lambda profile, _: bool(reading.operators(profile, CONVOLUTION)),
}


def unmet(needs: frozenset[str], facts: frozenset[str]) -> str:
    """The first need that is not met; "" when all are."""
    return next(
        (need for need in sorted(needs) if (need.removeprefix("!") in facts) == need.startswith("!")), ""
    )


# Waiting for data that no DataLoader range shows: by ranges, by operators

RANGE = (
    r"(?i)(?!enumerate\()(.*(load|fetch|get|next|read|prepare|make)\w{0,2}[ _.:]?(batch|data|sample|input)"
    r"|.*data.?(load|fetch|read)|.*collate)"
)
MAKES_BATCHES = re.compile(
    r"aten::(_?stack|from_file)$|collate|__getitem__|data.?loader|data.?set|decode|(load|next|get)_batch"
    r"|PIL/|cv2|transforms?[/.]",
    re.IGNORECASE,
)


class Wait(NamedTuple):
    """A wait for data: seconds per step, how it was seen, the operators or ranges that show it."""

    seconds: float
    words: str
    names: list[str]


def hidden(profile: Profile) -> Wait | None:
    """The longest wait for data that hides; None when a DataLoader shows it, or there is none."""
    loader_seconds = profile.overview.breakdown.dataloader_ns * 1e-9
    if reading.step(profile) <= 0 or reading.share(profile, loader_seconds) > reading.DATA_WAIT:
        return None
    seen = (_find_attributed(profile), _in_ranges(profile), _in_operators(profile), _preprocessing(profile))
    longest = max(seen)
    return longest if reading.share(profile, longest.seconds) > reading.DATA_WAIT else None


def mistaken(profile: Profile) -> float:
    """Seconds per step that count as the host's work, and certainly are waiting for data."""
    wait = hidden(profile)
    known = wait is not None and wait.names and not host_work(profile, "preprocessing")
    return wait.seconds if wait is not None and known else 0.0


def _preprocessing(profile: Profile) -> Wait:
    """Samples are prepared in the loop itself, by libraries that do nothing else. The verdict counts it."""
    for row in host_work(profile, "preprocessing"):
        seconds = reading.per_step(profile, row.idle_ns)
        names = [name for name, _ in row.names[:2]]
        return Wait(seconds, f"the host prepares samples in {' and '.join(names)}", names)
    return Wait(0.0, "", [])


def _find_attributed(profile: Profile) -> Wait:
    """Return the wait attributed to data already: by the device's idle time, else by the timed loader."""
    if profile.overview.devices:
        return Wait(reading.idle_seconds(profile, "data"), "the device is idle meanwhile", [])
    phase = sum(phase.host_ns for phase in profile.overview.phases if phase.name == "data") * 1e-9
    timed = reading.per_step(profile, sum(each.data_wait_ns for each in profile.steps))
    return Wait(min(reading.step(profile), max(phase, timed)), "the loader was timed", [])


def _in_ranges(profile: Profile) -> Wait:
    """Ranges of the program's own that are called like a loader."""
    ranges = reading.marks(profile, RANGE)
    host = reading.per_step(profile, max((row.host_ns for row in ranges), default=0))
    names = [row.name for row in ranges[:3]]
    if profile.overview.devices:
        host = min(host, reading.idle_seconds(profile, "host"))
    return Wait(host, f"the host is in {', '.join(names)}", names)


def _in_operators(profile: Profile) -> Wait:
    """Operators and functions that make batches, while the device is idle."""
    cause = reading.idle(profile, "host")
    makers = [op for op in (cause.operators if cause is not None else []) if MAKES_BATCHES.search(op[0])]
    spent = reading.per_step(profile, sum(ns for _, ns in makers) / max(1, len(profile.overview.devices)))
    names = [name for name, _ in makers[:3]]
    return Wait(spent, f"the device is idle while the host is in {', '.join(names)}", names)
