"""Exact sums and unions over a whole file: what other tools can be checked against."""

from __future__ import annotations

import numpy as np

from laptime.records.overview import Totals
from laptime.trace import intervals, names
from laptime.trace.columns import DeviceKind, DeviceWork, Mask, Trace
from laptime.trace.intervals import Ranges


def totals(trace: Trace) -> Totals:
    """Sums and unions of all device work, all accelerators as one timeline.

    Communication is what other tools take for it: kernels named nccl or rccl, and no others.
    """
    device = trace.device
    kernel = device.kind == DeviceKind.KERNEL
    talks = kernel & names.rows(trace.texts, device.name, names.is_nccl)
    compute, communication = _union(device, kernel & ~talks), _union(device, talks)
    memcpy, memset = (
        _union(device, device.kind == DeviceKind.MEMCPY),
        _union(device, device.kind == DeviceKind.MEMSET),
    )
    kernels, copies = intervals.join(compute, communication), intervals.join(memcpy, memset)
    busy = intervals.join(kernels, copies)
    overlap = intervals.intersect(compute, communication).total
    span = int(device.end.max() - device.start.min()) if len(device) else 0
    length = device.end - device.start
    return Totals(
        kernels=int(kernel.sum()),
        communication_kernels=int(talks.sum()),
        kernel_names=len(np.unique(device.name[kernel])),
        compute_sum_ns=int(length[kernel & ~talks].sum()),
        compute_union_ns=compute.total,
        communication_sum_ns=int(length[talks].sum()),
        communication_union_ns=communication.total,
        overlap_ns=overlap,
        exposed_communication_ns=communication.total - overlap,
        memcpy_union_ns=memcpy.total,
        memset_union_ns=memset.total,
        exposed_memory_ns=intervals.subtract(copies, kernels).total,
        device_span_ns=span,
        device_busy_ns=busy.total,
        device_idle_ns=span - busy.total,
    )


def _union(device: DeviceWork, take: Mask) -> Ranges:
    """The time that the device rows in `take` cover."""
    return intervals.union(device.start[take], device.end[take])
