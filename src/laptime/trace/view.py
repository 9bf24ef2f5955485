"""A trace with its links and its steps: what every table is made from.

Kernels belong to launches by correlation, launches to operators by thread and time; never by `External id`,
which newer traces fill with other numbers (`dlrm_8_ranks` proves it).

Steps know the device: they come from `ProfilerStep#N` on the host and the work that each launched. The
rules are those of the PyTorch Profiler TensorBoard plugin (kineto, tb_plugin), with its faults left out:
annotations projected onto streams never count, and driver calls launch as runtime calls do."""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from laptime.trace import intervals, names
from laptime.trace.columns import NONE, DeviceWork, Host, HostKind, Index, Ints, Rows, Trace


class Links(NamedTuple):
    """Which host row launched and contains which work."""

    calls: intervals.RangeTree  # the forest of annotations, operators, runtime and driver calls
    operator_of: Index  # per host row: the innermost operator around it (itself, if it is one); NONE without
    launch: Index  # per device row: the host row of the runtime or driver call that launched it; NONE without
    operator: Index  # per device row: the operator that launched it, a host row; NONE without

    def operator_around(self, rows: Rows | slice = slice(None)) -> Index:
        """Per host row the operator around it, itself excluded; NONE without."""
        return of_host(self.operator_of, self.calls.parent[rows])


def of_host(column: Index, rows: Rows) -> Index:
    """Values of a host column at rows that may be NONE."""
    return np.append(column, NONE).astype(np.int32)[rows]


def link(trace: Trace) -> Links:
    """All links of a trace."""
    host = trace.host
    calls = intervals.calls(host)
    operator_rows = np.where(host.kind == HostKind.OPERATOR, np.arange(len(host)), NONE).astype(np.int32)
    operator_of = intervals.inherit(calls, operator_rows)
    launch = launches(host, trace.device)
    return Links(calls, operator_of, launch, of_host(operator_of, launch))


def launches(host: Host, device: DeviceWork) -> Index:
    """Per device row the runtime or driver call with its correlation; runtime first, then the earlier."""
    rows = np.flatnonzero(host.is_call & (host.correlation != NONE))
    calls = np.full(len(device), NONE, np.int32)
    if not len(rows) or not len(device):
        return calls
    order = np.lexsort((host.start[rows], host.kind[rows], host.correlation[rows]))
    rows = rows[order].astype(np.int32)
    correlations = host.correlation[rows]
    at = np.minimum(np.searchsorted(correlations, device.correlation, side="left"), len(rows) - 1)
    hit = (correlations[at] == device.correlation) & (device.correlation != NONE)
    calls[hit] = rows[at[hit]]
    return calls


Result = TypeVar("Result")


class Steps(NamedTuple):
    """Device-aware steps in time order; int64 arrays of one length, at least one row."""

    number: Ints  # of ProfilerStep#N; 0 for the only step of a trace without steps
    # start, end: ns; each starts where the one before ends, or later: steps that a program marks itself (a
    # range of NVTX around forward and backward) need not touch
    start: Ints
    end: Ints
    # host_start, host_end: of the annotation on the host
    host_start: Ints
    host_end: Ints


class View(NamedTuple):
    """The data that a table is made from."""

    trace: Trace
    links: Links
    steps: Steps

    @property
    def window(self) -> tuple[int, int]:
        """First step's start to last step's end."""
        return int(self.steps.start[0]), int(self.steps.end[-1])

    @property
    def inside(self) -> intervals.Ranges:
        """The time in the steps: the window without what lies between two that do not touch."""
        return intervals.union(self.steps.start, self.steps.end)


def once(find: Callable[[View], Result]) -> Callable[[View], Result]:
    """Compute the function once per trace, for as long as the trace lives.

    Only for what follows from the trace alone, not from its steps."""
    results: WeakKeyDictionary[Trace, Result] = WeakKeyDictionary()

    @wraps(find)
    def find_once(view: View) -> Result:
        if view.trace not in results:
            results[view.trace] = find(view)
        return results[view.trace]

    return find_once


