"""One file, all of its tables."""

from __future__ import annotations

import numpy as np

from laptime.records import profile as records
from laptime.records.profile import Profile, TraceFile
from laptime.trace import links, steps
from laptime.trace.columns import Trace
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
)
from laptime.trace.view import View


def view(trace: Trace) -> View:
    """A trace with its links and steps."""
    linked = links.link(trace)
    return View(trace, linked, steps.find(trace, linked))


def profile(view: View) -> Profile:
    """All tables of one file. Ranks, verdict and differences need more than one file and are added
    elsewhere."""
    trace = view.trace
    begin, end = view.window
    rows = overview.step_rows(view)
    return Profile(
        files=[file_of(trace)],
        rank=trace.rank,
        world=trace.world,
        device_type=timeline.device_type(trace),
        accelerators=_accelerators(trace),
        span_ns=span(trace),
        window_ns=end - begin,
        steps=rows,
        overview=overview.overview(view, rows),
        operators=operators.operators(view),
        operators_by_shape=operators.operators_by_shape(view),
        kernels=kernels.kernels(view),
        kernels_by_launch=kernels.kernels_by_launch(view),
        annotations=annotated.annotated(view),
        modules=modules.modules(view),
        memory=memory.memory(view),
        launches=launches.launches(view),
        copies=copies.copies(view),
        timeline=timeline.timeline(view),
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
    alike = trace.accelerators[0] if len({each[1:] for each in trace.accelerators}) == 1 else None
    accelerators = []
    for device in np.unique(trace.device.device).tolist():
        facts = properties.get(device, alike)
        accelerators.append(
            records.Accelerator(
                id=device,
                name=facts.name if facts else "",
                memory=(facts.memory or None) if facts else None,
                capability=".".join(map(str, facts.capability)) if facts and facts.capability[0] else "",
                sms=(facts.sms or None) if facts else None,
            )
        )
    return accelerators
