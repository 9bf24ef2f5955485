"""One file, all of its tables."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from laptime.records import profile as records
from laptime.records.profile import Profile, TraceFile
from laptime.trace import links, steps, warm_up
from laptime.trace.columns import Accelerator, Trace
from laptime.trace.tables import (
    annotated,
    copies,
    kernels,
    launches,
    memory,
    modules,
    operators,
    overview,
    timeline,
    totals,
    work,
    workload,
)
from laptime.trace.view import View

UNKNOWN = Accelerator(id=0, name="", memory=0, capability=(0, 0), sms=0, threads_per_sm=0)


def view(trace: Trace) -> View:
    """A trace with its links and steps."""
    linked = links.link(trace)
    return View(trace, linked, steps.find(trace, linked))


def profile(view: View) -> Profile:
    """All tables of one file. Ranks, verdict and differences need more than one file and are added
    elsewhere."""
    trace, whole = view.trace, view
    view, beginning = warm_up.apart(view)
    begin, end = view.window
    rows = overview.step_rows(view)
    totalled = structs.replace(overview.overview(view, rows), totals=totals.totals(trace))
    return Profile(
        files=[file_of(trace)],
        rank=trace.rank,
        world=trace.world,
        device_type=timeline.device_type(trace),
        accelerators=_accelerators(trace),
        span_ns=span(trace),
        window_ns=end - begin,
        steps=rows,
        overview=totalled,
        operators=operators.operators(view),
        operators_by_shape=operators.operators_by_shape(view),
        kernels=kernels.kernels(view),
        kernels_by_launch=kernels.kernels_by_launch(view),
        annotations=annotated.annotated(view),
        modules=modules.modules(view),
        memory=memory.memory(whole),
        launches=launches.launches(view),
        copies=copies.copies(view),
        timeline=timeline.timeline(view),
        compilations=trace.compilations,
        roofline=work.roofline(view),
        workload=workload.workload(view)
        if trace.format not in ("xplane", "snapshot", "torch_trace")
        else None,
        warm_up=beginning,
        facts=trace.facts,
    )


def file_of(trace: Trace) -> TraceFile:
    """What was read."""
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
    ends = (trace.host.end, trace.device.end, trace.device_ranges.end, trace.memory.at)
    return max((int(each.max()) for each in ends if len(each)), default=0)


def _accelerators(trace: Trace) -> list[records.Accelerator]:
    """The accelerators that did any work, with their properties from the file.

    ROCm counts its devices from another number than deviceProperties; where all are alike, any will do.
    """
    properties = {each.id: each for each in trace.accelerators}
    alike = trace.accelerators[0] if len({each[1:] for each in trace.accelerators}) == 1 else UNKNOWN
    used = [(device, properties.get(device, alike)) for device in np.unique(trace.device.device).tolist()]
    return [
        records.Accelerator(
            id=device,
            name=facts.name,
            memory=facts.memory or None,
            capability=".".join(map(str, facts.capability)) if facts.capability[0] else "",
            sms=facts.sms or None,
        )
        for device, facts in used
    ]
