"""Collectives of one rank by kind and dtype: how long each ran, and how long while nothing computed."""

from __future__ import annotations

import numpy as np

from laptime.records.profile import CollectiveUse
from laptime.trace import collectives, intervals, names, phases
from laptime.trace.collectives import Collective
from laptime.trace.columns import DeviceKind, Ints
from laptime.trace.intervals import Ranges
from laptime.trace.view import View

SMALL = 1 << 20
"""Bytes below which a message takes about as long as an empty one: latency, not bandwidth (nccl-tests)."""


def uses(view: View) -> list[CollectiveUse]:
    """One row a kind and dtype, most exposed first; [] without collectives."""
    clock = view.trace.base + view.trace.origin
    begin, end = view.window
    groups: dict[tuple[str, str], list[Collective]] = {}
    for each in collectives.of_rank(view):
        if each.start_ns - clock < end and each.end_ns - clock > begin:
            groups.setdefault((each.name, each.dtype), []).append(each)
    engine, computing = _engine(view), _computing(view)
    rows = []
    for (kind, dtype), members in groups.items():
        start = np.array([each.start_ns - clock for each in members], np.int64)
        ranges = intervals.union(start, start + np.array([each.dur_ns for each in members], np.int64))
        alone = intervals.subtract(intervals.clip(ranges, begin, end), computing)
        computing = intervals.join(computing, alone)
        sizes = [each.bytes for each in members if each.bytes is not None]
        rows.append(
            CollectiveUse(
                kind=kind,
                dtype=dtype,
                calls=len(members),
                total_ns=sum(each.dur_ns for each in members),
                exposed_ns=alone.total,
                bytes=sum(sizes) if len(sizes) == len(members) else None,
                small=sum(size < SMALL for size in sizes),
                in_backward=int((intervals.within(engine, start, start + 1) > 0).sum()),
            )
        )
    return sorted(rows, key=lambda row: (-row.exposed_ns, -row.total_ns))


def _computing(view: View) -> Ranges:
    device = view.trace.device
    kernels = device.kind == DeviceKind.KERNEL
    computes = kernels & ~names.rows(view.trace.texts, device.name, names.is_communication)
    return intervals.union(device.start[computes], device.end[computes])


def _engine(view: View) -> Ranges:
    """From the first launch of each backward to the end of the last work that it launched."""
    host, device, launch = view.trace.host, view.trace.device, view.links.launch
    engine = phases.of_autograd(view)
    backward = intervals.union(host.start[engine], host.end[engine])
    linked = np.flatnonzero(launch >= 0)
    at: Ints = host.start[launch[linked]]
    launched = linked[intervals.within(backward, at, at + 1) > 0]
    return intervals.join(backward, intervals.union(device.start[launched], device.end[launched]))
