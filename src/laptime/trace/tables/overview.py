"""The overview: steps, categories of their time, devices, idle time, synchronisation, phases, exact totals.

Categories of a step's time are by priority: each takes what no earlier one took, so their sum is the step.

Utilisation, SM efficiency, occupancy and eligibility are defined as in the TensorBoard plugin (kineto,
tb_plugin); exposed and overlapped time and idle time are exact unions.

Synchronisations are calls that made the host wait for the device. Those count that began between the host's
start of the first step and its end of the last: not the profiler's own `cudaDeviceSynchronize` after that."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from laptime.records.overview import Breakdown, DeviceUse, Overview, Step, Synchronisation, Totals
from laptime.trace import host_time, intervals, names, phases, stacks
from laptime.trace.columns import DeviceKind, DeviceWork, Floats, HostKind, Ints, Mask, Trace
from laptime.trace.intervals import Ranges
from laptime.trace.tables import idle
from laptime.trace.view import Steps, View, of_host


def overview(view: View, rows: list[Step] | None = None, gaps: list[idle.Part] | None = None) -> Overview:
    """The overview of all steps; `rows` are those of `step_rows`, computed here unless given; `gaps` gets the
    parts of all gaps."""
    threads, busy = phases.threads(view)
    on_host = intervals.union(view.steps.host_start, view.steps.host_end)
    silent = intervals.intersect(host_time.find_unexplained(view), on_host)
    average = mean([row.breakdown for row in rows] if rows else breakdown(view))
    return Overview(
        steps=len(view.steps.number),
        step_ns=average.total_ns,
        step_median_ns=int(np.median(view.steps.end - view.steps.start)),
        breakdown=average,
        devices=use(view),
        totals=totals(view.trace),
        idle=idle.idle(view, gaps),
        synchronisations=find(view),
        phases=phases.phases(view),
        cpu_threads=threads,
        threads_busy=busy,
        between_ns=(view.window[1] - view.window[0] - view.inside.total) // len(view.steps.number),
        unrecorded_ns=silent.total // len(view.steps.number),
        profiling_ns=intervals.intersect(silent, host_time.profiling(view)).total // len(view.steps.number),
    )


def step_rows(view: View) -> list[Step]:
    """One row a step, in time order."""
    host, device, steps = view.trace.host, view.trace.device, view.steps
    loads = phases.loading(view)
    busy = cover_steps(intervals.union(device.start, device.end), steps).tolist()
    waits = cover_steps(intervals.of(host, loads), steps).tolist()
    columns = (column.tolist() for column in steps)
    return [
        Step(
            number=number,
            start_ns=start,
            end_ns=end,
            host_start_ns=host_start,
            host_end_ns=host_end,
            breakdown=parts,
            device_busy_ns=work,
            data_wait_ns=wait,
        )
        for number, start, end, host_start, host_end, parts, work, wait in zip(
            *columns, breakdown(view), busy, waits, strict=True
        )
    ]


CATEGORIES = Breakdown.__struct_fields__


def breakdown(view: View) -> list[Breakdown]:
    """One a step, with communication as it ran: kernels of collectives, and host ranges of those that the
    host itself carries out (gloo, MPI, UCC). Driver calls are runtime."""
    device, texts = view.trace.device, view.trace.texts
    talks = names.rows(texts, device.name, names.is_communication)
    carried_out = names.rows(texts, view.trace.host.name, names.is_host_collective)
    return by_priority(view, talks, carried_out, (HostKind.RUNTIME, HostKind.DRIVER))


def mean(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """Mean of each category, rounded so that the sum is the rounded mean step (largest remainders up)."""
    number = len(breakdowns)
    sums = [sum(getattr(breakdown, name) for breakdown in breakdowns) for name in CATEGORIES]
    parts = [total // number for total in sums]
    missing = (2 * sum(sums) + number) // (2 * number) - sum(parts)
    by_remainder = sorted(range(len(sums)), key=lambda index: -(sums[index] % number))
    for index in by_remainder[:missing]:
        parts[index] += 1
    return Breakdown(**dict(zip(CATEGORIES, parts, strict=True)))


def by_priority(view: View, talks: Mask, talking: Mask, runtime: Iterable[HostKind]) -> list[Breakdown]:
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
        intervals.of(device, take)
        for take in (
            kernel & ~talks,
            device.kind == DeviceKind.MEMCPY,
            device.kind == DeviceKind.MEMSET,
            kernel & talks,
        )
    ]
    on_host = [intervals.of(host, take) for take in (works & talking, calls, loads, runs)]
    classes = [*on_device[:3], intervals.join(on_device[3], on_host[0]), *on_host[1:]]
    covered = [cover_steps(ranges, steps) for ranges in accumulate(classes, intervals.join)]
    length = steps.end - steps.start
    columns = np.diff(np.stack([np.zeros_like(length), *covered, length]), axis=0).T
    return [Breakdown(**dict(zip(CATEGORIES, row, strict=True))) for row in columns.tolist()]


def host_exposure(view: View) -> int:
    """Nanoseconds of all steps in which a collective of the host runs (gloo, MPI) and no operator does."""
    host = view.trace.host
    talks = names.rows(view.trace.texts, host.name, names.is_host_collective)
    computes = intervals.of(host, (host.kind == HostKind.OPERATOR) & ~talks)
    return int(cover_steps(intervals.subtract(intervals.of(host, talks), computes), view.steps).sum())


def cover_steps(ranges: Ranges, steps: Steps) -> Ints:
    """Per step: ns of it that the set covers."""
    return intervals.within(ranges, steps.start, steps.end)


BUCKETS = 100  # points of a busy curve


def use(view: View) -> list[DeviceUse]:
    """One row per accelerator that worked in the window, by id."""
    if not view.inside.total:
        return []
    device = view.trace.device
    matrix = names.rows(view.trace.texts, device.name, names.uses_tensor_cores)
    could = eligible(view, matrix)
    inside = intervals.within(view.inside, device.start, device.end) > 0
    used = intervals.distinct(device.device[inside])
    return [_of(view, inside & (device.device == id_), matrix, could) for id_ in used]


def eligible(view: View, matrix: Mask, family: names.Family = names.is_tensor_core_eligible) -> Mask:
    """Device rows launched by operators that could use tensor cores: the innermost ones that are named so (of
    the family) or launched a kernel which uses them (`matrix`, per device row)."""
    trace, links = view.trace, view.links
    named = names.rows(trace.texts, trace.host.name, family)
    could = named & (trace.host.kind == HostKind.OPERATOR)
    launched = links.operator >= 0
    could[links.operator[launched & matrix]] = True
    above = np.zeros(len(could), bool)  # has one below it that could
    for rows in reversed(intervals.levels(links.calls)[1:]):
        above[links.calls.parent[rows[could[rows] | above[rows]]]] = True
    kernels: Mask = launched & (trace.device.kind == DeviceKind.KERNEL)
    kernels[kernels] = (could & ~above)[links.operator[kernels]]
    return kernels


def _of(view: View, rows: Mask, matrix: Mask, could: Mask) -> DeviceUse:
    """Use of one accelerator, from its rows inside the window, those on tensor cores and those eligible
    for them."""
    device, inside = view.trace.device, view.inside
    window, length = inside.total, intervals.within(inside, device.start, device.end)
    kernel = rows & (device.kind == DeviceKind.KERNEL)
    talks = kernel & names.rows(view.trace.texts, device.name, names.is_communication)

    def union(take: Mask) -> Ranges:
        return intervals.intersect(inside, intervals.of(device, take))

    def time(take: Mask) -> int:
        return int(length[take].sum())

    compute, communication = union(kernel & ~talks), union(talks)
    memcpy, memset = (
        union(rows & (device.kind == DeviceKind.MEMCPY)),
        union(rows & (device.kind == DeviceKind.MEMSET)),
    )
    kernels, copies = intervals.join(compute, communication), intervals.join(memcpy, memset)
    busy = intervals.join(kernels, copies)
    overlapped = intervals.intersect(communication, compute).total
    computing = time(kernel & ~talks)
    unknown = kernel & ~talks & names.rows(view.trace.texts, device.name, names.unknown)
    return DeviceUse(
        device=int(device.device[np.argmax(rows)]),
        utilization=kernels.total / window,
        busy=busy.total / window,
        sm_efficiency=_sm_efficiency(device, kernel, inside),
        occupancy=_occupancy(length[kernel], device.occupancy[kernel]),
        tensor_core_share=time(kernel & ~talks & matrix) / computing if computing else None,
        tensor_core_eligible=time(kernel & ~talks & could) / computing if computing else None,
        compute_ns=compute.total,
        communication_ns=communication.total,
        overlapped_communication_ns=overlapped,
        exposed_communication_ns=communication.total - overlapped,
        memcpy_ns=memcpy.total,
        memset_ns=memset.total,
        unknown_kernels=len(intervals.distinct(device.name[unknown])),
        unknown_share=time(unknown) / computing if computing else None,
        exposed_copy_ns=intervals.subtract(copies, kernels).total,
        idle_ns=window - busy.total,
        busy_curve=_curve(busy, *view.window),
    )


def _sm_efficiency(device: DeviceWork, kernel: Mask, inside: Ranges) -> float | None:
    """Mean over the steps of min(sum of blocks per SM of the running kernels, 1); None if no kernel says.

    Lies when: one block does not keep an SM busy, which is the rule for small blocks."""
    estimated = kernel & (device.blocks_per_sm > 0)  # NaN is not
    if not estimated.any():
        return None
    blocks = device.blocks_per_sm[estimated]
    at = np.concatenate([device.start[estimated], device.end[estimated]])
    order = np.argsort(at, kind="stable")
    running = np.clip(np.cumsum(np.concatenate([blocks, -blocks])[order])[:-1], 0, 1)
    return float((running * intervals.within(inside, at[order][:-1], at[order][1:])).sum() / inside.total)


def _occupancy(length: Ints, percent: Floats) -> float | None:
    """Mean achieved occupancy weighted by time, 0 to 1; None if no kernel says.

    Lies when: the estimate comes from the launch configuration alone, as kineto's does."""
    estimated = ~np.isnan(percent)
    total = int(length[estimated].sum()) if (percent > 0).any() else 0  # 0 is what is written without one
    return float((percent[estimated] * length[estimated]).sum() / total / 100) if total else None


