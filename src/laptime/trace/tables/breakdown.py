"""A step's time in categories, by priority: each takes what no earlier one took. Their sum is the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from laptime.records.overview import Breakdown
from laptime.trace import intervals, names
from laptime.trace.columns import DeviceKind, HostKind, Ints, Mask
from laptime.trace.intervals import Ranges
from laptime.trace.view import Steps, View

CATEGORIES = Breakdown.__struct_fields__


def breakdown(view: View) -> list[Breakdown]:
    """One a step, with communication as it ran: kernels of collectives, and host ranges of those that the
    host itself carries out (gloo, MPI, UCC). Driver calls are runtime.
    """
    device, texts = view.trace.device, view.trace.texts
    talks = names.rows(texts, device.name, names.is_communication)
    carried_out = names.rows(texts, view.trace.host.name, names.is_host_collective)
    return _by_priority(view, talks, carried_out, (HostKind.RUNTIME, HostKind.DRIVER))


def plugin_breakdown(view: View) -> list[Breakdown]:
    """One a step, as the TensorBoard plugin counts: communication is the host range of five collectives, with
    their kernels only in format A (later ones lost the ids that it needs); driver calls do not count.

    Source: rules of kineto's tb_plugin. Left out are its faults: ranges projected onto streams counted as
    work of the host; where a step was full, lower categories were counted as if nothing were taken.
    """
    host, device, texts = view.trace.host, view.trace.device, view.trace.texts
    ranges = names.rows(texts, host.name, names.is_collective_plugin)
    talks = np.zeros(len(device), bool)
    if view.trace.format == "A" and ranges.any():
        talks = names.rows(texts, device.name, names.is_nccl)
    return _by_priority(view, talks, ranges, (HostKind.RUNTIME,))


def mean(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """Mean of each category, rounded so that the sum is the rounded mean step (largest remainders up)."""
    number = len(breakdowns)
    sums = [sum(getattr(each, name) for each in breakdowns) for name in CATEGORIES]
    parts = [total // number for total in sums]
    missing = (2 * sum(sums) + number) // (2 * number) - sum(parts)
    by_remainder = sorted(range(len(sums)), key=lambda index: -(sums[index] % number))
    for index in by_remainder[:missing]:
        parts[index] += 1
    return Breakdown(**dict(zip(CATEGORIES, parts, strict=True)))


def _by_priority(view: View, talks: Mask, talking: Mask, runtime: Iterable[HostKind]) -> list[Breakdown]:
    """The breakdown, given which rows communicate: device rows in `talks`, host rows in `talking`."""
    trace, steps = view.trace, view.steps
    device, host = trace.device, trace.host
    kernel = device.kind == DeviceKind.KERNEL
    calls = np.isin(host.kind, tuple(runtime))
    works = np.isin(host.kind, (HostKind.OPERATOR, HostKind.ANNOTATION))
    loads = works & names.rows(trace.texts, host.name, names.is_dataloader)
    runs = works & ~names.rows(trace.texts, host.name, names.is_step)
    runs &= ~names.rows(trace.texts, host.name, names.is_input_stage)  # ahead of the loop, beside it
    on_device = [
        intervals.union(device.start[take], device.end[take])
        for take in (
            kernel & ~talks,
            device.kind == DeviceKind.MEMCPY,
            device.kind == DeviceKind.MEMSET,
            kernel & talks,
        )
    ]
    on_host = [
        intervals.union(host.start[take], host.end[take]) for take in (works & talking, calls, loads, runs)
    ]
    classes = [*on_device[:3], intervals.join(on_device[3], on_host[0]), *on_host[1:]]
    covered = [covered_by(ranges, steps) for ranges in accumulate(classes, intervals.join)]
    length = steps.end - steps.start
    columns = np.diff(np.stack([np.zeros_like(length), *covered, length]), axis=0).T
    return [Breakdown(**dict(zip(CATEGORIES, row, strict=True))) for row in columns.tolist()]


def covered_by(ranges: Ranges, steps: Steps) -> Ints:
    """Per step: ns of it that the set covers."""
    return intervals.within(ranges, steps.start, steps.end)
