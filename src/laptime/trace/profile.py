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


def profile(seen: View) -> Profile:
    """Everything that one file tells; ranks, verdict and differences are for those who know more files."""
    trace = seen.trace
    begin, end = seen.window
    rows = overview.step_rows(seen)
    return Profile(
        files=[file_of(trace)],
        rank=trace.rank,
        world=trace.world,
        device_type=timeline.device_type(trace),
        accelerators=_accelerators(trace),
        span_ns=span(trace),
        window_ns=end - begin,
        steps=rows,
        overview=overview.overview(seen, rows),
        operators=operators.operators(seen),
        operators_by_shape=operators.operators_by_shape(seen),
        kernels=kernels.kernels(seen),
        kernels_by_launch=kernels.kernels_by_launch(seen),
        annotations=annotated.annotated(seen),
        modules=modules.modules(seen),
        memory=memory.memory(seen),
        launches=launches.launches(seen),
        copies=copies.copies(seen),
        timeline=timeline.timeline(seen),
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
    """Those that worked, with what the file knows of them.

    ROCm counts its devices from another number than deviceProperties; where all are alike, any will do.
    """
    known = {each.id: each for each in trace.accelerators}
    alike = trace.accelerators[0] if len({each[1:] for each in trace.accelerators}) == 1 else None
    found = []
    for device in np.unique(trace.device.device).tolist():
        facts = known.get(device, alike)
        found.append(
            records.Accelerator(
                id=device,
                name=facts.name if facts else "",
                memory=(facts.memory or None) if facts else None,
                capability=".".join(map(str, facts.capability)) if facts and facts.capability[0] else "",
                sms=(facts.sms or None) if facts else None,
            )
        )
    return found
