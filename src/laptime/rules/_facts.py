"""What rules need to know of a program before they speak: `NEEDS` of a rule names these facts, `!` in front
means that one must not hold. A rule whose needs are not met is silent.

A profile without a workload was read by a reader that looks for none of this: no fact holds.
"""

from __future__ import annotations

from collections.abc import Callable

from laptime.records.profile import HostWork, HostWorkKind, Profile, Workload
from laptime.rules._reading import idle_seconds, operators, per_step, share

BEGINNING: tuple[HostWorkKind, ...] = ("initialisation", "capture", "autotuning")
"""Host work that is no part of a step, however it got into the recording."""
MOSTLY = 0.5
REPLAYED = 0.5
"""Share of the device's activities from which on graphs are what launches them."""
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
    return per_step(profile, sum(row.idle_ns for row in host_work(profile, *kinds)))


def launching_seconds(profile: Profile) -> float:
    """Idle time per step in which the host was launching: without its work that launches nothing."""
    other = host_seconds(
        profile,
        "initialisation",
        "capture",
        "autotuning",
        "compilation",
        "collection",
        "preprocessing",
        "stretch",
    )
    return max(0.0, idle_seconds(profile, "host") - other)


def beginning(profile: Profile) -> float:
    """Share of the steps that is no step: initialisation, capturing, trying kernels."""
    return share(profile, per_step(profile, sum(row.host_ns for row in host_work(profile, *BEGINNING))))


def _has(profile: Profile, pattern: str) -> bool:
    return bool(operators(profile, pattern))


FACTS: dict[str, Callable[[Profile, Workload], bool]] = {
    "training": lambda _, workload: workload.kind == "training",
    "server": lambda _, workload: bool(workload.server),
    "compiled": lambda _, workload: workload.compiled,
    "graphs": lambda _, workload: workload.graph_share >= REPLAYED,
    "loader": lambda _, workload: workload.loader,
    "beginning": lambda profile, _: beginning(profile) >= MOSTLY,
    "cuda": lambda profile, _: profile.device_type == "cuda",
    "cpu": lambda profile, _: profile.device_type == "cpu",
    "conv": lambda profile, _: _has(profile, CONVOLUTION),
}


def unmet(needs: frozenset[str], facts: frozenset[str]) -> str:
    """The first need that is not met; "" when all are."""
    return next(
        (need for need in sorted(needs) if (need.removeprefix("!") in facts) == need.startswith("!")), ""
    )
