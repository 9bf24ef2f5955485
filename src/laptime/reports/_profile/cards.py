"""The numbers that people come for, each with what stands behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from laptime.records.overview import DeviceUse
from laptime.records.profile import Profile
from laptime.reports._profile import words
from laptime.reports._words import percent


class Card(NamedTuple):
    """A key number, and a few words under it."""

    title: str
    figure: str
    note: str


def cards(profile: Profile) -> list[Card]:
    """Of the device where there is one, else of the CPU."""
    return [_step(profile), *(_device(profile) if profile.overview.devices else _cpu(profile))]


def _step(profile: Profile) -> Card:
    seen = profile.overview
    if profile.reconciled:
        return Card(
            "step time, untraced",
            words.time(profile.reconciled.untraced_ns),
            f"{words.time(seen.step_ns)} profiled ({profile.reconciled.slowdown:.2f}x)",
        )
    median = f"median {words.time(seen.step_median_ns)} of {seen.steps}" if seen.steps > 1 else "one step"
    return Card("step time, mean", words.time(seen.step_ns), median)


def _device(profile: Profile) -> Iterator[Card]:
    seen = profile.overview
    uses = seen.devices
    many = f"mean of {len(uses)} devices" if len(uses) > 1 else ""
    yield Card("device utilisation", _mean(uses, "utilization"), many or "time in which a kernel runs")
    if any(use.sm_efficiency is not None for use in uses):
        yield Card(
            "SM efficiency", _mean(uses, "sm_efficiency"), "blocks for every multiprocessor, estimated"
        )
    if any(use.occupancy is not None for use in uses):
        yield Card("achieved occupancy", _mean(uses, "occupancy"), "estimated, weighted by kernel time")
    if any(use.tensor_core_share is not None for use in uses):
        could = _mean(uses, "tensor_core_eligible")
        yield Card(
            "tensor cores",
            _mean(uses, "tensor_core_share"),
            f"{could} could use them" if could else "of kernel time",
        )
    if any(use.communication_ns for use in uses):
        steps = max(seen.steps, 1)
        exposed = sum(use.exposed_communication_ns for use in uses)
        total = sum(use.communication_ns for use in uses)
        yield Card(
            "exposed communication",
            words.time(exposed / steps),
            f"a step, of {words.time(total / steps)} in all",
        )


def _mean(uses: list[DeviceUse], name: str) -> str:
    known = [value for use in uses if (value := getattr(use, name)) is not None]
    return percent(sum(known) / len(known)) if known else ""


def _cpu(profile: Profile) -> Iterator[Card]:
    seen, reconciled = profile.overview, profile.reconciled
    loader = reconciled.loader_wait_ns if reconciled else None
    wait = loader if loader is not None else seen.breakdown.dataloader_ns
    whole = reconciled.untraced_ns if reconciled and loader is not None else seen.step_ns
    if wait:
        yield Card("waiting for data", words.time(wait), f"{words.share(wait, whole)} of a step")
    for phase in seen.phases:
        if phase.name in ("forward", "backward", "optimizer"):
            yield Card(
                phase.name, words.time(phase.host_ns), f"{words.share(phase.host_ns, seen.step_ns)} of a step"
            )
    if reconciled and reconciled.threads_busy is not None:
        yield Card("threads busy", f"{reconciled.threads_busy:.2f}", "CPU time over wall time, untraced")
    elif seen.threads_busy is not None:
        yield Card("threads busy", f"{seen.threads_busy:.2f}", "inside an operator at a time")
