"""Warm-up: steps at the start that are much longer than the settled ones, a phase of their own.

The first steps of a program fill caches that later ones find full: kernels are tried and compiled, libraries
make their handles, memory is allocated for the first time, workers start. A mean over them and over settled
steps is the time of neither.

The first steps, one after the other, are warm-up as long as each takes at least `FACTOR` times the median of
those after it; at least `SETTLED` steps have to be left, and none of these may take so long: then long steps
are a habit, and no beginning.

Lies when: the first recorded step is long by chance (a checkpoint, another program on this machine).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from laptime.records.profile import WarmUp
from laptime.trace import links
from laptime.trace.columns import DeviceRanges, DeviceWork, Flows, Host, Ints, Mask, Trace
from laptime.trace.tables import host_work, overview
from laptime.trace.view import Steps, View

Table = TypeVar("Table", Host, DeviceWork, DeviceRanges, Flows)

FACTOR = 2.0
SETTLED = 3


def number(length: Ints) -> int:
    """How many of the first steps are warm-up, by their lengths in ns."""
    for first in range(len(length) - SETTLED, 0, -1):
        rest = length[first:]
        longest = FACTOR * float(np.median(rest))
        if (length[:first] >= longest).all() and (rest < longest).all():
            return first
    return 0


def apart(view: View) -> tuple[View, WarmUp | None]:
    """The settled steps with nothing of the warm-up in them, and the warm-up; None where there is none."""
    steps = view.steps
    first = number(steps.end - steps.start)
    if not first:
        return view, None
    beginning = View(view.trace, view.links, Steps(*(column[:first] for column in steps)))
    settled = Steps(*(column[first:] for column in steps))
    trace = _from(view, int(settled.host_start[0]), int(settled.start[0]))
    usual = int(np.median(settled.end - settled.start))
    rows = overview.step_rows(beginning)
    warm_up = WarmUp(
        steps=rows,
        beyond_ns=sum(row.end_ns - row.start_ns - usual for row in rows),
        host_work=host_work.host_work(beginning),
    )
    return View(trace, links.link(trace), settled), warm_up


def _from(view: View, host_begin: int, device_begin: int) -> Trace:
    """The trace without what the host had ended before it began the settled steps, and what it launched."""
    trace = view.trace
    host = trace.host.end > host_begin
    launch = view.links.launch
    launched = np.append(host, False)[launch]  # NONE is the last one
    device = launched | (trace.device.end > device_begin)
    return replace(
        trace,
        host=_rows(trace.host, host),
        device=_rows(trace.device, device),
        device_ranges=_rows(trace.device_ranges, trace.device_ranges.end > device_begin),
        flows=_rows(trace.flows, trace.flows.at >= host_begin),
    )


def _rows(table: Table, keep: Mask) -> Table:
    """The rows of a table of columns that are kept, in their order."""
    return type(table)(**{name: column[keep] for name, column in vars(table).items()})