FEWEST = 0.8  # a last step that launched less than this share of the work of the one before it was cut off


def find_steps(trace: Trace, links: Links) -> Steps:
    """The steps of a trace; one with number 0 if it has none."""
    # Numbers, starts and ends of ProfilerStep#N on the host, by start.
    host = trace.host
    rows = np.flatnonzero(names.rows(trace.texts, host.name, names.is_step))
    rows = rows[np.isin(host.kind[rows], (HostKind.OPERATOR, HostKind.ANNOTATION))]
    rows = rows[np.lexsort((-host.end[rows], host.start[rows]))]
    number = np.array([names.step_number(trace.texts[name]) for name in host.name[rows]], np.int64)
    start, end = host.start[rows], host.end[rows]
    # The same annotation can be in a file as operator and as annotation; the longer one stands for both.
    again = np.zeros(len(rows), bool)
    again[1:] = (number[1:] == number[:-1]) & (start[1:] < end[:-1])
    number, start, end = number[~again], start[~again], end[~again]
    if not len(number):
        low, high = _extent(trace)
        number, start, end = np.zeros(1, np.int64), np.array([low]), np.array([high])
    # Per device row the step in whose annotation its launch lies as a whole; NONE without.
    step_of = np.full(len(trace.device), NONE, np.int32)
    linked = np.flatnonzero(links.launch >= 0)
    launch = links.launch[linked]
    step = np.searchsorted(start, trace.host.start[launch], side="right") - 1
    inside = (step >= 0) & (trace.host.end[launch] <= end[np.maximum(step, 0)])
    step_of[linked[inside]] = step[inside]
    if not (step_of >= 0).any():
        return Steps(number, *_contiguous(start, end), start, end)
    first, last, launched = _device_extent(trace, step_of, len(number))
    device = trace.device
    before = device.end[(step_of < 0) & (device.end < first[0])] if launched[0] else np.empty(0, np.int64)
    begin = max(int(start[0]), int(before.max(initial=start[0])))
    stop = np.maximum(end, np.where(launched > 0, last, end))
    steps = Steps(number, *_contiguous(np.maximum(start, begin), stop), start, end)
    working = int(np.flatnonzero(launched)[-1])
    is_cut = working > 0 and launched[working] < FEWEST * launched[working - 1]
    return Steps(*(column[: working + (not is_cut)] for column in steps))


def _extent(trace: Trace) -> tuple[int, int]:
    """First start and last end of operators; without any, of all host ranges; without any, of device work."""
    host, device = trace.host, trace.device
    candidates = (
        host.kind == HostKind.OPERATOR,
        (host.kind != HostKind.OVERHEAD) & (host.kind != HostKind.OTHER),
    )
    for rows in candidates:
        if rows.any():
            return int(host.start[rows].min()), int(host.end[rows].max())
    return (int(device.start.min()), int(device.end.max())) if len(device) else (0, 0)


def _device_extent(trace: Trace, step_of: Index, steps: int) -> tuple[Ints, Ints, Ints]:
    """Per step: first start and last end of the device work it launched, and how many activities that is."""
    rows = np.flatnonzero(step_of >= 0)
    first = np.full(steps, np.iinfo(np.int64).max)
    last = np.full(steps, np.iinfo(np.int64).min)
    np.minimum.at(first, step_of[rows], trace.device.start[rows])
    np.maximum.at(last, step_of[rows], trace.device.end[rows])
    return first, last, np.bincount(step_of[rows], minlength=steps)


def _contiguous(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Each step starts no earlier than the one before ends, and ends no earlier than it starts."""
    end = np.maximum.accumulate(np.maximum(end, start))
    start = np.maximum(start, np.append(start[:1], end[:-1]))
    return start, np.maximum(start, end)
