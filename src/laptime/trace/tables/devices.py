"""How well each accelerator was used in the window of all steps.

Utilisation, SM efficiency, occupancy and eligibility are defined as in the TensorBoard plugin (kineto,
tb_plugin); exposed and overlapped time and idle time are exact unions.
"""

from __future__ import annotations

import numpy as np

from laptime.records.overview import DeviceUse
from laptime.trace import intervals, kernel_families, names, range_tree
from laptime.trace.columns import DeviceKind, Floats, HostKind, Ints, Mask
from laptime.trace.intervals import Ranges
from laptime.trace.view import View

BUCKETS = 100
"""Points of a busy curve."""


def use(view: View) -> list[DeviceUse]:
    """One row per accelerator that worked in the window, by id."""
    begin, end = view.window
    if end <= begin:
        return []
    device = view.trace.device
    matrix = names.rows(view.trace.texts, device.name, kernel_families.uses_tensor_cores)
    could = eligible(view, matrix)
    inside = (device.start < end) & (device.end > begin)
    return [
        _of(view, inside & (device.device == id_), matrix, could) for id_ in np.unique(device.device[inside])
    ]


def eligible(view: View, matrix: Mask, family: names.Family = names.is_tensor_core_eligible) -> Mask:
    """Device rows launched by operators that could use tensor cores: the innermost ones that are named so
    (of the family) or launched a kernel which uses them (`matrix`, per device row).
    """
    trace, links = view.trace, view.links
    named = names.rows(trace.texts, trace.host.name, family)
    could = named & (trace.host.kind == HostKind.OPERATOR)
    launched = links.operator >= 0
    could[links.operator[launched & matrix]] = True
    above = np.zeros(len(could), bool)  # has one below it that could
    for rows in reversed(range_tree.levels(links.calls)[1:]):
        above[links.calls.parent[rows[could[rows] | above[rows]]]] = True
    kernels: Mask = launched & (trace.device.kind == DeviceKind.KERNEL)
    kernels[kernels] = (could & ~above)[links.operator[kernels]]
    return kernels


def _of(view: View, rows: Mask, matrix: Mask, could: Mask) -> DeviceUse:
    """Use of one accelerator, from its rows inside the window, those on tensor cores and those eligible
    for them."""
    begin, end = view.window
    device, window = view.trace.device, end - begin
    start, stop = np.maximum(device.start, begin), np.minimum(device.end, end)
    kernel = rows & (device.kind == DeviceKind.KERNEL)
    talks = kernel & names.rows(view.trace.texts, device.name, names.is_communication)

    def union(take: Mask) -> Ranges:
        return intervals.union(start[take], stop[take])

    def time(take: Mask) -> int:
        return int((stop - start)[take].sum())

    compute, communication = union(kernel & ~talks), union(talks)
    memcpy, memset = (
        union(rows & (device.kind == DeviceKind.MEMCPY)),
        union(rows & (device.kind == DeviceKind.MEMSET)),
    )
    kernels, copies = intervals.join(compute, communication), intervals.join(memcpy, memset)
    busy = intervals.join(kernels, copies)
    overlapped = intervals.intersect(communication, compute).total
    computing = time(kernel & ~talks)
    unknown = kernel & ~talks & names.rows(view.trace.texts, device.name, kernel_families.unknown)
    return DeviceUse(
        device=int(device.device[np.argmax(rows)]),
        utilization=kernels.total / window,
        busy=busy.total / window,
        sm_efficiency=_sm_efficiency(start[kernel], stop[kernel], device.blocks_per_sm[kernel], window),
        occupancy=_occupancy((stop - start)[kernel], device.occupancy[kernel]),
        tensor_core_share=time(kernel & ~talks & matrix) / computing if computing else None,
        tensor_core_eligible=time(kernel & ~talks & could) / computing if computing else None,
        compute_ns=compute.total,
        communication_ns=communication.total,
        overlapped_communication_ns=overlapped,
        exposed_communication_ns=communication.total - overlapped,
        memcpy_ns=memcpy.total,
        memset_ns=memset.total,
        unknown_kernels=len(np.unique(device.name[unknown])),
        unknown_share=time(unknown) / computing if computing else None,
        exposed_copy_ns=intervals.subtract(copies, kernels).total,
        idle_ns=window - busy.total,
        busy_curve=_curve(busy, begin, end),
    )


def _sm_efficiency(start: Ints, end: Ints, blocks_per_sm: Floats, window: int) -> float | None:
    """Integral of min(sum of blocks per SM of the running kernels, 1) / window; None where no kernel says.

    Lies when: one block does not keep an SM busy, which is the rule for small blocks.
    """
    estimated = blocks_per_sm > 0  # NaN is not
    if not estimated.any():
        return None
    at = np.concatenate([start[estimated], end[estimated]])
    change = np.concatenate([blocks_per_sm[estimated], -blocks_per_sm[estimated]])
    order = np.argsort(at, kind="stable")
    running = np.clip(np.cumsum(change[order])[:-1], 0, 1)
    return float((running * np.diff(at[order])).sum() / window)


def _occupancy(length: Ints, percent: Floats) -> float | None:
    """Mean achieved occupancy weighted by time, 0 to 1; None where no kernel says.

    Lies when: the estimate comes from the launch configuration alone, as kineto's does.
    """
    estimated = ~np.isnan(percent)
    total = int(length[estimated].sum())
    return float((percent[estimated] * length[estimated]).sum() / total / 100) if total else None


def _curve(busy: Ranges, begin: int, end: int) -> list[float]:
    """Share busy in equal buckets."""
    edges = np.linspace(begin, end, min(BUCKETS, end - begin) + 1).astype(np.int64)
    share = intervals.within(busy, edges[:-1], edges[1:]) / np.diff(edges)
    return [round(float(each), 4) for each in share]
