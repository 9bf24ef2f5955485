"""What a host thread did during given ranges: the self time that each call had inside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.trace import intervals, names, phases, stacks
from laptime.trace.columns import NONE, HostKind, Index, Ints
from laptime.trace.intervals import Ranges
from laptime.trace.view import View


class Shares(NamedTuple):
    """Host rows, the self time of each in ns, and the text (index) that names it."""

    row: Index
    name: Index
    ns: Ints


def innermost(view: View, thread: int, ranges: Ranges) -> Shares:
    """Time of the ranges by innermost operator; a runtime call counts for the operator that made it.

    Time outside operators goes to the innermost Python function, where the trace has any, else to the
    innermost annotation. Time in none of them, or in nothing but the step, is in no share.
    """
    host, links = view.trace.host, view.links
    rows = host.of_thread(thread)
    rows = rows[links.calls.depth[rows] >= 0]
    rows, ns = _to_themselves(view, rows, links.calls.parent, ranges)
    operator = links.operator_of[rows]
    operator[(operator >= 0) & ~phases.operators(view)[operator]] = NONE
    functions = stacks.frames_of(view)
    frames = host.of_thread(int(functions.home[thread]))
    frames = frames[host.kind[frames] == HostKind.PYTHON]
    annotation = (operator < 0) & (host.kind[rows] == HostKind.ANNOTATION)
    step = names.rows(view.trace.texts, host.name[rows], names.is_step)
    counts = ~(step & (operator < 0)) & ~(annotation & bool(len(frames)))
    name = host.name[np.where(operator >= 0, operator, rows)]
    inner = Shares(rows[counts], name[counts], ns[counts])
    if not len(frames):
        return inner
    outside = intervals.subtract(ranges, phases.cover(view, phases.at_work(view), thread))
    frames, ns = _to_themselves(view, frames, functions.around, outside)
    return Shares(
        np.append(inner.row, frames),
        np.append(inner.name, host.name[frames]),
        np.append(inner.ns, ns),
    )


def of_calls(view: View, rows: Index, cause: Index, ranges: Ranges) -> Shares:
    """Time of the ranges by these calls, each named after its cause, or after itself where it has none."""
    host = view.trace.host
    ns = intervals.within(ranges, host.start[rows], host.end[rows])
    return Shares(rows, host.name[np.where(cause >= 0, cause, rows)], ns)


def _to_themselves(view: View, rows: Index, parent: Index, ranges: Ranges) -> tuple[Index, Ints]:
    """The rows with self time inside the ranges, and that time in ns."""
    host = view.trace.host
    whole = intervals.within(ranges, host.start[rows], host.end[rows])
    rows, whole = rows[whole > 0], whole[whole > 0]
    inside = parent[rows] >= 0
    weights = whole[inside].astype(np.float64)  # exact: sums stay below 2**53 ns
    first = int(rows[0]) if len(rows) else 0  # a parent that has no time in the ranges is of no interest
    above = parent[rows[inside]] - first
    last = int(rows[-1]) - first + 1 if len(rows) else 0
    some = (above >= 0) & (above < last)
    below = np.bincount(above[some], weights[some], minlength=last)[rows - first].astype(np.int64)
    self_ns = np.asarray(whole - below, np.int64)
    return rows[self_ns > 0], self_ns[self_ns > 0]