def _curve(busy: Ranges, begin: int, end: int) -> list[float]:
    """Share busy in equal buckets."""
    edges = np.linspace(begin, end, min(BUCKETS, end - begin) + 1).astype(np.int64)
    share = intervals.within(busy, edges[:-1], edges[1:]) / np.diff(edges)
    return [round(float(each), 4) for each in share]


def find(view: View) -> list[Synchronisation]:
    """One row per call and operator, longest wait first."""
    host, texts, steps = view.trace.host, view.trace.texts, view.steps
    rows = host_time.waiting(view)
    begin, end = int(steps.host_start.min()), int(steps.host_end.max())
    rows = rows[(host.start[rows] >= begin) & (host.start[rows] < end)]
    if not len(rows):
        return []
    cause = host_time.culprits(view, rows)
    operator = of_host(host.name, cause)
    labels = host_time.labels(view, rows)
    distinct, call = np.unique(np.array(labels, object), return_inverse=True)
    keys, group = np.unique(np.stack([call, operator]), axis=1, return_inverse=True)
    length = host.end[rows] - host.start[rows]
    table = []
    for number, (called, by) in enumerate(keys.T.tolist()):
        in_group = np.flatnonzero(group.reshape(-1) == number)
        table.append(
            Synchronisation(
                call=distinct[called],
                operator=texts[by] if by >= 0 else "",
                calls=len(in_group),
                wait_ns=int(length[in_group].sum()),
                stack=stacks.stack_of(view, int(rows[in_group[np.argmax(length[in_group])]])),
            )
        )
    return sorted(table, key=lambda row: -row.wait_ns)


def totals(trace: Trace) -> Totals:
    """Sums and unions of all device work, all accelerators as one timeline.

    Communication is what other tools take for it: kernels named nccl or rccl, and no others."""
    device = trace.device
    kernel = device.kind == DeviceKind.KERNEL
    talks = kernel & names.rows(trace.texts, device.name, names.is_nccl)
    compute, communication = intervals.of(device, kernel & ~talks), intervals.of(device, talks)
    memcpy, memset = (
        intervals.of(device, device.kind == DeviceKind.MEMCPY),
        intervals.of(device, device.kind == DeviceKind.MEMSET),
    )
    kernels, copies = intervals.join(compute, communication), intervals.join(memcpy, memset)
    busy = intervals.join(kernels, copies)
    overlap = intervals.intersect(compute, communication).total
    span = int(device.end.max() - device.start.min()) if len(device) else 0
    length = device.end - device.start
    return Totals(
        kernels=int(kernel.sum()),
        communication_kernels=int(talks.sum()),
        kernel_names=len(intervals.distinct(device.name[kernel])),
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
