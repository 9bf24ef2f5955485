"""One file, all of its tables; steps that warm up are a phase of their own.

The first steps of a program fill caches that later ones find full: kernels are tried and compiled, libraries
make their handles, memory is allocated for the first time, workers start. A mean over them and over settled
steps is the time of neither.

The first steps, one after the other, are warm-up as long as each takes at least `FACTOR` times the median of
those after it; at least `SETTLED` steps have to be left, and none of these may take so long: then long steps
are a habit, and no beginning.

Lies when: the first recorded step is long by chance (a checkpoint, another program on this machine)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from msgspec import structs

from laptime.records import profile as records
from laptime.records.profile import Profile, TraceFile, WarmUp
from laptime.trace import clocks
from laptime.trace.columns import Accelerator, DeviceRanges, DeviceWork, Flows, Host, Ints, Mask, Trace
from laptime.trace.tables import (
    critical_path,
    host_work,
    idle,
    kernels,
    launches,
    memory,
    modules,
    operators,
    overview,
    timeline,
    work,
    workload,
)
from laptime.trace.view import Steps, View, find_steps, link

_TABLES: tuple[Callable[[View], Any], ...] = (
    operators.operators, operators.operators_by_shape, kernels.kernels,
    kernels.kernels_by_launch, modules.modules, launches.launches, launches.copies, timeline.calls,
    work.roofline, critical_path.critical_path,
)  # fmt: skip
"""Each makes the field of a profile that has its name."""
UNKNOWN = Accelerator(id=0, name="", memory=0, capability=(0, 0), sms=0, threads_per_sm=0)


def view(trace: Trace) -> View:
    """A trace with its links and steps."""
    linked = link(trace)
    if (mended := clocks.mend(trace, linked.launch)) is not trace:
        trace, linked = mended, link(mended)
    return View(trace, linked, find_steps(trace, linked))


def profile(view: View) -> Profile:
    """All tables of one file. Ranks, verdict and differences need more than one file and are added
    elsewhere."""
    trace, whole = view.trace, view
    view, beginning = apart(view)
    with ThreadPoolExecutor(1) as pool:  # numpy lets go of its lock in most tables
        tables = {table.__name__: pool.submit(table, view) for table in _TABLES}
        rows, gaps = overview.step_rows(view), list[idle.Part]()
        totalled = structs.replace(overview.overview(view, rows, gaps), totals=overview.totals(trace))
        # The accelerators that did any work, with their properties from the file.
        properties = {accelerator.id: accelerator for accelerator in trace.accelerators}
        alike = trace.accelerators[0] if len({each[1:] for each in trace.accelerators}) == 1 else UNKNOWN
        used = [(device, properties.get(device, alike)) for device in np.unique(trace.device.device).tolist()]
        return Profile(
            files=[file_of(trace)],
            rank=trace.rank,
            world=trace.world,
            device_type=timeline.device_type(trace),
            accelerators=[
                records.Accelerator(
                    id=device,
                    name=facts.name,
                    memory=facts.memory or None,
                    capability=".".join(map(str, facts.capability)) if facts.capability[0] else "",
                    sms=facts.sms or None,
                )
                for device, facts in used
            ],
            span_ns=span(trace),
            window_ns=view.inside.total,
            steps=rows,
            overview=totalled,
            memory=memory.memory(whole),
            annotations=operators.list_annotated(view),
            timeline=timeline.timeline(view, gaps),
            compilations=trace.compilations,
            workload=workload.workload(view)
            if trace.format not in ("xplane", "snapshot", "torch_trace")
            else None,
            warm_up=beginning,
            facts=trace.facts,
            **{name: table.result() for name, table in tables.items()},
        )


def file_of(trace: Trace) -> TraceFile:
    """Describe the file that was read."""
    return TraceFile(
        name=trace.name,
        bytes=trace.size,
        events=trace.events,
        format=trace.format,
        rank=trace.rank,
        truncated=trace.truncated,
        warnings=trace.warnings,
    )


def span(trace: Trace) -> int:
    """ns from the first event to the end of the last."""
    tables = (trace.host, trace.device, trace.device_ranges)
    starts, ends = ([getattr(table, side) for table in tables] for side in ("start", "end"))
    first, last = (
        [int(edge(each)) for each in (*times, trace.memory.at) if len(each)]
        for edge, times in ((np.min, starts), (np.max, ends))
    )
    return max(last, default=0) - min(first, default=0)


Table = TypeVar("Table", Host, DeviceWork, DeviceRanges, Flows)
FACTOR = 2.0
SETTLED = 3


def number(length: Ints) -> int:
    """Return how many of the first steps are warm-up, by their lengths in ns."""
    for first in range(len(length) - SETTLED, 0, -1):
        rest = length[first:]
        longest = FACTOR * float(np.median(rest))
        if (length[:first] >= longest).all() and (rest < longest).all():
            return first
    return 0


def apart(view: View) -> tuple[View, WarmUp | None]:
    """The settled steps with nothing of the warm-up in them, and the warm-up; None if there is none."""
    steps = view.steps
    first = number(steps.end - steps.start)
    if not first:
        return view, None
    beginning = View(view.trace, view.links, Steps(*(column[:first] for column in steps)))
    settled = Steps(*(column[first:] for column in steps))
    host_begin, device_begin, trace = int(settled.host_start[0]), int(settled.start[0]), view.trace
    # Without what the host had ended before it began the settled steps, and what it launched.
    host = trace.host.end > host_begin
    launch = view.links.launch
    launched = np.append(host, False)[launch]  # NONE is the last one
    device = launched | (trace.device.end > device_begin)
    trace = replace(
        trace,
        host=_rows(trace.host, host),
        device=_rows(trace.device, device),
        device_ranges=_rows(trace.device_ranges, trace.device_ranges.end > device_begin),
        flows=_rows(trace.flows, trace.flows.at >= host_begin),
    )
    usual = int(np.median(settled.end - settled.start))
    rows = overview.step_rows(beginning)
    warm_up = WarmUp(
        steps=rows,
        beyond_ns=sum(row.end_ns - row.start_ns - usual for row in rows),
        host_work=host_work.host_work(beginning),
    )
    return View(trace, link(trace), settled), warm_up


def _rows(table: Table, keep: Mask) -> Table:
    """The rows of a table of columns that are kept, in their order."""
    return type(table)(**{name: column[keep] for name, column in vars(table).items()})
