"""Time of the host that no recorded event explains.

- long gaps in which no thread shows anything but the annotation of the step: Python without stacks, a library
  or a file that the profiler does not see, another program on this CPU. Short gaps are what lies between two
  operators of any Python program: only those of at least `FAR`, and `MANY` times the usual gap, count;
- the profiler's own work (category `overhead`: buffers are flushed) while no operator and no call runs.

Lies when: threads that were not recorded do the work; or a thread beside the loop is always in some range.
"""

from __future__ import annotations

import numpy as np

from laptime.trace import intervals, names, phases
from laptime.trace.columns import HostKind
from laptime.trace.intervals import Ranges
from laptime.trace.view import View, once

FAR = 1_000_000
MANY = 20
"""ns, and times the usual gap, from which on a gap is long: those of `host_work` between two launches."""


@once
def ranges(view: View) -> Ranges:
    """All of it from the first recorded range of the host to the last."""
    host = view.trace.host
    shown = (host.kind != HostKind.OVERHEAD) & (host.kind != HostKind.OTHER)
    shown &= ~phases.named(view, names.is_step)
    if not shown.any():
        return intervals.EMPTY
    covered = intervals.union(host.start[shown], host.end[shown])
    gaps = intervals.gaps(covered, int(covered.start[0]), int(covered.end[-1]))
    length = gaps.end - gaps.start
    usual = int(np.median(length)) if len(length) > MANY else 0
    long = length >= max(FAR, MANY * usual)
    return intervals.join(Ranges(gaps.start[long], gaps.end[long]), profiling(view))


@once
def profiling(view: View) -> Ranges:
    """The profiler's own work while no operator and no call runs."""
    host, working = view.trace.host, phases.at_work(view)
    own = host.kind == HostKind.OVERHEAD
    flushing = intervals.union(host.start[own], host.end[own])
    return intervals.subtract(flushing, intervals.union(host.start[working], host.end[working]))


def in_steps(view: View) -> Ranges:
    """What of it lies in the steps, on the host."""
    steps = view.steps
    return intervals.intersect(ranges(view), intervals.union(steps.host_start, steps.host_end))
