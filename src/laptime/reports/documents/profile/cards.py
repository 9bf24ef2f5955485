"""The numbers that people come for: of the device where there is one, else of the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.records.overview import DeviceUse
from laptime.records.profile import Profile
from laptime.records.tables import Memory
from laptime.reports.document import Card
from laptime.reports.documents.profile import words

_TITLES = {"data": "waiting for data"}


def cards(profile: Profile) -> list[Card]:
    """Key numbers, each with what it means."""
    if profile.is_snapshot:
        return [_peak(memory) for memory in profile.memory if memory.peak is not None]
    if profile.is_log:
        return [_compiled(profile)]
    return [_step(profile), *(_device(profile) if profile.overview.devices else _cpu(profile))]


def _peak(memory: Memory) -> Card:
    note = f"{words.size(memory.reserved_peak)} reserved" if memory.reserved_peak else "allocated"
    return Card(title=f"peak of {memory.device}", figure=words.size(memory.peak or 0), note=note)


def _compiled(profile: Profile) -> Card:
    again = sum(bool(row.reasons) for row in profile.compilations)
    spent = sum(row.total_ns for row in profile.compilations)
    return Card(
        title="compilation", figure=words.time(spent), note=f"{again} of {len(profile.compilations)} again"
    )


def _step(profile: Profile) -> Card:
    overview, untraced = profile.overview, profile.reconciled
    if untraced:
        note = f"{words.time(overview.step_ns)} profiled ({untraced.slowdown:.2f}x)"
        return Card(title="step time, untraced", figure=words.time(untraced.untraced_ns), note=note)
    median = f"median {words.time(overview.step_median_ns)} of {overview.steps}"
    note = median if overview.steps > 1 else "one step"
    return Card(title="step time, mean", figure=words.time(overview.step_ns), note=note)


def _device(profile: Profile) -> Iterator[Card]:
    uses, steps = profile.overview.devices, max(profile.overview.steps, 1)
    many = f"mean of {len(uses)} devices" if len(uses) > 1 else "time in which a kernel runs"
    could = _mean(uses, "tensor_core_eligible")
    for name, title, note in (
        ("utilization", "device utilisation", many),
        ("sm_efficiency", "SM efficiency", "blocks for every multiprocessor, estimated"),
        ("occupancy", "achieved occupancy", "estimated, weighted by kernel time"),
        ("tensor_core_share", "tensor cores", f"{could} could use them" if could else "of kernel time"),
    ):
        if figure := _mean(uses, name):
            yield Card(title=title, figure=figure, note=note)
    if total := sum(use.communication_ns for use in uses):
        exposed = sum(use.exposed_communication_ns for use in uses)
        note = f"a step, of {words.time(total / steps)} in all"
        yield Card(title="exposed communication", figure=words.time(exposed / steps), note=note)


def _mean(uses: list[DeviceUse], name: str) -> str:
    shares = [share for use in uses if (share := getattr(use, name)) is not None]
    return words.percent(sum(shares) / len(shares)) if shares else ""


def _cpu(profile: Profile) -> Iterator[Card]:
    overview, untraced = profile.overview, profile.reconciled
    # All parts are those of one measurement, so that they sum to no more than its step.
    parts, step_ns = {phase.name: phase.host_ns for phase in overview.phases}, overview.step_ns
    if untraced and untraced.parts_ns:
        parts, step_ns = untraced.parts_ns, untraced.untraced_ns
    for name in ("data", "forward", "backward", "optimizer"):
        if ns := parts.get(name):
            yield _part(_TITLES.get(name, name), ns, step_ns)
    if untraced and untraced.threads_busy is not None:
        note = "CPU time over wall time, untraced"
        yield Card(title="threads busy", figure=f"{untraced.threads_busy:.2f}", note=note)
    elif overview.threads_busy is not None:
        note = "inside an operator at a time"
        yield Card(title="threads busy", figure=f"{overview.threads_busy:.2f}", note=note)


def _part(title: str, ns: int, step_ns: int) -> Card:
    return Card(title=title, figure=words.time(ns), note=f"{words.share(ns, step_ns)} of a step")
