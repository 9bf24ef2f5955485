"""The overview: steps, where their time goes, devices, idle time, synchronisation, phases."""

from __future__ import annotations

import numpy as np

from laptime.records.overview import Overview, Step
from laptime.trace import intervals, phases, unrecorded
from laptime.trace.tables import breakdown, devices, idle, synchronisations, totals
from laptime.trace.view import View


def overview(view: View, rows: list[Step] | None = None) -> Overview:
    """The overview of all steps; `rows` are those of `step_rows`, computed here unless given."""
    threads, busy = phases.threads(view)
    silent = unrecorded.in_steps(view)
    mean = breakdown.mean([row.breakdown for row in rows] if rows else breakdown.breakdown(view))
    return Overview(
        steps=len(view.steps.number),
        step_ns=mean.total_ns,
        step_median_ns=int(np.median(view.steps.end - view.steps.start)),
        breakdown=mean,
        devices=devices.use(view),
        totals=totals.totals(view.trace),
        idle=idle.idle(view),
        synchronisations=synchronisations.find(view),
        plugin_communication_ns=breakdown.mean(breakdown.plugin_breakdown(view)).communication_ns,
        phases=phases.phases(view),
        cpu_threads=threads,
        threads_busy=busy,
        unrecorded_ns=silent.total // len(view.steps.number),
        profiling_ns=intervals.intersect(silent, unrecorded.profiling(view)).total // len(view.steps.number),
    )


def step_rows(view: View) -> list[Step]:
    """One row a step, in time order."""
    host, device, steps = view.trace.host, view.trace.device, view.steps
    loads = phases.loading(view)
    busy = breakdown.covered_by(intervals.union(device.start, device.end), steps).tolist()
    waits = breakdown.covered_by(intervals.union(host.start[loads], host.end[loads]), steps).tolist()
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
            *columns, breakdown.breakdown(view), busy, waits, strict=True
        )
    ]
